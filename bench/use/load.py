"""Loading a model with a table of ten million rows: the time of a first prediction, beside `cat` of the same file, both with
the file dropped from the page cache before.

    load.py --canoe PROGRAM [--rows N] [--rounds N]
"""
import argparse
import os
import subprocess
import tempfile
import time

CONFIG = '''
from paddle.trainer_config_helpers import *
settings(batch_size=100, learning_rate=0.1)
word = data_layer('word', size=%d)
pooled = pooling_layer(embedding_layer(word, size=16), pooling_type=AvgPooling())
outputs(classification_cost(fc_layer(pooled, size=2, act=SoftmaxActivation()), data_layer('label', size=2)))
define_py_data_sources2('list', None, module='own', obj='process')
'''
PROVIDER = '''
from paddle.trainer.PyDataProvider2 import *
@provider(input_types={'word': integer_value_sequence(%d), 'label': integer_value(2)})
def process(settings, name):
    yield {'word': [1, 2, 3], 'label': 1}
'''


def drop(path):
    """Asks the kernel to forget the file."""
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def timed(command, **more):
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, **more)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, command
    return time.perf_counter() - began, used


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--canoe', required=True)
    parser.add_argument('--rows', type=int, default=10_000_000)
    parser.add_argument('--rounds', type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as job:
        for name, text in (('config.py', CONFIG % options.rows), ('own.py', PROVIDER % options.rows), ('list', 'one\n'),
                           ('sample.jsonl', '{"word": [%s]}\n' % ', '.join(str(options.rows // 100 * i) for i in range(100)))):
            with open(os.path.join(job, name), 'w') as out:
                out.write(text)
        subprocess.run([options.canoe, 'train', '--config=config.py', '--save_dir=out', '--num_passes=1', '--dot_period=0'],
                       cwd=job, check=True, stderr=subprocess.DEVNULL)
        table = os.path.join(job, 'out/pass-00000/___embedding_0__.w0')
        size = os.path.getsize(table) / 1e6
        for _ in range(options.rounds):
            drop(table)
            cat, _ = timed(['cat', table])
            drop(table)
            ours, used = timed([options.canoe, 'predict', 'out', 'sample.jsonl'], cwd=job)
            print('%.0f MB: cat %.2f s, canoe predict %.2f s (%.0f MB resident at its peak), share %.2f' % (
                size, cat, ours, used.ru_maxrss / 1024, cat / ours))


if __name__ == '__main__':
    main()
