#!/usr/bin/env python3
"""Evaluates, builds and, where there are data, runs every configuration of a v0.10.0 tree that is not a demo.

    e2e/v1/configurations.py --canoe target/release/canoe --tree PATH [--python PYTHON] [--scratch DIR]

Like `demos.py` it is not part of CI, because the tree is not ours. The tree is copied. A configuration is evaluated and
built (`canoe config check`) and, if it names data that the tree has or that it makes by itself, trained for a pass.
Configurations without data end as built, and so do those that only generate: they need a model.
"""
import argparse
import glob
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile

# Family, pattern, directory in which v1's own tests ran it.
FAMILIES = (
    ('gserver', 'paddle/gserver/tests/*.conf', 'paddle'),
    ('gserver', 'paddle/gserver/tests/sequence_*.py', 'paddle'),
    ('gserver', 'paddle/gserver/tests/pyDataProvider/trainer.conf', 'paddle'),
    ('trainer', 'paddle/trainer/tests/*.conf', 'paddle'),
    ('helpers', 'python/paddle/trainer_config_helpers/tests/configs/*.py', None),
    ('helpers', 'python/paddle/trainer_config_helpers/tests/layers_test_config.py', None),
    ('benchmark', 'benchmark/paddle/image/[!p]*.py', None),
    ('benchmark', 'benchmark/paddle/rnn/rnn.py', None),
)
# Helper modules beside configurations.
NOT_ONE = ('__init__.py', 'rnn_data_provider.py', 'sequenceGen.py')


def last(text):
    """The last line, shortened."""
    return text.split('\n')[-1][-150:]


class Run:
    def __init__(self, options):
        self.canoe, self.seconds, self.only = os.path.abspath(options.canoe), options.seconds, options.only
        self.tree = os.path.join(options.scratch or tempfile.mkdtemp(prefix='v1-tree-'), 'tree')
        shutil.rmtree(self.tree, ignore_errors=True)
        for part in ('paddle/gserver/tests', 'paddle/trainer/tests', 'python/paddle/trainer_config_helpers/tests',
                     'benchmark/paddle'):
            shutil.copytree(os.path.join(options.tree, part), os.path.join(self.tree, part))
        python = os.path.dirname(os.path.abspath(options.python))
        self.environment = dict(os.environ, PATH=python + ':' + os.environ['PATH'])
        self.prepare()

    def prepare(self):
        """What the benchmarks' scripts made or fetched, small.

        The provider of the image benchmarks makes 1024 images whose labels may be `num_class`, which is one too many;
        here it makes 32 with labels below it. The other one reads pickled reviews.
        """
        image, rnn = (os.path.join(self.tree, 'benchmark/paddle', name) for name in ('image', 'rnn'))
        for folder, data in ((image, ' '), (rnn, 'imdb.train.pkl')):
            with open(os.path.join(folder, 'train.list'), 'w') as out:
                out.write(data + '\n')
        with open(os.path.join(image, 'provider.py')) as provider:
            text = provider.read()
        for made, instead in (('xrange(1024)', 'xrange(32)'), ('randint(0, settings.num_class)', 'randrange(settings.num_class)')):
            assert made in text, made
            text = text.replace(made, instead)
        with open(os.path.join(image, 'provider.py'), 'w') as provider:
            provider.write(text)
        draw = random.Random(1)
        labels = [draw.randrange(2) for _ in range(64)]
        reviews = [[draw.randrange(2, 15000) * 2 + label for _ in range(draw.randrange(20, 150))] for label in labels]
        with open(os.path.join(rnn, 'imdb.train.pkl'), 'wb') as out:
            pickle.dump((reviews, labels), out, protocol=2)

    def call(self, folder, *arguments):
        try:
            done = subprocess.run([self.canoe, *arguments], cwd=folder, env=self.environment, timeout=self.seconds,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired as late:
            text = (late.stdout or b'').decode('utf-8', 'replace')
            return ('Batch=' in text or 'CurrentCost' in text), 'runs for more than %d s' % self.seconds
        return done.returncode == 0, done.stdout.decode('utf-8', 'replace').strip()

    def one(self, family, path, folder):
        """Which of evaluated, built, run holds, and the last words if one does not."""
        good, text = self.call(folder, 'config', 'check', path)
        if 'inputs: ' not in text:
            return 'refused', last(text)
        # Without data a configuration cannot be trained, but its network may be built.
        complaints = [line for line in text.split('\n') if line.startswith(path + ':') and ' layers, ' not in line]
        if not good and (not complaints or any('data' not in line for line in complaints)):
            return 'evaluated', last('\n'.join(complaints) or text)
        flags = ['--config=' + path, '--num_passes=1', '--save_dir=' + os.path.join(self.tree, 'output'),
                 '--log_period=1', '--dot_period=0']
        if family == 'benchmark':
            flags.append('--config_args=batch_size=16')
        good, text = self.call(folder, 'train', *flags)
        return ('run' if good else 'built'), last(text)

    def all(self):
        for family, pattern, folder in FAMILIES:
            for path in sorted(glob.glob(os.path.join(self.tree, pattern))):
                if os.path.basename(path) in NOT_ONE or os.path.basename(path).startswith('test_Py'):
                    continue
                where = os.path.join(self.tree, folder) if folder else os.path.dirname(path)
                if self.only in family:
                    yield (family, os.path.relpath(path, self.tree), *self.one(family, path, where))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--canoe', required=True)
    parser.add_argument('--tree', required=True, help='an unpacked v0.10.0')
    parser.add_argument('--python', default=sys.executable, help='Python 3 with NumPy and six')
    parser.add_argument('--scratch', help='where the tree is copied to; by default a temporary directory')
    parser.add_argument('--only', default='', help='gserver, trainer, helpers or benchmark')
    parser.add_argument('--seconds', type=int, default=120, help='limit for one command')
    count = {}
    for family, path, reached, text in Run(parser.parse_args()).all():
        counts = count.setdefault(family, dict.fromkeys(('refused', 'evaluated', 'built', 'run'), 0))
        counts[reached] += 1
        print('%-9s %s%s' % (reached, path, '' if reached == 'run' else ': ' + text), flush=True)
    print('\n| family | configurations | evaluated | built | run |\n|---|---|---|---|---|')
    for family, counts in count.items():
        total = sum(counts.values())
        built = counts['built'] + counts['run']
        print('| %s | %d | %d | %d | %d |' % (family, total, total - counts['refused'], built, counts['run']))


if __name__ == '__main__':
    main()
