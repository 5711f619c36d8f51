#!/usr/bin/env python3
"""Draws how much of a step is computing, for 2 to 1,000 nodes and several models (docs/scale.md).

    bench/scale.py --canoe target/release/canoe --out docs/pictures/scale.svg [option of `canoe bench ps scale` ...]
"""

import argparse
import json
import math
import subprocess

# Name, megabytes that a trainer sends per step, milliseconds that it computes per step, colour.
MODELS = [
    ('0.24 MB, 5 ms: regression over words', 0.24, 5, '#1f77b4'),
    ('3 MB, 50 ms: a convolution over words', 3, 50, '#2ca02c'),
    ('100 MB, 300 ms: a deep image network', 100, 300, '#d62728'),
    ('0.24 MB, 200 ms: the first with large batches', 0.24, 200, '#9467bd'),
]
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 420, 60, 20, 20, 110


def shares(canoe, megabytes, milliseconds, options):
    """The share of time computing, by number of nodes."""
    command = [canoe, 'bench', '--json', 'ps', 'scale', '--model-mb', str(megabytes), '--compute-ms', str(milliseconds)]
    result = json.loads(subprocess.run(command + options, check=True, stdout=subprocess.PIPE).stdout)
    return [(step['nodes'], step['share_of_time_computing']) for step in result['steps']]


def place(nodes, share):
    """The point of a number of nodes and a share in the picture."""
    x = LEFT + (WIDTH - LEFT - RIGHT) * math.log10(nodes / 2) / math.log10(500)
    return x, TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)


def text(x, y, words, anchor='middle'):
    """A line of text."""
    return '<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>' % (x, y, anchor, words)


def draw(curves):
    """The picture."""
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">' % (WIDTH, HEIGHT),
             '<rect width="100%" height="100%" fill="white"/>']
    for share in (0, 0.25, 0.5, 0.75, 1):
        (x1, y), (x2, _) = place(2, share), place(1000, share)
        lines.append('<path d="M%.1f %.1fH%.1f" stroke="#ddd"/>' % (x1, y, x2))
        lines.append(text(x1 - 8, y + 4, '%d %%' % (100 * share), 'end'))
    for nodes in (2, 8, 16, 32, 100, 200, 500, 1000):
        x, y = place(nodes, 0)
        lines.append(text(x, y + 18, nodes))
    lines.append(text((LEFT + WIDTH - RIGHT) / 2, place(2, 0)[1] + 36, 'nodes'))
    for at, ((name, _, _, colour), points) in enumerate(zip(MODELS, curves)):
        path = ' '.join('%.1f,%.1f' % place(*point) for point in points)
        lines.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>' % (path, colour))
        x, y = LEFT + 350 * (at % 2), HEIGHT - 36 + 20 * (at // 2)
        lines.append('<path d="M%d %dh24" stroke="%s" stroke-width="2"/>' % (x, y - 4, colour))
        lines.append(text(x + 30, y, name, 'start'))
    return '\n'.join(lines + ['</svg>', ''])


def main():
    """Simulates and draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--canoe', default='target/release/canoe')
    parser.add_argument('--out', default='docs/pictures/scale.svg')
    arguments, options = parser.parse_known_args()
    curves = [shares(arguments.canoe, megabytes, milliseconds, options) for _, megabytes, milliseconds, _ in MODELS]
    with open(arguments.out, 'w') as file:
        file.write(draw(curves))
    for (name, _, _, _), points in zip(MODELS, curves):
        print(name, ', '.join('%d: %.2f' % point for point in points))


if __name__ == '__main__':
    main()
