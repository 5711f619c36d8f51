#!/usr/bin/env python3
"""Writes docs/reference/ from the code: the Python package, the program's own output, and tables in Rust sources.

    docs/reference.py --canoe target/debug/canoe            writes the pages
    docs/reference.py --canoe target/debug/canoe --check    fails if a page is not what it would write

An argument of a function that nothing explains is an error: explain it in the docstring, or in SHARED if many have it.
"""
import argparse
import pathlib
import sys

sys.dont_write_bytecode = True
from generate import package, rust, v1
from generate.program import Program, rows

DOCS = pathlib.Path(__file__).resolve().parent
ROOT = DOCS.parent
HELPERS = ROOT / 'crates/config/python/paddle/trainer_config_helpers'
TRAINER = ROOT / 'crates/config/python/paddle/trainer'
NOTE = '<!-- Written by docs/reference.py: change the code that it reads, then run it again. -->\n'

# Arguments that mean the same in many functions. A docstring overrides them.
SHARED = {
    'name': 'name of the layer; by default it is numbered',
    'input': 'the layer to read',
    'size': 'width of the output',
    'act': 'the activation',
    'gate_act': 'the activation of the gates',
    'state_act': 'the activation of the state',
    'param_attr': 'the `ParamAttr` of the weight',
    'bias_attr': 'the `ParamAttr` of the bias; False: none, True: one that starts at 0',
    'layer_attr': 'an `ExtraAttr`',
    'label': 'the data layer with the label',
    'weight': 'a layer of size 1 with the weight of each sample',
    'coeff': 'factor on the cost',
    'num_channels': 'channels of the input, if it does not know them',
    'reverse': 'read the sequence from its end',
    'agg_level': 'in nested sequences: `AggregateLevel.EACH_TIMESTEP` works over the whole sequence, '
                 '`AggregateLevel.EACH_SEQUENCE` over each inner one',
    'dim': 'width of the vector',
    'value_range': 'integers are 0 to `value_range - 1`',
    'seq_type': 'use the functions that end in `_sequence` and `_sub_sequence` instead',
}


def read(path):
    return (ROOT / path).read_text(encoding='utf-8')


def cell(text):
    return ' '.join(text.split()).replace('|', '\\|')


def table(head, lines):
    """A Markdown table."""
    out = ['| %s |' % ' | '.join(head), '|%s' % ('---|' * len(head))]
    return '\n'.join(out + ['| %s |' % ' | '.join(cell(each) for each in line) for line in lines])


class Functions:
    """Sections for the functions of the package, and what is missing in their docstrings."""

    def __init__(self):
        features = package.Module(HELPERS / 'output.py').constants()
        self.modules = {path.stem: package.Module(path, features) for path in sorted(HELPERS.glob('*.py'))}
        self.modules['PyDataProvider2'] = package.Module(TRAINER / 'PyDataProvider2.py')
        self.modules['config_parser_raw'] = package.Module(TRAINER / 'config_parser.py')
        self.types = self.modules['output'].constants('LayerType')
        self.registry = rust.registered(read('crates/nn/src/layers/mod.rs'))
        self.unexplained = []

    def section(self, module, name, shared=SHARED):
        """One function or class."""
        module = self.modules[module]
        entry = module.entries[module.aliases.get(name, name)]
        signature = ', '.join(one if default is None else '%s=…' % one for one, default in entry.arguments
                              if default != '')
        parts = ['### `%s`' % name, '```python\n%s(%s)\n```' % (name, signature), entry.text]
        lines = []
        for argument, written in entry.arguments:
            meaning = entry.meaning(argument) or shared.get(argument)
            if meaning is None:
                self.unexplained.append('%s(%s) is not explained' % (name, argument))
                continue
            meaning = meaning.rstrip('.')
            default = entry.default(argument, written)
            default = '' if default == 'None' else default
            if argument == 'layer_attr' and entry.supported is not None:
                known = [each for each in entry.supported]
                meaning += '; it may set %s' % ' and '.join('`%s`' % each for each in known) if known else \
                    '; it may set neither dropout nor error clipping'
            plain = default in (None, '', 'with a bias', 'no bias')
            lines.append(('`%s`' % argument, 'required' if default is None else default if plain else '`%s`' % default,
                          meaning))
        self.unexplained += ['%s has no argument %s' % (name, each) for each in entry.strangers()]
        if lines:
            parts.append(table(('argument', 'default', 'meaning'), lines))
        return '\n\n'.join(each for each in parts if each)

    def sections(self, module, names=None):
        aliases = self.modules[module].aliases
        names = [each for each in names or self.modules[module].public if each not in aliases]
        return '\n\n'.join(self.section(module, name) for name in names)


def layers(functions):
    families = (
        ('basic_layers', 'Layers on vectors'), ('projections', 'Projections and operators: the terms of `mixed_layer`'),
        ('image_layers', 'Layers on images'), ('sequence_layers', 'Layers on sequences'),
        ('recurrent_layers', 'Recurrent layers'), ('cost_layers', 'Costs'))
    parts = ['# Layers', 'The functions that describe a network, after `from paddle.trainer_config_helpers import *`. '
             'Each returns a layer, to be used as an input of others. Layers support `+`, `-` and `*` with numbers and '
             'layers; `layer_math.exp`, `log`, `abs`, `sigmoid`, `tanh`, `square` and `relu` apply a function.',
             'Activations, poolings, `ParamAttr` and `ExtraAttr`: [attributes](attributes.md). '
             'Networks of several layers: [networks](networks.md).']
    index = []
    for module, title in families:
        names = [each for each in functions.modules[module].public if each != 'BaseGeneratedInput']
        index.append('**%s:** %s' % (title, ', '.join('[`%s`](#%s)' % (
            each, functions.modules[module].aliases.get(each, each).lower()) for each in names)))
    parts += index
    for module, title in families:
        names = [each for each in functions.modules[module].public if each != 'BaseGeneratedInput']
        parts += ['## %s' % title, functions.sections(module, names)]
    return parts + ['## Layers by type', TYPES % ', '.join('`%s`' % each for each in sorted(functions.registry))]


TYPES = ('`Layer(name=…, type=…, inputs=[…], size=…)` adds a layer by the name of its type; old configurations mix this form '
         'with the functions above. These types can be trained: %s. `conv` and `convt` become `exconv` and `exconvt`; '
         '`seqfirstins` is computed as `seqlastins`.')


def networks(functions):
    return ['# Networks', 'Functions that make several layers at once.', functions.sections('networks')]


def evaluators(functions):
    return ['# Evaluators', 'An evaluator measures something besides the cost. Progress lines, tests, the page and '
            'the record show its value. `classification_cost` adds an evaluator by itself.',
            functions.sections('evaluators')]


def optimizers(functions):
    methods = ['MomentumOptimizer', 'AdamOptimizer', 'AdamaxOptimizer', 'AdaGradOptimizer', 'DecayedAdaGradOptimizer',
               'RMSPropOptimizer', 'AdaDeltaOptimizer']
    files = ['momentum', 'adam', 'adamax', 'adagrad', 'decayed_adagrad', 'rmsprop', 'adadelta']
    sections = []
    for name, file in zip(methods, files):
        formula = rust.head_formula(read('crates/optim/src/method/%s.rs' % file))
        sections += [functions.section('optimizers', name), '```text\n%s\n```' % formula]
    return ['# Settings and optimizers', functions.section('optimizers', 'settings'), '## Learning rate schedules',
            'r is `learning_rate`, n the number of samples of all trainers so far, a and b are '
            '`learning_rate_decay_a` and `learning_rate_decay_b`.',
            rust.head_table(read('crates/optim/src/schedule.rs')), '## Methods',
            'g is the gradient, summed over the batches of all trainers; w the value; lr the rate of the schedule; mu the '
            'momentum; l2 the regularization.'] + sections + [
            '## Regularization and averaging', functions.section('optimizers', 'L2Regularization'),
            functions.section('optimizers', 'ModelAverage')]


def attributes(functions):
    activations = []
    for names, arguments in functions.modules['activations'].calls('_activation'):
        activations.append((', '.join('`%s()`' % each for each in names), '`%s`' % arguments[1], arguments[2],
                            'yes' if arguments[3:] == [True] else ''))
    pooling = ['MaxPooling', 'AvgPooling', 'SumPooling', 'SquareRootNPooling', 'CudnnMaxPooling', 'CudnnAvgPooling']
    return ['# Activations, poolings, attributes', '## Activations',
            table(('activation', 'name in the configuration', 'formula', 'in LSTM and GRU cells'), activations),
            '## Poolings', functions.sections('poolings', pooling), '## Attributes',
            functions.section('attrs', 'ParameterAttribute'), functions.section('attrs', 'ExtraLayerAttribute')]


def data(functions):
    kinds = ['dense_vector', 'sparse_binary_vector', 'sparse_vector', 'integer_value']
    lines = []
    for kind in kinds:
        for suffix in ('', '_sequence', '_sub_sequence'):
            lines.append(('`%s%s`' % (kind, suffix), functions.modules['PyDataProvider2'].entries[kind + suffix].text))
    native = functions.modules['native_readers'].public
    return ['# Data', 'How to use these: [data and readers](../data.md).', '## Native readers',
            functions.sections('native_readers', native), '## Data providers',
            functions.section('data_sources', 'define_py_data_sources2'),
            functions.section('PyDataProvider2', 'provider'), '## Data types',
            'The types of `input_types`. The argument is the width, or for integers their range.',
            table(('type', 'what a provider yields'), lines),
            'Old names: `dense_slot`, `sparse_non_value_slot`, `sparse_value_slot`, `index_slot`, `integer_sequence`.']


def commands(program):
    parts = ['# Commands', 'What `--help` says. `canoe train` and `canoe pserver` have [v1\'s flags](flags.md).']
    for words, text in program.commands():
        parts += ['## `canoe %s`' % ' '.join(words), '```text\n%s\n```' % text.rstrip()]
    return parts


def flags(program):
    parts = ['# Flags of `canoe train` and `canoe pserver`',
             'They have the names that they had in v1: `--name=value`, or `--name value`.']
    for command in ('train', 'pserver'):
        working, ignored = program.flags(command)
        parts += ['## `canoe %s`' % command, table(('flag', 'default', 'meaning'), [
            ('`--%s`' % name, '`%s`' % default if default else '', text) for name, default, text in working])]
        parts += ['Accepted, without effect:', table(('flag', 'why'), [
            ('`--%s`' % name, text) for name, _, text in ignored])]
    return parts


def schema_page(title, text, schema):
    lines = rows(schema, schema.get('$defs', {}))
    return [title, text, table(('key', 'type', 'default', 'meaning'),
                               [('`%s`' % key, kind, default, meaning) for key, kind, default, meaning in lines])]


def record(_):
    source = read('crates/words/src/event.rs') + read('crates/words/src/result.rs')
    parts = ['# The record', 'What the lines of `output/**/*.events.jsonl` hold. Each is a JSON object with `t`, the seconds '
             'since 1970, `kind`, and the fields of its kind. Ignore kinds and fields that you do not know. '
             'Which process writes which file: [watching](../watching.md#the-record).']
    for name, comment, inner in rust.variants(rust.block(source, 'pub enum Event {')):
        if name == 'Unknown':
            continue
        found = rust.fields(rust.block(source, 'pub struct %s {' % inner)) if isinstance(inner, str) else inner or []
        flat = []
        for each in found:
            flat += rust.fields(rust.block(source, 'pub struct Figures {')) if each[1] == 'Figures' else [each]
        parts += ['## `%s`' % rust.snake(name), comment,
                  table(('field', 'type', 'meaning'), [('`%s`' % f, rust.json_type(t), c) for f, t, c in flat])]
    words = (('what', 'ProcessChange', 'process'), ('outcome', 'JobOutcome', 'job_end'))
    for field, enum, kind in words:
        found = rust.variants(rust.block(source, 'pub enum %s {' % enum))
        parts += ['## Values of `%s` in `%s`' % (field, kind),
                  table(('value', 'meaning'), [('`%s`' % rust.snake(name), text) for name, text, _ in found])]
    return parts


def exit_codes(_):
    node = rust.block(read('crates/run/src/node/finish.rs'), 'pub mod code {')
    codes = []
    comment = []
    for line in (each.strip() for each in node.split('\n')):
        if line.startswith('///'):
            comment.append(line[3:].strip())
        elif line.startswith(('pub const', 'pub(crate) const')):
            codes.append((line.rpartition('= ')[2].rstrip(';'), ' '.join(comment)))
            comment = []
    return ['# Exit codes', table(('code', 'meaning'), rust.exit_codes(read('crates/cli/src/exit.rs'))),
            '## `canoe node`', 'What Kubernetes does with them: [What a node does](../kubernetes.md#what-a-node-does).',
            table(('code', 'meaning'), codes)]


def pages(program):
    """File name and text of every page."""
    functions = Functions()
    made = {
        'layers': layers(functions), 'networks': networks(functions), 'evaluators': evaluators(functions),
        'optimizers': optimizers(functions), 'attributes': attributes(functions), 'data': data(functions),
        'commands': commands(program), 'flags': flags(program), 'record': record(program),
        'exit-codes': exit_codes(program),
        'v1': v1.page(functions, read, table, {each: program.flags(each) for each in ('train', 'pserver')}),
        'job': schema_page('# job.yaml', 'The file that describes a job on Kubernetes; [deploy/job.yaml]'
                           '(../../deploy/job.yaml) is an example with every key. Made from `canoe job schema`.',
                           program.schema('job', 'schema')),
        'cluster': schema_page('# cluster.yaml', 'The file that describes a cluster on AWS. `canoe cluster init` writes one '
                               'with every key, its default and an explanation. Made from `canoe cluster schema`.',
                               program.schema('cluster', 'schema')),
    }
    if functions.unexplained:
        raise SystemExit('docstrings and signatures differ: ' + ', '.join(functions.unexplained))
    return {'%s.md' % name: NOTE + '\n' + '\n\n'.join(parts) + '\n' for name, parts in made.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--canoe', default=ROOT / 'target/debug/canoe', help='the program')
    parser.add_argument('--check', action='store_true', help='write nothing; fail if a page would change')
    options = parser.parse_args()
    folder = DOCS / 'reference'
    wanted = pages(Program(str(pathlib.Path(options.canoe).resolve())))
    present = {path.name: path.read_text(encoding='utf-8') for path in folder.glob('*.md')}
    different = sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))
    if options.check:
        if different:
            sys.exit('docs/reference is not up to date: %s; run docs/reference.py --canoe %s'
                     % (', '.join(different), options.canoe))
        print('docs/reference: %d pages are up to date' % len(wanted))
        return
    folder.mkdir(exist_ok=True)
    for name in different:
        if name in wanted:
            (folder / name).write_text(wanted[name], encoding='utf-8')
        else:
            (folder / name).unlink()
    print('docs/reference: wrote %s' % (', '.join(different) or 'nothing'))


if __name__ == '__main__':
    main()
