"""Trains the four networks of the measurements on the demos' data, one pass each, and writes their samples as JSON lines:
FOLDER/{lr,cnn,lstm,recommendation} and FOLDER/NAME.jsonl.

    prepare.py --canoe PROGRAM FOLDER
"""
import argparse
import json
import os
import subprocess
import sys

SAMPLES = 2000


def canoe(program, *arguments, **more):
    subprocess.run([program] + list(arguments), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)


def reviews(program, folder):
    job = folder + '/reviews'
    canoe(program, 'demo', 'quick_start', job, '--train-samples=4000', '--test-samples=%d' % SAMPLES)
    with open(job + '/data/dict.txt') as lines:
        ids = {line.split('\t')[0].strip(): number for number, line in enumerate(lines)}
    with open(job + '/data/test.txt') as lines:
        texts = [line.rstrip('\n').split('\t')[1].split() for line in lines]
    for name in ('lr', 'cnn', 'lstm'):
        canoe(program, 'train', '--config=quick_start/trainer_config.%s.py' % name, '--save_dir=' + name, '--num_passes=1',
              '--dot_period=0', cwd=job)
        with open('%s/%s.jsonl' % (folder, name), 'w') as out:
            for words in texts:
                own = [ids.get(word, 0) for word in words]
                out.write(json.dumps({'word': sorted(set(own)) if name == 'lr' else own}) + '\n')


def ratings(program, folder):
    job = folder + '/ratings'
    canoe(program, 'demo', 'recommendation', job)
    canoe(program, 'train', '--config=recommendation/trainer_config.py', '--save_dir=recommendation.out', '--num_passes=1',
          '--dot_period=0', cwd=job)
    package = subprocess.run([program, 'python', 'path'], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    sys.path[:0] = [package, job + '/recommendation']
    import dataprovider

    class Settings:
        pass
    settings = Settings()
    dataprovider.load(settings, job + '/data/meta.bin')
    with open(job + '/data/test.list') as files, open(folder + '/recommendation.jsonl', 'w') as out:
        with open(os.path.join(job, files.readline().strip()), encoding='latin-1') as lines:
            for line in list(lines)[:SAMPLES]:
                user, movie = map(int, line.split('::')[:2])
                out.write(json.dumps(dataprovider.sample(settings, movie, user)) + '\n')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--canoe', required=True)
    parser.add_argument('folder')
    options = parser.parse_args()
    folder = os.path.abspath(options.folder)
    os.makedirs(folder)
    reviews(options.canoe, folder)
    ratings(options.canoe, folder)
    for name, place in [(name, 'reviews/' + name) for name in ('lr', 'cnn', 'lstm')] + [
            ('recommendation', 'ratings/recommendation.out')]:
        os.symlink(place, '%s/%s' % (folder, name))


if __name__ == '__main__':
    main()
