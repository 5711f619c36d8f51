"""The functions that configuration files call: `from paddle.trainer_config_helpers import *`."""

from .activations import *
from .attrs import *
from .config_parser_utils import *
from .data_sources import *
from .evaluators import *
from .layers import *
from .networks import *
from .optimizers import *
from .poolings import *
from . import layer_math  # arithmetic on layers

try:
    from .native_readers import *
except ImportError as missing:
    if not (missing.name or '').endswith('native_readers'):
        raise
