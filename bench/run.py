#!/usr/bin/env python3
"""Ours beside theirs: runs every measurement of Canoe and of the peers that are installed, and prints one table.

    bench/run.py [--only w1,cnn,…] [--rounds 3] [--peer pytorch=PYTHON] [--canoe BINARY] [--output json]

A peer is a Python interpreter that can import the framework; `target/peers/NAME/bin/python` is looked for first. To
install them:

    python3 -m venv target/peers/pytorch    && target/peers/pytorch/bin/pip install torch numpy
    python3 -m venv target/peers/tensorflow && target/peers/tensorflow/bin/pip install tensorflow-cpu
    python3 -m venv target/peers/paddle     && target/peers/paddle/bin/pip install paddlepaddle==2.6.2 setuptools protobuf==4.25.8 'numpy<2'

Ours and theirs take turns, round after round, on the same files; the best round of each counts, per second of
processor time, which a loaded machine disturbs least. Training runs on one thread.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import generate

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
TARGET = os.path.abspath(os.environ.get('CARGO_TARGET_DIR', os.path.join(ROOT, 'target')))
PEERS = {'pytorch': ('torch', 'pytorch_peer.py'), 'tensorflow': ('tensorflow', 'tensorflow_peer.py'),
         'paddle': ('paddle', 'paddle_servers.py')}
RATE = 'samples_per_cpu_s'


class Bench:
    """Where things are, and how one measurement is run."""

    def __init__(self, options):
        self.canoe = options.canoe or self.build()
        self.home = os.path.join(TARGET, 'bench')
        self.rounds = options.rounds
        self.peers = dict(pair.split('=', 1) for pair in options.peer)
        for name, (package, _) in PEERS.items():
            self.peers.setdefault(name, os.path.join(TARGET, 'peers', name, 'bin', 'python'))
            if not self.has(self.peers[name], package):
                del self.peers[name]
        os.makedirs(self.home, exist_ok=True)

    @staticmethod
    def build():
        subprocess.run(['cargo', 'build', '--release', '--quiet'], cwd=ROOT, check=True)
        return os.path.join(TARGET, 'release', 'canoe')

    @staticmethod
    def has(python, package):
        if shutil.which(python) is None:
            return False
        found = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{package}') is None)"
        return subprocess.run([python, '-c', found], check=False).returncode == 0

    def demo(self):
        folder = os.path.join(self.home, 'quick_start')
        if not os.path.exists(folder):
            self.text([self.canoe, 'demo', 'quick_start', folder])
        return folder

    def text(self, command, cwd=None):
        done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, text=True, check=False, timeout=900)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}")
        return done.stdout

    def json(self, command, cwd=None):
        """The last line that a command prints, which is its result."""
        return json.loads(self.text(command, cwd).strip().splitlines()[-1])

    def train(self, config, folder, passes, *arguments):
        return self.json([self.canoe, 'bench', 'train', '--json', config, '--passes', str(passes), *arguments], folder)

    def peer(self, name, workload, folder):
        return self.json([self.peers[name], os.path.join(HERE, 'peers', PEERS[name][1]), workload, folder])

    def group(self, config, arguments, *more):
        """One measurement of a network with recurrent groups, without updates."""
        command = ['cargo', 'run', '--release', '--quiet', '-p', 'canoe-nn', '--example', 'groups', '--']
        return self.json([*command, config, arguments, *more], ROOT)

    def against_translation(self, workload, arguments, aim):
        config, batch = os.path.join(HERE, 'groups', 'translation.py'), '50' if workload == 'train' else '10'
        peer = [self.peers.get('pytorch', ''), os.path.join(HERE, 'peers', 'translation_peer.py'), workload]
        best = {}
        for _ in range(self.rounds):
            results = {'canoe': self.group(config, arguments, '--batch', batch)}
            if 'pytorch' in self.peers:
                results['pytorch'] = self.json([*peer, '--batch', batch])
            for name, result in results.items():
                if name not in best or result[RATE] > best[name][RATE]:
                    best[name] = result
        mine, theirs = best['canoe'], best.get('pytorch')
        return {'ours': f'{mine[RATE]:,.1f} sentences', 'reference': theirs and f"{theirs['system']}: {theirs[RATE]:,.1f}",
                'ratio': theirs and mine[RATE] / theirs[RATE], 'aim': aim, 'unit': 'per CPU-second', 'all': best}

    def against(self, ours, peers, workload, folder, aim):
        """The best rounds of ours and of each installed peer, taken in turns."""
        best = {}
        for _ in range(self.rounds):
            for name in ('canoe', *(peer for peer in peers if peer in self.peers)):
                result = ours() if name == 'canoe' else self.peer(name, workload, folder)
                if name not in best or result[RATE] > best[name][RATE]:
                    best[name] = result
        mine = best.pop('canoe')
        theirs = max(best.values(), key=lambda result: result[RATE], default=None)
        return {'ours': f'{mine[RATE]:,.0f} samples', 'reference': theirs and f"{theirs['system']}: {theirs[RATE]:,.0f}",
                'ratio': theirs and mine[RATE] / theirs[RATE], 'aim': aim, 'unit': 'per CPU-second',
                'all': {'canoe': mine, **best}}


def w1(bench):
    """W1: logistic regression over 30,000 words, batch 128, Adam"""
    folder, config = generate.w1(bench.home), os.path.join(HERE, 'w1', 'trainer_config.py')
    return bench.against(lambda: bench.train(config, folder, 8), ('tensorflow', 'pytorch'), 'w1', folder, 5)


def w1_sparse(bench):
    """W1 with sparse_update: rows that a batch does not touch cost nothing"""
    folder, config = generate.w1(bench.home), os.path.join(HERE, 'w1', 'trainer_config.py')
    return bench.against(lambda: bench.train(config, folder, 8, '--config-args', 'sparse=1'),
                         ('tensorflow', 'pytorch'), 'w1', folder, None)


def w2(bench):
    """W2: recommendation network, batch 1600, Adam"""
    folder, config = generate.w2(bench.home), os.path.join(HERE, 'w2', 'trainer_config.py')
    return bench.against(lambda: bench.train(config, folder, 3), ('tensorflow', 'pytorch'), 'w2', folder, 3)


def cnn(bench):
    """quick_start's CNN, batch 128, Adam"""
    return sequence_network(bench, 'cnn')


def lstm(bench):
    """quick_start's LSTM, batch 128, Adam"""
    return sequence_network(bench, 'lstm')


def sequence_network(bench, name):
    folder = bench.demo()
    config = os.path.join(folder, 'quick_start', f'trainer_config.{name}.py')
    return bench.against(lambda: bench.train(config, folder, 2), ('pytorch',), name, folder, 2)


def step(bench):
    """four fully connected layers, batch 1600, 256 wide, two threads: a step against its bare matrix products"""
    command = ['cargo', 'run', '--release', '--quiet', '-p', 'canoe-nn', '--example', 'step', '--', '2', 'mlp']
    ratios = [float(re.search(r'processor ([0-9.]+)\s*$', bench.text(command, ROOT)).group(1)) for _ in range(bench.rounds)]
    return {'ours': 'a step', 'reference': 'its products', 'ratio': min(ratios), 'aim': '≤ 1.3', 'unit': 'CPU time',
            'all': ratios}


def groups(bench):
    """a GRU and an LSTM as recurrent groups, 256 wide, against the same as layers"""
    config, worst = os.path.join(HERE, 'groups', 'cells.py'), []
    for kind in ('gru', 'lstm'):
        best = {}
        for _ in range(bench.rounds):
            for form in ('layer', 'group'):
                rate = bench.group(config, f'kind={kind},form={form}')[RATE]
                best[form] = max(rate, best.get(form, 0))
        worst.append((best['layer'] / best['group'], kind, best))
    ratio, kind, best = max(worst, key=lambda one: one[0])
    return {'ours': f"{best['group']:,.0f} samples ({kind})", 'reference': f"layer: {best['layer']:,.0f}", 'ratio': ratio,
            'aim': '≤ 1.5', 'unit': 'CPU time', 'all': worst}


def translation(bench):
    """encoder and decoder with attention, 512 wide, 30,000 words, batch 50, forward and backward"""
    return bench.against_translation('train', '', 2)


def beam(bench):
    """beam search of 3, 10 and 50 with the same network, batch 10, 30 words per sentence"""
    rows = [bench.against_translation(f'beam={size}', f'beam={size}', 2) for size in (3, 10, 50)]
    ratios = [row['ratio'] for row in rows if row['ratio'] is not None]
    both = {key: '; '.join(row[key] or '–' for row in rows) for key in ('ours', 'reference')}
    ratio_of = ', '.join(f'{ratio:.2f}' for ratio in ratios)
    return {**both, 'ratio': min(ratios, default=None), 'aim': 2, 'unit': f'per CPU-second; ratios {ratio_of or "–"}',
            'all': [row['all'] for row in rows]}


def dense(bench):
    """W3: 25 million numbers pushed and pulled by 2 trainers, 2 servers, synchronous"""
    results = [bench.json([bench.canoe, 'bench', 'ps', 'dense', '--output', 'json']) for _ in range(bench.rounds)]
    best = max(results, key=lambda result: result['ratio_to_stream'])
    return {'ours': f"{best['gb_per_s']:.2f} GB/s", 'reference': f"plain stream: {best['plain_stream_gb_per_s']:.2f}",
            'ratio': best['ratio_to_stream'], 'aim': 0.7, 'unit': 'wall', 'all': results}


def sparse(bench):
    """W4: 10 million rows of 16, AdaGrad, 2 trainers × 100,000 Zipf ids a step"""
    results = [bench.json([bench.canoe, 'bench', 'ps', 'sparse', '--output', 'json']) for _ in range(bench.rounds)]
    best = max(results, key=lambda result: result['ids_per_cpu_s'])
    return {'ours': f"{best['ids_per_cpu_s'] / 1e6:.2f} million ids", 'reference': None, 'ratio': None,
            'aim': '5 million', 'unit': 'per CPU-second', 'all': results}


def flat(bench):
    """what an id of W4 costs in tables of 1, 10 and 50 million rows, in turns in one run: the dearest by the cheapest"""
    results = [bench.json([bench.canoe, 'bench', 'ps', 'flat', '--output', 'json']) for _ in range(bench.rounds)]
    best = min(results, key=lambda result: result['zipf_spread'])
    costs = ', '.join(f'{cost:.0f}' for cost in best['zipf_cpu_ns_an_id'])
    return {'ours': f'{costs} ns', 'reference': f"uniform ids: {best['uniform_spread']:.2f}", 'ratio': best['zipf_spread'],
            'aim': '≤ 1.5', 'unit': 'CPU time', 'all': results}


def latency(bench):
    """one client, 10,000 rows of 16: pull and push"""
    results = [bench.json([bench.canoe, 'bench', 'ps', 'latency', '--output', 'json']) for _ in range(bench.rounds)]
    best = min(results, key=lambda result: result['median_pull_ms'] + result['median_push_ms'])
    return {'ours': f"{best['median_pull_ms']:.2f} and {best['median_push_ms']:.2f} ms", 'reference': None, 'ratio': None,
            'aim': '< 1 ms each', 'unit': 'wall, median', 'all': results}


def job(bench):
    """quick_start's LR on 2 nodes, synchronous, against Paddle's own servers on W1"""
    folder = generate.w1(bench.home)
    mine = bench.json([bench.canoe, 'bench', 'ps', 'job', '--output', 'json'])
    theirs = bench.peer('paddle', 'w1', folder) if 'paddle' in bench.peers else None
    return {'ours': f'{mine[RATE]:,.0f} samples', 'reference': theirs and f"{theirs['system']}: {theirs[RATE]:,.0f}",
            'ratio': theirs and mine[RATE] / theirs[RATE], 'aim': 5, 'unit': 'per CPU-second of all processes',
            'all': [mine, theirs]}


def nodes(bench):
    """quick_start's CNN on 2 nodes with one thread each, against one process with one thread"""
    result = bench.json([bench.canoe, 'bench', 'ps', 'job', '--model', 'cnn', '--output', 'json'])
    return {'ours': f"{result['samples_per_s']:,.0f} samples", 'reference': f"one process: {result['one_process_samples_per_s']:,.0f}",
            'ratio': result['ratio_to_one_process'], 'aim': 1.7, 'unit': 'per second', 'all': result}


def start(bench):
    """`canoe train` on the LR demo: from start to the first batch, less a bare Python's start"""
    folder = bench.demo()
    command = [bench.canoe, 'train', '--config=quick_start/trainer_config.lr.py', '--num_passes=1', '--log_period=1']
    return first_batch(bench, '≤ 0.5 s', lambda output: [*command, f'--save_dir={output}'], folder)


def run_start(bench):
    """`canoe run` on three nodes: from start to the first batch, less a bare Python's start"""
    folder = bench.demo()

    def command(output):
        job = os.path.join(output, 'job')
        shutil.copytree(folder, job)
        return [bench.canoe, 'run', job, '--nodes', '3', '--config', 'trainer_config.lr.py', '--', '--log_period=1']

    return first_batch(bench, '≤ 1 s', command, folder)


def first_batch(bench, aim, command, cwd):
    """Seconds until a log line speaks of a batch; the process is ended then, by its id."""
    ours, python = [], []
    for _ in range(max(3, bench.rounds)):
        begun = time.perf_counter()
        subprocess.run([sys.executable, '-c', 'pass'], check=True)
        python.append(time.perf_counter() - begun)
        with tempfile.TemporaryDirectory() as output:
            argv = command(output)
            begun = time.perf_counter()
            process = subprocess.Popen(argv, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            try:
                if not any('Batch=' in line or 'batch' in line.lower() and 'cost' in line.lower() for line in process.stderr):
                    raise RuntimeError(f"{' '.join(argv)} showed no batch")
                ours.append(time.perf_counter() - begun)
            finally:
                process.terminate()
                process.communicate(timeout=60)
    return {'ours': f'{min(ours) - min(python):.2f} s', 'reference': f'bare Python: {min(python):.2f} s', 'ratio': None,
            'aim': aim, 'unit': 'wall', 'all': {'seconds': ours, 'python': python}}


MEASUREMENTS = {f.__name__: f for f in (step, w1, w1_sparse, w2, cnn, lstm, groups, translation, beam, dense, sparse, flat,
                                       latency, job, nodes, start, run_start)}


def table(rows):
    lines = ['| what | ours | reference | ratio | aim | |', '|---|---|---|---|---|---|']
    for what, row in rows:
        ratio = '–' if row['ratio'] is None else f"{row['ratio']:.2f}"
        lines.append(f"| {what} | {row['ours']} | {row['reference'] or '–'} | {ratio} | {row['aim'] or '–'} | {row['unit']} |")
    return '\n'.join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--only', default=','.join(MEASUREMENTS), help='some of: ' + ', '.join(MEASUREMENTS))
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--peer', action='append', default=[], metavar='NAME=PYTHON')
    parser.add_argument('--canoe', help='the binary; built if not given')
    parser.add_argument('--output', choices=['table', 'json'], default='table')
    options = parser.parse_args()
    chosen = options.only.split(',')
    unknown = [name for name in chosen if name not in MEASUREMENTS] + [
        pair for pair in options.peer if pair.split('=')[0] not in PEERS or '=' not in pair]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    bench = Bench(options)
    print(f"peers: {', '.join(bench.peers) or 'none installed (see --help)'}", file=sys.stderr)
    rows = []
    for name in chosen:
        print(f'{name} …', file=sys.stderr, flush=True)
        rows.append((MEASUREMENTS[name].__doc__, MEASUREMENTS[name](bench)))
    print(json.dumps([dict(row, what=what) for what, row in rows], indent=1) if options.output == 'json' else table(rows))


main()
