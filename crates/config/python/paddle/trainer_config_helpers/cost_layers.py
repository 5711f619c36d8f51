"""Costs: what training makes small."""

from paddle.core.errors import ConfigError
from paddle.core.log import logger

from .activations import SigmoidActivation, SoftmaxActivation
from .default_decorators import defaults
from .evaluators import classification_error_evaluator
from .output import LayerType, add_layer, layers_of, need_layer, supports

__all__ = ['classification_cost', 'mse_cost', 'regression_cost', 'cross_entropy', 'cross_entropy_with_selfnorm',
           'multi_binary_label_cross_entropy', 'sum_cost', 'rank_cost', 'lambda_cost', 'huber_cost']


def _inputs(function, input, label, weight=None):
    inputs = layers_of([input, label] + ([] if weight is None else [weight]), 'input, label and weight', function)
    if weight is not None and weight.size != 1:
        raise ConfigError('%s: weight must have size 1, not %s' % (function, weight.size))
    return inputs


def _number(layer, argument, function):
    if need_layer(layer, argument, function).size not in (None, 1):
        raise ConfigError('%s: %s must have size 1, not %s' % (function, argument, layer.size))
    return layer


@defaults(None)
@supports()
def mse_cost(input, label, weight=None, name=None, layer_attr=None):
    """Half the squared distance of input and label."""
    return add_layer(name, 'square_error', _inputs('mse_cost', input, label, weight), layer_attr,
                     output_type=LayerType.COST)


regression_cost = mse_cost


@defaults('cost')
@supports()
def classification_cost(input, label, weight=None, name=None, top_k=None, evaluator=classification_error_evaluator,
                        layer_attr=None):
    """Cross entropy of a softmax output, with an evaluator of the error rate."""
    if input.layer_type == LayerType.DATA or not isinstance(input.activation, SoftmaxActivation):
        raise ConfigError('classification_cost: %r must have act=SoftmaxActivation()' % input)
    if label.layer_type != LayerType.DATA:
        raise ConfigError('classification_cost: label must be a data layer, not %r' % label)
    cost = add_layer(name, LayerType.CROSS_ENTROPY, _inputs('classification_cost', input, label, weight), layer_attr,
                     output_type=LayerType.COST)
    for each in evaluator if isinstance(evaluator, (list, tuple)) else [evaluator]:
        if not getattr(each, 'for_classification', False):
            raise ConfigError('classification_cost: %r is no evaluator of a classification' % (each,))
        extras = {'weight': weight, 'top_k': top_k}
        each(name=each.__name__, input=input, label=label,
             **{argument: value for argument, value in extras.items() if value is not None})
    return cost


@defaults(None)
@supports()
def cross_entropy(input, label, name=None, coeff=1.0, weight=None, layer_attr=None):
    """-log of the input at the label."""
    return add_layer(name, LayerType.CROSS_ENTROPY, _inputs('cross_entropy', input, label, weight), layer_attr,
                     coeff=coeff)


@defaults(None)
@supports()
def cross_entropy_with_selfnorm(input, label, name=None, coeff=1.0, softmax_selfnorm_alpha=0.1, layer_attr=None):
    """Cross entropy of outputs that are kept close to normalised."""
    return add_layer(name, LayerType.CROSS_ENTROPY_WITH_SELFNORM,
                     _inputs('cross_entropy_with_selfnorm', input, label), layer_attr, output_size=1, coeff=coeff,
                     softmax_selfnorm_alpha=softmax_selfnorm_alpha)


@defaults(None)
@supports()
def multi_binary_label_cross_entropy(input, label, name=None, coeff=1.0, layer_attr=None):
    """Cross entropy of many yes-or-no outputs; the label is the set of those that are yes."""
    if not isinstance(input.activation, SigmoidActivation):
        logger.warning('multi_binary_label_cross_entropy: %r should have a sigmoid activation', input)
    return add_layer(name, LayerType.MULTI_BIN_LABEL_CROSS_ENTROPY,
                     _inputs('multi_binary_label_cross_entropy', input, label), layer_attr, coeff=coeff)


@defaults(None)
@supports()
def sum_cost(input, name=None, layer_attr=None):
    """The sum of the input."""
    return add_layer(name, LayerType.SUM_COST, [need_layer(input, 'input', 'sum_cost')], layer_attr)


@defaults(None)
@supports()
def rank_cost(left, right, label, weight=None, name=None, coeff=1.0, layer_attr=None):
    """Cost of ranking `left` above `right` when the label (1, 0.5 or 0) says otherwise."""
    inputs = [_number(left, 'left', 'rank_cost'), _number(right, 'right', 'rank_cost'),
              _number(label, 'label', 'rank_cost')] + ([] if weight is None else [weight])
    return add_layer(name, LayerType.RANK_COST, inputs, layer_attr, coeff=coeff)


@defaults(None)
@supports()
def lambda_cost(input, score, name=None, NDCG_num=5, max_sort_size=-1, layer_attr=None):
    """LambdaRank: the samples of one list are one sequence."""
    return add_layer(name, LayerType.LAMBDA_COST, [need_layer(input, 'input', 'lambda_cost'),
                                                   _number(score, 'score', 'lambda_cost')], layer_attr,
                     NDCG_num=NDCG_num, max_sort_size=max_sort_size)


@defaults(None)
@supports()
def huber_cost(input, label, name=None, coeff=1.0, layer_attr=None):
    """Huber's cost of a two-class decision."""
    return add_layer(name, LayerType.HUBER, [_number(input, 'input', 'huber_cost'), label], layer_attr, coeff=coeff)
