"""Recurrent groups: a sub-model that runs once per step, its links to the outside, its memories, its generator."""

from paddle.core.errors import check
from paddle.core.job import job
from paddle.core.layer import Layer
from paddle.core.message import Message


def Link(name, has_subseq=False):
    """A sequence that enters or leaves a group."""
    return Message('LinkConfig', link_name=name, has_subseq=has_subseq)


def _link(link):
    """Name and nesting of a link that may be a bare name."""
    return (link, False) if isinstance(link, str) else (link.link_name, link.has_subseq)


def RecurrentLayerGroupWithoutOutLinksBegin(name, in_links, seq_reversed=False, target_inlinkname=''):
    """Begins a group that reads `in_links`; its outputs are set later."""
    here = job()
    check(here.model.type == 'recurrent_nn', "recurrent group '%s': say model_type('recurrent_nn') first", name)
    here.pass_image_shape = False
    Layer(name=name, type='recurrent_layer_group')
    here.begin_submodel(name)
    group = here.current
    group.is_recurrent_layer_group = True
    group.reversed = seq_reversed
    group.target_inlinkid = -1
    links = [_link(link) for link in in_links]
    check(len(set(nested for _, nested in links)) <= 1,
          "recurrent group '%s': its inputs must all be sequences or all be nested sequences", name)
    for index, (link, nested) in enumerate(links):
        if link == target_inlinkname:
            group.target_inlinkid = index
        outer = here.outer_name(link)
        source = here.layer(outer, "recurrent group '%s'" % name)
        Layer(name=link, type='sequence_scatter_agent' if nested else 'scatter_agent', size=source.size)
        group.add('in_links', layer_name=outer, link_name=here.inner_name(link), has_subseq=nested)


def RecurrentLayerGroupSetOutLink(link):
    """Makes a layer of the group an output of it."""
    name, nested = _link(link)
    here = job()
    here.current.add('out_links', layer_name=here.inner_name(name), link_name=here.outer_name(name),
                     has_subseq=nested)


def RecurrentLayerGroupSetGenerator(generator=None):
    """Makes the group generate sequences."""
    here = job()
    generator = generator.copy()
    generator.eos_layer_name = here.inner_name(generator.eos_layer_name)
    here.current.generator = generator


def RecurrentLayerGroupBegin(name, in_links, out_links, generator=None, target_inlinkname='', seq_reversed=False):
    """Begins a group with all its links in one call."""
    RecurrentLayerGroupWithoutOutLinksBegin(name, in_links, seq_reversed, target_inlinkname)
    for link in out_links:
        RecurrentLayerGroupSetOutLink(link)
    if generator is not None:
        check(not in_links and out_links, "recurrent group '%s': a generator has outputs but no inputs", name)
        RecurrentLayerGroupSetGenerator(generator)


def RecurrentLayerGroupEnd(name):
    """Ends the group and makes its outputs layers of the model around it."""
    here = job()
    check(here.current.is_recurrent_layer_group, "recurrent group '%s' has not begun", name)
    for memory in here.current.memories:
        check(memory.layer_name in here.layers, "memory '%s' remembers layer '%s', which the group does not have",
              memory.link_name, memory.layer_name)
        remembered, size = here.layers[memory.layer_name], here.layers[memory.link_name].size
        check(remembered.size == size, "memory '%s' has size %d, but layer '%s' has size %d", memory.link_name, size,
              memory.layer_name, remembered.size)
    group = here.end_submodel(name)
    for link in group.out_links:
        check(link.layer_name in here.layers, "recurrent group '%s' has no layer '%s'", name, link.layer_name)
        if group.HasField('generator'):
            agent = 'data'
        else:
            agent = 'sequence_gather_agent' if link.has_subseq else 'gather_agent'
        Layer(name=link.link_name.split('@')[0], type=agent, size=here.layers[link.layer_name].size)


def Memory(name, size, is_sequence=False, boot_layer=None, boot_bias=False, boot_bias_active_type='',
           boot_with_const_id=None, memory_name=None):
    """The value of layer `name` in the previous step; returns the name under which it can be used."""
    here = job()
    check(name is not None or memory_name, 'a memory needs name= or memory_name=')
    memory_name = memory_name or name + '+delay1'
    check(here.current.is_recurrent_layer_group, "memory '%s' is outside a recurrent group", memory_name)
    agent = Layer(name=memory_name, type='sequence_agent' if is_sequence else 'agent', size=size)
    memory = here.current.add('memories', link_name=agent.config.name, is_sequence=is_sequence)
    if name is not None:
        memory.layer_name = here.inner_name(name)
    boots = [boot_layer is not None, bool(boot_bias), boot_with_const_id is not None]
    check(sum(boots) <= 1, "memory '%s': only one of boot_layer, boot_bias, boot_with_const_id can be given",
          memory_name)
    if boot_layer is not None:
        memory.boot_layer_name = here.outer_name(boot_layer)
        here.layer(memory.boot_layer_name, "memory '%s'" % memory_name)
    elif boot_bias:
        memory.boot_bias_parameter_name = agent.loose_bias(boot_bias, size)
        memory.boot_bias_active_type = boot_bias_active_type
    elif boot_with_const_id is not None:
        memory.boot_with_const_id = boot_with_const_id
    return memory_name


def SetMemoryInput(memory_name, layer_name):
    """Sets the layer of a memory, if that was not known when the memory was created."""
    here = job()
    wanted = here.inner_name(memory_name)
    for memory in here.current.memories:
        if memory.link_name == wanted:
            memory.layer_name = here.inner_name(layer_name)
            return
    check(False, "there is no memory '%s'", memory_name)


def Generator(max_num_frames, eos_layer_name='eos_check', num_results_per_sample=1, beam_size=1, log_prob=None):
    """How a group generates: until the end layer stops it or `max_num_frames` steps are done."""
    generator = Message('GeneratorConfig', max_num_frames=max_num_frames, eos_layer_name=eos_layer_name,
                        num_results_per_sample=num_results_per_sample, beam_size=beam_size)
    if log_prob is not None:
        generator.log_prob = log_prob
    return generator
