"""The raw vocabulary under another path that old files import it from."""

from paddle.trainer.config_parser import *  # noqa: F401,F403
