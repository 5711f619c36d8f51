#!/usr/bin/env python3
"""How fast is `canoe data split`, next to coreutils `split` and the copies of v1's Kubernetes tutorial?

Makes a file of labelled text, then in turns:
  tutorial  split -d --number=l/N -a 5 train.txt train. ; the first part renamed ; the whole folder copied for each
            other shard, its part renamed (what the data job of the tutorial does)
  canoe     canoe data split train.txt --shards N --by bytes, and by lines, and shuffled
Every result is checked independently of canoe: `wc -l` of the parts adds up, and the parts in order are byte for
byte the source (shuffled: the sorted lines are).

    python3 bench/data_split.py --canoe target/release/canoe --size 2GiB --shards 3 --rounds 3
"""
import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time


def parse_size(text):
    for suffix, factor in (('GiB', 1 << 30), ('MiB', 1 << 20), ('KiB', 1 << 10), ('', 1)):
        if text.endswith(suffix):
            return int(float(text[:len(text) - len(suffix)]) * factor)


def make_file(path, size):
    """About 300 bytes a line, every line different."""
    words = ('the battery lasts long and the screen is bright but the cable was loose from the first day on '
             'so i returned it and got another one that works as it should ').split()
    block = []
    for number in range(4096):
        shifted = words[number % len(words):] + words[:number % len(words)]
        block.append((str(number % 2) + '\t%d ' + ' '.join(shifted) + ' ' + ' '.join(shifted[:number % 30])).encode() + b'\n')
    written = index = 0
    with open(path, 'wb', buffering=1 << 20) as out:
        while written < size:
            line = block[index % len(block)] % index
            out.write(line)
            written += len(line)
            index += 1
    return index


def tutorial(source, shards, out):
    first = out / '0'
    first.mkdir(parents=True)
    subprocess.run(['cp', str(source), str(first / 'all.txt')], check=True)
    started = time.monotonic()
    subprocess.run(['split', '-d', '--number=l/%d' % shards, '-a', '5', 'all.txt', 'train.'], cwd=first, check=True)
    os.remove(first / 'all.txt')
    os.rename(first / 'train.00000', first / 'train.txt')
    for shard in range(1, shards):
        shutil.copytree(first, out / str(shard))
        os.rename(out / str(shard) / ('train.%05d' % shard), out / str(shard) / 'train.txt')
    return time.monotonic() - started, None


def canoe(binary, flags):
    def run(source, shards, out):
        started = time.monotonic()
        child = subprocess.Popen([binary, 'data', 'split', str(source), '--shards', str(shards), '--out', str(out)] + flags,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit('canoe data split ended with %d' % child.returncode)
        return time.monotonic() - started, usage.ru_maxrss * 1024
    return run


def digest(paths, ordered):
    """Of the bytes in order, or of the sorted lines."""
    joined = subprocess.Popen(['cat'] + [str(path) for path in paths], stdout=subprocess.PIPE)
    stream = joined
    if not ordered:
        stream = subprocess.Popen(['sort'], stdin=joined.stdout, stdout=subprocess.PIPE, env=dict(os.environ, LC_ALL='C'))
    hasher = hashlib.sha256()
    for piece in iter(lambda: stream.stdout.read(1 << 20), b''):
        hasher.update(piece)
    return hasher.hexdigest()


def count_lines(paths):
    lines = subprocess.run(['wc', '-l'] + [str(path) for path in paths], check=True, capture_output=True, text=True).stdout
    return sum(int(line.split()[0]) for line in lines.splitlines()[:len(paths)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--canoe', default='target/release/canoe')
    parser.add_argument('--size', default='2GiB', type=parse_size)
    parser.add_argument('--shards', default=3, type=int)
    parser.add_argument('--rounds', default=3, type=int)
    parser.add_argument('--directory', help='where to work; the default is a temporary folder')
    args = parser.parse_args()
    ways = {
        'tutorial': (tutorial, True),
        'canoe --by bytes': (canoe(args.canoe, ['--by', 'bytes']), True),
        'canoe --by lines': (canoe(args.canoe, ['--by', 'lines']), True),
        'canoe --shuffle': (canoe(args.canoe, ['--shuffle', '--seed', '1']), False),
    }
    with tempfile.TemporaryDirectory(dir=args.directory) as work:
        work = pathlib.Path(work)
        source = work / 'train.txt'
        lines = make_file(source, args.size)
        want = {ordered: digest([source], ordered) for ordered in (True, False)}
        times = {name: [] for name in ways}
        memory = {}
        for _ in range(args.rounds):
            for name, (way, ordered) in ways.items():
                out = work / 'out'
                seconds, peak = way(source, args.shards, out)
                parts = [out / str(shard) / 'train.txt' for shard in range(args.shards)]
                assert count_lines(parts) == lines, name
                assert digest(parts, ordered) == want[ordered], name
                times[name].append(seconds)
                memory[name] = peak
                shutil.rmtree(out)
        base = min(times['tutorial'])
        print('%d bytes, %d lines, %d shards, best of %d' % (source.stat().st_size, lines, args.shards, args.rounds))
        print('| way | seconds | GB/min | times as fast | peak memory |')
        print('|---|---|---|---|---|')
        for name, taken in times.items():
            best = min(taken)
            peak = '-' if memory[name] is None else '%.0f MiB' % (memory[name] / (1 << 20))
            print('| %s | %.2f | %.1f | %.2f | %s |' % (name, best, source.stat().st_size / 1e9 / best * 60, base / best, peak))


main()
