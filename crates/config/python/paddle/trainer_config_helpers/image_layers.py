"""Layers on images."""

from paddle.core import geometry
from paddle.core.errors import ConfigError
from paddle.core.log import logger

from .activations import LinearActivation, ReluActivation
from .attrs import ParamAttr
from .default_decorators import defaults, wrap_param_attr_default
from .output import DROPOUT, LayerType, add_layer, channels_of, edge, need_layer, supports
from .poolings import MaxPooling
from .projections import both_axes, convolution_shape, start_as_convolution

__all__ = ['img_conv_layer', 'img_pool_layer', 'batch_norm_layer', 'img_cmrnorm_layer', 'cross_channel_norm_layer',
           'spp_layer', 'pad_layer', 'maxout_layer', 'block_expand_layer', 'bilinear_interp_layer', 'rotate_layer',
           'priorbox_layer']


@defaults('conv', act=ReluActivation(), weight=True, bias=True)
@supports(DROPOUT)
def img_conv_layer(input, filter_size, num_filters, name=None, num_channels=None, act=None, groups=1, stride=1,
                   padding=0, bias_attr=None, param_attr=None, shared_biases=True, layer_attr=None,
                   filter_size_y=None, stride_y=None, padding_y=None, trans=False, layer_type=None):
    """A convolution, or with `trans` a transposed one.

    filter_size: width of the window, or (columns, rows).
    num_filters: channels of the output.
    groups: number of groups into which the channels are divided; a filter sees only its own group.
    stride: distance between windows, or (columns, rows).
    padding: zeros at each border, or (columns, rows).
    shared_biases: one bias per filter; False gives every pixel its own.
    filter_size_y, stride_y, padding_y: the value for rows, if the other is one number.
    trans: transposed convolution: the output is larger than the input.
    layer_type: v1's choice of an implementation (`exconv`, `cudnn_conv`, …); here all compute the same.
    """
    channels = channels_of(input, num_channels, 'img_conv_layer')
    window = both_axes(filter_size, filter_size_y)
    start_as_convolution(param_attr, window[0], channels)
    family = LayerType.CONVTRANS_LAYER if trans else LayerType.CONV_LAYER
    if layer_type not in (None, 'ex' + family, 'cudnn_' + family):
        raise ConfigError("img_conv_layer '%s': layer_type must be ex%s or cudnn_%s, not %s"
                          % (name, family, family, layer_type))
    shape = convolution_shape(window, both_axes(stride, stride_y), both_axes(padding, padding_y), channels, groups)
    return _image(name, layer_type or family, input, edge(input, param_attr, conv=shape), layer_attr, num_filters,
                  act, num_filters=num_filters, bias=ParamAttr.to_bias(bias_attr), shared_biases=shared_biases)


def _image(name, type, input, its_edge, layer_attr, channels, act=None, **arguments):
    """Adds a layer whose output is an image of so many channels."""
    return add_layer(name, type, [its_edge], layer_attr, parents=[input], activation=act, channels=channels,
                     **arguments)


@defaults('pool')
@supports()
def img_pool_layer(input, pool_size, name=None, num_channels=None, pool_type=None, stride=1, padding=0,
                   layer_attr=None, pool_size_y=None, stride_y=None, padding_y=None, ceil_mode=True, img_width=None):
    """Pooling over windows of an image.

    pool_size: width of the window.
    pool_type: `MaxPooling()` (default) or `AvgPooling()`.
    stride: distance between windows.
    padding: border added on each side.
    pool_size_y, stride_y, padding_y: the value for rows, if it differs.
    ceil_mode: the last window may reach over the border.
    img_width: for old files; a data layer has `height=` and `width=`.
    """
    channels = channels_of(input, num_channels, 'img_pool_layer')
    window, step, border = both_axes(pool_size, pool_size_y), both_axes(stride, stride_y), both_axes(padding,
                                                                                                    padding_y)
    shape = geometry.Pool(pool_type=(pool_type or MaxPooling()).image_name(), channels=channels, size_x=window[0],
                          size_y=window[1], stride=step[0], stride_y=step[1], padding=border[0], padding_y=border[1],
                          img_width=img_width)
    return _image(name, LayerType.POOL_LAYER, input, edge(input, pool=shape), layer_attr, channels,
                  ceil_mode=ceil_mode)


@defaults('spp')
@supports()
def spp_layer(input, name=None, num_channels=None, pool_type=None, pyramid_height=None, layer_attr=None, img_width=None):
    """Spatial pyramid pooling: the number of outputs does not depend on the size of the image.

    pool_type: `MaxPooling()` (default) or `AvgPooling()`.
    pyramid_height: number of levels; level i has 4 to the power of i windows.
    img_width: for old files; a data layer has `height=` and `width=`.
    """
    channels = channels_of(input, num_channels, 'spp_layer')
    shape = geometry.SpatialPyramidPool(pool_type=(pool_type or MaxPooling()).image_name(), channels=channels,
                                        pyramid_height=pyramid_height, img_width=img_width)
    return _image(name, LayerType.SPP_LAYER, input, edge(input, spp=shape), layer_attr, channels)


@defaults('crmnorm')
@supports()
def img_cmrnorm_layer(input, size, scale=0.0128, power=0.75, name=None, num_channels=None, layer_attr=None):
    """Response normalization over neighbouring channels.

    size: number of channels that are summed.
    scale: factor on the sum of squares.
    power: exponent of the divisor.
    """
    channels = channels_of(input, num_channels, 'img_cmrnorm_layer')
    shape = geometry.Norm(norm_type='cmrnorm-projection', channels=channels, size=size, scale=scale, pow=power,
                          blocked=0)
    return _image(name, LayerType.NORM_LAYER, input, edge(input, norm=shape), layer_attr, channels,
                  img_norm_type='cmrnorm-projection')


@defaults('cross_channel_norm', weight=True)
def cross_channel_norm_layer(input, name=None, param_attr=None):
    """Each pixel divided by its norm over the channels, times a trained scale per channel."""
    channels = channels_of(input, None, 'cross_channel_norm_layer')
    shape = geometry.Norm(norm_type='cross-channel-norm', channels=channels, size=input.size, scale=0, pow=0,
                          blocked=0)
    return _image(name, LayerType.NORM_LAYER, input, edge(input, param_attr, norm=shape), None, channels)


@wrap_param_attr_default(default_factory=lambda _: ParamAttr(initial_mean=1.0, initial_std=0.0))
@defaults('batch_norm', act=ReluActivation(), bias=True)
@supports(DROPOUT)
def batch_norm_layer(input, act=None, name=None, num_channels=None, bias_attr=None, param_attr=None, layer_attr=None,
                     batch_norm_type=None, moving_average_fraction=0.9, use_global_stats=None):
    """Batch normalization: per channel for images, per value otherwise.

    act: the activation; the layer before it usually has a linear one.
    param_attr: the `ParamAttr` of the scale, which starts at 1.
    bias_attr: the `ParamAttr` of the shift; False: none.
    batch_norm_type: v1's choice of an implementation (`batch_norm`, `cudnn_batch_norm`); here both compute the same.
    moving_average_fraction: how much of the running mean and variance is kept in each batch.
    use_global_stats: whether tests use the running mean and variance; None and True use them, False uses those of the
        batch.
    """
    if not isinstance(act, ReluActivation):
        logger.info('batch_norm_layer %s: relu is the usual activation', name)
    if not isinstance(input.activation, LinearActivation):
        logger.info('batch_norm_layer %s: the layer before it usually has a linear activation', name)
    if num_channels is None:
        num_channels = input.size if input.num_filters is None else input.num_filters
    if batch_norm_type not in (None, 'batch_norm', 'cudnn_batch_norm'):
        raise ConfigError("batch_norm_layer '%s': there is no batch_norm_type %r" % (name, batch_norm_type))
    its_edge = edge(input, param_attr, image=geometry.Image(channels=num_channels))
    return _image(name, LayerType.BATCH_NORM_LAYER, input, its_edge, layer_attr, num_channels, act,
                  batch_norm_type=batch_norm_type, bias=ParamAttr.to_bias(bias_attr),
                  moving_average_fraction=moving_average_fraction, use_global_stats=use_global_stats)


@defaults('pad')
@supports()
def pad_layer(input, pad_c=None, pad_h=None, pad_w=None, name=None, layer_attr=None):
    """Zeros around an image.

    pad_c, pad_h, pad_w: a pair (before, after) for channels, rows and columns.
    """
    channels = channels_of(input, None, 'pad_layer')
    pads = [[0, 0] if each is None else list(each) for each in (pad_c, pad_h, pad_w)]
    if any(len(each) != 2 for each in pads):
        raise ConfigError("pad_layer '%s': pad_c, pad_h and pad_w are pairs" % name)
    shape = geometry.Pad(channels=channels, pad_c=pads[0], pad_h=pads[1], pad_w=pads[2])
    return _image(name, LayerType.PAD_LAYER, input, edge(input, pad=shape), layer_attr, channels + sum(pads[0]))


def _linear_convolution(input, function):
    if input.layer_type != LayerType.CONV_LAYER or not isinstance(input.activation, LinearActivation):
        raise ConfigError('%s: %r must be a convolution with a linear activation' % (function, input))


@defaults(None)
@supports()
def maxout_layer(input, groups, num_channels=None, name=None, layer_attr=None, size_x=None, size_y=None):
    """The largest value of each group of channels. The input must be a convolution with a linear activation.

    groups: channels per group.
    size_x, size_y: for old files; the input knows its shape.
    """
    _linear_convolution(input, 'maxout_layer')
    channels = channels_of(input, num_channels, 'maxout_layer')
    if groups <= 1 or channels % groups != 0:
        raise ConfigError("maxout_layer '%s': %d groups of %d channels" % (name, groups, channels))
    shape = geometry.MaxOut(channels=channels, groups=groups)
    return _image(name, LayerType.MAXOUT, input, edge(input, maxout=shape), layer_attr, None)


@defaults(None)
@supports()
def block_expand_layer(input, block_x=0, block_y=0, stride_x=0, stride_y=0, padding_x=0, padding_y=0,
                       num_channels=None, name=None, layer_attr=None):
    """An image cut into blocks, which form a sequence.

    block_x, block_y: width and height of a block.
    stride_x, stride_y: distance between blocks.
    padding_x, padding_y: zeros at each border.
    """
    channels = channels_of(input, num_channels, 'block_expand_layer')
    shape = geometry.BlockExpand(channels=channels, block_x=block_x, block_y=block_y, stride_x=stride_x,
                                 stride_y=stride_y, padding_x=padding_x, padding_y=padding_y)
    return _image(name, LayerType.BLOCK_EXPAND, input, edge(input, block_expand=shape), layer_attr, None)


@defaults(None)
@supports()
def bilinear_interp_layer(input, out_size_x=None, out_size_y=None, name=None, layer_attr=None):
    """The image in another size, by bilinear interpolation. The input must be a convolution with a linear activation.

    out_size_x, out_size_y: width and height of the result.
    """
    _linear_convolution(input, 'bilinear_interp_layer')
    channels = channels_of(input, None, 'bilinear_interp_layer')
    shape = geometry.BilinearInterp(out_size_x=out_size_x, out_size_y=out_size_y, channels=channels)
    return _image(name, LayerType.BILINEAR_INTERP_LAYER, input, edge(input, bilinear_interp=shape), layer_attr,
                  channels)


@defaults(None)
@supports()
def rotate_layer(input, height, width, name=None, layer_attr=None):
    """Each map of `height` times `width` values rotated by 90 degrees.

    height, width: the shape of a map.
    """
    need_layer(input, 'input', 'rotate_layer')
    return _image(name, LayerType.ROTATE_LAYER, input, edge(input), layer_attr, None, height=height, width=width)


@defaults('priorbox')
def priorbox_layer(input, image, aspect_ratio, variance, min_size, max_size=(), name=None):
    """The boxes that a detector starts from, for each position of `input` in `image`.

    image: the data layer with the image.
    aspect_ratio: list of ratios of width to height.
    variance: list of four variances, for centre and size of the boxes.
    min_size, max_size: lists of the smallest and largest sizes in pixels.
    """
    boxes = (len(aspect_ratio) * 2 + 1 + len(max_size)) * 4
    size = input.size // channels_of(input, None, 'priorbox_layer') * boxes * 2
    return add_layer(name, LayerType.PRIORBOX_LAYER, [input, image], size=size, channels=boxes, min_size=min_size,
                     max_size=max_size, aspect_ratio=aspect_ratio, variance=variance)
