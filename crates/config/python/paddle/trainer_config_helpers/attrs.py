"""What can be said about a parameter (`ParamAttr`) and about a layer (`ExtraAttr`)."""

from paddle.core.errors import ConfigError
from paddle.core.inputs import Bias

__all__ = ['ParamAttr', 'ExtraAttr', 'ParameterAttribute', 'ExtraLayerAttribute']


def is_compatible_with(value, wanted):
    """Whether `value` is a `wanted` or can become one without loss; text and truth are not numbers."""
    if type(value) is wanted:
        return True
    if isinstance(value, str) or (isinstance(value, bool) and wanted in (int, float)):
        return False
    try:
        return wanted in (int, float, bool) and type(value)(wanted(value)) == value
    except (TypeError, ValueError):
        return False


class ParameterAttribute(object):
    """How a parameter starts and how it is trained. `ParamAttr` is the short name. Without initial values it starts
    with a normal distribution whose standard deviation is 1 / sqrt(rows).

    name: name of the parameter; two layers with the same name share it.
    is_static: the parameter is not trained.
    initial_std, initial_mean: a normal distribution.
    initial_max, initial_min: a uniform distribution.
    l1_rate, l2_rate: L1 and L2 regularization of this parameter.
    learning_rate: factor on the learning rate of the settings.
    momentum: momentum of this parameter.
    gradient_clipping_threshold: largest absolute value of its gradient.
    sparse_update: store the parameter by row on the servers; a batch pulls, pushes and updates only the rows that it
        uses.
    """

    def __init__(self, name=None, is_static=False, initial_std=None, initial_mean=None, initial_max=None,
                 initial_min=None, l1_rate=None, l2_rate=None, learning_rate=None, momentum=None,
                 gradient_clipping_threshold=None, sparse_update=False):
        self.attr = attr = {'is_static': True} if is_static else \
            _initial(initial_std, initial_mean, initial_max, initial_min)
        learning = (('decay_rate_l1', l1_rate), ('decay_rate', l2_rate), ('learning_rate', learning_rate),
                    ('momentum', momentum))
        for field, value in () if is_static else learning:
            if is_compatible_with(value, float):
                attr[field] = value
        if name is not None:
            attr['parameter_name'] = name
        if sparse_update:
            attr['sparse_update'] = attr['sparse_remote_update'] = True
        if is_compatible_with(gradient_clipping_threshold, float):
            attr['gradient_clipping_threshold'] = gradient_clipping_threshold

    def set_default_parameter_name(self, name):
        """Names the parameter unless it has a name."""
        self.attr.setdefault('parameter_name', name)

    def copy(self):
        """The same attributes, independent of this one."""
        twin = object.__new__(type(self))
        twin.attr = dict(self.attr)
        return twin

    @staticmethod
    def to_bias(bias_attr):
        """The bias that an attribute, False or None asks for."""
        return Bias(**bias_attr.attr) if isinstance(bias_attr, ParameterAttribute) else False


def _initial(std, mean, highest, lowest):
    if std is None and mean is None and highest is None and lowest is None:
        return {'initial_smart': True}
    if is_compatible_with(std, float) or is_compatible_with(mean, float):
        given = {'initial_std': std, 'initial_mean': mean}
        return dict({field: value for field, value in given.items() if value is not None}, initial_strategy=0)
    if is_compatible_with(highest, float) and is_compatible_with(lowest, float):
        if not lowest < highest:
            raise ConfigError('ParamAttr: initial_min %s must be less than initial_max %s' % (lowest, highest))
        middle = (highest + lowest) / 2.0
        return {'initial_mean': middle, 'initial_std': middle - lowest, 'initial_strategy': 1}
    raise ConfigError('ParamAttr: give initial_std or initial_mean, or initial_min and initial_max, as numbers')


class ExtraLayerAttribute(object):
    """Error clipping and dropout of a layer. `ExtraAttr` is the short name. A layer function refuses what it does not
    support.

    error_clipping_threshold: largest absolute value of the gradient that reaches the layer.
    drop_rate: the share of outputs that are set to zero at random while training.
    device: has no effect here; training runs on the CPU.
    """

    def __init__(self, error_clipping_threshold=None, drop_rate=None, device=None):
        self.attr = {}
        self.supported = set()
        for field, value in (('error_clipping_threshold', error_clipping_threshold), ('drop_rate', drop_rate)):
            if value is not None:
                if float(value) < 0:
                    raise ValueError('ExtraAttr: %s must not be negative, but is %s' % (field, value))
                self.attr[field] = float(value)
        if isinstance(device, int):
            self.attr['device'] = device

    def check(self, layer_name):
        """Refuses what no layer function that got this attribute supports."""
        for field in self.attr:
            if field not in self.supported:
                raise NotImplementedError('%s cannot have %s' % (layer_name, field))

    @staticmethod
    def to_kwargs(attr):
        """The arguments of `Layer` that an attribute, or None, stands for."""
        return {} if attr is None else attr.attr


ParamAttr = ParameterAttribute
ExtraAttr = ExtraLayerAttribute
