"""Exports a model to ONNX and compares what onnxruntime computes with what `canoe predict` computes.

    onnx_check.py --canoe PROGRAM MODEL --text FILE [--config-args ARGS]
"""
import argparse
import json
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime


def ragged(samples):
    """Ids of all samples one after another, and their lengths."""
    flat = [each for sample in samples for each in sample]
    return numpy.array(flat, numpy.int64), numpy.array([len(sample) for sample in samples], numpy.int64)


def predicted(canoe, model, samples, more):
    """The outputs of `canoe predict`, a list per output layer."""
    lines = ''.join(json.dumps(sample) + '\n' for sample in samples)
    out = subprocess.run([canoe, 'predict', model, '--input-format', 'jsonl'] + more, input=lines, text=True,
                         stdout=subprocess.PIPE, check=True).stdout
    rows = [json.loads(line) for line in out.splitlines()]
    assert len(rows) == len(samples), (len(rows), len(samples))

    def plain(value):
        return value['scores'] if isinstance(value, dict) else value
    return {name: numpy.array([plain(row[name]) for row in rows], numpy.float32) for name in rows[0]}


def check(canoe, model, samples, more=()):
    """The largest difference between both programs."""
    more = list(more)
    with tempfile.TemporaryDirectory() as folder:
        path = folder + '/model.onnx'
        subprocess.run([canoe, 'model', 'export', model, path] + more, check=True, stderr=subprocess.PIPE)
        onnx.checker.check_model(path, full_check=True)
        session = onnxruntime.InferenceSession(path, providers=['CPUExecutionProvider'])
    feeds, names = {}, [each.name for each in session.get_inputs()]
    for name in names:
        if name.endswith(('.lengths', '.values')):
            continue
        column = [sample[name] for sample in samples]
        if name + '.lengths' in names:
            feeds[name], feeds[name + '.lengths'] = ragged(column)
        elif isinstance(column[0], list):
            feeds[name] = numpy.array(column, numpy.float32)
        else:
            feeds[name] = numpy.array(column, numpy.int64)
    wanted = predicted(canoe, model, samples, more)
    worst = 0.0
    for output in session.get_outputs():
        got = session.run([output.name], feeds)[0]
        want = wanted[output.name].reshape(got.shape)
        worst = max(worst, float(numpy.abs(got.astype(numpy.float64) - want).max()))
    return worst


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--canoe', required=True)
    parser.add_argument('--text', required=True)
    parser.add_argument('--dictionary', required=True)
    parser.add_argument('models', nargs='+')
    options = parser.parse_args()
    with open(options.dictionary, encoding='utf-8') as lines:
        ids = {line.split('\t')[0]: number for number, line in enumerate(lines)}
    with open(options.text, encoding='utf-8') as lines:
        samples = [{'word': [ids.get(word, 0) for word in line.split('\t')[-1].split()]} for line in lines]
    for model in options.models:
        worst = check(options.canoe, model, samples)
        print('%s: %d samples, largest difference %.2g' % (model, len(samples), worst))
        if worst > 1e-5:
            sys.exit('the difference is larger than 1e-5')


if __name__ == '__main__':
    main()
