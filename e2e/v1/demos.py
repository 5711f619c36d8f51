#!/usr/bin/env python3
"""Runs the demos of a v0.10.0 tree with their own scripts, unmodified, and prints what each of them did.

    e2e/v1/demos.py --canoe target/release/canoe --tree PATH [--python PYTHON] [--scratch DIR] [DEMO ...]

The tree is not ours, so nothing of it is in this repository and the test is not part of CI. Each demo is copied, gets
small data in its own format (`made_data.py`), and its scripts run with `paddle` and `python` on their PATH as
`canoe paddle link --python` puts them there. The only thing that is added is a flag at the end of a `paddle train`
line, where v1 lets the last of two win: fewer passes, and a log line for every batch.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

import made_data

LOG = '--log_period=1 --dot_period=0'


class Step:
    """One command of a demo: flags that `paddle train` gets besides, seconds until it is ended, what must hold after it."""

    def __init__(self, command, more='', seconds=900, after=None, falls=False):
        self.command, self.more, self.seconds = command, more, seconds
        self.after, self.falls = after, falls


def train(command='bash train.sh', passes=2, more='', **others):
    return Step(command, '%s --num_passes=%d %s' % (LOG, passes, more), falls=True, **others)


def config(name, passes=3):
    """quick_start has one script and seven configurations: readers change the line that names one."""
    return Step("sed 's/^cfg=trainer_config.lr.py/cfg=trainer_config.%s.py/; s/^#cfg.*//' train.sh > run.sh && "
                "bash run.sh" % name, '%s --num_passes=%d --save_dir=out_%s' % (LOG, passes, name), falls=True)


DEMOS = {
    'introduction': ('introduction', None, [
        Step('bash train.sh', falls=True), Step('python evaluate_model.py')]),
    'quick_start': ('quick_start', made_data.quick_start, [
        train(passes=4), Step('bash predict.sh', after='test $(wc -l < result.txt) = 20'),
        Step('mkdir -p output/model && cp -r output/pass-00001 output/model/ && bash api_predict.sh')] + [
        config(name) for name in ('emb', 'cnn', 'lstm', 'bidi-lstm', 'db-lstm', 'resnet-lstm')]),
    'quick_start_cluster': ('quick_start', made_data.quick_start, [
        Step('bash cluster/pserver.sh > /dev/null 2>&1 & bash cluster/cluster_train.sh && wait',
             LOG + ' --num_passes=2', falls=True)]),
    'sentiment': ('sentiment', made_data.sentiment, [
        train(passes=3), Step('bash test.sh', LOG), Step('bash predict.sh')]),
    'semantic_role_labeling': ('semantic_role_labeling', made_data.semantic_role_labeling, [
        train(passes=2), Step('bash test.sh', LOG), Step('bash predict.sh', after='test -s predict.res')]),
    'sequence_tagging': ('sequence_tagging', made_data.sequence_tagging, [
        train('bash train_linear.sh', 1), train('bash train.sh', 1)]),
    'traffic_prediction': ('traffic_prediction', made_data.traffic_prediction, [
        train(passes=4), Step('bash predict.sh', after='test $(wc -l < result.csv) = 11')]),
    'recommendation': ('recommendation', made_data.recommendation, [
        Step('bash preprocess.sh'), train('bash run.sh', 4), Step('bash evaluate.sh'),
        Step('python evaluate.py log.txt'),
        Step("printf '3\\n5\\n' | python prediction.py output/pass-00003 2>&1 | grep 'Prediction Score is'")]),
    'image_classification': ('image_classification', made_data.image_classification, [
        train(passes=4),
        Step('ln -s pass-00003 cifar_vgg_model/pass-00299 && bash predict.sh')]),
    'mnist': ('mnist', made_data.mnist, [train(passes=1, more='--trainer_count=2', seconds=7200)]),
    'resnet': ('model_zoo/resnet', made_data.resnet, [
        # Its outputs are features, so no cost is reported.
        Step('paddle train --config=resnet.py --save_dir=out', LOG + ' --num_passes=1', after='test -e out/pass-00000/done'),
        Step('ln -s ../out/pass-00000 model/resnet_50 && bash extract_fea_c++.sh', after='test -s fea_output/rank-00000'),
        Step('bash predict.sh'), Step('bash extract_fea_py.sh', after='test -d features')]),
    'seqToseq': ('seqToseq', made_data.seqToseq, [
        Step('cd translation && bash train.sh', LOG + ' --num_passes=2', falls=True),
        Step('cd paraphrase && bash train.sh', LOG + ' --num_passes=2', falls=True),
        Step('mkdir -p data/wmt14_model && cp -r translation/model/pass-00001 data/wmt14_model/pass-00012 && '
             'cd translation && bash gen.sh', after='test -s translation/gen_result')]),
}

PADDLE = '''#!/bin/sh
command=$1
shift
[ "$command" != train ] || set -- "$@" $MORE_FLAGS
exec '%s' paddle "$command" "$@"
'''
PYTHON = '''#!/bin/sh
exec '%s' python run --python '%s' -- "$@"
'''
# The scripts were written for a grep that ended what -z finds with a line end; later ones end it with a zero byte.
GREP = '''#!/bin/sh
[ "$1" = -Pzo ] || exec %s "$@"
%s "$@" | tr '\\000' '\\n'
'''


def costs(text):
    """The costs of all passes; of all batches if there was one pass only."""
    passes = re.findall(r'Pass=\d+ .*?AvgCost=(\S+)', text)
    found = passes if len(passes) > 1 else re.findall(r'CurrentCost=(\S+)', text)
    return [float(each) for each in found]


class Runner:
    def __init__(self, options):
        self.options = options
        self.scratch = options.scratch or tempfile.mkdtemp(prefix='v1-demos-')
        self.links = os.path.join(self.scratch, 'bin')
        os.makedirs(self.links, exist_ok=True)
        canoe, python = os.path.abspath(options.canoe), options.python
        self.script('paddle', PADDLE % canoe)
        for name in ('python', 'python2', 'python2.7'):
            self.script(name, PYTHON % (canoe, python))
        grep = shutil.which('grep')
        self.script('grep', GREP % (grep, grep))

    def script(self, name, text):
        path = os.path.join(self.links, name)
        with open(path, 'w') as out:
            out.write(text)
        os.chmod(path, 0o755)

    def run(self, name):
        """Runs one demo; returns rows of demo, command, result, first and last cost."""
        source, make, steps = DEMOS[name]
        folder = os.path.join(self.scratch, name)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(os.path.join(self.options.tree, 'demo', source), folder)
        if make:
            make(folder)
        for step in steps:
            yield self.step(name, folder, step)

    def step(self, name, folder, step):
        path = [self.links, os.path.dirname(os.path.abspath(self.options.python)), os.environ['PATH']]
        environment = dict(os.environ, MORE_FLAGS=step.more, PATH=':'.join(path))
        environment.pop('CANOE_JOB_TOKEN', None)
        with open(os.path.join(folder, 'step.log'), 'w+', errors='replace') as log:
            process = subprocess.Popen(['bash', '-c', step.command], cwd=folder, env=environment, stdout=log,
                                       stderr=subprocess.STDOUT, start_new_session=True, stdin=subprocess.DEVNULL)
            ended = False
            try:
                process.wait(timeout=step.seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 15)
                process.wait()
                ended = True
            log.seek(0)
            text = log.read()
        found = costs(text)
        result = 'runs' if process.returncode == 0 else 'exit %d' % process.returncode
        if ended:
            result = 'ended after %d s, %d batches' % (step.seconds, len(found))
        elif re.search(r'^canoe: ', text, re.M):
            # A script that pipes its output into tee does not notice.
            result = 'fails'
        elif process.returncode == 0 and step.after:
            checked = subprocess.call(['bash', '-c', step.after], cwd=folder, env=environment)
            result = 'runs' if checked == 0 else 'runs, but not: ' + step.after
        if step.falls and result == 'runs' and not (len(found) > 1 and found[-1] < found[0]):
            result = 'runs, but the cost does not fall'
        if result != 'runs':
            tail = [line for line in text.strip().split('\n') if line.strip()][-8:]
            sys.stderr.write('--- %s: %s\n%s\n' % (name, step.command, '\n'.join(tail)))
        shown = re.sub(r"^sed 's/\^cfg=trainer_config.lr.py/cfg=(\S+?)/; .*", r'bash train.sh with cfg=\1', step.command)
        return name, shown, result, found[0] if found else None, found[-1] if found else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--canoe', required=True)
    parser.add_argument('--tree', required=True, help='an unpacked v0.10.0')
    parser.add_argument('--python', default=sys.executable, help='Python 3 with NumPy before 2.4, Pillow, Matplotlib and docopt')
    parser.add_argument('--scratch', help='where demos are copied to; by default a temporary directory')
    parser.add_argument('demos', nargs='*', metavar='DEMO', help='by default all: ' + ', '.join(DEMOS))
    options = parser.parse_args()
    runner, failures = Runner(options), 0
    print('| demo | command | result | first cost | last cost |\n|---|---|---|---|---|', flush=True)
    for name in options.demos or DEMOS:
        for row in runner.run(name):
            failures += not row[2].startswith(('runs', 'ended')) or 'but' in row[2]
            number = ['' if each is None else '%g' % each for each in row[3:]]
            print('| %s | `%s` | %s | %s | %s |' % (row[0], row[1], row[2], *number), flush=True)
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
