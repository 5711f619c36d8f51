"""All layer functions, by family in the modules beside this one."""

from . import basic_layers, cost_layers, image_layers, output, projections, recurrent_layers, sequence_layers
from .basic_layers import *
from .cost_layers import *
from .image_layers import *
from .output import *
from .projections import *
from .recurrent_layers import *
from .sequence_layers import *

__all__ = [name for module in (basic_layers, cost_layers, image_layers, output, projections, recurrent_layers,
                               sequence_layers) for name in module.__all__]
