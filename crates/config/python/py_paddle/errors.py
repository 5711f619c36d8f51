"""Exceptions with v1's names."""


class UnsupportError(RuntimeError):
    """Something that this object or this program does not do."""


class RangeError(IndexError):
    """A position outside an object."""


def training(name):
    """What is said to those who want to train."""
    return UnsupportError('%s: py_paddle only applies models here. Train with `canoe train --config=...`, then read the '
                          'pass directory with loadParameters' % name)


def numpy():
    """NumPy, which results are handed over in."""
    try:
        import numpy as found
    except ImportError:
        import sys
        raise ImportError('py_paddle hands matrices over as NumPy arrays: install numpy for %s'
                          % sys.executable) from None
    return found
