"""The process that computes: `canoe python-worker`, one per Python program, over its standard input and output.

A message, both ways, is one line of JSON in UTF-8, then the arrays that its `arrays` lists, one after another without
gaps: `[{"type": "f32" | "i32", "count": n}, ...]`, little-endian. Arrays are named by their position in that list.
Every request gets one reply, in order. A reply with `error` (text for the user) means that nothing happened; the
process continues. It ends when its standard input ends. Requests, by `call`:

- `init`: `flags` (what `initPaddle` was given, such as `--use_gpu=0`). Reply: nothing.
- `create`: `config`, a `ModelConfig` as JSON (fields as in `canoe config dump --output json`). Reply: `machine`, a
  number; `inputs` and `outputs`, names of layers; `parameters`, a list of `{"name", "size"}`.
- `load`: `machine`, `directory` (a pass directory). `randomize`: `machine`. Replies: nothing.
- `forward`: `machine`, `train` (whether dropout is on), `slots`, one per input layer, in order. A slot has `kind`:
  `dense` (`dim`, `values`: rows * dim f32), `ids` (`ids`: i32), `sparse` (`dim`, `starts`: rows + 1 i32, `columns`:
  i32, and `values`: f32 unless all are 1); each may have `sequences` and `subsequences` (i32 offsets into the rows,
  the first 0, the last the number of rows). Reply: `outputs`, one per output layer.
- `layers`: `machine`, `names`. Reply: `outputs`, of the last `forward`. An output has `name` and what there is of
  `value` (with `dim`), `ids`, `sequences`, `subsequences`.
- `parameter`: `machine`, `name`. Reply: `values`. `set_parameter`: `machine`, `name`, `values`. Reply: nothing.
- `drop`: `machine`. Reply: nothing.

The program is that of the environment's CANOE, the one that was installed with this interpreter, or `canoe` on the
search path.
"""

import json
import os
import subprocess
import sys
import sysconfig
from array import array

from py_paddle.errors import UnsupportError

TYPES = {'f': 'f32', 'i': 'i32'}
LETTERS = {name: letter for letter, name in TYPES.items()}


class Message(object):
    """A header under construction, with its arrays."""

    def __init__(self, **header):
        self.header = header
        self.arrays = []

    def place(self, values):
        """Adds an array and returns its position; None stays None."""
        if values is None:
            return None
        self.arrays.append(values)
        return len(self.arrays) - 1

    def write(self, out):
        """Sends the line and the arrays."""
        listed = [{'type': TYPES[each.typecode], 'count': len(each)} for each in self.arrays]
        out.write(json.dumps(dict(self.header, arrays=listed)).encode('utf-8') + b'\n')
        for each in self.arrays:
            out.write(little(each).tobytes())
        out.flush()


def little(values):
    """The values with little-endian bytes."""
    if sys.byteorder == 'little':
        return values
    values = array(values.typecode, values)
    values.byteswap()
    return values


def read(source):
    """The header of the next message, its `arrays` read; None at the end."""
    line = source.readline()
    if not line:
        return None
    header = json.loads(line.decode('utf-8'))
    arrays = []
    for each in header.get('arrays', ()):
        values = array(LETTERS[each['type']])
        data = source.read(4 * each['count'])
        if len(data) != 4 * each['count']:
            return None
        values.frombytes(data)
        arrays.append(little(values))
    header['arrays'] = arrays
    return header


def installed():
    """The program that pip installed for this interpreter; None if there is none."""
    path = os.path.join(sysconfig.get_path('scripts'), 'canoe')
    return path if os.access(path, os.X_OK) else None


class Worker(object):
    """One process; asks and waits."""

    def __init__(self, program=None):
        program = program or os.environ.get('CANOE') or installed() or 'canoe'
        try:
            self.process = subprocess.Popen([program, 'python-worker'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise UnsupportError('start %s, which computes for py_paddle: %s; put it on PATH or its path into CANOE'
                                 % (program, error.strerror)) from None

    def ask(self, message):
        """The reply to a message."""
        try:
            message.write(self.process.stdin)
            reply = read(self.process.stdout)
        except BrokenPipeError:
            reply = None
        if reply is None:
            raise UnsupportError('canoe python-worker ended with exit code %s; its last words are above'
                                 % self.process.wait())
        if 'error' in reply:
            raise UnsupportError(reply['error'])
        return reply


_worker = []


def worker():
    """The process of this program, started when it is first needed."""
    if not _worker:
        _worker.append(Worker())
    return _worker[0]
