"""Recurrent layers, recurrent groups with their memories, and generation by beam search."""

from paddle.core.errors import ConfigError
from paddle.core.groups import (Generator, Link, Memory, RecurrentLayerGroupEnd, RecurrentLayerGroupSetGenerator,
                                RecurrentLayerGroupSetOutLink, RecurrentLayerGroupWithoutOutLinksBegin)
from paddle.core.log import logger
from paddle.trainer.config_parser import model_type

from .activations import IdentityActivation, LinearActivation, SigmoidActivation, TanhActivation
from .attrs import ParamAttr
from .basic_layers import embedding_layer, mixed_layer
from .default_decorators import defaults, wrap_name_default
from .output import DROPOUT, ERROR_CLIPPING, LayerOutput, LayerType, add_layer, edge, layers_of, need_layer, supports
from .projections import dotmul_operator, full_matrix_projection, identity_projection
from .sequence_layers import eos_layer, maxid_layer

__all__ = ['lstmemory', 'grumemory', 'recurrent_layer', 'lstm_step_layer', 'gru_step_layer', 'gru_step_naive_layer',
           'get_output_layer', 'memory', 'StaticInput', 'SubsequenceInput', 'recurrent_group', 'BaseGeneratedInput',
           'GeneratedInput', 'beam_search']


def _cell_size(function, name, input, size, parts, *acts):
    """The size of a cell whose input holds `parts` pieces; a size that is given must agree."""
    for act in acts:
        if not act.support_hppl:
            raise ConfigError("%s '%s': activation %r cannot be used in a cell" % (function, name, act))
    if input.size % parts != 0:
        raise ConfigError("%s '%s': %r must have a size that is a multiple of %d" % (function, name, input, parts))
    if size not in (None, input.size // parts):
        raise ConfigError("%s '%s': size is that of the input over %d, so %d, not %s"
                          % (function, name, parts, input.size // parts, size))
    return input.size // parts


@defaults('lstmemory', act=TanhActivation(), gate_act=SigmoidActivation(), state_act=TanhActivation(), weight=True,
          bias=True)
@supports(DROPOUT)
def lstmemory(input, name=None, reverse=False, act=None, gate_act=None, size=None, state_act=None, bias_attr=None,
              param_attr=None, layer_attr=None):
    """An LSTM with peephole connections over a sequence. The input is four times as wide as the output and already
    holds the products with x; `simple_lstm` includes them.

    input: a sequence of width 4 * size.
    size: width of the output; it must be a quarter of the input's.
    """
    _cell_size('lstmemory', name, input, size, 4, act, gate_act, state_act)
    return add_layer(name, LayerType.LSTMEMORY, [edge(input, param_attr)], layer_attr, parents=[input],
                     reverse=reverse, active_type=act.name, active_gate_type=gate_act.name,
                     active_state_type=state_act.name, reversed=reverse, bias=ParamAttr.to_bias(bias_attr))


@defaults('gru', act=TanhActivation(), gate_act=SigmoidActivation(), weight=True, bias=True)
@supports(DROPOUT)
def grumemory(input, name=None, reverse=False, act=None, gate_act=None, size=None, bias_attr=None, param_attr=None,
              layer_attr=None):
    """A gated recurrent unit over a sequence. The input is three times as wide as the output and already holds the
    products with x; `simple_gru2` includes them.

    input: a sequence of width 3 * size.
    size: width of the output; it must be a third of the input's.
    """
    _cell_size('grumemory', name, input, size, 3, act, gate_act)
    return add_layer(name, LayerType.GRUMEMORY, [edge(input, param_attr)], layer_attr, parents=[input],
                     reverse=reverse, active_type=act.name, active_gate_type=gate_act.name, reversed=reverse,
                     bias=ParamAttr.to_bias(bias_attr))


@defaults(None, act=TanhActivation(), weight=True, bias=True)
@supports()
def recurrent_layer(input, act=None, bias_attr=None, param_attr=None, name=None, reverse=False, layer_attr=None):
    """A simple recurrent network: act(x + W h + b), with h the output at the position before."""
    return add_layer(name, LayerType.RECURRENT_LAYER, [edge(input, param_attr)], layer_attr, parents=[input],
                     activation=act, reverse=reverse, reversed=reverse, bias=ParamAttr.to_bias(bias_attr))


@defaults('lstm_step', act=TanhActivation(), gate_act=SigmoidActivation(), state_act=SigmoidActivation(), bias=True)
@supports()
def lstm_step_layer(input, state, size=None, act=None, name=None, gate_act=None, state_act=None, bias_attr=None,
                    layer_attr=None):
    """One step of an LSTM in a recurrent group. It has a second output, `state`.

    input: a layer of width 4 * size.
    state: the memory of the state.
    size: width of the output; by default that of `state`.
    """
    return add_layer(name, LayerType.LSTM_STEP_LAYER, [input, state], layer_attr,
                     size=state.size if size is None else size, activation=act, active_gate_type=gate_act.name,
                     active_state_type=state_act.name, bias=ParamAttr.to_bias(bias_attr),
                     outputs=['default', 'state'])


@defaults('gru_step', act=TanhActivation(), gate_act=SigmoidActivation(), weight=True, bias=True)
@supports()
def gru_step_layer(input, output_mem, size=None, act=None, name=None, gate_act=None, bias_attr=None, param_attr=None,
                   layer_attr=None):
    """One step of a gated recurrent unit in a recurrent group.

    input: a layer of width 3 * size.
    output_mem: the memory of the output.
    size: width of the output; it must be a third of the input's.
    """
    size = _cell_size('gru_step_layer', name, input, size, 3)
    return add_layer(name, LayerType.GRU_STEP_LAYER, [edge(input, param_attr), output_mem], layer_attr,
                     parents=[input, output_mem], size=size, activation=act, active_gate_type=gate_act.name,
                     bias=ParamAttr.to_bias(bias_attr))


@defaults('gru_step_naive', act=TanhActivation(), gate_act=SigmoidActivation(), weight=True, bias=True)
@supports(ERROR_CLIPPING, DROPOUT)
def gru_step_naive_layer(input, output_mem, size=None, name=None, act=None, gate_act=None, bias_attr=None,
                         param_attr=None, layer_attr=None):
    """As `gru_step_layer`, made of mixed layers, so that its parts can have dropout and error clipping.

    input: a layer of width 3 * size.
    output_mem: the memory of the output.
    size: width of the output; it must be a third of the input's.
    """
    size = _cell_size('gru_step_naive_layer', name, input, size, 3)

    def part(suffix, offset, source, activation):
        with mixed_layer(name='%s_%s' % (name, suffix), size=size, layer_attr=layer_attr, bias_attr=bias_attr,
                         act=activation) as mixed:
            mixed += identity_projection(input=input, offset=offset)
            mixed += full_matrix_projection(input=source, param_attr=param_attr)
        return mixed

    update = part('update', 0, output_mem, gate_act)
    reset = part('reset', size, output_mem, gate_act)
    with mixed_layer(name=name + '_reset_output', bias_attr=False) as remembered:
        remembered += dotmul_operator(a=output_mem, b=reset)
    candidate = part('output_candidate', 2 * size, remembered, act)
    with mixed_layer(name=name) as output:
        output += identity_projection(output_mem)
        output += dotmul_operator(a=output_mem, b=update, scale=-1.0)
        output += dotmul_operator(a=candidate, b=update)
    return output


@defaults(None)
@supports()
def get_output_layer(input, arg_name, name=None, layer_attr=None):
    """An output of a layer other than its first, such as `state` of `lstm_step_layer`.

    arg_name: the name of the output.
    """
    if arg_name not in input.outputs:
        raise ConfigError("get_output_layer: %r has the outputs %s, not '%s'"
                          % (input, ', '.join(input.outputs), arg_name))
    return add_layer(name, LayerType.GET_OUTPUT_LAYER, [edge(input, input_layer_argument=arg_name)], layer_attr,
                     parents=[input], size=input.size)


@wrap_name_default('memory', 'memory_name')
def memory(name, size, memory_name=None, is_seq=False, boot_layer=None, boot_bias=None, boot_bias_active_type=None,
           boot_with_const_id=None):
    """In a recurrent group: the output of a layer at the step before.

    name: the layer that is remembered; without it, call `set_input` of the result later.
    size: width of that layer.
    memory_name: name of the memory, if `name` is not given.
    is_seq: whether a sequence is remembered.
    boot_layer: the layer with the value for the first step; by default it is zero.
    boot_bias: the `ParamAttr` of a trained value for the first step.
    boot_bias_active_type: the activation of `boot_bias`; by default linear.
    boot_with_const_id: an id for the first step.
    """
    act = LinearActivation() if boot_bias_active_type is None else boot_bias_active_type
    link = Memory(name, size, is_sequence=is_seq, boot_layer=None if boot_layer is None else boot_layer.name,
                  boot_bias=ParamAttr.to_bias(boot_bias), boot_bias_active_type=act.name,
                  boot_with_const_id=boot_with_const_id, memory_name=None if name is not None else memory_name)
    return LayerOutput(link, LayerType.MEMORY, parents=None if boot_layer is None else [boot_layer], size=size)


class StaticInput(object):
    """An input that is the same in every step of a recurrent group.

    is_seq: whether it is a sequence.
    size: width, if the layer does not know it.
    """

    def __init__(self, input, is_seq=False, size=None):
        self.input = need_layer(input, 'input', 'StaticInput')
        self.is_seq = is_seq
        if size is not None:
            input.size = size


class SubsequenceInput(object):
    """A nested sequence as an input of a recurrent group: each step gets one inner sequence."""

    def __init__(self, input):
        self.input = need_layer(input, 'input', 'SubsequenceInput')


def _listed(input):
    return list(input) if isinstance(input, (list, tuple)) else [input]


@wrap_name_default('recurrent_group')
def recurrent_group(step, input, reverse=False, name=None, targetInlink=None, is_generating=False):
    """Calls `step` once to describe what happens at every position of the sequences in `input`.

    step: a function that gets one layer per input and returns the layer, or a list of layers, that leave the group.
    input: a sequence, or a list of sequences, `StaticInput` and `SubsequenceInput`.
    targetInlink: the input whose lengths the output takes; by default the first.
    is_generating: set by `beam_search`.
    """
    model_type('recurrent_nn')
    inputs = _listed(input)
    for each in inputs:
        if not isinstance(each, (LayerOutput, StaticInput, SubsequenceInput)):
            raise ConfigError("recurrent_group '%s': %r is neither a layer nor StaticInput nor SubsequenceInput"
                              % (name, each))
    links = [each for each in inputs if not isinstance(each, StaticInput)]
    if bool(links) == is_generating:
        raise ConfigError("recurrent_group '%s' %s" % (name, 'generates, so it takes StaticInput only'
                                                       if links else 'needs a sequence as input'))
    RecurrentLayerGroupWithoutOutLinksBegin(name=name, in_links=[_in_link(each) for each in links],
                                            seq_reversed=reverse, target_inlinkname=_target(name, targetInlink, links))
    arguments = [_static(each) if isinstance(each, StaticInput) else getattr(each, 'input', each) for each in inputs]
    results = step(*arguments)
    nested = any(isinstance(each, SubsequenceInput) for each in links)
    for result in layers_of(results, 'the result of step', "recurrent_group '%s'" % name):
        result.reverse = reverse
        RecurrentLayerGroupSetOutLink(Link(result.name, has_subseq=nested))
    RecurrentLayerGroupEnd(name=name)
    return results[0] if isinstance(results, (list, tuple)) and len(results) == 1 else results


def _in_link(link):
    return Link(link.input.name, has_subseq=True) if isinstance(link, SubsequenceInput) else link.name


def _target(name, target, links):
    """The name of the input whose lengths the output takes."""
    if target is None:
        return None
    if not any(target in (link, getattr(link, 'input', None)) for link in links):
        raise ConfigError("recurrent_group '%s': targetInlink is not one of its inputs" % name)
    return getattr(target, 'input', target).name


def _static(static):
    """A memory that remembers itself, so that every step sees the value it started with."""
    name = '__%s_memory__' % static.input.name
    remembered = memory(name=name, is_seq=static.is_seq, size=static.input.size, boot_layer=static.input)
    with mixed_layer(name=name, size=static.input.size, act=IdentityActivation()) as mixed:
        mixed += identity_projection(remembered)
    return remembered


class BaseGeneratedInput(object):
    """An input of `beam_search` that is made of what was generated in the step before."""

    def __init__(self):
        self.bos_id = None
        self.eos_id = None

    def before_real_step(self):
        """What the step gets."""
        raise NotImplementedError()

    def after_real_step(self, *args):
        """What is made of the step's result."""
        raise NotImplementedError()


class GeneratedInput(BaseGeneratedInput):
    """The embedding of the word that was generated in the step before, an input of `beam_search`.

    size: number of words.
    embedding_name: name of the embedding's parameter.
    embedding_size: width of the embedding.
    """

    def __init__(self, size, embedding_name, embedding_size):
        BaseGeneratedInput.__init__(self)
        self.size = size
        self.embedding_name = embedding_name
        self.embedding_size = embedding_size

    def before_real_step(self):
        word = memory(name='__beam_search_predict__', size=self.size, boot_with_const_id=self.bos_id)
        return embedding_layer(input=word, size=self.embedding_size, param_attr=ParamAttr(name=self.embedding_name))

    def after_real_step(self, input):
        return maxid_layer(input=input, name='__beam_search_predict__')


@defaults(None)
def beam_search(step, input, bos_id, eos_id, beam_size, max_length=500, name=None, num_results_per_sample=None):
    """Generates sequences, word by word.

    step: a function that gets one layer per input and returns the probabilities of the next word.
    input: a list with exactly one `GeneratedInput`; the others are `StaticInput`.
    bos_id, eos_id: the ids that begin and end a sequence.
    beam_size: number of sequences that are followed at once.
    max_length: longest sequence.
    num_results_per_sample: sequences to return; by default `beam_size`.
    """
    results = beam_size if num_results_per_sample is None else num_results_per_sample
    if results > beam_size:
        logger.warning('beam_search: %d results per sample need a beam of at least that size', results)
    inputs = _listed(input)
    places = [index for index, each in enumerate(inputs) if isinstance(each, BaseGeneratedInput)]
    if len(places) != 1:
        raise ConfigError("beam_search '%s' needs exactly one GeneratedInput, not %d" % (name, len(places)))
    generated = inputs.pop(places[0])
    generated.bos_id, generated.eos_id = bos_id, eos_id
    eos_name = '__%s_eos_layer__' % name

    def generate(*arguments):
        RecurrentLayerGroupSetGenerator(Generator(eos_layer_name=eos_name, max_num_frames=max_length,
                                                  beam_size=beam_size, num_results_per_sample=results))
        arguments = list(arguments)
        arguments.insert(places[0], generated.before_real_step())
        word = generated.after_real_step(step(*arguments))
        eos_layer(input=word, eos_id=eos_id, name=eos_name)
        return word

    return recurrent_group(step=generate, input=inputs, reverse=False, name=name, is_generating=True)
