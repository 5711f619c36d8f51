"""What v1 had besides its extension module."""

import struct

from py_paddle.errors import UnsupportError, numpy
from py_paddle.machine import GradientMachine
from py_paddle.swig_paddle import initPaddle

initializePaddle = initPaddle
loadGradientMachine = GradientMachine.loadFromConfigFile


def loadParameterFile(fn):
    """The values of a parameter file, given by name or open, as an array of NumPy's."""
    if not hasattr(fn, 'read'):
        with open(fn, 'rb') as file:
            return loadParameterFile(file)
    head = fn.read(16)
    version, width, count = struct.unpack('<iIQ', head) if len(head) == 16 else (None, 0, 0)
    if version != 0 or width not in (4, 8):
        raise UnsupportError('this is no parameter file: it begins with %r' % head)
    data = fn.read()
    if len(data) != width * count:
        raise UnsupportError('a parameter file of %d values has %d bytes of them' % (count, len(data)))
    return numpy().frombuffer(data, '<f4' if width == 4 else '<f8').copy()
