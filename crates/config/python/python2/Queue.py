"""Python 2's name for `queue`."""

from queue import *  # noqa: F401,F403
