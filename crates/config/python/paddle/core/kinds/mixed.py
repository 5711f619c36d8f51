"""Mixed layers: sums (or, for concat2, concatenations) of projections and operators."""

from paddle.core.errors import check
from paddle.core.inputs import ConvProjection, Input, Projection
from paddle.core.layer import kind


@kind('mixed')
def mixed(layer, bias=True):
    check(layer.inputs, "mixed layer '%s' has no inputs", layer.config.name)
    of_operators = _connect_operators(layer)
    for index, edge in enumerate(layer.inputs):
        if isinstance(edge, Projection):
            _agree(layer, edge.output_size(layer.input(index).size))
        else:
            check(index in of_operators, "mixed layer '%s': input %d is neither projection nor operator",
                  layer.config.name, index)
    check(layer.size != 0, "mixed layer '%s' needs a size: none of its inputs has one", layer.config.name)
    for index, edge in enumerate(layer.inputs):
        if isinstance(edge, Projection):
            _project(layer, index, edge, layer.size)
    for operator in layer.operators:
        operator.operator_conf.output_size = layer.size
        operator.check_sizes()
        layer.config.operator_confs.append(operator.operator_conf)
    _mixed_bias(layer, bias)


def _connect_operators(layer):
    """Adds the further inputs of operators after all first ones; returns the indices that operators use."""
    used = []
    for operator in layer.operators:
        conf = operator.operator_conf
        for name in operator.input_layer_names[1:]:
            conf.input_indices.append(len(layer.inputs))
            layer.add_edge(Input(name))
        conf.input_sizes = [layer.input(index).size for index in conf.input_indices]
        used.extend(conf.input_indices)
        _agree(layer, operator.output_size(conf.input_sizes))
    return used


def _agree(layer, size):
    if size != 0:
        layer.set_size(size)


def _project(layer, index, edge, output_size):
    input_size = layer.input(index).size
    conf = edge.proj_conf
    conf.input_size = input_size
    conf.output_size = output_size
    conf.name = '_%s.w%d' % (layer.base_name, index)
    layer.config.inputs[index].proj_conf = conf
    size, dims = edge.parameter(input_size, output_size)
    layer.weight(index, dims, size)


def _mixed_bias(layer, bias):
    size = layer.size
    if type(layer.inputs[0]) is ConvProjection:
        layer.config.shared_biases = True
        size = sum(edge.bias_size() for edge in layer.inputs)
    if bias:
        layer.config.bias_size = size
        layer.bias(bias, size)


@kind('concat2')
def concatenate_projections(layer, bias=False):
    check(layer.inputs, "concat layer '%s' has no inputs", layer.config.name)
    name = layer.config.name
    if isinstance(layer.inputs[0], ConvProjection):
        check(all(isinstance(edge, ConvProjection) for edge in layer.inputs),
              "concat layer '%s': convolutions can only be joined with convolutions", name)
    sizes = [edge.output_size(layer.input(index).size) for index, edge in enumerate(layer.inputs)]
    check(all(sizes), "concat layer '%s': every projection needs a size", name)
    layer.set_size(sum(sizes))
    for index, edge in enumerate(layer.inputs):
        _project(layer, index, edge, sizes[index])
    _mixed_bias(layer, bias)
