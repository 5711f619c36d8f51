"""What a layer function returns, and the steps that all layer functions share."""

from paddle.core.errors import ConfigError
from paddle.core.groups import SetMemoryInput
from paddle.core.inputs import Input
from paddle.core.layer import Layer
from paddle.core.message import whole

from .attrs import ExtraLayerAttribute, ParamAttr
from .default_decorators import supports

__all__ = ['LayerOutput', 'LayerType', 'AggregateLevel', 'ExpandLevel', 'layer_support']

ERROR_CLIPPING = 'error_clipping_threshold'
DROPOUT = 'drop_rate'
DEVICE = 'device'

layer_support = supports


class LayerType(object):
    """Layer types by name."""

    DATA = 'data'
    MIXED_LAYER = 'mixed'
    LSTMEMORY = 'lstmemory'
    GRUMEMORY = 'gated_recurrent'
    SEQUENCE_LAST_INSTANCE = 'seqlastins'
    SEQUENCE_FIRST_INSTANCE = 'seqfirstins'
    SEQUENCE_RESHAPE = 'seqreshape'
    POOLING_MAX = 'max'
    POOLING_AVG = 'average'
    FC_LAYER = 'fc'
    COST = 'cost'
    COSINE_SIM_VEC = 'cos_vm'
    COSINE_SIM = 'cos'
    HSIGMOID = 'hsigmoid'
    CONV_LAYER = 'conv'
    CONVTRANS_LAYER = 'convt'
    EXCONV_LAYER = 'exconv'
    EXCONVTRANS_LAYER = 'exconvt'
    CUDNNCONV_LAYER = 'cudnn_conv'
    POOL_LAYER = 'pool'
    BATCH_NORM_LAYER = 'batch_norm'
    NORM_LAYER = 'norm'
    SUM_TO_ONE_NORM_LAYER = 'sum_to_one_norm'
    ADDTO_LAYER = 'addto'
    CONCAT_LAYER = 'concat'
    CONCAT_PROJ_LAYER = 'concat2'
    SEQUENCE_CONCAT_LAYER = 'seqconcat'
    LSTM_STEP_LAYER = 'lstm_step'
    GRU_STEP_LAYER = 'gru_step'
    GET_OUTPUT_LAYER = 'get_output'
    EXPAND_LAYER = 'expand'
    INTERPOLATION_LAYER = 'interpolation'
    BILINEAR_INTERP_LAYER = 'bilinear_interp'
    POWER_LAYER = 'power'
    SCALING_LAYER = 'scaling'
    TRANS_LAYER = 'trans'
    ROTATE_LAYER = 'rotate'
    OUT_PROD_LAYER = 'out_prod'
    FEATURE_MAP_EXPAND_LAYER = 'featmap_expand'
    MEMORY = 'memory'
    MAXID_LAYER = 'maxid'
    EOSID_LAYER = 'eos_id'
    RECURRENT_LAYER = 'recurrent'
    CONV_SHIFT_LAYER = 'conv_shift'
    TENSOR_LAYER = 'tensor'
    SEL_FC_LAYER = 'selective_fc'
    SAMPLING_ID_LAYER = 'sampling_id'
    SLOPE_INTERCEPT_LAYER = 'slope_intercept'
    LINEAR_COMBINATION_LAYER = 'convex_comb'
    BLOCK_EXPAND = 'blockexpand'
    MAXOUT = 'maxout'
    SPP_LAYER = 'spp'
    PAD_LAYER = 'pad'
    PRINT_LAYER = 'print'
    PRIORBOX_LAYER = 'priorbox'
    CTC_LAYER = 'ctc'
    WARP_CTC_LAYER = 'warp_ctc'
    CRF_LAYER = 'crf'
    CRF_DECODING_LAYER = 'crf_decoding'
    NCE_LAYER = 'nce'
    RANK_COST = 'rank-cost'
    LAMBDA_COST = 'lambda_cost'
    HUBER = 'huber'
    CROSS_ENTROPY = 'multi-class-cross-entropy'
    CROSS_ENTROPY_WITH_SELFNORM = 'multi_class_cross_entropy_with_selfnorm'
    SOFT_BIN_CLASS_CROSS_ENTROPY = 'soft_binary_class_cross_entropy'
    MULTI_BIN_LABEL_CROSS_ENTROPY = 'multi_binary_label_cross_entropy'
    SUM_COST = 'sum_cost'

    @staticmethod
    def is_layer_type(type_name):
        """Whether there is such a type."""
        return any(value == type_name for key, value in vars(LayerType).items() if key.isupper())


class AggregateLevel(object):
    """What a sequence layer joins: time steps, or whole inner sequences."""

    EACH_TIMESTEP = 'non-seq'
    EACH_SEQUENCE = 'seq'


class ExpandLevel(object):
    """What `expand_layer` repeats: one vector, or a sequence of them."""

    FROM_TIMESTEP = AggregateLevel.EACH_TIMESTEP
    FROM_SEQUENCE = AggregateLevel.EACH_SEQUENCE


class LayerOutput(object):
    """A layer, as configuration files pass it around.

    `parents` are the layers it is made of, `num_filters` the channels if it is an image, `outputs` the names of all
    its results, `reverse` whether it runs from the end of a sequence.
    """

    def __init__(self, name, layer_type, parents=None, activation=None, num_filters=None, img_norm_type=None,
                 size=None, outputs=None, reverse=None):
        self.name = name
        self.layer_type = layer_type
        self.parents = [] if parents is None else list(parents) if isinstance(parents, (list, tuple)) else [parents]
        self.activation = activation
        self.num_filters = num_filters
        self.img_norm_type = img_norm_type
        self.size = size
        self.outputs = ['default'] if outputs is None else outputs
        self.reverse = reverse

    def __repr__(self):
        return "layer '%s' (%s, size %s)" % (self.name, self.layer_type, self.size)

    def set_input(self, input):
        """Says which layer this memory remembers."""
        if self.layer_type != LayerType.MEMORY:
            raise ConfigError("%r is not a memory" % self)
        SetMemoryInput(self.name, input.name)


def need_layer(value, argument, function):
    """Refuses anything but a layer."""
    if not isinstance(value, LayerOutput):
        raise ConfigError('%s: %s must be a layer, not %r' % (function, argument, value))
    return value


def layers_of(value, argument, function):
    """One layer or several, as a list."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return [need_layer(each, argument, function) for each in values]


def attributes_for(inputs, param_attr, function):
    """One parameter attribute per input: a list is taken as it is, a single one goes to all."""
    if isinstance(param_attr, (list, tuple)):
        if len(param_attr) != len(inputs):
            raise ConfigError('%s: %d parameter attributes for %d inputs'
                              % (function, len(param_attr), len(inputs)))
        return [ParamAttr() if each is None else each for each in param_attr]
    return [param_attr] * len(inputs)


def edge(source, param_attr=None, **shape):
    """An input of a layer, with the attributes of its parameter."""
    return Input(source.name, **dict(param_attr.attr if param_attr else {}, **shape))


def channels_of(source, num_channels, function):
    """The number of channels of an image: given, or that of the layer."""
    if num_channels is not None:
        if whole(num_channels, '%s: num_channels' % function) < 1:
            raise ConfigError('%s: num_channels is %d; an image has at least 1 channel' % (function, num_channels))
        return num_channels
    if source.num_filters is None:
        raise ConfigError('%s: how many channels has %r? give num_channels=' % (function, source))
    return source.num_filters


def add_layer(name, type, inputs, layer_attr=None, parents=None, size=None, output_type=None, activation=None,
              channels=None, outputs=None, reverse=None, img_norm_type=None, output_size=None, **arguments):
    """Adds a layer and returns it. `inputs` are layers or edges; by default the layers among them are the parents.

    `size` is the size in the record, `output_size` what the returned layer says, if that is something else.
    """
    if size is not None:
        arguments['size'] = size
    if activation is not None:
        arguments['active_type'] = activation.name
    arguments.update(ExtraLayerAttribute.to_kwargs(layer_attr))
    if parents is None:
        parents = [each for each in inputs if isinstance(each, LayerOutput)]
    edges = [Input(each.name) if isinstance(each, LayerOutput) else each for each in inputs]
    layer = Layer(name=name, type=type, inputs=edges, **arguments)
    return LayerOutput(name, output_type or type, parents, activation=activation, num_filters=channels,
                       img_norm_type=img_norm_type, size=layer.config.size if output_size is None else output_size,
                       outputs=outputs, reverse=reverse)
