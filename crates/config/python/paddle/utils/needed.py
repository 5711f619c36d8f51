"""Packages that these tools need and this program does not bring."""

import importlib
import sys


def needed(module, package):
    """Imports a module, or says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError('this tool needs %s: install it with `%s -m pip install %s`' % (
            package, sys.executable, package)) from None
