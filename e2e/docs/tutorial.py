#!/usr/bin/env python3
"""Follows docs/tutorial.md from an empty directory: writes the files that it shows and runs the commands unchanged.

At the end the files must be those of examples/tutorial, which is what a reader gets without typing.
"""
import argparse
import sys
import tempfile

sys.dont_write_bytecode = True
from blocks import ROOT, Shell, blocks

EXAMPLE = ROOT / 'examples/tutorial'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--canoe', required=True, help='the program')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='canoe-tutorial-') as directory:
        shell = Shell(options.canoe, directory)
        found = blocks(ROOT / 'docs/tutorial.md')
        for block in found:
            shell.follow(block)
        compare({block.note: block.text for block in found if block.note and block.language != 'sh'})
    print('the tutorial runs, and its files are those of examples/tutorial')


def compare(written):
    """The files of the tutorial against those of the example."""
    kept = {str(path.relative_to(EXAMPLE)): path.read_text(encoding='utf-8')
            for path in EXAMPLE.rglob('*') if path.suffix in ('.py', '.yaml')}
    for name in sorted(kept.keys() | written.keys()):
        if kept.get(name) != written.get(name):
            sys.exit('docs/tutorial.md and examples/tutorial differ in %s' % name)


if __name__ == '__main__':
    main()
