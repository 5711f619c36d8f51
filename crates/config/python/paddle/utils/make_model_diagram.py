"""Writes a network for Graphviz: `python -m paddle.utils.make_model_diagram CONFIG OUT.dot [ARGUMENTS]`."""

import sys

from paddle.trainer.config_parser import parse_config


def make_layer_label(layer_config):
    """What stands in the box of a layer."""
    label = '%s type=%s%s' % (layer_config.name, layer_config.type, ' <==' if layer_config.reversed else '')
    more = ['act=' + layer_config.active_type] if layer_config.active_type else []
    more += ['bias=' + layer_config.bias_parameter_name] if layer_config.bias_parameter_name else []
    return label + ('\\l' + ' '.join(more) + ' ' if more else '')


def diagram(model):
    """The text for Graphviz: boxes, dashed frames around recurrent groups, arrows with parameters."""
    number = {layer.name: place for place, layer in enumerate(model.layers)}
    groups = [group for group in model.sub_models if group.name != 'root']
    inside = {name for group in groups for name in list(group.layer_names) + [group.name]}

    def box(name):
        return 'l%d [label="%s", shape=box];' % (number[name], make_layer_label(model.layers[number[name]]))

    def arrow(start, end, more=''):
        return 'l%d -> l%d%s;' % (number[start], number[end], more)

    out = ['digraph graphname {', 'node [width=0.375,height=0.25];']
    for place, group in enumerate(groups):
        out += ['subgraph cluster_%d {' % place, 'style=dashed;',
                'label = "%s %s";' % (group.name, '<==' if group.reversed else '')]
        out += [box(name) for name in group.layer_names] + ['}']
    out += [box(layer.name) for layer in model.layers if layer.name not in inside]
    for group in groups:
        out += [arrow(link.layer_name, link.link_name) for link in list(group.in_links) + list(group.out_links)]
        for memory in group.memories:
            if memory.boot_layer_name:
                out.append(arrow(memory.boot_layer_name, memory.layer_name))
            out.append(arrow(memory.layer_name, memory.link_name, ' [style=dashed]'))
    for layer in model.layers:
        out += [arrow(each.input_layer_name, layer.name, ' [label="%s"]' % each.input_parameter_name)
                for each in layer.inputs]
    return '\n'.join(out + ['}', ''])


def make_diagram(config_file, dot_file, config_arg_str=''):
    """Evaluates a configuration and writes its diagram."""
    text = diagram(parse_config(config_file, config_arg_str).model_config)
    with open(dot_file, 'w') as out:
        out.write(text)


if __name__ == '__main__':
    if len(sys.argv) not in (3, 4):
        sys.exit('usage: python -m paddle.utils.make_model_diagram CONFIG OUT.dot [ARGUMENTS]')
    make_diagram(*sys.argv[1:])
