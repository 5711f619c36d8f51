"""Layers on images. An image is a vector of channels, each of them rows by columns."""

from paddle.core import geometry
from paddle.core.errors import check
from paddle.core.inputs import Input
from paddle.core.job import job
from paddle.core.layer import LayerBuilder, kind, listed


@kind('conv', 'exconv', 'cudnn_conv')
def convolution(layer, num_filters=None, bias=True, shared_biases=False):
    _convolution(layer, 'conv', False, num_filters, bias, shared_biases)


@kind('convt', 'exconvt', 'cudnn_convt')
def transposed_convolution(layer, num_filters=None, bias=True, shared_biases=False):
    _convolution(layer, 'convt', True, num_filters, bias, shared_biases)


def _convolution(layer, family, transposed, num_filters, bias, shared_biases):
    config = layer.config
    config.type = _implementation(layer, family)
    if num_filters is not None:
        config.num_filters = num_filters
    if shared_biases is not None:
        config.shared_biases = shared_biases
    for index, edge in enumerate(layer.inputs):
        conf = config.inputs[index].conv_conf
        geometry.convolution(edge.conv, edge.input_layer_name, conf, config.num_filters, transposed)
        filters = conf.channels if transposed else config.num_filters
        layer.weight(index, [], filters * conf.filter_channels * conf.filter_size * conf.filter_size_y)
        rows, columns = (conf.img_size_y, conf.img_size) if transposed else (conf.output_y, conf.output_x)
        layer.set_image(rows, columns, config.num_filters)
    size = config.num_filters if shared_biases else config.size
    layer.bias(bias, size, [size, 1])


def _implementation(layer, family):
    """`ex...` on CPU, `cudnn_...` on GPU, unless the user has chosen."""
    job, asked = layer.job, layer.config.type
    gpu = job.flag('use_gpu') == 1
    check(gpu or asked != 'cudnn_' + family, "layer '%s': type %s needs a GPU", layer.config.name, asked)
    placed = job.flag('parallel_nn') == 0 or layer.config.device > -1
    return 'cudnn_' + family if gpu and placed and asked != 'ex' + family else 'ex' + family


@kind('pool')
def pool(layer, ceil_mode=True):
    for index, edge in enumerate(layer.inputs):
        conf = layer.config.inputs[index].pool_conf
        geometry.pooling(edge.pool, edge.input_layer_name, conf, ceil_mode)
        layer.set_image(conf.output_y, conf.output_x, conf.channels)


@kind('norm')
def norm(layer):
    for index, edge in enumerate(layer.inputs):
        conf = layer.config.inputs[index].norm_conf
        geometry.normalisation(edge.norm, edge.input_layer_name, conf)
        layer.set_image(conf.output_y, conf.output_x, conf.channels)
        if conf.norm_type == 'cross-channel-norm':
            layer.weight(0, [conf.channels, 1])


@kind('spp')
def spatial_pyramid_pool(layer):
    for index, edge in enumerate(layer.inputs):
        conf = layer.config.inputs[index].spp_conf
        geometry.pyramid(edge.spp, edge.input_layer_name, conf)
        layer.set_image(1, (4 ** conf.pyramid_height - 1) // 3, conf.image_conf.channels)


@kind('pad')
def pad(layer):
    shape = layer.inputs[0].pad
    conf = layer.config.inputs[0].pad_conf
    conf.pad_c, conf.pad_h, conf.pad_w = shape.pad_c, shape.pad_h, shape.pad_w
    geometry.image(shape, layer.inputs[0].input_layer_name, conf.image_conf)
    rows = conf.image_conf.img_size_y + sum(conf.pad_h)
    columns = conf.image_conf.img_size + sum(conf.pad_w)
    layer.set_image(rows, columns, conf.image_conf.channels + sum(conf.pad_c))


class _BatchNormBuilder(LayerBuilder):
    """Adds two more edges to the same input: they hold the statistics, which no gradient changes."""

    extra = ('batch_norm_type',)

    def __init__(self, name, type, inputs=None, batch_norm_type=None, **common):
        inputs = listed(inputs)
        check(len(inputs) == 1, "batch_norm layer '%s' takes 1 input, not %d", name, len(inputs))
        first = inputs[0] if isinstance(inputs[0], Input) else Input(inputs[0])
        gpu = job().flag('use_gpu') == 1
        for _ in range(2):
            inputs.append(Input(first.input_layer_name, make_layer_name_in_submodel=False, initial_std=0.0,
                                initial_mean=0.0, is_static=True, is_shared=not gpu))
        cudnn = gpu and batch_norm_type != 'batch_norm' and job().flag('cudnn_version') >= 4007 \
            and not job().flag('parallel_nn')
        LayerBuilder.__init__(self, name, 'cudnn_batch_norm' if cudnn else 'batch_norm', inputs, **common)


@kind('batch_norm', active_type='linear', builder=_BatchNormBuilder)
def batch_norm(layer, bias=True, use_global_stats=True, moving_average_fraction=0.9):
    config = layer.config
    if use_global_stats is not None:
        config.use_global_stats = use_global_stats
    if moving_average_fraction is not None:
        config.moving_average_fraction = moving_average_fraction
    conf = config.inputs[0].image_conf
    geometry.image(layer.inputs[0].image, layer.inputs[0].input_layer_name, conf)
    source = layer.input(0)
    if source.width or source.height:
        layer.set_image(conf.img_size_y, conf.img_size, conf.channels)
    else:
        layer.set_size(source.size)
    layer.weight(0, [], conf.channels)
    layer.weight(1, [1, conf.channels])  # moving mean
    layer.weight(2, [1, conf.channels])  # moving variance
    layer.bias(bias, conf.channels)


@kind('rotate')
def rotate(layer, height, width):
    layer.need_inputs(1)
    layer.image_shape(height, width)
    layer.set_size(layer.input(0).size)


@kind('blockexpand')
def cut_into_blocks(layer):
    for index, edge in enumerate(layer.inputs):
        conf = layer.config.inputs[index].block_expand_conf
        geometry.blocks(edge.block_expand, conf)
        layer.set_size(conf.block_x * conf.block_y * conf.channels)


@kind('maxout')
def max_out(layer):
    conf = layer.config.inputs[0].maxout_conf
    geometry.image(layer.inputs[0].maxout, layer.inputs[0].input_layer_name, conf.image_conf)
    conf.groups = layer.inputs[0].maxout.groups
    source = layer.input(0)
    layer.set_image(source.height, source.width, conf.image_conf.channels // conf.groups)


@kind('bilinear_interp')
def bilinear_interpolation(layer):
    shape = layer.inputs[0].bilinear_interp
    conf = layer.config.inputs[0].bilinear_interp_conf
    geometry.image(shape, layer.inputs[0].input_layer_name, conf.image_conf)
    conf.out_size_x, conf.out_size_y = shape.out_size_x, shape.out_size_y
    layer.set_image(conf.out_size_y, conf.out_size_x, conf.image_conf.channels)


@kind('priorbox')
def prior_boxes(layer, min_size, max_size, aspect_ratio, variance):
    layer.need_inputs(2)
    picture = layer.input(1)
    check(picture.type == 'data' and picture.width > 0 and picture.height > 0,
          "priorbox layer '%s': the second input must be a data layer with height= and width=", layer.config.name)
    check(len(variance) == 4, "priorbox layer '%s' needs four variances", layer.config.name)
    conf = layer.config.inputs[0].priorbox_conf
    conf.min_size, conf.max_size = min_size, max_size
    conf.aspect_ratio, conf.variance = aspect_ratio, variance


@kind('featmap_expand')
def repeat_features(layer, num_filters=None, bias=False):
    layer.need_inputs(1)
    check(num_filters is not None, "featmap_expand layer '%s' needs num_filters", layer.config.name)
    layer.config.num_filters = num_filters
    layer.set_size(layer.input(0).size * layer.config.num_filters)
