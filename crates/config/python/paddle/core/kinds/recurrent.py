"""Recurrent layers and the steps of recurrent groups."""

from paddle.core.errors import check
from paddle.core.layer import kind


def _part(layer, parts):
    """The layer's size when its input holds `parts` equal pieces."""
    size = layer.input(0).size
    check(size % parts == 0, "%s layer '%s': its input has size %d, a multiple of %d is needed", layer.config.type,
          layer.config.name, size, parts)
    return size // parts


def _step(layer, parts):
    layer.need_inputs(2)
    check(layer.input_sizes() == [parts * layer.size, layer.size],
          "%s layer '%s' of size %d needs inputs of size %d and %d, not %s", layer.config.type, layer.config.name,
          layer.size, parts * layer.size, layer.size, layer.input_sizes())


@kind('recurrent')
def recurrent(layer, reversed=False, bias=True):
    layer.need_inputs(1)
    size = layer.input(0).size
    layer.set_size(size)
    layer.config.reversed = reversed
    layer.weight(0, [size, size])
    layer.bias(bias, size)


@kind('lstmemory')
def lstm(layer, reversed=False, active_gate_type='sigmoid', active_state_type='sigmoid', bias=True):
    layer.need_inputs(1)
    size = _part(layer, 4)
    layer.set_size(size)
    config = layer.config
    config.reversed = reversed
    config.active_gate_type = active_gate_type
    config.active_state_type = active_state_type
    layer.weight(0, [size, size, 4])
    layer.bias(bias, size * 7)  # four biases and three peepholes


@kind('lstm_step')
def lstm_step(layer, active_gate_type='sigmoid', active_state_type='sigmoid', bias=True):
    _step(layer, 4)
    layer.config.active_gate_type = active_gate_type
    layer.config.active_state_type = active_state_type
    layer.bias(bias, layer.size * 3)


@kind('mdlstmemory')
def multi_dimensional_lstm(layer, directions, active_gate_type='sigmoid', active_state_type='sigmoid', bias=True):
    layer.need_inputs(1)
    axes = len(directions)
    size = _part(layer, 3 + axes)
    layer.set_size(size)
    config = layer.config
    config.active_gate_type = active_gate_type
    config.active_state_type = active_state_type
    config.directions = directions
    layer.weight(0, [size, size, 3 + axes])
    layer.bias(bias, size * (5 + 2 * axes))


@kind('gated_recurrent')
def gru(layer, reversed=False, active_gate_type='sigmoid', bias=True):
    layer.need_inputs(1)
    size = _part(layer, 3)
    layer.set_size(size)
    layer.config.reversed = reversed
    _gru_parameters(layer, active_gate_type, bias)


@kind('gru_step')
def gru_step(layer, active_gate_type='sigmoid', bias=True):
    _step(layer, 3)
    _gru_parameters(layer, active_gate_type, bias)


def _gru_parameters(layer, active_gate_type, bias):
    layer.config.active_gate_type = active_gate_type
    layer.weight(0, [layer.size, layer.size * 3])
    layer.bias(bias, layer.size * 3)


@kind('get_output')
def get_output(layer):
    layer.need_inputs(1)
    check(layer.inputs[0].input_layer_argument, "get_output layer '%s' needs input_layer_argument",
          layer.config.name)


@kind('recurrent_layer_group', 'agent', 'sequence_agent', 'gather_agent', 'scatter_agent', 'sequence_gather_agent',
      'sequence_scatter_agent')
def stand_in(layer):
    """A layer that represents one in another sub-model."""
