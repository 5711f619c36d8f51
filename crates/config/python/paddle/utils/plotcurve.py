"""Draws the costs and errors of a training log: `python -m paddle.utils.plotcurve -i LOG -o PICTURE AvgCost error`.

Keys are given in the order in which a line of the log has them.
"""

import argparse
import os
import re
import sys


def curves(keys, lines):
    """The rows (pass, values of the keys) of training and of tests."""
    values = ''.join(r'.*?%s=([-+0-9.e]+)' % re.escape(key) for key in keys)
    training, test = re.compile(r'Pass=([0-9]+)' + values), re.compile(r'Test samples=([0-9]+)' + values)
    found = [], []
    for line in lines:
        for pattern, rows in zip((training, test), found):
            match = pattern.search(line)
            if match:
                rows.append([float(each) for each in match.groups()])
    return found


def plot_paddle_curve(keys, inputfile, outputfile, format='png', show_fig=False):
    """Draws the curves of an open log into an open file."""
    from paddle.utils.needed import needed
    keys = keys or ['AvgCost']
    training, test = curves(keys, inputfile)
    if not training:
        sys.stderr.write('the log has no lines with Pass= and %s\n' % ', '.join(keys))
        return
    needed('matplotlib', 'matplotlib').use('Agg')
    pyplot = needed('matplotlib.pyplot', 'matplotlib')
    passes = [row[0] for row in training]
    for place, key in enumerate(keys, 1):
        pyplot.plot(passes, [row[place] for row in training], label=key)
        if test:
            pyplot.plot(passes[:len(test)], [row[place] for row in test[:len(passes)]], label='Test ' + key)
    pyplot.xlabel('number of epoch')
    pyplot.legend(loc='best')
    if show_fig:
        pyplot.show()
    pyplot.savefig(outputfile, bbox_inches='tight', format=format.lstrip('.'))
    pyplot.clf()


def main(argv):
    """The command."""
    parser = argparse.ArgumentParser('Plot training and testing curves from a log file.')
    parser.add_argument('key', nargs='*', help='what to draw; AvgCost by default')
    parser.add_argument('-i', '--input', help='the log; standard input by default')
    parser.add_argument('-o', '--output', help='the picture; standard output by default')
    parser.add_argument('--format', help='png, pdf, ps, eps or svg')
    given = parser.parse_args(argv)
    form = given.format or os.path.splitext(given.output or '')[1] or 'png'
    lines = open(given.input) if given.input else sys.stdin
    out = open(given.output, 'wb') if given.output else sys.stdout.buffer
    with lines, out:
        plot_paddle_curve(given.key, lines, out, form)


if __name__ == '__main__':
    main(sys.argv[1:])
