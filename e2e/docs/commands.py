#!/usr/bin/env python3
"""Runs the shell blocks of README.md and of the guides that need nothing but this machine, each file in a fresh directory.

Blocks that need more say so after the fence; blocks.py lists the words.
"""
import argparse
import sys
import tempfile

sys.dont_write_bytecode = True
from blocks import ROOT, Shell, blocks


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--canoe', required=True, help='the program')
    parser.add_argument('files', nargs='*', help='Markdown files; by default README.md and docs/*.md')
    options = parser.parse_args()
    files = [ROOT / each for each in options.files]
    files = files or [ROOT / 'README.md'] + [each for each in sorted(ROOT.glob('docs/*.md')) if each.stem != 'tutorial']
    ran = 0
    for path in files:
        with tempfile.TemporaryDirectory(prefix='canoe-docs-') as directory:
            shell = Shell(options.canoe, directory)
            ran += sum(shell.follow(block) for block in blocks(path))
    if ran == 0:
        sys.exit('no block was run')
    print('%d blocks ran' % ran)


if __name__ == '__main__':
    main()
