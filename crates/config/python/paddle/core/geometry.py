"""Shapes of images: derives convolutions, poolings and the like from what the user wrote.

The classes at the top are what users write (v1's names); the functions fill the record of an edge from them and
return the size of the result, rows (y) and columns (x) first where a caller needs them.
"""

from math import ceil, floor

from paddle.core.errors import check
from paddle.core.job import job
from paddle.core.message import whole


class _Shape(object):
    """A description with named parts; parts that are not given are None."""

    parts = ()

    def __init__(self, *values, **named):
        if len(values) > len(self.parts):
            raise TypeError('%s() takes %d arguments' % (type(self).__name__, len(self.parts)))
        for part in self.parts:
            setattr(self, part, None)
        self.__dict__.update(zip(self.parts, values))
        for part, value in named.items():
            if part not in self.parts:
                raise TypeError('%s() got an unexpected argument %r' % (type(self).__name__, part))
            setattr(self, part, value)


class Conv(_Shape):
    """Filters of a convolution; the y parts follow the x parts unless given."""

    parts = ('filter_size', 'channels', 'padding', 'stride', 'groups', 'filter_channels', 'output_x', 'img_size',
             'caffe_mode', 'filter_size_y', 'padding_y', 'stride_y')

    def __init__(self, *values, **named):
        _Shape.__init__(self, *values, **named)
        self.caffe_mode = True if self.caffe_mode is None else self.caffe_mode
        for part in ('filter_size', 'padding', 'stride'):
            if getattr(self, part + '_y') is None:
                setattr(self, part + '_y', getattr(self, part))


class Pool(_Shape):
    """Window of an image pooling."""

    parts = ('pool_type', 'channels', 'size_x', 'size_y', 'start', 'stride', 'stride_y', 'padding', 'padding_y',
             'img_width')


class Norm(_Shape):
    """Response normalisation."""

    parts = ('norm_type', 'channels', 'size', 'scale', 'pow', 'output_x', 'img_size', 'blocked')


class Image(_Shape):
    """An image with a number of channels."""

    parts = ('channels', 'img_size')


class BilinearInterp(_Shape):
    """The size that an image gets."""

    parts = ('out_size_x', 'out_size_y', 'channels')


class SpatialPyramidPool(_Shape):
    """Pooling at several scales."""

    parts = ('pool_type', 'pyramid_height', 'channels', 'img_width')


class Pad(_Shape):
    """Zeros before and after each axis."""

    parts = ('channels', 'pad_c', 'pad_h', 'pad_w')


class MaxOut(_Shape):
    """Groups of channels, of which the largest value is used."""

    parts = ('channels', 'groups', 'img_size_x', 'img_size_y')


class BlockExpand(_Shape):
    """Blocks into which an image is split."""

    parts = ('channels', 'padding_x', 'padding_y', 'stride_x', 'stride_y', 'block_x', 'block_y', 'img_size_x',
             'img_size_y', 'output_x', 'output_y')


def output_length(image, window, padding, stride, round_down):
    """The number of windows along one axis."""
    check(window >= 1 and stride >= 1, 'a window of %d pixels that moves by %d covers nothing: both must be at least 1',
          window, stride)
    steps = (2 * padding + image - window) / float(stride)
    count = 1 + int(floor(steps) if round_down else ceil(steps))
    check(count >= 1, 'a window of %d pixels does not fit into an image of %d pixels with padding %d: make it smaller, or'
          ' the padding larger', window, image, padding)
    return count


def image_length(output, window, padding, stride, round_down):
    """The axis length that yields `output` windows (transposed convolution)."""
    return (output - 1) * stride + window - 2 * padding + (0 if round_down else 1)


def image_size(layer_name, channels, width=None):
    """Columns and rows of a layer's image: the given width, else the layer's own, else a square."""
    layer = job().layer(layer_name, 'an image layer')
    channels = whole(channels, 'number of channels')
    check(channels >= 1, "the image of layer '%s' has %d channels; it needs at least 1", layer_name, channels)
    pixels = layer.size // channels
    columns = width or layer.width or int(pixels ** 0.5)
    rows = layer.height if layer.height and not width else (pixels // columns if columns else 0)
    check(columns * rows == pixels,
          "layer '%s': %d x %d is not an image of %d pixels; give its data layer height= and width=", layer_name,
          columns, rows, pixels)
    return columns, rows


def image(shape, layer_name, conf):
    """Fills an ImageConfig."""
    conf.channels = shape.channels
    conf.img_size, conf.img_size_y = image_size(layer_name, conf.channels, getattr(shape, 'img_width', None))


def convolution(shape, layer_name, conf, filters, transposed=False):
    """Fills a ConvConfig and returns the size of the result."""
    for part in ('filter_size', 'filter_size_y', 'channels', 'padding', 'padding_y', 'stride', 'stride_y', 'groups',
                 'caffe_mode'):
        setattr(conf, part, getattr(shape, part))
    filters = whole(filters, 'num_filters')
    check(filters >= 1 and conf.groups >= 1, 'a convolution has %d filters in %d groups; it needs at least 1 of each',
          filters, conf.groups)
    columns = (conf.filter_size, conf.padding, conf.stride, conf.caffe_mode)
    rows = (conf.filter_size_y, conf.padding_y, conf.stride_y, conf.caffe_mode)
    if transposed:
        conf.filter_channels = filters // conf.groups
        conf.output_x, conf.output_y = image_size(layer_name, conf.channels)
        conf.img_size = image_length(conf.output_x, *columns)
        conf.img_size_y = image_length(conf.output_y, *rows)
        return conf.img_size * conf.img_size_y * filters
    conf.filter_channels = conf.channels // conf.groups
    conf.img_size, conf.img_size_y = image_size(layer_name, conf.channels)
    conf.output_x = output_length(conf.img_size, *columns)
    conf.output_y = output_length(conf.img_size_y, *rows)
    return conf.output_x * conf.output_y * filters


POOLINGS = ('max-projection', 'avg-projection', 'cudnn-max-pool', 'cudnn-avg-pool')


def pooling(shape, layer_name, conf, ceil_mode):
    """Fills a PoolConfig."""
    check(shape.pool_type in POOLINGS, "pool type '%s' is not one of %s", shape.pool_type, ', '.join(POOLINGS))
    check(not shape.start, 'start= of a pooling is not supported')
    conf.pool_type = shape.pool_type
    conf.channels = shape.channels
    conf.size_x = shape.size_x
    conf.stride = 1 if shape.stride is None else shape.stride
    conf.size_y = conf.size_x if shape.size_y is None else shape.size_y
    conf.stride_y = conf.stride if shape.stride_y is None else shape.stride_y
    conf.img_size, conf.img_size_y = image_size(layer_name, shape.channels, shape.img_width)
    if shape.padding is not None:
        conf.padding = shape.padding
    conf.padding_y = conf.padding if shape.padding_y is None else shape.padding_y
    conf.output_x = output_length(conf.img_size, conf.size_x, conf.padding, conf.stride, not ceil_mode)
    conf.output_y = output_length(conf.img_size_y, conf.size_y, conf.padding_y, conf.stride_y, not ceil_mode)


def normalisation(shape, layer_name, conf):
    """Fills a NormConfig. The scale is that of the whole window, so it is divided by the window's size."""
    allowed = ('rnorm', 'cmrnorm-projection', 'cross-channel-norm')
    check(shape.norm_type in allowed, "norm type '%s' is not one of %s", shape.norm_type, ', '.join(allowed))
    for part in ('norm_type', 'channels', 'size', 'pow', 'blocked'):
        setattr(conf, part, getattr(shape, part))
    conf.img_size, conf.img_size_y = image_size(layer_name, shape.channels)
    conf.output_x, conf.output_y = conf.img_size, conf.img_size_y
    window = conf.size if shape.norm_type == 'cmrnorm-projection' else conf.size ** 2
    conf.scale = float(shape.scale) / window


def pyramid(shape, layer_name, conf):
    """Fills a SppConfig."""
    check(shape.pool_type in POOLINGS[:2], "pool type '%s' is not one of %s", shape.pool_type,
          ', '.join(POOLINGS[:2]))
    image(shape, layer_name, conf.image_conf)
    conf.pool_type = shape.pool_type
    conf.pyramid_height = shape.pyramid_height


def blocks(shape, conf):
    """Fills a BlockExpandConfig; sizes that are only known at run time stay 0."""
    for part in BlockExpand.parts[:9]:
        setattr(conf, part, getattr(shape, part) or 0)
    for axis in 'xy':
        length, block, padding, stride = (
            getattr(conf, part + axis) for part in ('img_size_', 'block_', 'padding_', 'stride_'))
        count = output_length(length, block, padding, stride, False) if length else 0
        setattr(conf, 'output_' + axis, count)
