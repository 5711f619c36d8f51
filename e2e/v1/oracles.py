#!/usr/bin/env python3
"""Compares with what v1's own tests compare: networks written in two ways, and generated text with stored results.

    e2e/v1/oracles.py --canoe target/release/canoe --tree PATH [--python PYTHON] [--scratch DIR]

Not part of CI, because the tree is not ours. Two configurations of a pair get the same initial values (their n-th
parameters have the same size) and train for two passes on v1's own data: costs (six digits are printed) and all trained values
must agree, so gradients do. Generation gets a data source, which v1's test replaced by code.
"""
import argparse
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

PAIRS = (
    ('sequence_layer_group.conf', 'sequence_nest_layer_group.conf', 1e-5),
    ('sequence_rnn.conf', 'sequence_nest_rnn.conf', 1e-6),
    ('sequence_rnn_multi_input.conf', 'sequence_nest_rnn_multi_input.conf', 1e-6),
    ('sequence_rnn_multi_unequalength_inputs.py', 'sequence_nest_rnn_multi_unequalength_inputs.py', 1e-6),
)
# Configuration, whether beam search is on, stored result.
GENERATED = (('sample_trainer_rnn_gen.conf', 0, 'r1.test.nobeam'), ('sample_trainer_rnn_gen.conf', 1, 'r1.test.beam'),
             ('sample_trainer_nest_rnn_gen.conf', 0, 'r1.test.nest'), ('sample_trainer_nest_rnn_gen.conf', 1, 'r1.test.nest'))
PROVIDER = '''
from paddle.trainer.PyDataProvider2 import *

@provider(input_types=dict(sent_id=integer_value(100), dummy_data_input=dense_vector(2)), should_shuffle=False)
def flat(settings, name):
    for number in range(15):
        yield dict(sent_id=number, dummy_data_input=[0.5, 0.25])

@provider(input_types=dict(sent_id=integer_value(100), dummy_data_input=dense_vector_sub_sequence(2)), should_shuffle=False)
def nested(settings, name):
    yield dict(sent_id=0, dummy_data_input=[[[0.5, 0.25]]] * 15)
'''
HEAD = struct.Struct('<iIQ')


class Run:
    def __init__(self, options):
        self.canoe = os.path.abspath(options.canoe)
        self.scratch = options.scratch or tempfile.mkdtemp(prefix='v1-oracles-')
        self.paddle = os.path.join(self.scratch, 'paddle')
        shutil.rmtree(self.scratch, ignore_errors=True)
        for part in ('gserver/tests', 'trainer/tests'):
            shutil.copytree(os.path.join(options.tree, 'paddle', part), os.path.join(self.paddle, part))
        python = os.path.dirname(os.path.abspath(options.python))
        self.environment = dict(os.environ, PATH=python + ':' + os.environ['PATH'])

    def call(self, *arguments):
        done = subprocess.run([self.canoe, *arguments], cwd=self.paddle, env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        text = done.stdout.decode('utf-8', 'replace')
        if done.returncode:
            raise SystemExit('%s\n%s' % (' '.join(arguments), text[-3000:]))
        return text

    def train(self, config):
        """Costs of all passes, and the trained values in the order of the parameters."""
        path = 'gserver/tests/' + config
        text = self.call('config', 'dump', path)
        parameters = re.findall(r'\nparameters \{\n\s*name: "(.*?)"\n\s*size: (\d+)', text)
        model = os.path.join(self.scratch, 'model', config)
        os.makedirs(model)
        draw = random.Random(1)
        for name, size in parameters:
            values = [draw.gauss(0, 0.1) for _ in range(int(size))]
            with open(os.path.join(model, name), 'wb') as out:
                out.write(HEAD.pack(0, 4, len(values)) + struct.pack('<%df' % len(values), *values))
        saved = os.path.join(self.scratch, 'saved', config)
        text = self.call('train', '--config=' + path, '--init_model_path=' + model, '--save_dir=' + saved,
                         '--num_passes=2', '--dot_period=0', '--log_period=1')
        trained = []
        for name, _ in parameters:
            with open(os.path.join(saved, 'pass-00001', name), 'rb') as values:
                content = values.read()[HEAD.size:]
                trained.append(struct.unpack('<%df' % (len(content) // 4), content))
        # A nested sample is several flat ones, so the sum over all samples is compared.
        passes = re.findall(r'Pass=\d+ .*?samples=(\d+) AvgCost=(\S+)', text)
        return [int(samples) * float(cost) for samples, cost in passes], trained

    def pair(self, one, other, limit):
        (costs, values), (costs2, values2) = self.train(one), self.train(other)
        assert len(costs) == len(costs2) == 2 and [len(v) for v in values] == [len(v) for v in values2] and values
        worst = max(abs(a - b) / max(1, abs(a)) for a, b in zip(sum(map(list, values), costs), sum(map(list, values2), costs2)))
        show = ' '.join('%.6g' % cost for cost in costs), ' '.join('%.6g' % cost for cost in costs2)
        return worst <= limit, 'costs %s and %s, greatest difference %.1e' % (*show, worst)

    def generate(self, config, beam, wanted):
        tests = os.path.join(self.paddle, 'trainer/tests')
        with open(os.path.join(tests, 'generation_provider.py'), 'w') as out:
            out.write(PROVIDER)
        with open(os.path.join(tests, 'generation.list'), 'w') as out:
            out.write('none\n')
        with open(os.path.join(tests, config)) as text, open(os.path.join(tests, 'generation.conf'), 'w') as out:
            out.write(text.read() + "\ndefine_py_data_sources2(None, 'trainer/tests/generation.list', "
                      "module='generation_provider', obj='%s')\n" % ('nested' if 'nest' in config else 'flat'))
        self.call('train', '--config=trainer/tests/generation.conf', '--job=test', '--config_args=beam_search=%d' % beam,
                  '--init_model_path=trainer/tests/rnn_gen_test_model_dir/t1')
        def numbers(name):
            with open(os.path.join(tests, name)) as text:
                return [float(number) for number in text.read().split()]
        got, wanted = numbers('dump_text.test'), numbers('rnn_gen_test_model_dir/' + wanted)
        equal = len(got) == len(wanted) and all(abs(a - b) <= 1e-5 * max(1, abs(b)) for a, b in zip(got, wanted))
        return equal, '%d numbers, v1 stored %d' % (len(got), len(wanted))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--canoe', required=True)
    parser.add_argument('--tree', required=True, help='an unpacked v0.10.0')
    parser.add_argument('--python', default=sys.executable, help='Python 3 with NumPy')
    parser.add_argument('--scratch', help='a directory that is replaced; by default a temporary one')
    run, failed = Run(parser.parse_args()), 0
    for what, (equal, text) in (
            *((' = '.join(case[:2]), run.pair(*case)) for case in PAIRS),
            *(('%s beam_search=%d = %s' % case, run.generate(*case)) for case in GENERATED)):
        failed += not equal
        print('%-9s %s: %s' % ('equal' if equal else 'DIFFERENT', what, text), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
