"""Layers that pool, pick from, expand or join sequences, and costs of whole sequences."""

from paddle.core.errors import ConfigError
from paddle.core.log import logger

from .activations import LinearActivation
from .attrs import ParamAttr
from .default_decorators import defaults, wrap_param_default
from .output import AggregateLevel, ExpandLevel, LayerType, add_layer, edge, layers_of, need_layer, supports
from .poolings import AvgPooling, MaxPooling

__all__ = ['pooling_layer', 'last_seq', 'first_seq', 'expand_layer', 'repeat_layer', 'seq_reshape_layer',
           'seq_concat_layer', 'maxid_layer', 'eos_layer', 'crf_layer', 'crf_decoding_layer', 'ctc_layer',
           'warp_ctc_layer']


@defaults('seq_pooling', bias=False)
@wrap_param_default(['pooling_type'], lambda _: MaxPooling())
@supports()
def pooling_layer(input, pooling_type=None, name=None, bias_attr=None, agg_level=AggregateLevel.EACH_TIMESTEP,
                  layer_attr=None):
    """One vector for each sequence.

    pooling_type: `MaxPooling()` (default), `AvgPooling()`, `SumPooling()` or `SquareRootNPooling()`.
    """
    how = {}
    if isinstance(pooling_type, AvgPooling):
        how['average_strategy'] = pooling_type.strategy
    elif getattr(pooling_type, 'output_max_index', None) is not None:
        how['output_max_index'] = pooling_type.output_max_index
    return add_layer(name, pooling_type.name, [need_layer(input, 'input', 'pooling_layer')], layer_attr,
                     bias=ParamAttr.to_bias(bias_attr), trans_type=agg_level, **how)


@defaults(None)
@supports()
def last_seq(input, name=None, agg_level=AggregateLevel.EACH_TIMESTEP, stride=-1, layer_attr=None):
    """The last position of each sequence.

    stride: pick the last of every so many positions instead; -1 takes the whole sequence.
    """
    if input.reverse:
        logger.warning('last_seq: %r runs backwards, so its last position has seen only one word; '
                       'first_seq is probably meant', input)
    return _picked(LayerType.SEQUENCE_LAST_INSTANCE, input, name, agg_level, stride, layer_attr)


@defaults(None)
@supports()
def first_seq(input, name=None, agg_level=AggregateLevel.EACH_TIMESTEP, stride=-1, layer_attr=None):
    """The first position of each sequence.

    stride: pick the first of every so many positions instead; -1 takes the whole sequence.
    """
    if input.reverse is False:
        logger.warning('first_seq: %r runs forwards, so its first position has seen only one word; '
                       'last_seq is probably meant', input)
    return _picked(LayerType.SEQUENCE_FIRST_INSTANCE, input, name, agg_level, stride, layer_attr)


def _picked(type, input, name, agg_level, stride, layer_attr):
    return add_layer(name, type, [input], layer_attr, trans_type=agg_level, stride=stride)


@defaults(None)
@supports()
def expand_layer(input, expand_as, name=None, bias_attr=False, expand_level=ExpandLevel.FROM_TIMESTEP,
                 layer_attr=None):
    """Each vector (or sequence) repeated until it is as long as the sequence of `expand_as`.

    expand_as: the layer whose lengths are taken.
    expand_level: `ExpandLevel.FROM_TIMESTEP` repeats one vector per sequence, `ExpandLevel.FROM_SEQUENCE` one vector
        per inner sequence.
    """
    return add_layer(name, LayerType.EXPAND_LAYER, layers_of([input, expand_as], 'input', 'expand_layer'),
                     layer_attr, bias=ParamAttr.to_bias(bias_attr), trans_type=expand_level)


@defaults(None)
@supports()
def repeat_layer(input, num_repeats, name=None, layer_attr=None):
    """The vector `num_repeats` times, one copy after the other.

    num_repeats: number of copies.
    """
    return add_layer(name, LayerType.FEATURE_MAP_EXPAND_LAYER, [need_layer(input, 'input', 'repeat_layer')],
                     layer_attr, num_filters=num_repeats)


@defaults('seqreshape', act=LinearActivation(), bias=False)
@supports()
def seq_reshape_layer(input, reshape_size, act=None, name=None, layer_attr=None, bias_attr=None):
    """The same values of a sequence in vectors of another size.

    reshape_size: width of the new vectors.
    act: accepted, but not applied, as in v1.
    """
    return add_layer(name, LayerType.SEQUENCE_RESHAPE, [need_layer(input, 'input', 'seq_reshape_layer')], layer_attr,
                     size=reshape_size, bias=ParamAttr.to_bias(bias_attr))


@defaults('seqconcat', act=LinearActivation(), bias=False)
@supports()
def seq_concat_layer(a, b, act=None, name=None, layer_attr=None, bias_attr=None):
    """Sequence b after sequence a.

    a, b: two sequences of the same width.
    """
    layers_of([a, b], 'a and b', 'seq_concat_layer')
    return add_layer(name, LayerType.SEQUENCE_CONCAT_LAYER, [a, b], layer_attr, activation=act,
                     bias=ParamAttr.to_bias(bias_attr))


@defaults(None)
def maxid_layer(input, name=None, layer_attr=None):
    """The id of the largest value."""
    return add_layer(name, LayerType.MAXID_LAYER, [need_layer(input, 'input', 'maxid_layer')], layer_attr)


@defaults(None)
def eos_layer(input, eos_id, name=None, layer_attr=None):
    """1 for the id that ends a sequence, 0 for all others.

    eos_id: that id.
    """
    return add_layer(name, LayerType.EOSID_LAYER, [need_layer(input, 'input', 'eos_layer')], layer_attr,
                     eos_id=eos_id)


@defaults(None, weight=True)
@supports()
def crf_layer(input, label, size=None, weight=None, param_attr=None, name=None, layer_attr=None):
    """The cost of a sequence of labels in a linear-chain conditional random field.

    input: one score per label and position.
    label: the sequence of labels.
    size: number of labels; by default the size of the input.
    weight: a layer of size 1 with the weight of each sequence.
    param_attr: the `ParamAttr` of the transitions; give it a name to share it with `crf_decoding_layer`.
    """
    parents = layers_of([input, label] + ([] if weight is None else [weight]), 'input and label', 'crf_layer')
    if input.size != label.size or size not in (None, input.size):
        raise ConfigError("crf_layer '%s': input, label and size must agree, but are %s, %s and %s"
                          % (name, input.size, label.size, size))
    return add_layer(name, LayerType.CRF_LAYER, [edge(input, param_attr)] + parents[1:], layer_attr, parents=parents,
                     size=input.size, output_size=1)


@defaults(None, weight=True)
@supports()
def crf_decoding_layer(input, size, label=None, param_attr=None, name=None, layer_attr=None):
    """The most likely sequence of labels; with `label`, 1 for each position that is wrong.

    input: one score per label and position.
    size: number of labels.
    label: the true labels, for an evaluator.
    param_attr: the `ParamAttr` of the transitions, with the same name as in `crf_layer`.
    """
    parents = layers_of([input] + ([] if label is None else [label]), 'input and label', 'crf_decoding_layer')
    return add_layer(name, LayerType.CRF_DECODING_LAYER, [edge(input, param_attr)] + parents[1:], layer_attr,
                     parents=parents, size=size, output_size=1)


def _alphabet(function, name, label, size):
    """The labels and the blank."""
    if label.size is None:
        return size
    if size not in (None, label.size + 1):
        raise ConfigError("%s '%s': size must be the number of labels and one for the blank, %d, not %s"
                          % (function, name, label.size + 1, size))
    return label.size + 1


@defaults(None)
@supports()
def ctc_layer(input, label, size=None, name=None, norm_by_times=False, layer_attr=None):
    """The cost of a sequence of labels that is not aligned with the input (connectionist temporal classification). The
    blank is the last class.

    input: the probabilities of all classes at every position.
    size: number of labels plus one.
    norm_by_times: divide the gradient by the length of the input.
    """
    layers_of([input, label], 'input and label', 'ctc_layer')
    return add_layer(name, LayerType.CTC_LAYER, [input, label], layer_attr,
                     size=_alphabet('ctc_layer', name, label, size), norm_by_times=norm_by_times)


@defaults(None)
@supports()
def warp_ctc_layer(input, label, size=None, name=None, blank=0, norm_by_times=False, layer_attr=None):
    """As `ctc_layer`, over values before the softmax.

    input: the values of all classes at every position, without softmax.
    size: number of labels plus one.
    blank: the class that is the blank.
    norm_by_times: divide the gradient by the length of the input.
    """
    layers_of([input, label], 'input and label', 'warp_ctc_layer')
    return add_layer(name, LayerType.WARP_CTC_LAYER, [input, label], layer_attr,
                     size=_alphabet('warp_ctc_layer', name, label, size), blank=blank, norm_by_times=norm_by_times)
