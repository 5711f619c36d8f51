"""Python 2's name for `pickle`. Text that Python 2 wrote comes back with one character a byte, as it was there."""

import pickle
from pickle import *  # noqa: F401,F403


def load(file, encoding='latin-1', **options):
    """Reads one object from a file."""
    return pickle.load(file, encoding=encoding, **options)


def loads(data, encoding='latin-1', **options):
    """Reads one object from bytes, or from text of protocol 0."""
    return pickle.loads(data.encode('latin-1') if isinstance(data, str) else data, encoding=encoding, **options)
