"""Makes small data for the demos of a v0.10.0 tree, each in the demo's own format. Nothing is downloaded.

Labels follow from the samples, so that a network can learn them and its cost falls. Each function gets the folder of a
copied demo. NumPy and Pillow are needed for the demos with images.
"""
import collections
import gzip
import io
import os
import pickle
import random
import struct

WORDS = ['word%d' % number for number in range(300)]


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as out:
        out.write(text)
    return path


def sentence(draw, label):
    """Words of which those below 40 tell the label."""
    telling = ['word%d' % (2 * draw.randrange(20) + label) for _ in range(3)]
    words = telling + draw.choices(WORDS[40:], k=draw.randint(2, 12))
    draw.shuffle(words)
    return ' '.join(words)


def labelled(draw, count, separator, wrong=0):
    """Lines of a label and a sentence; every so many labels one is wrong, because scripts of v1 expect `error=0.1`, not `0`."""
    return ''.join('%d%s%s\n' % ((number + bool(wrong and number % wrong == 0)) % 2, separator, sentence(draw, number % 2))
                   for number in range(count))


def quick_start(folder):
    draw = random.Random(1)
    write(folder, 'data/dict.txt', ''.join('%s\t%d\n' % (word, 300 - at) for at, word in enumerate(WORDS)))
    write(folder, 'data/train.txt', labelled(draw, 640, '\t'))
    write(folder, 'data/test.txt', labelled(draw, 64, '\t'))
    write(folder, 'data/pred.txt', ''.join(sentence(draw, number % 2) + '\n' for number in range(20)))
    write(folder, 'data/labels.list', 'neg\t0\npos\t1\n')
    for name in ('train', 'test', 'pred'):
        write(folder, 'data/%s.list' % name, './data/%s.txt\n' % name)


def sentiment(folder):
    draw = random.Random(2)
    at = 'data/pre-imdb/'
    write(folder, at + 'dict.txt', ''.join('%s\t%d\n' % (word, 300 - at) for at, word in enumerate(WORDS)))
    write(folder, at + 'labels.list', 'neg\t0\npos\t1\n')
    write(folder, at + 'train_part_000', labelled(draw, 256, '\t\t'))
    write(folder, at + 'test_part_000', labelled(draw, 64, '\t\t', wrong=9))
    write(folder, at + 'train.list', './data/pre-imdb/train_part_000\n')
    write(folder, at + 'test.list', './data/pre-imdb/test_part_000\n')
    write(folder, 'data/aclImdb/test/pos/10007_10.txt', sentence(draw, 1) + '\n')


def semantic_role_labeling(folder):
    draw = random.Random(3)
    labels = ['O', 'B-A0', 'I-A0', 'B-V', 'B-A1', 'I-A1']
    verbs = ['verb%d' % number for number in range(10)]
    write(folder, 'data/wordDict.txt', '\n'.join(['<unk>'] + WORDS + verbs) + '\n')
    write(folder, 'data/targetDict.txt', '\n'.join(labels) + '\n')
    write(folder, 'data/verbDict.txt', '\n'.join(verbs) + '\n')
    lines = []
    for _ in range(120):
        before, after = draw.choices(WORDS, k=draw.randint(1, 4)), draw.choices(WORDS, k=draw.randint(1, 4))
        verb = draw.choice(verbs)
        words, place = before + [verb] + after, len(before)
        around = [words[at] if 0 <= at < len(words) else 'eos' for at in range(place - 2, place + 3)]
        marks = ['1' if abs(at - place) <= 2 else '0' for at in range(len(words))]
        tags = ['B-A0'] + ['I-A0'] * (len(before) - 1) + ['B-V', 'B-A1'] + ['I-A1'] * (len(after) - 1)
        lines.append('\t'.join([' '.join(words), verb] + around + [' '.join(marks), ' '.join(tags)]))
    write(folder, 'data/feature', '\n'.join(lines) + '\n')
    # v1's script starts from a table of word vectors that its authors had trained.
    values = struct.pack('<%df' % (311 * 32), *(draw.gauss(0, 0.1) for _ in range(311 * 32)))
    with open(os.path.join(folder, 'data/emb'), 'wb') as out:
        out.write(struct.pack('<iIQ', 0, 4, 311 * 32) + values)


# The demo's configurations have the size of its features written in them.
FEATURES = 76328
PATTERNS = [[(-2, 0)], [(-1, 0)], [(0, 0)], [(1, 0)], [(2, 0)], [(-1, 0), (0, 0)], [(0, 0), (1, 0)], [(-2, 1)], [(-1, 1)],
            [(0, 1)], [(1, 1)], [(2, 1)], [(-2, 1), (-1, 1)], [(-1, 1), (0, 1)], [(0, 1), (1, 1)], [(1, 1), (2, 1)],
            [(-2, 1), (-1, 1), (0, 1)], [(-1, 1), (0, 1), (1, 1)], [(0, 1), (1, 1), (2, 1)]]
TAGS = {'NN': 'B-NP', 'VB': 'B-VP', 'IN': 'O'}


def features_of(sentence):
    """The features that the demo's provider makes of a sentence of (word, part of speech)."""
    def at(place, column):
        if place < 0:
            return '#B%d' % -place
        return sentence[place][column] if place < len(sentence) else '#E%d' % (place - len(sentence) + 1)

    for place in range(len(sentence)):
        for number, pattern in enumerate(PATTERNS):
            yield number, '/'.join(at(place + offset, column) for offset, column in pattern)


def sequence_tagging(folder):
    """Sentences, three of each, that have exactly as many features as the configurations say."""
    draw = random.Random(4)
    parts = list(TAGS)
    words = [('w%d' % number, parts[number % 3]) for number in range(1200)]
    known, sentences = set(), []

    def add(sentence):
        sentences.append(sentence)
        known.update(features_of(sentence))

    # Every word and every tag in every place, so that later sentences add pairs of words only.
    for start in range(0, len(words), 20):
        for turn in range(5):
            add(words[start + turn:start + 20] + words[start:start + turn])
    for word in words:
        add([word])
        add([word, word])
        add([words[0], word, word, words[0]])
    for _ in range(300):
        add([(words[0][0], draw.choice(parts)) for _ in range(6)])
    while len(known) < FEATURES - 200:
        add(draw.choices(words, k=20))
    # A new word alone adds three features, a new pair of known words two.
    while len(known) < FEATURES:
        odd = (FEATURES - len(known)) % 2
        each = [('new', 'NN')] if odd else draw.choices(words, k=2)
        if len(set(features_of(each)) - known) == (3 if odd else 2):
            add(each)
    text = ''
    for each in sentences:
        text += (''.join('%s %s %s\n' % (word, part, TAGS[part]) for word, part in each) + '\n') * 3
    for name, content in (('train', text), ('test', '\n\n'.join(text.split('\n\n')[:60]) + '\n\n')):
        with gzip.open(os.path.join(folder, 'data/%s.txt.gz' % name), 'wt') as out:
            out.write(content)


def traffic_prediction(folder):
    draw = random.Random(5)
    rows = ['id,' + ','.join('t%d' % number for number in range(80))]
    for link in range(10):
        phase = draw.randrange(4)
        rows.append('%d,' % link + ','.join(str(1 + (time // 6 + phase) % 4) for time in range(80)))
    write(folder, 'data/speeds.csv', '\n'.join(rows) + '\n')
    for name in ('train', 'test', 'pred'):
        write(folder, 'data/%s.list' % name, 'data/speeds.csv\n')


def recommendation(folder):
    """MovieLens in its own format; the demo's scripts make the rest."""
    draw = random.Random(6)
    genres = ['Action', 'Comedy', 'Drama']
    movies = ['%d::Film %s %d (19%02d)::%s' % (at, draw.choice(WORDS), at, at % 90, '|'.join(draw.sample(genres, 2)))
              for at in range(1, 41)]
    users = ['%d::%s::%d::%d::12345' % (at, 'MF'[at % 2], draw.choice([1, 18, 25, 35]), at % 20) for at in range(1, 61)]
    ratings = ['%d::%d::%d::97830%04d' % (user, movie, 5 if user % 2 == movie % 2 else 1, draw.randrange(10000))
               for user in range(1, 61) for movie in draw.sample(range(1, 41), 30)]
    for name, lines in (('movies', movies), ('users', users), ('ratings', ratings)):
        write(folder, 'data/ml-1m/%s.dat' % name, '\n'.join(lines) + '\n')


def seqToseq(folder):
    draw = random.Random(7)
    vocabulary = ['<s>', '<e>', '<unk>'] + WORDS[:60]

    def pair():
        words = draw.choices(WORDS[:60], k=draw.randint(2, 6))
        return ' '.join(words), ' '.join('word%d' % (59 - int(word[4:])) for word in words)

    for at in ('data/pre-wmt14/', 'data/pre-paraphrase/'):
        for name in ('src', 'trg'):
            write(folder, at + name + '.dict', '\n'.join(vocabulary) + '\n')
        for name, count in (('train', 60), ('test', 10)):
            write(folder, at + name + '/part', ''.join('%s\t%s\n' % pair() for _ in range(count)))
            write(folder, at + name + '.list', './%s%s/part\n' % (at, name))
        write(folder, at + 'gen/part', ''.join('%s\n' % pair()[0] for _ in range(3)))
        write(folder, at + 'gen.list', './%sgen/part\n' % at)
    # The paraphrase demo starts from word vectors that its authors had trained.
    for name in ('_source_language_embedding', '_target_language_embedding'):
        path = os.path.join(folder, 'data/paraphrase_model', name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        count = len(vocabulary) * 32
        with open(path, 'wb') as out:
            out.write(struct.pack('<iIQ', 0, 4, count))
            out.write(struct.pack('<%df' % count, *(draw.gauss(0, 0.1) for _ in range(count))))


def pictures(draw, count, size):
    """Pictures of one colour each, and their classes."""
    from PIL import Image
    for number in range(count):
        label = number % 10
        colour = tuple(min(255, 25 * label + draw.randrange(20) + 3 * channel) for channel in range(3))
        yield Image.new('RGB', (size, size), colour), label


def image_classification(folder):
    import numpy
    draw = random.Random(8)
    images, labels = [], []
    for image, label in pictures(draw, 40, 32):
        kept = io.BytesIO()
        image.save(kept, 'JPEG')
        images.append(kept.getvalue())
        labels.append(label)
    batches = os.path.join(folder, 'data/cifar-out/batches')
    os.makedirs(batches)
    with open(os.path.join(batches, 'batch-0'), 'wb') as out:
        pickle.dump(collections.OrderedDict(images=images, labels=labels), out, protocol=2)
    with open(os.path.join(batches, 'batches.meta'), 'wb') as out:
        numpy.savez(out, data_mean=numpy.full(3 * 32 * 32, 100, dtype='float32'))
    write(folder, 'data/cifar-out/batches/train.txt', 'data/cifar-out/batches/batch-0\n')
    write(folder, 'train.list', 'data/cifar-out/batches/train.txt\n')
    path = os.path.join(folder, 'data/cifar-out/test/airplane/seaplane_s_000978.png')
    os.makedirs(os.path.dirname(path))
    next(pictures(draw, 1, 32))[0].save(path)


def mnist(folder):
    """The provider reads 10,000 digits from any file whose name does not say `train`."""
    draw = random.Random(9)
    labels = bytes(number % 10 for number in range(10000))
    images = bytearray()
    for label in labels:
        image = bytearray(28 * 28)
        row = 2 * label + 3
        image[row * 28:row * 28 + 56] = bytes(200 + draw.randrange(50) for _ in range(56))
        images += image
    raw = os.path.join(folder, 'data/raw_data')
    os.makedirs(raw)
    for name, head, content in (('images-idx3', struct.pack('>4i', 2051, 10000, 28, 28), images),
                                ('labels-idx1', struct.pack('>2i', 2049, 10000), labels)):
        with open(os.path.join(raw, 't10k-%s-ubyte' % name), 'wb') as out:
            out.write(head + content)
    for name in ('train', 'test'):
        write(folder, 'data/%s.list' % name, './data/raw_data/t10k\n')


def resnet(folder):
    """The demo has pictures, but no mean and no list for training."""
    import numpy
    meta = os.path.join(folder, 'model/mean_meta_224')
    os.makedirs(meta)
    with open(os.path.join(meta, 'mean.meta'), 'wb') as out:
        numpy.savez(out, data_mean=numpy.full(3 * 224 * 224, 110, dtype='float32'))
    write(folder, 'train.list', 'example/dog.jpg 0\nexample/cat.jpg 1\n')
