"""Edges into a layer: plain inputs, projections and operators of mixed layers, and the shapes they carry.

The classes keep v1's names and argument names, because raw configuration files construct them.
"""

from paddle.core import geometry
from paddle.core.errors import check
from paddle.core.job import job
from paddle.core.message import Message

# Fields of a parameter that an edge or a bias can set.
PARAMETER_ATTRIBUTES = (
    'parameter_name', 'learning_rate', 'momentum', 'decay_rate', 'decay_rate_l1', 'initial_mean', 'initial_std',
    'initial_strategy', 'initial_smart', 'num_batches_regularization', 'sparse_remote_update', 'sparse_update',
    'gradient_clipping_threshold', 'is_static', 'is_shared', 'update_hooks')


class _Attributes(object):
    """Keyword arguments as attributes: absent ones are None, unknown ones are refused."""

    allowed = ()

    def __init__(self, **values):
        for name in self.allowed:
            setattr(self, name, values.pop(name, None))
        if values:
            raise TypeError('%s() got an unexpected argument %r' % (type(self).__name__, sorted(values)[0]))


class Bias(_Attributes):
    """The parameter that a layer adds to its output."""

    allowed = PARAMETER_ATTRIBUTES

    def __init__(self, parameter_name=None, **values):
        _Attributes.__init__(self, parameter_name=parameter_name, **values)


class Input(_Attributes):
    """One input of a layer, with its parameter and its shape."""

    allowed = PARAMETER_ATTRIBUTES + (
        'conv', 'bilinear_interp', 'norm', 'pool', 'image', 'block_expand', 'maxout', 'spp', 'pad', 'format', 'nnz',
        'input_layer_argument')

    def __init__(self, input_layer_name, parameter_name=None, make_layer_name_in_submodel=True, **values):
        _Attributes.__init__(self, parameter_name=parameter_name, **values)
        inner = make_layer_name_in_submodel
        self.input_layer_name = job().inner_name(input_layer_name) if inner else input_layer_name

    def copy(self):
        """The same edge, so that one layer's choice of a parameter name does not leak into another."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin


class Projection(Input):
    """An input of a mixed layer that is transformed and then summed."""

    type = None
    allowed = Input.allowed + ('size', 'ptype')

    def __init__(self, input_layer_name, size=0, **values):
        Input.__init__(self, input_layer_name, size=size, **values)
        self.proj_conf = Message('ProjectionConfig', type=self.ptype or self.type)

    def copy(self):
        twin = Input.copy(self)
        twin.proj_conf = self.proj_conf.copy()
        return twin

    def output_size(self, input_size):
        """The size of the result, 0 when the layer decides."""
        return self.size

    def parameter(self, input_size, output_size):
        """Size and dimensions of the parameter; size 0 when there is none."""
        return 0, []


class IdentityProjection(Projection):
    """The input as it is."""

    type = 'identity'

    def output_size(self, input_size):
        return input_size


class IdentityOffsetProjection(Projection):
    """A window of the input, from `offset` on, as wide as the layer."""

    type = 'identity_offset'

    def __init__(self, input_layer_name, offset, **values):
        Projection.__init__(self, input_layer_name, **values)
        self.proj_conf.offset = offset


class DotMulProjection(Projection):
    """Each element times its own weight."""

    type = 'dot_mul'

    def output_size(self, input_size):
        return input_size

    def parameter(self, input_size, output_size):
        return output_size, [1, output_size]


class ScalingProjection(Projection):
    """Every element times one weight."""

    type = 'scaling'

    def output_size(self, input_size):
        return input_size

    def parameter(self, input_size, output_size):
        return 1, [1, 1]


class TableProjection(Projection):
    """Row lookup by id."""

    type = 'table'

    def parameter(self, input_size, output_size):
        return input_size * output_size, [input_size, output_size]


class FullMatrixProjection(TableProjection):
    """Product with a matrix."""

    type = 'fc'


class TransposedFullMatrixProjection(Projection):
    """Product with the transpose of a matrix."""

    type = 'trans_fc'

    def parameter(self, input_size, output_size):
        return input_size * output_size, [output_size, input_size]


class ContextProjection(Projection):
    """Each position together with its neighbours."""

    type = 'context'

    def __init__(self, input_layer_name, context_start, context_length, trainable_padding, **values):
        Projection.__init__(self, input_layer_name, **values)
        conf = self.proj_conf
        conf.context_start = context_start
        conf.context_length = context_length
        conf.trainable_padding = trainable_padding
        self.padding = max(0, -conf.context_start) + max(0, conf.context_start + conf.context_length - 1)

    def output_size(self, input_size):
        return input_size * self.proj_conf.context_length

    def parameter(self, input_size, output_size):
        rows = self.padding if self.proj_conf.trainable_padding else 0
        return input_size * rows, [self.padding, input_size]


class ConvProjection(Projection):
    """Convolution of an image with trained filters."""

    type = 'conv'
    transposed = False

    def __init__(self, input_layer_name, num_filters=None, conv_conf=None, **values):
        Projection.__init__(self, input_layer_name, **values)
        conf = self.proj_conf
        if num_filters is not None:
            conf.num_filters = num_filters
        conf.output_size = geometry.convolution(conv_conf, self.input_layer_name, conf.conv_conf, num_filters,
                                                self.transposed)

    def output_size(self, input_size):
        return self.proj_conf.output_size

    def parameter(self, input_size, output_size):
        conv = self.proj_conf.conv_conf
        area = conv.filter_size * conv.filter_size_y
        return self.proj_conf.num_filters * conv.channels * area // conv.groups, []

    def bias_size(self):
        """A bias is shared by all positions of a filter."""
        return self.proj_conf.num_filters


class ConvTransProjection(ConvProjection):
    """Transposed convolution."""

    type = 'convt'
    transposed = True


class Operator(object):
    """A function of several inputs of a mixed layer, without a parameter."""

    type = None

    def __init__(self, input_layer_names):
        self.input_layer_names = input_layer_names
        self.operator_conf = Message('OperatorConfig', type=self.type)

    def copy(self):
        """The same operator with its own record."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.operator_conf = self.operator_conf.copy()
        return twin

    def output_size(self, input_sizes):
        """The size of the result, 0 when the layer decides."""
        return 0

    def check_sizes(self):
        """Refuses inputs that do not fit the layer."""


class DotMulOperator(Operator):
    """Element-wise product of two inputs."""

    type = 'dot_mul'

    def __init__(self, input_layer_names, scale=None):
        Operator.__init__(self, input_layer_names)
        check(len(input_layer_names) == 2, 'the dot_mul operator takes two inputs')
        if scale is not None:
            self.operator_conf.dotmul_scale = scale

    def output_size(self, input_sizes):
        return input_sizes[0]

    def check_sizes(self):
        conf = self.operator_conf
        check(all(size == conf.output_size for size in conf.input_sizes),
              'the dot_mul operator needs inputs of size %s, not %s', conf.output_size, conf.input_sizes)


class ConvOperator(Operator):
    """Convolution of one input with the other one as filters."""

    type = 'conv'
    transposed = False

    def __init__(self, input_layer_names, num_filters=None, conv_conf=None):
        Operator.__init__(self, input_layer_names)
        check(len(input_layer_names) == 2, 'the conv operator takes an image and its filters')
        conf = self.operator_conf
        if num_filters is not None:
            conf.num_filters = num_filters
        conf.output_size = geometry.convolution(conv_conf, job().inner_name(input_layer_names[0]), conf.conv_conf,
                                                num_filters, self.transposed)

    def output_size(self, input_sizes):
        return self.operator_conf.output_size


class ConvTransOperator(ConvOperator):
    """Transposed convolution with the other input as filters."""

    type = 'convt'
    transposed = True
