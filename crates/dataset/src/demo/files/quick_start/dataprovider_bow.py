"""Reads reviews as bags of words: for each sample the ids of its words, order and position dropped."""
from paddle.trainer.PyDataProvider2 import *

# Words that are not in the dictionary share the first line.
UNKNOWN = 0


def load_dictionary(dict_file):
    with open(dict_file, encoding='utf-8') as lines:
        return {line.split('\t')[0]: number for number, line in enumerate(lines)}


def on_init(settings, dict_file, **kwargs):
    settings.ids = load_dictionary(dict_file)
    settings.input_types = {
        'word': sparse_binary_vector(len(settings.ids)),
        'label': integer_value(2),
    }


@provider(init_hook=on_init, cache=CacheType.CACHE_PASS_IN_MEM)
def process(settings, file_name):
    """Each line is a label (0 blame, 1 praise), a tab and the words."""
    ids = settings.ids
    with open(file_name, encoding='utf-8') as lines:
        for line in lines:
            label, text = line.rstrip('\n').split('\t')
            yield {
                'word': [ids.get(word, UNKNOWN) for word in text.split()],
                'label': int(label),
            }


def on_init_predict(settings, dict_file, **kwargs):
    settings.ids = load_dictionary(dict_file)
    settings.input_types = {'word': sparse_binary_vector(len(settings.ids))}


@provider(init_hook=on_init_predict, should_shuffle=False)
def process_predict(settings, file_name):
    """Each line is the words alone."""
    ids = settings.ids
    with open(file_name, encoding='utf-8') as lines:
        for line in lines:
            yield {'word': [ids.get(word, UNKNOWN) for word in line.split()]}
