"""One layer under construction: what all layer types have in common.

`Layer(name, type, ...)` creates the record, connects the inputs, and calls the function that `kinds`
registered for the type, which adds sizes, parameters and fields.
"""

from paddle.core.errors import ConfigError, check
from paddle.core.inputs import Bias, Input, Operator
from paddle.core.job import job
from paddle.core.message import whole
from paddle.core.places import here

KINDS = {}


def kind(*types, **common):
    """Registers the decorated function as the one that completes layers of the given `types`.

    The function gets the layer and the keyword arguments that the common part does not know. `common` overrides
    defaults of the common part, such as `active_type`.
    """
    def register(function):
        for each in types:
            KINDS[each] = (function, common)
        return function
    return register


class LayerBuilder(object):
    """The record of a layer (`config`), its edges (`inputs`) and the methods that complete it."""

    extra = ()

    def __init__(self, name, type, inputs=None, size=0, active_type='', drop_rate=0.0, device=None, coeff=None,
                 error_clipping_threshold=None):
        check('@' not in name, "layer name '%s' contains '@', which marks recurrent groups", name)
        self.job = job()
        self.base_name = name
        name = self.job.inner_name(name)
        check(name not in self.job.layers, "layer name '%s' is used twice", name)
        config = self.config = self.job.model.add('layers', name=name, type=type, active_type=active_type)
        if size:
            check(whole(size, 'LayerConfig.size') >= 0, "layer '%s' has size %d: the size of a layer must be positive", name, size)
            config.size = size
        for field, value in (('coeff', coeff), ('drop_rate', drop_rate or None),
                             ('device', self.job.defaults.device if device is None else device),
                             ('error_clipping_threshold', error_clipping_threshold)):
            if value is not None:
                setattr(config, field, value)
        self.operators = []
        self.inputs = []
        for each in listed(inputs):
            self._connect(each)
        self.job.layers[name] = config
        self.job.places[name] = here()
        self.job.current.layer_names.append(name)
        self._inherit_image_shape()

    def _connect(self, given):
        index = len(self.inputs)
        if isinstance(given, str):
            edge = Input(given)
        elif isinstance(given, Input):
            edge = given.copy()
        elif isinstance(given, Operator):
            operator = given.copy()
            operator.operator_conf.input_indices.append(index)
            self.operators.append(operator)
            edge = Input(operator.input_layer_names[0])
        else:
            raise ConfigError("layer '%s': input %d is %r; a layer's name, Input, projection or operator is needed"
                              % (self.config.name, index, given))
        if edge.parameter_name is None:
            edge.parameter_name = '_%s.w%d' % (self.config.name, index)
        self.add_edge(edge)

    def add_edge(self, edge):
        """Adds one more input."""
        self.job.layer(edge.input_layer_name, "layer '%s'" % self.config.name)
        self.inputs.append(edge)
        record = self.config.add('inputs', input_layer_name=edge.input_layer_name)
        if edge.input_layer_argument is not None:
            record.input_layer_argument = edge.input_layer_argument

    def _inherit_image_shape(self):
        if self.config.type == 'data' or not self.job.pass_image_shape or not self.inputs:
            return
        first = self.input(0)
        if first.height and first.width:
            self.image_shape(first.height, first.width)

    # Inputs.

    def input(self, index):
        """The record of the layer that an input reads."""
        return self.job.layers[self.config.inputs[index].input_layer_name]

    def input_sizes(self):
        """The sizes of all inputs."""
        return [self.input(index).size for index in range(len(self.inputs))]

    def need_inputs(self, least, most=None):
        """Refuses any other number of inputs."""
        most = least if most is None else most
        check(least <= len(self.inputs) <= most, "%s layer '%s' takes %s input%s, not %d", self.config.type,
              self.config.name, least if least == most else '%d to %d' % (least, most), '' if most == 1 else 's',
              len(self.inputs))

    # Sizes.

    @property
    def size(self):
        """The size of the layer so far."""
        return self.config.size

    def set_size(self, size):
        """Sets the size, or checks that it is the one already known."""
        if self.config.size == 0:
            self.config.size = size
        else:
            check(self.config.size == size, "layer '%s' would have size %s by one input and %s by another",
                  self.config.name, self.config.size, size)

    def image_shape(self, height, width):
        """Records that the output is an image."""
        self.config.height = height
        self.config.width = width

    def set_image(self, height, width, channels):
        """Records the shape of the output image, and the size that follows from it."""
        self.set_size(height * width * channels)
        self.image_shape(height, width)

    # Parameters.

    def _device(self):
        return self.config.device if self.config.HasField('device') else None

    def weight(self, index, dims, size=None, sparse=None, format=None):
        """Creates the parameter of an input, or shares the one of the same name. Size 0: none."""
        if size is None:
            size = 1
            for each in dims:
                size *= each
        if size == 0:
            return
        edge = self.inputs[index]
        name = edge.parameter_name
        self.config.inputs[index].input_parameter_name = name
        if name in self.job.parameters:
            shared = self.job.parameters[name]
            check((size, list(dims)) == (shared.size, shared.dims),
                  "layer '%s' cannot share parameter '%s': it has shape %s (%d values), %s (%d values) is needed",
                  self.config.name, name, shared.dims, shared.size, list(dims), size)
            return
        self.job.parameter(name, size, dims, self._device(), edge, sparse, format)

    def bias(self, bias, size, dims=None):
        """Creates or shares the bias that `bias` (True, False or a Bias) asks for."""
        name = self.loose_bias(bias, size, dims)
        if name is not None:
            self.config.bias_parameter_name = name

    def loose_bias(self, bias, size, dims=None):
        """Like `bias`, but the caller stores the name."""
        if bias is False or size == 0:
            return None
        bias = Bias() if bias is True else bias
        if not isinstance(bias, Bias):
            raise ConfigError("layer '%s': bias is %r; True, False or Bias(...) is needed"
                              % (self.config.name, bias))
        name = bias.parameter_name or '_%s.wbias' % self.config.name
        if name not in self.job.parameters:
            self.job.parameter(name, size, dims or [1, size], self._device(), bias)
        return name


def listed(inputs):
    """The inputs as a new list."""
    if inputs is None:
        return []
    return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]


COMMON = ('inputs', 'size', 'active_type', 'drop_rate', 'device', 'coeff', 'error_clipping_threshold')


def Layer(name, type, **arguments):
    """Adds a layer of the given type to the job; returns it with its record as `.config`."""
    if type not in KINDS:
        raise ConfigError("layer '%s': there is no layer type '%s'" % (name, type))
    function, common = KINDS[type]
    chosen = dict(common)
    builder = chosen.pop('builder', LayerBuilder)
    for argument in COMMON + builder.extra:
        if argument in arguments:
            chosen[argument] = arguments.pop(argument)
    layer = builder(name, type, **chosen)
    function(layer, **arguments)
    return layer
