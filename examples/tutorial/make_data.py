"""Writes the data of the tutorial: readings of river gauges. The same seed gives the same files.

One line per day and gauge:  label<TAB>gauge<TAB>eight readings in metres, the newest last
The label says what the water is like on the next day: 0 too low, 1 good, 2 too high. A gauge has its own limits.
"""
import os
import random

GAUGES = 20
READINGS = 8


def sample(draw, limits):
    gauge = draw.randrange(GAUGES)
    low, high = limits[gauge]
    level = draw.uniform(low - 1, high + 1)
    slope = draw.gauss(0, 0.15)
    readings = [level + slope * (hour - READINGS + 1) + draw.gauss(0, 0.03) for hour in range(READINGS)]
    tomorrow = level + slope * 3
    label = 0 if tomorrow < low else 2 if tomorrow > high else 1
    return '%d\t%d\t%s\n' % (label, gauge, ' '.join('%.3f' % each for each in readings))


def main():
    draw = random.Random(7)
    limits = []
    for _ in range(GAUGES):
        low = draw.uniform(0.5, 3)
        limits.append((low, low + draw.uniform(1, 2)))
    os.makedirs('data', exist_ok=True)
    for name, lines in (('train', 6000), ('test', 1000)):
        with open('data/%s.txt' % name, 'w') as out:
            out.writelines(sample(draw, limits) for _ in range(lines))
        with open('data/%s.list' % name, 'w') as out:
            out.write('data/%s.txt\n' % name)


main()
