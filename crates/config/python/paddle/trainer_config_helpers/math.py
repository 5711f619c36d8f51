"""Release 0.9's name for `layer_math`."""

from .layer_math import *  # noqa: F401,F403
