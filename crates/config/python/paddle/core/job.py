"""Everything that one configuration file has described so far.

There is one job at a time in a process (`job()`); `begin` starts a new one. It keeps the record that is written as
JSON, finds layers and parameters by name, knows which sub-model is being described, and holds the defaults that
`default_initial_std` and the like set for later parameters.
"""

from math import sqrt

from paddle.core.errors import ConfigError, check
from paddle.core.message import Message
from paddle.core.places import here

_HOOKS = []
_CURRENT = [None]

# The fields of `Settings` with their defaults. None: absent.
OPTIMIZATION = {
    'batch_size': None,
    'algorithm': 'async_sgd',
    'num_batches_per_send_parameter': None,
    'num_batches_per_get_parameter': None,
    'learning_rate': 1.0,
    'learning_rate_decay_a': 0.0,
    'learning_rate_decay_b': 0.0,
    'l1weight': 0.1,
    'l2weight': 0.0,
    'c1': 0.0001,
    'backoff': 0.5,
    'owlqn_steps': 10,
    'max_backoff': 5,
    'l2weight_zero_iter': 0,
    'average_window': 0,
    'max_average_window': None,
    'learning_method': 'momentum',
    'ada_epsilon': 1e-6,
    'do_average_in_cpu': False,
    'ada_rou': 0.95,
    'learning_rate_schedule': 'poly',
    'delta_add_rate': 1.0,
    'mini_batch_size': None,
    'center_parameter_update_method': None,
    'shrink_parameter_value': 0,
    'adam_beta1': 0.9,
    'adam_beta2': 0.999,
    'adam_epsilon': 1e-8,
    'learning_rate_args': '',
    'async_lagged_grad_discard_ratio': 1.5,
}
TRAINER = {'save_dir': './output/model', 'init_model_path': None, 'start_pass': 0}


# Files of a pass directory that are no parameters, and how the names of others begin.
TAKEN = ('done', 'path.txt')
TAKEN_PREFIXES = ('canoe.', 'pserver.')
LONGEST_NAME = 255


def check_parameter_name(name):
    """A parameter is saved in a file of its name, beside those that every pass directory has."""
    refused = "parameter '%s' cannot be saved: the file of a parameter has its name, and "
    way_out = '; give another name to the parameter, with ParamAttr(name=...), or to its layer'
    check(name not in ('', '.', '..'), refused + 'no file can have this one' + way_out, name)
    check('/' not in name and '\0' not in name, refused + "a file name has no '/'" + way_out, name)
    check(len(name.encode('utf-8')) <= LONGEST_NAME, refused + 'a file name has at most %d bytes' + way_out,
          name, LONGEST_NAME)
    check(name not in TAKEN and not name.startswith(TAKEN_PREFIXES),
          refused + 'a pass directory has another file of this name' + way_out, name)


class Defaults(object):
    """Defaults for what a parameter or layer does not set."""

    def __init__(self):
        self.momentum = None
        self.decay_rate = None
        self.initial_mean = 0.0
        self.initial_std = 0.01
        self.initial_strategy = 0
        self.initial_smart = False
        self.num_batches_regularization = None
        self.gradient_clipping_threshold = None
        self.device = None
        self.update_hooks = None
        self.compact_func = None
        self.usage_ratio = 1.0


class Job(object):
    """The description of one configuration file, under construction."""

    def __init__(self, arguments):
        self.arguments = arguments
        # Names that the configuration has asked `get_config_arg` for.
        self.asked = set()
        self.config = Message('TrainerConfig')
        self.model = self.config.model_config
        self.model.type = 'nn'
        self.defaults = Defaults()
        self.settings = dict(OPTIMIZATION)
        self.trainer_settings = dict(TRAINER)
        self.layers = {}
        self.parameters = {}
        self.root = self.model.add('sub_models', name='root', is_recurrent_layer_group=False)
        self.current = self.root
        self.stack = []
        self.submodels = {}
        self.suffix_everywhere = False
        # An image that enters a recurrent group becomes a sequence: from then on layers carry no height and width.
        self.pass_image_shape = True
        self.provider_modules = []
        # File and line of every layer, of evaluators with that word before their names, and of settings and data sources
        # under the names of their fields.
        self.places = {}

    def flag(self, name):
        """A numeric argument of the job (`use_gpu` and the like), 0 when it is not given."""
        return int(self.arguments.get(name, 0) or 0)

    # Names: inside a recurrent group every layer is called `name@group`.

    def inner_name(self, name):
        """`name` as the sub-model under description calls it."""
        if self.suffix_everywhere or self.current.is_recurrent_layer_group:
            return '%s@%s' % (name, self.current.name)
        return name

    def outer_name(self, name):
        """`name` as the sub-model around the one under description calls it."""
        return '%s@%s' % (name, self.stack[-1].name) if len(self.stack) > 1 else name

    def layer(self, name, wanted_by):
        """The record of the layer `name`."""
        check(name in self.layers, "unknown input layer '%s' of %s: define it first", name, wanted_by)
        return self.layers[name]

    def begin_submodel(self, name):
        """Starts a sub-model inside the current one."""
        self.stack.append(self.current)
        name = self.outer_name(name)
        check(name not in self.submodels, "sub-model '%s' is defined twice", name)
        self.current = self.submodels[name] = self.model.add('sub_models', name=name)

    def end_submodel(self, name=None):
        """Ends the current sub-model and returns it."""
        check(self.stack, 'no sub-model has begun')
        ended = self.current
        check(name is None or ended.name == self.outer_name(name),
              "sub-model '%s' ends, but '%s' is open", name, ended.name)
        self.current = self.stack.pop()
        return ended

    def name_ends(self, field, names):
        """Adds to the lists of inputs or outputs (`field`) of the current sub-model."""
        for name in names:
            check(not self.current.is_recurrent_layer_group, '%s cannot be set inside a recurrent group', field)
            name = self.inner_name(name)
            getattr(self.current, field).append(name)
            if self.current is self.root:
                getattr(self.model, field).append(name)

    # Parameters.

    def parameter(self, name, size, dims, device=None, attributes=None, sparse=None, format=None,
                  need_compact=None):
        """Adds a parameter. `attributes` is an Input or Bias, or anything with some of its attributes."""
        check(name not in self.parameters, "parameter '%s' is defined twice", name)
        check_parameter_name(name)
        given = lambda field: getattr(attributes, field, None)
        chosen = lambda field: _first(given(field), getattr(self.defaults, field))
        check(size >= 0 and all(each >= 0 for each in dims or ()),
              "the size of a layer must be positive: parameter '%s' would have %s values", name, size)
        record = self.model.add('parameters', name=name, size=size, dims=dims)
        _fill(record, device=device, learning_rate=given('learning_rate'), momentum=chosen('momentum'),
              decay_rate=chosen('decay_rate'), decay_rate_l1=given('decay_rate_l1'),
              num_batches_regularization=chosen('num_batches_regularization'),
              sparse_remote_update=given('sparse_remote_update'), sparse_update=given('sparse_update'),
              gradient_clipping_threshold=chosen('gradient_clipping_threshold'))
        check(not (record.momentum and record.decay_rate_l1),
              "parameter '%s': momentum and decay_rate_l1 cannot both be set", name)
        if record.sparse_remote_update:
            self.config.opt_config.use_sparse_remote_updater = True
        self._initial(record, chosen)
        if self.defaults.compact_func is not None:
            sparse, format, need_compact = self.defaults.compact_func(name)
        _fill(record, is_sparse=sparse, format=format, need_compact=need_compact, is_static=given('is_static'),
              is_shared=given('is_shared'))
        check(not (record.sparse_remote_update and record.is_static),
              "parameter '%s' is static: it cannot be sparse_update", name)
        hooks = chosen('update_hooks')
        if callable(hooks):
            hooks = hooks(name)
        if hooks is not None:
            record.update_hooks = hooks if isinstance(hooks, (list, tuple)) else [hooks]
        self.parameters[name] = record
        return record

    @staticmethod
    def _initial(record, chosen):
        record.initial_mean = chosen('initial_mean')
        record.initial_std = chosen('initial_std')
        record.initial_strategy = chosen('initial_strategy')
        record.initial_smart = chosen('initial_smart')
        if record.initial_smart:
            record.initial_mean = 0.0
            record.initial_std = 1.0 / sqrt(record.dims[0] if record.dims else record.size)

    # Settings, and completing the configuration.

    def set(self, values):
        """Stores the arguments of `Settings`."""
        self.places['opt_config'] = here()
        for name, value in values.items():
            if name == 'usage_ratio':
                self.defaults.usage_ratio = value
                if self.config.HasField('data_config'):
                    self.config.data_config.usage_ratio = value
            elif name in self.settings:
                # A value of the wrong type is refused here, where the user's line is known.
                _fill(Message('OptimizationConfig'), **{name: value})
                self.settings[name] = value
            elif name in self.trainer_settings:
                self.trainer_settings[name] = value
            else:
                raise ConfigError("unknown setting '%s'" % name)

    def finish(self):
        """Fills in the settings, checks inputs and outputs of the network, and returns the whole record."""
        _fill(self.config.opt_config, **self.settings)
        _fill(self.config, **self.trainer_settings)
        for name in self.model.input_layer_names:
            check(name in self.layers, "input '%s' is not the name of a layer", name)
            check(self.layers[name].type in ('data', 'data_trim'), "input '%s' is not a data layer", name)
        for name in self.model.output_layer_names:
            check(name in self.layers, "output '%s' is not the name of a layer", name)
        return self.config


def _first(value, default):
    return default if value is None else value


def _fill(record, **values):
    for field, value in values.items():
        if value is not None:
            setattr(record, field, value)


def begin(arguments=None):
    """Starts a new job."""
    _CURRENT[0] = Job(arguments or {})
    for hook in _HOOKS:
        hook()
    return _CURRENT[0]


def job():
    """The job under description."""
    if _CURRENT[0] is None:
        begin()
    return _CURRENT[0]


def at_begin(hook):
    """Calls `hook()` whenever a new job begins."""
    _HOOKS.append(hook)
    return hook
