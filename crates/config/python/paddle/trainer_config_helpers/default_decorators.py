"""Defaults of layer functions: names that count up, activations, attributes of parameters and biases.

`defaults` is the one mechanism; the `wrap_*` decorators, which users' own layer functions also use, are forms of it.
"""

from paddle.core.errors import check
from paddle.core.job import at_begin

from .activations import TanhActivation
from .attrs import ExtraLayerAttribute, ParamAttr

__all__ = ['wrap_name_default', 'wrap_param_attr_default', 'wrap_bias_attr_default', 'wrap_act_default',
           'wrap_param_default']

_NAMES = []


class DefaultName(object):
    """`__prefix_0__`, `__prefix_1__`, ...; every job starts at 0."""

    def __init__(self, prefix=None):
        self.prefix = prefix
        self.count = 0
        _NAMES.append(self)

    def __call__(self, function):
        name = '__%s_%d__' % (self.prefix or function.__name__, self.count)
        self.count += 1
        return name


@at_begin
def _restart_names():
    for name in _NAMES:
        name.count = 0


def _is_none(value):
    return value is None


def _no_activation(value):
    """Whether an activation is not given."""
    check(not isinstance(value, str), 'an activation is an object such as SoftmaxActivation(), not the text %r', value)
    return value is None


def _is_none_or_true(value):
    return value is None or (not isinstance(value, ParamAttr) and value == True)  # noqa: E712  1 counts too


def _is_true(value):
    return not isinstance(value, ParamAttr) and value == True  # noqa: E712


def _no_bias(_):
    return ParamAttr(initial_std=0.0, initial_mean=0.0)


def _parameters(function):
    """The names of a function's parameters, through any decorators."""
    while hasattr(function, '__wrapped__'):
        function = function.__wrapped__
    return function.__code__.co_varnames[:function.__code__.co_argcount]


def _decorated(function, wrapper):
    wrapper.__wrapped__ = function
    wrapper.__name__ = function.__name__
    wrapper.__doc__ = function.__doc__
    wrapper.__module__ = function.__module__
    return wrapper


def filled(rules):
    """Decorator: a parameter that is unset gets a value. A rule is (parameter, is it unset, function -> value)."""
    def decorate(function):
        parameters = _parameters(function)
        slots = [(name, parameters.index(name) if name in parameters else len(parameters), unset, make)
                 for name, unset, make in rules]

        def wrapper(*positional, **named):
            for name, index, unset, make in slots:
                if index < len(positional):
                    if unset(positional[index]):
                        positional = positional[:index] + (make(function),) + positional[index + 1:]
                elif unset(named.get(name)):
                    named[name] = make(function)
            return function(*positional, **named)
        return _decorated(function, wrapper)
    return decorate


def defaults(name=False, act=None, weight=False, bias=None, **acts):
    """Decorator for layer functions: default name (None: the function's own), activations, weight and bias.

    `bias` is True when the layer has one unless told otherwise, False when only `bias_attr=True` asks for it.
    """
    rules = []
    if name is not False:
        rules.append(('name', _is_none, DefaultName(name)))
    for parameter, default in dict(acts, **({'act': act} if act else {})).items():
        rules.append((parameter, _no_activation, lambda _, default=default: default))
    if weight:
        rules.append(('param_attr', _is_none, lambda _: ParamAttr()))
    if bias is not None:
        rules.append(('bias_attr', _is_none_or_true if bias else _is_true, _no_bias))
    return filled(rules)


def supports(*features):
    """Decorator: the ExtraAttr arguments of the function may have `features`, and `device` always."""
    known = set(features) | {'device'}

    def decorate(function):
        def wrapper(*positional, **named):
            extras = [each for each in positional + tuple(named.values()) if isinstance(each, ExtraLayerAttribute)]
            for extra in extras:
                extra.supported |= known
                extra.check(function.__name__)
            return function(*positional, **named)
        return _decorated(function, wrapper)
    return decorate


# The forms that users' own layer functions use.

def wrap_param_default(param_names=None, default_factory=None, not_set_callback=None):
    """Unset parameters get `default_factory(function)`."""
    if not_set_callback is None:
        return filled([(name, _is_none, default_factory) for name in param_names])

    def decorate(function):
        def wrapper(*positional, **named):
            for name in param_names:
                if not_set_callback(named, name):
                    named[name] = default_factory(function)
            return function(*positional, **named)
        return _decorated(function, wrapper)
    return decorate


def wrap_name_default(name_prefix=None, name_param='name'):
    """An unset name counts up."""
    return filled([(name_param, _is_none, DefaultName(name_prefix))])


def wrap_param_attr_default(param_names=None, default_factory=None):
    """Unset parameter attributes get `ParamAttr()`."""
    return wrap_param_default(param_names or ['param_attr'], default_factory or (lambda _: ParamAttr()))


def wrap_bias_attr_default(param_names=None, default_factory=None, has_bias=True):
    """A bias that starts at zero, unless it is False (`has_bias=False`: only if it is True)."""
    unset = _is_none_or_true if has_bias else _is_true
    return filled([(name, unset, default_factory or _no_bias) for name in param_names or ['bias_attr']])


def wrap_act_default(param_names=None, act=None):
    """An unset activation is tanh, or `act`."""
    act = TanhActivation() if act is None else act
    return filled([(name, _no_activation, lambda _: act) for name in param_names or ['act']])
