"""Layers without parameters that combine vectors and numbers."""

from paddle.core.errors import check
from paddle.core.layer import kind


def _number_first(layer):
    check(layer.input(0).size == 1, "%s layer '%s': the first input must have size 1, not %d", layer.config.type,
          layer.config.name, layer.input(0).size)


@kind('out_prod')
def outer_product(layer):
    layer.need_inputs(2)
    left, right = layer.input_sizes()
    layer.set_size(left * right)


@kind('power', 'scaling')
def number_and_vector(layer):
    layer.need_inputs(2)
    _number_first(layer)
    layer.set_size(layer.input(1).size)


@kind('interpolation')
def interpolation(layer):
    layer.need_inputs(3)
    _number_first(layer)
    left, right = layer.input_sizes()[1:]
    check(left == right, "interpolation layer '%s': the vectors have sizes %d and %d", layer.config.name, left, right)
    layer.set_size(left)


@kind('slope_intercept')
def slope_intercept(layer, slope=1.0, intercept=0.0):
    layer.need_inputs(1)
    layer.config.slope = slope
    layer.config.intercept = intercept
    layer.set_size(layer.input(0).size)


@kind('conv_shift')
def circular_convolution(layer):
    layer.need_inputs(2)
    layer.set_size(layer.input(0).size)


@kind('convex_comb')
def linear_combination(layer):
    _vectors_of(layer)


def _vectors_of(layer):
    """The second input holds `size` vectors as long as the first."""
    layer.need_inputs(2)
    weights, vectors = layer.input_sizes()
    check(layer.size * weights == vectors, "%s layer '%s' of size %d cannot combine inputs of sizes %d and %d",
          layer.config.type, layer.config.name, layer.size, weights, vectors)


@kind('sum_to_one_norm', 'trans')
def same_size(layer):
    layer.need_inputs(1)
    layer.set_size(layer.input(0).size)


@kind('resize')
def resize(layer):
    layer.need_inputs(1)


@kind('cos', size=1)
def cosine(layer, cos_scale=1):
    layer.need_inputs(2)
    left, right = layer.input_sizes()
    check(left == right, "cos layer '%s': its inputs have sizes %d and %d", layer.config.name, left, right)
    layer.config.cos_scale = cos_scale


@kind('cos_vm')
def cosine_with_rows(layer, cos_scale=1.0):
    _vectors_of(layer)
    layer.config.cos_scale = cos_scale
