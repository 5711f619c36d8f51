"""Python 2's name for `configparser`."""

from configparser import *  # noqa: F401,F403
