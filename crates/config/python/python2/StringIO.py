"""Python 2's name for `io`."""

from io import *  # noqa: F401,F403
