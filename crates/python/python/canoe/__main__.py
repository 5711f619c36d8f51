"""`python -m canoe` is the command line."""

import os
import sys

from canoe._process import program

if __name__ == '__main__':
    path = program()
    os.execv(path, [path] + sys.argv[1:])
