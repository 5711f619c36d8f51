"""Networks that are used so often that they have a name, and the ends of the whole network."""

from paddle.core.errors import ConfigError
from paddle.core.log import logger
from paddle.trainer.config_parser import HasInputsSet, Inputs, Outputs

from .activations import (IdentityActivation, LinearActivation, ReluActivation, SequenceSoftmaxActivation,
                          SoftmaxActivation, TanhActivation)
from .attrs import ExtraAttr
from .default_decorators import defaults
from .layers import *
from .output import layers_of
from .poolings import MaxPooling, SumPooling

__all__ = ['sequence_conv_pool', 'text_conv_pool', 'simple_lstm', 'lstmemory_unit', 'lstmemory_group',
           'bidirectional_lstm', 'gru_unit', 'gru_group', 'simple_gru', 'simple_gru2', 'bidirectional_gru',
           'simple_attention', 'simple_img_conv_pool', 'img_conv_bn_pool', 'img_conv_group', 'small_vgg',
           'vgg_16_network', 'dropout_layer', 'inputs', 'outputs']


# Text.

@defaults('sequence_conv_pooling')
def sequence_conv_pool(input, context_len, hidden_size, name=None, context_start=None, pool_type=None,
                       context_proj_layer_name=None, context_proj_param_attr=False, fc_layer_name=None,
                       fc_param_attr=None, fc_bias_attr=None, fc_act=None, pool_bias_attr=None, fc_attr=None,
                       context_attr=None, pool_attr=None):
    """A convolution over the words of a text, then pooling. `text_conv_pool` is another name for it.

    input: a sequence.
    context_len: number of neighbouring words that are joined.
    hidden_size: width of the convolution's output.
    context_start: position of the first joined word, relative to the current one; by default they are centred.
    pool_type: the pooling; by default `MaxPooling()`.
    context_proj_layer_name, fc_layer_name: names of the inner layers.
    context_proj_param_attr: a `ParamAttr` trains the values outside the sequence; False makes them zero.
    fc_param_attr, fc_bias_attr, fc_act: `ParamAttr` of weight and bias, and activation, of the fully connected layer.
    pool_bias_attr: the `ParamAttr` of a bias of the pooling; by default it has none.
    fc_attr, context_attr, pool_attr: the `ExtraAttr` of the three layers.
    """
    with mixed_layer(name=context_proj_layer_name or '%s_conv_proj' % name, size=input.size * context_len,
                     act=LinearActivation(), layer_attr=context_attr) as context:
        context += context_projection(input, context_len=context_len, context_start=context_start,
                                      padding_attr=context_proj_param_attr)
    hidden = fc_layer(name=fc_layer_name or '%s_conv_fc' % name, input=context, size=hidden_size, act=fc_act,
                      layer_attr=fc_attr, param_attr=fc_param_attr, bias_attr=fc_bias_attr)
    return pooling_layer(name=name, input=hidden, pooling_type=pool_type, bias_attr=pool_bias_attr,
                         layer_attr=pool_attr)


text_conv_pool = sequence_conv_pool


# Recurrent networks.

@defaults('lstm')
def simple_lstm(input, size, name=None, reverse=False, mat_param_attr=None, bias_param_attr=None,
                inner_param_attr=None, act=None, gate_act=None, state_act=None, mixed_layer_attr=None,
                lstm_cell_attr=None):
    """The product with the input, then an LSTM.

    input: a sequence.
    size: width of the LSTM.
    mat_param_attr: the `ParamAttr` of the product with the input.
    bias_param_attr, inner_param_attr: the `ParamAttr` of the LSTM's bias and of its recurrent weight.
    mixed_layer_attr, lstm_cell_attr: the `ExtraAttr` of product and LSTM.
    """
    with mixed_layer(name='lstm_transform_%s' % name, size=size * 4, act=IdentityActivation(),
                     layer_attr=mixed_layer_attr, bias_attr=False) as product:
        product += full_matrix_projection(input, param_attr=mat_param_attr)
    return lstmemory(name=name, input=product, reverse=reverse, bias_attr=bias_param_attr,
                     param_attr=inner_param_attr, act=act, gate_act=gate_act, state_act=state_act,
                     layer_attr=lstm_cell_attr)


@defaults('lstm_unit')
def lstmemory_unit(input, name=None, size=None, param_attr=None, act=None, gate_act=None, state_act=None,
                   mixed_bias_attr=None, lstm_bias_attr=None, mixed_layer_attr=None, lstm_layer_attr=None,
                   get_output_layer_attr=None):
    """One step of an LSTM made of layers, for use in a recurrent group.

    input: a layer of width 4 * size.
    size: width of the LSTM; by default a quarter of the input's.
    param_attr: the `ParamAttr` of the recurrent weight.
    mixed_bias_attr, lstm_bias_attr: the `ParamAttr` of the biases of the product and of the step.
    mixed_layer_attr, lstm_layer_attr, get_output_layer_attr: the `ExtraAttr` of the inner layers.
    """
    size = input.size // 4 if size is None else size
    output_before = memory(name=name, size=size)
    state_before = memory(name='%s_state' % name, size=size)
    with mixed_layer(name='%s_input_recurrent' % name, size=size * 4, bias_attr=mixed_bias_attr,
                     layer_attr=mixed_layer_attr, act=IdentityActivation()) as product:
        product += identity_projection(input=input)
        product += full_matrix_projection(input=output_before, param_attr=param_attr)
    output = lstm_step_layer(name=name, input=product, state=state_before, size=size, bias_attr=lstm_bias_attr,
                             act=act, gate_act=gate_act, state_act=state_act, layer_attr=lstm_layer_attr)
    get_output_layer(name='%s_state' % name, input=output, arg_name='state', layer_attr=get_output_layer_attr)
    return output


@defaults('lstm_group')
def lstmemory_group(input, size=None, name=None, reverse=False, param_attr=None, act=None, gate_act=None,
                    state_act=None, mixed_bias_attr=None, lstm_bias_attr=None, mixed_layer_attr=None,
                    lstm_layer_attr=None, get_output_layer_attr=None):
    """An LSTM as a recurrent group, so that its parts can be reached.

    input: a sequence of width 4 * size.
    size: width of the LSTM; by default a quarter of the input's.
    param_attr: the `ParamAttr` of the recurrent weight.
    mixed_bias_attr, lstm_bias_attr: the `ParamAttr` of the biases of the product and of the step.
    mixed_layer_attr, lstm_layer_attr, get_output_layer_attr: the `ExtraAttr` of the inner layers.
    """
    def step(part):
        return lstmemory_unit(input=part, name=name, size=size, mixed_bias_attr=mixed_bias_attr,
                              mixed_layer_attr=mixed_layer_attr, param_attr=param_attr,
                              lstm_bias_attr=lstm_bias_attr, act=act, gate_act=gate_act, state_act=state_act,
                              lstm_layer_attr=lstm_layer_attr, get_output_layer_attr=get_output_layer_attr)
    return recurrent_group(name='%s_recurrent_group' % name, step=step, reverse=reverse, input=input)


@defaults('gru_unit')
def gru_unit(input, size=None, name=None, gru_bias_attr=None, gru_param_attr=None, act=None, gate_act=None,
             gru_layer_attr=None, naive=False):
    """One step of a gated recurrent unit, for use in a recurrent group.

    input: a layer of width 3 * size.
    size: width of the unit; by default a third of the input's.
    gru_bias_attr, gru_param_attr, gru_layer_attr: attributes of the step.
    naive: make it of mixed layers (`gru_step_naive_layer`).
    """
    if input.size % 3 != 0:
        raise ConfigError("gru_unit '%s': %r must have a size that is a multiple of 3" % (name, input))
    size = input.size // 3 if size is None else size
    step = gru_step_naive_layer if naive else gru_step_layer
    return step(name=name, input=input, output_mem=memory(name=name, size=size), size=size, bias_attr=gru_bias_attr,
                param_attr=gru_param_attr, act=act, gate_act=gate_act, layer_attr=gru_layer_attr)


@defaults('gru_group')
def gru_group(input, size=None, name=None, reverse=False, gru_bias_attr=None, gru_param_attr=None, act=None,
              gate_act=None, gru_layer_attr=None, naive=False):
    """A gated recurrent unit as a recurrent group.

    input: a sequence of width 3 * size.
    size: width of the unit; by default a third of the input's.
    gru_bias_attr, gru_param_attr, gru_layer_attr: attributes of the step.
    naive: make it of mixed layers (`gru_step_naive_layer`).
    """
    def step(part):
        return gru_unit(input=part, name=name, size=size, gru_bias_attr=gru_bias_attr,
                        gru_param_attr=gru_param_attr, act=act, gate_act=gate_act, gru_layer_attr=gru_layer_attr,
                        naive=naive)
    return recurrent_group(name='%s_recurrent_group' % name, step=step, reverse=reverse, input=input)


def _gru_product(input, size, name, param_attr, bias_attr, layer_attr):
    with mixed_layer(name='%s_transform' % name, size=size * 3, bias_attr=bias_attr, layer_attr=layer_attr) as product:
        product += full_matrix_projection(input=input, param_attr=param_attr)
    return product


@defaults('simple_gru')
def simple_gru(input, size, name=None, reverse=False, mixed_param_attr=None, mixed_bias_param_attr=None,
               mixed_layer_attr=None, gru_bias_attr=None, gru_param_attr=None, act=None, gate_act=None,
               gru_layer_attr=None, naive=False):
    """The product with the input, then a gated recurrent unit as a recurrent group. `simple_gru2` computes the same as
    one layer.

    input: a sequence.
    size: width of the unit.
    mixed_param_attr, mixed_bias_param_attr, mixed_layer_attr: attributes of the product with the input.
    gru_bias_attr, gru_param_attr, gru_layer_attr: attributes of the unit.
    naive: make it of mixed layers (`gru_step_naive_layer`).
    """
    product = _gru_product(input, size, name, mixed_param_attr, mixed_bias_param_attr, mixed_layer_attr)
    return gru_group(name=name, size=size, input=product, reverse=reverse, gru_bias_attr=gru_bias_attr,
                     gru_param_attr=gru_param_attr, act=act, gate_act=gate_act, gru_layer_attr=gru_layer_attr,
                     naive=naive)


@defaults('simple_gru2')
def simple_gru2(input, size, name=None, reverse=False, mixed_param_attr=None, mixed_bias_attr=None,
                gru_param_attr=None, gru_bias_attr=None, act=None, gate_act=None, mixed_layer_attr=None,
                gru_cell_attr=None):
    """The product with the input, then a gated recurrent unit as one layer.

    input: a sequence.
    size: width of the unit.
    mixed_param_attr, mixed_bias_attr, mixed_layer_attr: attributes of the product with the input.
    gru_param_attr, gru_bias_attr, gru_cell_attr: attributes of the unit.
    """
    product = _gru_product(input, size, name, mixed_param_attr, mixed_bias_attr, mixed_layer_attr)
    return grumemory(name=name, size=size, input=product, reverse=reverse, bias_attr=gru_bias_attr,
                     param_attr=gru_param_attr, act=act, gate_act=gate_act, layer_attr=gru_cell_attr)


def _both_directions(network, name, input, size, return_seq, last_seq_attr, first_seq_attr, concat_attr, concat_act,
                     forward, backward):
    """Two networks over the same input, joined position by position or at their ends."""
    ahead = network(name='%s_fw' % name, input=input, size=size, **forward)
    back = network(name='%s_bw' % name, input=input, size=size, reverse=True, **backward)
    if not return_seq:
        ahead = last_seq(name='%s_fw_last' % name, input=ahead, layer_attr=last_seq_attr)
        back = first_seq(name='%s_bw_last' % name, input=back, layer_attr=first_seq_attr)
    return concat_layer(name=name, input=[ahead, back], layer_attr=concat_attr, act=concat_act)


@defaults('bidirectional_lstm')
def bidirectional_lstm(input, size, name=None, return_seq=False, fwd_mat_param_attr=None, fwd_bias_param_attr=None,
                       fwd_inner_param_attr=None, fwd_act=None, fwd_gate_act=None, fwd_state_act=None,
                       fwd_mixed_layer_attr=None, fwd_lstm_cell_attr=None, bwd_mat_param_attr=None,
                       bwd_bias_param_attr=None, bwd_inner_param_attr=None, bwd_act=None, bwd_gate_act=None,
                       bwd_state_act=None, bwd_mixed_layer_attr=None, bwd_lstm_cell_attr=None, last_seq_attr=None,
                       first_seq_attr=None, concat_attr=None, concat_act=None):
    """An LSTM in each direction, joined.

    input: a sequence.
    size: width of each LSTM.
    return_seq: True returns the outputs at every position, False those at the two ends.
    fwd_*, bwd_*: arguments of `simple_lstm` for the forward and the backward LSTM, without the prefix.
    last_seq_attr, first_seq_attr, concat_attr: the `ExtraAttr` of the layers that pick the ends and join them.
    concat_act: the activation of the result; by default linear.
    """
    forward = dict(mat_param_attr=fwd_mat_param_attr, bias_param_attr=fwd_bias_param_attr,
                   inner_param_attr=fwd_inner_param_attr, act=fwd_act, gate_act=fwd_gate_act,
                   state_act=fwd_state_act, mixed_layer_attr=fwd_mixed_layer_attr, lstm_cell_attr=fwd_lstm_cell_attr)
    backward = dict(mat_param_attr=bwd_mat_param_attr, bias_param_attr=bwd_bias_param_attr,
                    inner_param_attr=bwd_inner_param_attr, act=bwd_act, gate_act=bwd_gate_act,
                    state_act=bwd_state_act, mixed_layer_attr=bwd_mixed_layer_attr,
                    lstm_cell_attr=bwd_lstm_cell_attr)
    return _both_directions(simple_lstm, name, input, size, return_seq, last_seq_attr, first_seq_attr, concat_attr,
                            concat_act, forward, backward)


@defaults('bidirectional_gru')
def bidirectional_gru(input, size, name=None, return_seq=False, fwd_mixed_param_attr=None, fwd_mixed_bias_attr=None,
                      fwd_gru_param_attr=None, fwd_gru_bias_attr=None, fwd_act=None, fwd_gate_act=None,
                      fwd_mixed_layer_attr=None, fwd_gru_cell_attr=None, bwd_mixed_param_attr=None,
                      bwd_mixed_bias_attr=None, bwd_gru_param_attr=None, bwd_gru_bias_attr=None, bwd_act=None,
                      bwd_gate_act=None, bwd_mixed_layer_attr=None, bwd_gru_cell_attr=None, last_seq_attr=None,
                      first_seq_attr=None, concat_attr=None, concat_act=None):
    """A gated recurrent unit in each direction, joined.

    input: a sequence.
    size: width of each unit.
    return_seq: True returns the outputs at every position, False those at the two ends.
    fwd_*, bwd_*: arguments of `simple_gru2` for the forward and the backward unit, without the prefix.
    last_seq_attr, first_seq_attr, concat_attr: the `ExtraAttr` of the layers that pick the ends and join them.
    concat_act: the activation of the result; by default linear.
    """
    forward = dict(mixed_param_attr=fwd_mixed_param_attr, mixed_bias_attr=fwd_mixed_bias_attr,
                   gru_param_attr=fwd_gru_param_attr, gru_bias_attr=fwd_gru_bias_attr, act=fwd_act,
                   gate_act=fwd_gate_act, mixed_layer_attr=fwd_mixed_layer_attr, gru_cell_attr=fwd_gru_cell_attr)
    backward = dict(mixed_param_attr=bwd_mixed_param_attr, mixed_bias_attr=bwd_mixed_bias_attr,
                    gru_param_attr=bwd_gru_param_attr, gru_bias_attr=bwd_gru_bias_attr, act=bwd_act,
                    gate_act=bwd_gate_act, mixed_layer_attr=bwd_mixed_layer_attr, gru_cell_attr=bwd_gru_cell_attr)
    return _both_directions(simple_gru2, name, input, size, return_seq, last_seq_attr, first_seq_attr, concat_attr,
                            concat_act, forward, backward)


@defaults(None, weight_act=TanhActivation())
def simple_attention(encoded_sequence, encoded_proj, decoder_state, transform_param_attr=None,
                     softmax_param_attr=None, weight_act=None, name=None):
    """The mean of a sequence, weighted by how well each position fits the state of a decoder.

    encoded_sequence: the sequence to average.
    encoded_proj: a projection of it, as wide as the decoder's state.
    decoder_state: the state, one vector per sequence.
    transform_param_attr, softmax_param_attr: the `ParamAttr` of the state's product and of the scores.
    weight_act: the activation before the scores.
    """
    if encoded_proj.size != decoder_state.size:
        raise ConfigError("simple_attention '%s': %r and %r differ in size" % (name, encoded_proj, decoder_state))
    size = encoded_proj.size
    with mixed_layer(size=size, name='%s_transform' % name) as state:
        state += full_matrix_projection(decoder_state, param_attr=transform_param_attr)
    expanded = expand_layer(input=state, expand_as=encoded_sequence, name='%s_expand' % name)
    with mixed_layer(size=size, act=weight_act, name='%s_combine' % name) as combined:
        combined += identity_projection(expanded)
        combined += identity_projection(encoded_proj)
    weight = fc_layer(input=combined, size=1, act=SequenceSoftmaxActivation(), param_attr=softmax_param_attr,
                      name='%s_softmax' % name, bias_attr=False)
    scaled = scaling_layer(weight=weight, input=encoded_sequence, name='%s_scaling' % name)
    return pooling_layer(input=scaled, pooling_type=SumPooling(), name='%s_pooling' % name)


# Images.

@defaults('conv_pool')
def simple_img_conv_pool(input, filter_size, num_filters, pool_size, name=None, pool_type=None, act=None, groups=1,
                         conv_stride=1, conv_padding=0, bias_attr=None, num_channel=None, param_attr=None,
                         shared_bias=True, conv_layer_attr=None, pool_stride=1, pool_padding=0,
                         pool_layer_attr=None):
    """A convolution, then pooling.

    filter_size, num_filters, groups: as in `img_conv_layer`.
    pool_size, pool_type: as in `img_pool_layer`.
    conv_stride, conv_padding: stride and padding of the convolution.
    num_channel: channels of the input, if it does not know them.
    shared_bias: one bias per filter.
    conv_layer_attr, pool_layer_attr: the `ExtraAttr` of the two layers.
    pool_stride, pool_padding: stride and padding of the pooling.
    """
    convolved = img_conv_layer(name='%s_conv' % name, input=input, filter_size=filter_size, num_filters=num_filters,
                               num_channels=num_channel, act=act, groups=groups, stride=conv_stride,
                               padding=conv_padding, bias_attr=bias_attr, param_attr=param_attr,
                               shared_biases=shared_bias, layer_attr=conv_layer_attr)
    return img_pool_layer(name='%s_pool' % name, input=convolved, pool_size=pool_size, pool_type=pool_type,
                          stride=pool_stride, padding=pool_padding, layer_attr=pool_layer_attr)


@defaults('conv_bn_pool')
def img_conv_bn_pool(input, filter_size, num_filters, pool_size, name=None, pool_type=None, act=None, groups=1,
                     conv_stride=1, conv_padding=0, conv_bias_attr=None, num_channel=None, conv_param_attr=None,
                     shared_bias=True, conv_layer_attr=None, bn_param_attr=None, bn_bias_attr=None,
                     bn_layer_attr=None, pool_stride=1, pool_padding=0, pool_layer_attr=None):
    """A convolution, batch normalization, then pooling.

    filter_size, num_filters, groups: as in `img_conv_layer`.
    pool_size, pool_type: as in `img_pool_layer`.
    act: the activation after the normalization.
    conv_stride, conv_padding: stride and padding of the convolution.
    conv_bias_attr, conv_param_attr: the `ParamAttr` of the convolution's bias and weight.
    num_channel: channels of the input, if it does not know them.
    shared_bias: one bias per filter.
    bn_param_attr, bn_bias_attr: the `ParamAttr` of the normalization's scale and shift.
    conv_layer_attr, bn_layer_attr, pool_layer_attr: the `ExtraAttr` of the three layers.
    pool_stride, pool_padding: stride and padding of the pooling.
    """
    convolved = img_conv_layer(name='%s_conv' % name, input=input, filter_size=filter_size, num_filters=num_filters,
                               num_channels=num_channel, act=LinearActivation(), groups=groups, stride=conv_stride,
                               padding=conv_padding, bias_attr=conv_bias_attr, param_attr=conv_param_attr,
                               shared_biases=shared_bias, layer_attr=conv_layer_attr)
    normalised = batch_norm_layer(name='%s_bn' % name, input=convolved, act=act, bias_attr=bn_bias_attr,
                                  param_attr=bn_param_attr, layer_attr=bn_layer_attr)
    return img_pool_layer(name='%s_pool' % name, input=normalised, pool_type=pool_type, pool_size=pool_size,
                          stride=pool_stride, padding=pool_padding, layer_attr=pool_layer_attr)


@defaults(conv_act=ReluActivation())
def img_conv_group(input, conv_num_filter, pool_size, num_channels=None, conv_padding=1, conv_filter_size=3,
                   conv_act=None, conv_with_batchnorm=False, conv_batchnorm_drop_rate=0, pool_stride=1,
                   pool_type=None):
    """Several convolutions, each with batch normalization if asked for, then one pooling. An argument `conv_*` is one
    value, or a list with one for each convolution.

    conv_num_filter: list of the number of filters of each convolution.
    pool_size, pool_stride, pool_type: window, stride and kind of the pooling.
    conv_padding, conv_filter_size, conv_act: padding, window and activation of the convolutions.
    conv_with_batchnorm: whether a batch normalization follows.
    conv_batchnorm_drop_rate: dropout after it.
    """
    each = lambda value: value if hasattr(value, '__len__') else [value] * len(conv_num_filter)
    columns = zip(conv_num_filter, each(conv_padding), each(conv_filter_size), each(conv_act),
                  each(conv_with_batchnorm), each(conv_batchnorm_drop_rate))
    image = input
    for filters, padding, filter_size, act, normalise, drop_rate in columns:
        image = img_conv_layer(input=image, padding=padding, filter_size=filter_size, num_filters=filters,
                               num_channels=num_channels, act=LinearActivation() if normalise else act)
        num_channels = None
        if normalise:
            extra = ExtraAttr(drop_rate=drop_rate) if abs(drop_rate) >= 1e-5 else None
            image = batch_norm_layer(input=image, act=act, layer_attr=extra)
    return img_pool_layer(input=image, stride=pool_stride, pool_size=pool_size, pool_type=pool_type or MaxPooling())


def small_vgg(input_image, num_channels, num_classes):
    """A small VGG network with batch normalization, for images such as those of CIFAR.

    input_image: the data layer with the image.
    num_classes: number of outputs.
    """
    image = input_image
    for filters, drop_rates in ((64, [0.3, 0]), (128, [0.4, 0]), (256, [0.4, 0.4, 0]), (512, [0.4, 0.4, 0])):
        image = img_conv_group(input=image, num_channels=num_channels, pool_size=2, pool_stride=2,
                               conv_num_filter=[filters] * len(drop_rates), conv_filter_size=3,
                               conv_act=ReluActivation(), conv_with_batchnorm=True,
                               conv_batchnorm_drop_rate=drop_rates, pool_type=MaxPooling())
        num_channels = None
    image = img_pool_layer(input=image, stride=2, pool_size=2, pool_type=MaxPooling())
    image = dropout_layer(input=image, dropout_rate=0.5)
    hidden = fc_layer(input=image, size=512, layer_attr=ExtraAttr(drop_rate=0.5), act=LinearActivation())
    hidden = batch_norm_layer(input=hidden, act=ReluActivation())
    return fc_layer(input=hidden, size=num_classes, act=SoftmaxActivation())


def vgg_16_network(input_image, num_channels, num_classes=1000):
    """The VGG network of sixteen layers.

    input_image: the data layer with the image.
    num_classes: number of outputs.
    """
    image = input_image
    for filters in ([64] * 2, [128] * 2, [256] * 3, [512] * 3, [512] * 3):
        image = img_conv_group(input=image, num_channels=num_channels, conv_padding=1, conv_num_filter=filters,
                               conv_filter_size=3, conv_act=ReluActivation(), pool_size=2, pool_stride=2,
                               pool_type=MaxPooling())
        num_channels = None
    for _ in range(2):
        image = fc_layer(input=image, size=4096, act=ReluActivation(), layer_attr=ExtraAttr(drop_rate=0.5))
    return fc_layer(input=image, size=num_classes, act=SoftmaxActivation())


# Other networks.

@defaults('dropout')
def dropout_layer(input, dropout_rate, name=None):
    """The input with values set to zero at random while training.

    dropout_rate: the share of values that are set to zero.
    """
    return addto_layer(name=name, input=input, act=LinearActivation(), bias_attr=False,
                       layer_attr=ExtraAttr(drop_rate=dropout_rate))


def inputs(layers, *args):
    """Names the data layers in the order in which samples have their slots. Only needed for providers that yield
    tuples.

    layers, args: the data layers.
    """
    Inputs(*[each.name for each in layers_of(_together(layers, args), 'layer', 'inputs')])


def outputs(layers, *args):
    """Names what the network computes, usually the cost. The data layers that it needs become the inputs, in
    depth-first order.

    layers, args: one layer or several.
    """
    ends = layers_of(_together(layers, args), 'layer', 'outputs')
    if not ends:
        raise ConfigError('outputs: name at least one layer')
    if HasInputsSet():
        Outputs(*[each.name for each in ends])
        return
    if len(ends) != 1:
        logger.info('several outputs: the order of inputs is that of a walk from one after the other')
    order = []
    for each in ends:
        _walk(each, order)
    Inputs(*[each.name for each in order if each.layer_type == LayerType.DATA])
    costs = [each.name for each in order if each.layer_type == LayerType.COST]
    Outputs(*(costs or [each.name for each in ends]))


def _together(layers, more):
    return (list(layers) if isinstance(layers, (list, tuple)) else [layers]) + list(more)


def _walk(end, order):
    """Appends the layers behind `end`, and `end` itself, each once, parents first."""
    seen = set(id(each) for each in order)
    stack = [(end, iter(end.parents))]
    while stack:
        layer, parents = stack[-1]
        for parent in parents:
            if id(parent) not in seen:
                seen.add(id(parent))
                stack.append((parent, iter(parent.parents)))
                break
        else:
            stack.pop()
            order.append(layer)
