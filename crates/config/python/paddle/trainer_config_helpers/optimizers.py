"""How parameters learn: method, regularisation, schedule, averaging."""

from paddle.core.errors import ConfigError
from paddle.trainer.config_parser import (Settings, default_decay_rate, default_gradient_clipping_threshold,
                                          default_momentum)

__all__ = ['Optimizer', 'BaseSGDOptimizer', 'MomentumOptimizer', 'AdamaxOptimizer', 'AdamOptimizer',
           'AdaGradOptimizer', 'RMSPropOptimizer', 'DecayedAdaGradOptimizer', 'AdaDeltaOptimizer',
           'BaseRegularization', 'L2Regularization', 'settings', 'ModelAverage']


class Optimizer(object):
    """Something that contributes to the settings."""

    is_support_sparse = True

    def to_setting_kwargs(self):
        """What it says in `Settings`."""
        raise NotImplementedError()

    def extra_settings(self):
        """What it sets elsewhere."""


class BaseSGDOptimizer(Optimizer):
    """A method that follows the gradient of each batch."""


class MomentumOptimizer(BaseSGDOptimizer):
    """Gradient descent with momentum. The default method.

    momentum: how much of the last change is kept; None means none.
    sparse: the variant `sparse_momentum`, made for tables of which a batch uses few rows.
    """

    def __init__(self, momentum=None, sparse=False):
        self.momentum = momentum
        self.sparse = sparse

    def extra_settings(self):
        default_momentum(self.momentum)

    def to_setting_kwargs(self):
        return {'learning_method': 'sparse_momentum' if self.sparse else 'momentum'}


class AdamOptimizer(BaseSGDOptimizer):
    """Adam. The step comes from running means of the gradient and of its square.

    beta1, beta2: decay of the two means per step.
    epsilon: added to the divisor.
    """

    is_support_sparse = False

    def __init__(self, beta1=0.9, beta2=0.999, epsilon=1e-8):
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def to_setting_kwargs(self):
        return {'learning_method': 'adam', 'adam_beta1': self.beta1, 'adam_beta2': self.beta2,
                'adam_epsilon': self.epsilon}


class AdamaxOptimizer(BaseSGDOptimizer):
    """Adamax, which is Adam with the maximum norm.

    beta1, beta2: decay of mean and maximum per step.
    """

    is_support_sparse = False

    def __init__(self, beta1=0.9, beta2=0.999):
        self.beta1 = beta1
        self.beta2 = beta2

    def to_setting_kwargs(self):
        return {'learning_method': 'adamax', 'adam_beta1': self.beta1, 'adam_beta2': self.beta2}


class AdaGradOptimizer(BaseSGDOptimizer):
    """AdaGrad. The rate of each value falls with the sum of its squared gradients."""

    def to_setting_kwargs(self):
        return {'learning_method': 'adagrad'}


class _Decaying(BaseSGDOptimizer):
    """A method that forgets old gradients at rate `rho`."""

    method = None

    def __init__(self, rho=0.95, epsilon=1e-6):
        self.rho = rho
        self.epsilon = epsilon

    def to_setting_kwargs(self):
        return {'learning_method': self.method, 'ada_rou': self.rho, 'ada_epsilon': self.epsilon}


class RMSPropOptimizer(_Decaying):
    """RMSProp (centred). The rate of each value follows the variance of its gradient.

    rho: decay of the running means per step.
    epsilon: added to the divisor.
    """

    method = 'rmsprop'


class DecayedAdaGradOptimizer(_Decaying):
    """AdaGrad with a running mean instead of a sum. Others call this RMSProp.

    rho: decay of the running mean per step.
    epsilon: added to the divisor.
    """

    method = 'decayed_adagrad'


class AdaDeltaOptimizer(_Decaying):
    """AdaDelta. Rates come from running means of squared gradients and squared changes.

    rho: decay of the running means per step.
    epsilon: added to divisor and dividend.
    """

    method = 'adadelta'


class BaseRegularization(Optimizer):
    """No regularisation."""

    def __init__(self):
        self.algorithm = ''
        self.learning_method = ''

    def to_setting_kwargs(self):
        return {}


class L2Regularization(BaseRegularization):
    """Pulls every parameter towards zero, in proportion to its value.

    rate: the factor.
    """

    def __init__(self, rate):
        BaseRegularization.__init__(self)
        self.decay_rate = rate

    def to_setting_kwargs(self):
        return {'l2weight': self.decay_rate} if self.algorithm == 'owlqn' else {}

    def extra_settings(self):
        if self.algorithm in ('sgd', 'async_sgd'):
            default_decay_rate(self.decay_rate)


class ModelAverage(Optimizer):
    """Tests and saves the mean of the recent values of the parameters instead of the current ones.

    average_window: the share of all steps so far that the mean covers, such as 0.5.
    max_average_window: most steps that it covers; None means those of the last pass.
    do_average_in_cpu: has no effect here.
    """

    def __init__(self, average_window, max_average_window=None, do_average_in_cpu=False):
        self.average_window = average_window
        self.max_average_window = max_average_window
        self.do_average_in_cpu = do_average_in_cpu

    def to_setting_kwargs(self):
        return {'average_window': self.average_window, 'max_average_window': self.max_average_window,
                'do_average_in_cpu': self.do_average_in_cpu}


class GradientClippingThreshold(Optimizer):
    """Cuts every element of a gradient."""

    def __init__(self, threshold):
        self.threshold = threshold

    def to_setting_kwargs(self):
        return {}

    def extra_settings(self):
        default_gradient_clipping_threshold(self.threshold)


def settings(batch_size, learning_rate=1e-3, learning_rate_decay_a=0.0, learning_rate_decay_b=0.0,
             learning_rate_schedule='poly', learning_rate_args='', learning_method=None, regularization=None,
             is_async=False, model_average=None, gradient_clipping_threshold=None, average_window=None,
             max_average_window=None, do_average_in_cpu=False):
    """Sets how the whole network is trained.

    batch_size: samples of one batch of one trainer.
    learning_rate: the rate at the start.
    learning_rate_decay_a, learning_rate_decay_b: the constants a and b of the schedule.
    learning_rate_schedule: `constant`, `poly`, `caffe_poly`, `exp`, `discexp`, `linear`, `manual` or `pass_manual`.
    learning_rate_args: the segments of `manual` and `pass_manual`: `end:factor,end:factor,…`.
    learning_method: an optimizer such as `AdamOptimizer()`; by default `MomentumOptimizer()`.
    regularization: `L2Regularization(rate)`, or a list.
    is_async: asynchronous training: servers apply each gradient when it arrives.
    model_average: `ModelAverage(…)`; by default the current values are tested and saved.
    gradient_clipping_threshold: largest absolute value of a gradient; larger ones are cut.
    average_window, max_average_window, do_average_in_cpu: for old files; use `model_average`.
    """
    if average_window is not None and model_average is None:
        model_average = ModelAverage(average_window, max_average_window, do_average_in_cpu)
    method = MomentumOptimizer() if learning_method is None else learning_method
    if not isinstance(method, Optimizer):
        raise ConfigError('settings: learning_method must be an optimizer such as AdamOptimizer(), not %r' % method)
    algorithm = 'owlqn'
    if isinstance(method, BaseSGDOptimizer):
        algorithm = 'async_sgd' if is_async else 'sgd'
    chosen = dict(batch_size=batch_size, learning_rate=learning_rate, learning_rate_decay_a=learning_rate_decay_a,
                  learning_rate_decay_b=learning_rate_decay_b, learning_rate_schedule=learning_rate_schedule,
                  learning_rate_args=learning_rate_args, algorithm=algorithm)
    clipping = gradient_clipping_threshold
    parts = [method] + _regularizations(regularization)
    parts += [each for each in (model_average, None if clipping is None else GradientClippingThreshold(clipping))
              if each is not None]
    for part in parts:
        part.algorithm = algorithm
        chosen.update(part.to_setting_kwargs())
        part.learning_method = chosen['learning_method']
        part.extra_settings()
    Settings(**chosen)


def _regularizations(given):
    if given is None:
        return []
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    for each in listed:
        if not isinstance(each, BaseRegularization):
            raise ConfigError('settings: regularization must be L2Regularization(...), not %r' % (each,))
    return listed
