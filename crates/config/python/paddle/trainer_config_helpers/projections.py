"""Projections and operators: the terms of mixed layers."""

from paddle.core import inputs as edges
from paddle.core.errors import ConfigError
from paddle.core.geometry import Conv
from paddle.core.log import logger

from .attrs import ParamAttr
from .default_decorators import defaults, wrap_bias_attr_default
from .output import channels_of, need_layer

__all__ = ['full_matrix_projection', 'trans_full_matrix_projection', 'table_projection', 'identity_projection',
           'dotmul_projection', 'scaling_projection', 'context_projection', 'conv_projection', 'dotmul_operator',
           'conv_operator']


def _of(source, projection):
    projection.origin = source
    return projection


@defaults(weight=True)
def full_matrix_projection(input, size=0, param_attr=None):
    """x W.

    size: width of the result; 0 takes that of the mixed layer.
    """
    return _of(input, edges.FullMatrixProjection(input.name, size=size, **param_attr.attr))


@defaults(weight=True)
def trans_full_matrix_projection(input, size=0, param_attr=None):
    """x times the transpose of W, to share W with a projection in the other direction.

    size: width of the result; 0 takes that of the mixed layer.
    """
    return _of(input, edges.TransposedFullMatrixProjection(input.name, size=size, **param_attr.attr))


@defaults(weight=True)
def table_projection(input, size=0, param_attr=None):
    """The row of W that the id names.

    input: ids: an integer or a sequence of integers.
    size: width of a row; 0 takes that of the mixed layer.
    """
    return _of(input, edges.TableProjection(input.name, size=size, **param_attr.attr))


def identity_projection(input, offset=None):
    """x itself, or a part of it.

    offset: where the part begins; it is as wide as the mixed layer.
    """
    if offset is None:
        return _of(input, edges.IdentityProjection(input.name))
    return _of(input, edges.IdentityOffsetProjection(input.name, offset=offset))


@defaults(weight=True)
def dotmul_projection(input, param_attr=None):
    """x times a trained vector, value by value."""
    return _of(input, edges.DotMulProjection(input.name, size=input.size, **param_attr.attr))


@defaults(weight=True)
def scaling_projection(input, param_attr=None):
    """x times one trained number."""
    return _of(input, edges.ScalingProjection(input.name, **param_attr.attr))


@wrap_bias_attr_default(['padding_attr'])
def context_projection(input, context_len, context_start=None, padding_attr=False):
    """Each position of a sequence together with its neighbours.

    context_len: how many positions are joined.
    context_start: position of the first of them, relative to the current one; by default they are centred.
    padding_attr: a `ParamAttr`, or True, trains the values before the first and after the last position; False makes
        them zero.
    """
    start = -(context_len - 1) // 2 if context_start is None else context_start
    trained = isinstance(padding_attr, ParamAttr)
    return _of(input, edges.ContextProjection(input.name, context_length=context_len, context_start=start,
                                              trainable_padding=trained, **(padding_attr.attr if trained else {})))


def both_axes(value, value_y):
    """Columns and rows of a window: a pair, or the same twice unless rows are given."""
    if value_y is not None:
        return value, value_y
    if isinstance(value, (list, tuple)):
        columns, rows = value
        return columns, rows
    return value, value


def start_as_convolution(param_attr, filter_size, channels):
    """Filters that say nothing about their start get the deviation that keeps relu outputs at scale."""
    if param_attr.attr.get('initial_smart'):
        deviation = (2.0 / (filter_size ** 2 * channels)) ** 0.5
        param_attr.attr.update(initial_mean=0.0, initial_std=deviation, initial_strategy=0, initial_smart=False)


def convolution_shape(filter_size, stride, padding, channels, groups):
    """The windows of a convolution; each argument is (columns, rows)."""
    return Conv(filter_size=filter_size[0], filter_size_y=filter_size[1], stride=stride[0], stride_y=stride[1],
                padding=padding[0], padding_y=padding[1], channels=channels, groups=groups)


@defaults(weight=True)
def conv_projection(input, filter_size, num_filters, num_channels=None, stride=1, padding=0, filter_size_y=None,
                    stride_y=None, padding_y=None, groups=1, param_attr=None, trans=False):
    """The convolution of an image with trained filters. Arguments as in `img_conv_layer`.

    filter_size: width of the window, or (columns, rows).
    num_filters: channels of the output.
    stride: distance between windows, or (columns, rows).
    padding: zeros at each border, or (columns, rows).
    filter_size_y, stride_y, padding_y: the value for rows, if the other is one number.
    groups: number of groups into which the channels are divided.
    trans: transposed convolution.
    """
    channels = channels_of(input, num_channels, 'conv_projection')
    window = both_axes(filter_size, filter_size_y)
    start_as_convolution(param_attr, window[0], channels)
    shape = convolution_shape(window, both_axes(stride, stride_y), both_axes(padding, padding_y), channels, groups)
    make = edges.ConvTransProjection if trans else edges.ConvProjection
    return _of(input, make(input.name, num_filters=num_filters, conv_conf=shape, **param_attr.attr))


def dotmul_operator(a=None, b=None, scale=1, **old):
    """scale * a * b, value by value.

    a, b: two layers of the same width.
    scale: factor on the product.
    old: `x` and `y`, old names of `a` and `b`.
    """
    if 'x' in old or 'y' in old:
        logger.warning('dotmul_operator: x= and y= are called a= and b= now')
    a, b = need_layer(old.get('x', a), 'a', 'dotmul_operator'), need_layer(old.get('y', b), 'b', 'dotmul_operator')
    if a.size is not None and b.size is not None and a.size != b.size:
        raise ConfigError('dotmul_operator: %r and %r differ in size' % (a, b))
    return _of([a, b], edges.DotMulOperator([a.name, b.name], scale=scale))


def conv_operator(img, filter, filter_size, num_filters, num_channels=None, stride=1, padding=0, filter_size_y=None,
                  stride_y=None, padding_y=None, trans=False):
    """The convolution of an image with filters that another layer computes for each sample.

    img: the layer with the image.
    filter: the layer with the filters.
    filter_size: width of the window, or (columns, rows).
    num_filters: channels of the output.
    stride: distance between windows, or (columns, rows).
    padding: zeros at each border, or (columns, rows).
    filter_size_y, stride_y, padding_y: the value for rows, if the other is one number.
    trans: transposed convolution.
    """
    need_layer(filter, 'filter', 'conv_operator')
    channels = img.num_filters if num_channels is None else num_channels
    window = both_axes(filter_size, filter_size_y)
    if filter.size is not None:
        filter.size = window[0] * window[1] * num_filters * channels
    shape = convolution_shape(window, both_axes(stride, stride_y), both_axes(padding, padding_y), channels, 1)
    make = edges.ConvTransOperator if trans else edges.ConvOperator
    return _of([img, filter], make([img.name, filter.name], num_filters=num_filters, conv_conf=shape))
