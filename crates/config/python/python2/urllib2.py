"""Python 2's name for `urllib.request`."""

from urllib.request import *  # noqa: F401,F403
