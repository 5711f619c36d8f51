"""Samples per CPU-second: `canoe bench predict` beside onnxruntime on the exported model and PyTorch, one thread each,
alternately on the same samples.

    predict.py --canoe PROGRAM FOLDER [NETWORK...] [--rounds N]

FOLDER is what prepare.py made. What a peer gets is ready in its memory, as a canoe batch is. Needs numpy, onnxruntime and torch.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile

import numpy
import onnxruntime


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def feeds(session, samples):
    """The arrays of a batch."""
    names, made = [each.name for each in session.get_inputs()], {}
    for name in names:
        if name.endswith('.lengths'):
            continue
        column = [sample[name] for sample in samples]
        if name + '.lengths' in names:
            made[name] = numpy.array([each for row in column for each in row], numpy.int64)
            made[name + '.lengths'] = numpy.array([len(row) for row in column], numpy.int64)
        elif isinstance(column[0], list):
            made[name] = numpy.array(column, numpy.float32)
        else:
            made[name] = numpy.array(column, numpy.int64)
    return made


def onnx(path, samples, size, seconds):
    """Samples per CPU-second of onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=['CPUExecutionProvider'])
    batches = [feeds(session, samples[at:at + size]) for at in range(0, len(samples), size)]
    for batch in batches[:20]:
        session.run(None, batch)
    began, done = cpu(), 0
    while cpu() - began < seconds:
        for at, batch in enumerate(batches):
            session.run(None, batch)
            done += min(size, len(samples) - at * size)
            if cpu() - began >= seconds:
                break
    return done / (cpu() - began)


def pytorch(name, samples, size, seconds):
    """Samples per CPU-second of PyTorch."""
    import torch
    import torch_peers
    torch.set_num_threads(1)
    network, feed = torch_peers.made(name, samples)
    batches = [feed(samples[at:at + size]) for at in range(0, len(samples), size)]
    with torch.inference_mode():
        for batch in batches[:20]:
            network(*batch)
        began, done = cpu(), 0
        while cpu() - began < seconds:
            for at, batch in enumerate(batches):
                network(*batch)
                done += min(size, len(samples) - at * size)
                if cpu() - began >= seconds:
                    break
    return done / (cpu() - began)


def canoe(program, model, samples, size, seconds):
    out = subprocess.run([program, 'bench', '--json', 'predict', model, samples, '--batch-size', str(size), '--seconds',
                          str(seconds)], stdout=subprocess.PIPE, check=True)
    return json.loads(out.stdout)['samples_per_cpu_s']


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--canoe', required=True)
    parser.add_argument('--rounds', type=int, default=2)
    parser.add_argument('--seconds', type=float, default=3)
    parser.add_argument('folder')
    parser.add_argument('networks', nargs='*')
    options = parser.parse_args()
    for name in options.networks or ('lr', 'cnn', 'lstm', 'recommendation'):
        model, file = os.path.join(options.folder, name), os.path.join(options.folder, name + '.jsonl')
        with open(file) as lines:
            samples = [json.loads(line) for line in lines]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'model.onnx')
            subprocess.run([options.canoe, 'model', 'export', model, path], check=True, stderr=subprocess.DEVNULL)
            for size in (128, 1):
                measure = [
                    lambda: canoe(options.canoe, model, file, size, options.seconds),
                    lambda: onnx(path, samples, size, options.seconds),
                    lambda: pytorch(name, samples, size, options.seconds),
                ]
                best = [0.0] * 3
                for _ in range(options.rounds):
                    best = [max(before, each()) for before, each in zip(best, measure)]
                print('%s, batch %d: canoe %.0f, onnxruntime %.0f, PyTorch %.0f samples per CPU-second; ratios %.2f and %.2f' % (
                    name, size, *best, best[0] / best[1], best[0] / best[2]))
                sys.stdout.flush()


if __name__ == '__main__':
    main()
