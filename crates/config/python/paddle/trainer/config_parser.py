"""The raw vocabulary: what a configuration file can call without importing anything.

`paddle.trainer_config_helpers` is the comfortable layer above it; old files mix both. `CONFIG_NAMES` is the set of
names that a file finds in its name space when it is evaluated.
"""

import sys

from paddle import python2
from paddle.core import data, geometry, groups, inputs
from paddle.core import kinds  # noqa: F401  registers the layer types
from paddle.core.data import *  # noqa: F401,F403
from paddle.core.data import create_data_config_proto  # noqa: F401
from paddle.core.errors import ConfigError, check
from paddle.core.geometry import *  # noqa: F401,F403
from paddle.core.groups import *  # noqa: F401,F403
from paddle.core.inputs import *  # noqa: F401,F403
from paddle.core.job import at_begin, begin, job
from paddle.core.layer import Layer, listed
from paddle.core.log import logger
from paddle.core.message import Message
from paddle.core.places import here as _described_at


def config_assert(condition, message=''):
    """Refuses the configuration unless the condition holds."""
    check(condition, message)


def register_parse_config_hook(hook):
    """Has `hook()` called whenever a new configuration begins."""
    at_begin(hook)


# Inputs and outputs of the network.

def Inputs(*names):
    """Names the data layers, in the order in which samples have their parts."""
    job().name_ends('input_layer_names', names)


def Outputs(*names):
    """Names the layers that the network is for, usually the cost."""
    job().name_ends('output_layer_names', names)


def HasInputsSet():
    """Whether `Inputs` has been called."""
    return bool(job().current.input_layer_names)


# Sub-models.

def SubModelBegin(name):
    """Begins a named part of the network."""
    job().begin_submodel(name)


def SubModelEnd(name=None):
    """Ends the part that began last."""
    job().end_submodel(name)


def EnableSubmodelSuffix(flag=True):
    """Appends `@sub-model` to every layer name from now on."""
    job().suffix_everywhere = flag


def MakeLayerNameInSubmodel(name, submodel_name=None):
    """A layer's full name."""
    return job().inner_name(name) if submodel_name is None else '%s@%s' % (name, submodel_name)


def model_type(name):
    """`nn` or `recurrent_nn`."""
    job().model.type = name


# Settings.

def Settings(**settings):
    """Sets the optimization and the training."""
    job().set(settings)


def cluster_config(**_):
    """Accepted for old files; a cluster is described elsewhere."""


def _setter(field):
    def default(value):
        setattr(job().defaults, field, value)
    default.__name__ = 'default_' + field
    default.__doc__ = 'Sets %s for all that leave it open from now on.' % field
    return default


default_initial_std = _setter('initial_std')
default_initial_mean = _setter('initial_mean')
default_initial_strategy = _setter('initial_strategy')
default_initial_smart = _setter('initial_smart')
default_momentum = _setter('momentum')
default_decay_rate = _setter('decay_rate')
default_num_batches_regularization = _setter('num_batches_regularization')
default_gradient_clipping_threshold = _setter('gradient_clipping_threshold')
default_device = _setter('device')
default_update_hooks = _setter('update_hooks')
default_compact_func = _setter('compact_func')


def get_config_arg(name, type, default=None):
    """The value that the command line gives to `name` (`--config_args=name=value,...`)."""
    arguments = job().arguments
    job().asked.add(name)
    if type is not bool:
        return type(arguments.get(name, default))
    text = arguments.get(name)
    if not text:
        return default
    if text in ('True', 'true', '1'):
        return True
    check(text in ('False', 'false', '0'), "config argument %s=%s is not true or false", name, text)
    return False


# Parameters.

def Parameter(name, size, device, dims, sparse=None, format=None, need_compact=None, **attributes):
    """Adds a parameter that no layer has made."""
    job().parameter(name, size, dims, device, Bias(**attributes), sparse, format, need_compact)


def ParameterHook(type, **values):
    """Something that happens around each update of a parameter."""
    if type != 'pruning':
        return None
    check(values.get('mask_filename') is not None, 'the pruning hook needs mask_filename')
    return Message('ParameterUpdaterHookConfig', type=type, purning_mask_filename=values['mask_filename'])


# Evaluators.

def Evaluator(name, type, inputs, chunk_scheme=None, num_chunk_types=None, classification_threshold=None,
              positive_label=None, dict_file=None, result_file=None, num_results=None, top_k=None, delimited=None,
              excluded_chunk_types=None):
    """Adds an evaluator."""
    here = job()
    here.places['evaluator %s' % here.inner_name(name)] = _described_at()
    record = here.model.add('evaluators', name=here.inner_name(name), type=type,
                            input_layers=[here.inner_name(each) for each in listed(inputs)])
    here.current.evaluator_names.append(record.name)
    if chunk_scheme is not None:
        check(num_chunk_types is not None, "evaluator '%s': chunk_scheme needs num_chunk_types", name)
    for field, value in (('chunk_scheme', chunk_scheme), ('num_chunk_types', num_chunk_types),
                         ('classification_threshold', classification_threshold), ('positive_label', positive_label),
                         ('dict_file', dict_file), ('result_file', result_file), ('num_results', num_results),
                         ('top_k', top_k), ('delimited', delimited),
                         ('excluded_chunk_types', excluded_chunk_types or None)):
        if value is not None:
            setattr(record, field, value)


# Layers by class name.

def ExpressionLayer(name, inputs, **arguments):
    """A mixed layer without bias."""
    return Layer(name=name, type='mixed', inputs=inputs, bias=False, **arguments)


CLASSES = {
    'FCLayer': 'fc', 'SelectiveFCLayer': 'selective_fc', 'PrintLayer': 'print', 'PriorBoxLayer': 'priorbox',
    'DataLayer': 'data', 'DataNormLayer': 'data_norm', 'ParameterReluLayer': 'prelu', 'ConvLayerBase': 'conv',
    'ConvLayer': 'cudnn_conv', 'ConvTransLayerBase': 'convt', 'ConvTransLayer': 'cudnn_convt', 'NormLayer': 'norm',
    'PoolLayer': 'pool', 'SpatialPyramidPoolLayer': 'spp', 'PadLayer': 'pad', 'BatchNormLayer': 'batch_norm',
    'TransLayer': 'trans', 'ResizeLayer': 'resize', 'RotateLayer': 'rotate', 'BlockExpandLayer': 'blockexpand',
    'MaxOutLayer': 'maxout', 'HierarchicalSigmoidLayer': 'hsigmoid', 'LambdaCost': 'lambda_cost', 'NCELayer': 'nce',
    'AddToLayer': 'addto', 'AgentLayer': 'agent', 'SequenceAgentLayer': 'sequence_agent',
    'GatherAgentLayer': 'gather_agent', 'ScatterAgentLayer': 'scatter_agent',
    'SequenceGatherAgentLayer': 'sequence_gather_agent', 'SequenceScatterAgentLayer': 'sequence_scatter_agent',
    'MultiplexLayer': 'multiplex', 'ExpandLayer': 'expand', 'FeatMapExpandLayer': 'featmap_expand',
    'MaxLayer': 'max', 'MaxIdLayer': 'maxid', 'EosIdLayer': 'eos_id', 'SequenceLastInstanceLayer': 'seqlastins',
    'SequenceFirstInstanceLayer': 'seqfirstins', 'SequenceConcatLayer': 'seqconcat',
    'SequenceReshapeLayer': 'seqreshape', 'SubSequenceLayer': 'subseq', 'OuterProdLayer': 'out_prod',
    'PowerLayer': 'power', 'SlopeInterceptLayer': 'slope_intercept', 'ScalingLayer': 'scaling',
    'ConvShiftLayer': 'conv_shift', 'ConvexCombinationLayer': 'convex_comb', 'InterpolationLayer': 'interpolation',
    'BilinearInterpLayer': 'bilinear_interp', 'SumToOneNormLayer': 'sum_to_one_norm', 'CosSimVecMatLayer': 'cos_vm',
    'SamplingIdLayer': 'sampling_id', 'AverageLayer': 'average', 'CosSimLayer': 'cos', 'TensorLayer': 'tensor',
    'MixedLayer': 'mixed', 'ConcatenateLayer': 'concat', 'ConcatenateLayer2': 'concat2',
    'RecurrentLayer': 'recurrent', 'LstmLayer': 'lstmemory', 'LstmStepLayer': 'lstm_step',
    'GetOutputLayer': 'get_output', 'MDLstmLayer': 'mdlstmemory', 'GatedRecurrentLayer': 'gated_recurrent',
    'GruStepLayer': 'gru_step', 'CRFLayer': 'crf', 'CRFDecodingLayer': 'crf_decoding', 'CTCLayer': 'ctc',
    'WarpCTCLayer': 'warp_ctc', 'RecurrentLayerGroup': 'recurrent_layer_group',
    'MultiClassCrossEntropySelfNormCostLayer': 'multi_class_cross_entropy_with_selfnorm',
}


# What the second and third positional arguments of these classes are; of all others, inputs and size.
_SIZE_FIRST = set('''
fc selective_fc data seqreshape tensor resize convex_comb cos_vm crf crf_decoding ctc warp_ctc get_output lstm_step
gru_step agent sequence_agent gather_agent scatter_agent sequence_gather_agent sequence_scatter_agent
'''.split())
_CLASSES_FIRST = ('hsigmoid', 'nce')


def _maker(class_name, type):
    order = ('size', 'inputs') if type in _SIZE_FIRST else ('inputs', 'size')
    order = ('num_classes', 'inputs') if type in _CLASSES_FIRST else order

    def make(name, *positional, **arguments):
        return Layer(name=name, type=type, **dict(zip(order, positional), **arguments))
    make.__name__ = class_name
    make.__doc__ = 'Adds a layer of type %s.' % type
    return make


for _class_name, _type in CLASSES.items():
    globals()[_class_name] = _maker(_class_name, _type)


def _public(module):
    return [name for name, value in vars(module).items()
            if not name.startswith('_') and getattr(value, '__module__', None) == module.__name__]


CONFIG_NAMES = sorted(
    [name for name in _public(sys.modules[__name__]) if name not in ('register_parse_config_hook', 'parse_config')]
    + [name for module in (data, geometry, groups, inputs) for name in _public(module)]
    + list(CLASSES) + ['Layer'])


def name_space(path):
    """The names that a configuration file starts with."""
    names = {name: globals()[name] for name in CONFIG_NAMES}
    names['Import'] = _importer(path)
    names['__file__'] = path
    names['__name__'] = '__trainer_config__'
    return names


def _importer(path):
    directory = path.rpartition('/')[0] or '.'

    def Import(config_file, local_args=None):
        """Evaluates another configuration file as part of this one."""
        if not config_file.startswith('/'):
            config_file = directory + '/' + config_file
            job().config.config_files.append(config_file)
        run_file(config_file, local_args)
    return Import


def run_file(path, local_names=None):
    """Runs a configuration file against the current job."""
    python2.run_path(path, name_space(path), local_names)


def arguments_of(text):
    """`k=v,k=v` as a dictionary."""
    pairs = [part.partition('=') for part in text.split(',')] if text else []
    for name, equals, _ in pairs:
        check(name and equals, "config_args must look like name=value,name=value, not '%s'", text)
    return {name: value for name, _, value in pairs}


def parse_config(trainer_config, config_arg_str=''):
    """Evaluates a configuration file, or a function that describes one, and returns its record."""
    here = begin(arguments_of(config_arg_str))
    python2.install()
    extension = here.arguments.get('extension_module_name')
    if extension:
        __import__(extension)
        globals().update(sys.modules[extension].get_config_funcs(here.config))
    if callable(trainer_config):
        trainer_config.__globals__.update(name_space(''))
        trainer_config()
    else:
        run_file(trainer_config)
    return here.finish()


def __getattr__(name):
    """`g_config` is the record of the job under description, whichever that is."""
    if name == 'g_config':
        return job().config
    raise AttributeError("module 'paddle.trainer.config_parser' has no attribute %r" % name)
