"""Python 2's name for `builtins`."""

from builtins import *  # noqa: F401,F403
