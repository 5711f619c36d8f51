"""Python 2's name for `pickle`."""

from pickle import *  # noqa: F401,F403
