"""Layers on plain vectors: data, full connection, sums and concatenation, large output vocabularies."""

from paddle.core.errors import check
from paddle.core.layer import kind


@kind('data')
def data(layer, height=None, width=None):
    if height and width:
        layer.image_shape(height, width)


@kind('fc')
def full_connection(layer, bias=True):
    for index, size in enumerate(layer.input_sizes()):
        _matrix(layer, index, [size, layer.size], None)
    layer.bias(bias, layer.size)


def _matrix(layer, index, dims, dense):
    """A weight matrix, stored sparsely if the input asks for it; otherwise `dense` is the value of is_sparse."""
    edge = layer.inputs[index]
    if edge.format in ('csr', 'csc'):
        layer.weight(index, dims, edge.nnz, True, edge.format)
    else:
        layer.weight(index, dims, None, dense, edge.format)


@kind('selective_fc')
def selective_full_connection(layer, bias=True, selective_fc_pass_generation=False, has_selected_colums=True,
                              selective_fc_full_mul_ratio=0.02, selective_fc_parallel_plain_mul_thread_num=None):
    config = layer.config
    config.selective_fc_pass_generation = selective_fc_pass_generation
    config.has_selected_colums = has_selected_colums
    config.selective_fc_full_mul_ratio = selective_fc_full_mul_ratio
    if selective_fc_parallel_plain_mul_thread_num is not None:
        config.selective_fc_parallel_plain_mul_thread_num = selective_fc_parallel_plain_mul_thread_num
    sizes = layer.input_sizes()
    if has_selected_colums:
        check(len(sizes) >= 2, "selective_fc layer '%s' needs the selected columns as its last input", config.name)
        sizes = sizes[:-1]
    for index, size in enumerate(sizes):
        _matrix(layer, index, [layer.size, size], False)  # stored transposed: one row per output
    layer.bias(bias, layer.size)


@kind('tensor')
def tensor(layer, bias=True):
    layer.need_inputs(2)
    check(layer.size > 0, "tensor layer '%s' needs a size", layer.config.name)
    layer.weight(0, layer.input_sizes() + [layer.size])
    layer.bias(bias, layer.size)


@kind('addto')
def add(layer, bias=True):
    check(layer.inputs, "addto layer '%s' needs inputs", layer.config.name)
    for size in layer.input_sizes():
        layer.set_size(size)
    layer.bias(bias, layer.size)


@kind('concat')
def concatenate(layer, bias=False):
    check(layer.inputs, "concat layer '%s' needs inputs", layer.config.name)
    check(not bias, "concat layer '%s' has no bias", layer.config.name)
    layer.set_size(layer.size or sum(layer.input_sizes()))


@kind('data_norm')
def normalise_data(layer, data_norm_strategy='z-score'):
    layer.need_inputs(1)
    layer.config.data_norm_strategy = data_norm_strategy
    size = layer.input(0).size
    layer.set_size(size)
    layer.inputs[0].is_static = True  # the statistics come from preprocessing
    layer.weight(0, [5, size])


@kind('prelu')
def parametric_relu(layer, partial_sum=1):
    layer.need_inputs(1)
    size = layer.input(0).size
    check(size % partial_sum == 0, "prelu layer '%s': partial_sum %s does not divide %d", layer.config.name,
          partial_sum, size)
    layer.set_size(size)
    layer.weight(0, [], size // partial_sum)


@kind('hsigmoid', size=1)
def hierarchical_sigmoid(layer, num_classes, bias=True):
    check(len(layer.inputs) >= 2, "hsigmoid layer '%s' needs an input and a label", layer.config.name)
    layer.config.num_classes = num_classes
    nodes = layer.config.num_classes - 1
    for index, size in enumerate(layer.input_sizes()[:-1]):
        layer.weight(index, [nodes, size])
    layer.bias(bias, nodes)


@kind('nce', size=1)
def noise_contrastive_estimation(layer, num_classes, num_neg_samples=10, neg_sampling_dist=None, bias=True):
    config = layer.config
    check(len(layer.inputs) >= 2, "nce layer '%s' needs an input and a label", config.name)
    config.num_classes = num_classes
    if neg_sampling_dist is not None:
        check(len(neg_sampling_dist) == num_classes, "nce layer '%s': %d probabilities for %d classes", config.name,
              len(neg_sampling_dist), num_classes)
        check(abs(sum(neg_sampling_dist) - 1) < 1e-5, "nce layer '%s': neg_sampling_dist sums to %s, not 1",
              config.name, sum(neg_sampling_dist))
        config.neg_sampling_dist = neg_sampling_dist
    config.num_neg_samples = num_neg_samples
    real = len(layer.inputs) - 1
    last = layer.input(real)
    check(last.type == 'data', "nce layer '%s': the last input must be a data layer", config.name)
    if real > 1 and last.size == 1 and layer.input(real - 1).type == 'data':
        real -= 1  # one weight per sample comes after the label
    for index in range(real):
        layer.weight(index, [config.num_classes, layer.input(index).size])
    layer.bias(bias, config.num_classes)


@kind('multiplex')
def multiplex(layer):
    check(len(layer.inputs) > 2, "multiplex layer '%s' needs an index and two inputs", layer.config.name)
    check(all(size == layer.size for size in layer.input_sizes()[1:]),
          "multiplex layer '%s': the inputs after the index must have size %d", layer.config.name, layer.size)


@kind('print')
def print_values(layer):
    pass
