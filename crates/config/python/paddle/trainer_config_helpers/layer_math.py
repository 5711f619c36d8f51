"""Arithmetic on layers: `layer_math.exp(x)` and `x + y`, `x - 1`, `2 * x`."""

from paddle.core.errors import ConfigError

from . import activations as act
from .attrs import is_compatible_with
from .basic_layers import mixed_layer, scaling_layer, slope_intercept_layer
from .default_decorators import wrap_name_default
from .output import LayerOutput
from .projections import identity_projection
from .sequence_layers import repeat_layer

__all__ = ['exp', 'log', 'abs', 'sigmoid', 'tanh', 'square', 'relu']


def _function(name, activation):
    def function(input, name=None):
        return mixed_layer(input=[identity_projection(input=input)], name=name, act=activation)
    function.__doc__ = activation.__doc__
    return wrap_name_default(name)(function)


exp = _function('exp', act.ExpActivation())
log = _function('log', act.LogActivation())
abs = _function('abs', act.AbsActivation())
sigmoid = _function('sigmoid', act.SigmoidActivation())
tanh = _function('tanh', act.TanhActivation())
square = _function('square', act.SquareActivation())
relu = _function('relu', act.ReluActivation())


def _operand(other, operation):
    if not isinstance(other, LayerOutput):
        raise ConfigError('a layer can be %s a layer or a number, not %r' % (operation, other))
    return other


def add(layer, other):
    """layer + other; of two layers one may have size 1."""
    if is_compatible_with(other, float):
        return slope_intercept_layer(input=layer, intercept=other)
    _operand(other, 'added to')
    if layer.size != other.size:
        if layer.size == 1:
            layer, other = other, layer
        if other.size != 1:
            raise ConfigError('%r and %r differ in size, and none has size 1' % (layer, other))
        other = repeat_layer(other, layer.size)
    return mixed_layer(input=[identity_projection(input=layer), identity_projection(input=other)])


def sub(layer, other):
    """layer - other. As in v1, a number is added, not subtracted: trained models depend on it."""
    if is_compatible_with(other, float):
        return slope_intercept_layer(input=layer, intercept=other)
    return add(layer, slope_intercept_layer(input=_operand(other, 'subtracted from'), slope=-1.0))


def rsub(layer, other):
    """other - layer"""
    return add(slope_intercept_layer(input=layer, slope=-1.0), other)


def mul(layer, other):
    """layer * other; one of them is a number or a layer of size 1."""
    if is_compatible_with(other, float):
        return slope_intercept_layer(input=layer, slope=other)
    if _operand(other, 'multiplied with').size == 1:
        layer, other = (layer, other) if layer.size == 1 else (other, layer)
    if layer.size != 1:
        raise ConfigError('one of %r and %r must have size 1' % (layer, other))
    return scaling_layer(input=other, weight=layer)


LayerOutput.__add__ = LayerOutput.__radd__ = add
LayerOutput.__sub__ = sub
LayerOutput.__rsub__ = rsub
LayerOutput.__mul__ = LayerOutput.__rmul__ = mul
