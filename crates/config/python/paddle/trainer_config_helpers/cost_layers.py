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
    """Half of the squared distance between input and label. `regression_cost` is another name for it."""
    return add_layer(name, 'square_error', _inputs('mse_cost', input, label, weight), layer_attr,
                     output_type=LayerType.COST)


regression_cost = mse_cost


@defaults('cost')
@supports()
def classification_cost(input, label, weight=None, name=None, top_k=None, evaluator=classification_error_evaluator,
                        layer_attr=None):
    """The cross entropy of a softmax output, together with an evaluator.

    input: a layer with `SoftmaxActivation()`.
    label: a data layer of integers.
    top_k: the evaluator counts a sample as right if its label is among so many largest outputs.
    evaluator: a function, or a list of functions, that makes the evaluator.
    """
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
    """-log of the input at the label.

    input: a layer of probabilities.
    """
    return add_layer(name, LayerType.CROSS_ENTROPY, _inputs('cross_entropy', input, label, weight), layer_attr,
                     coeff=coeff)


@defaults(None)
@supports()
def cross_entropy_with_selfnorm(input, label, name=None, coeff=1.0, softmax_selfnorm_alpha=0.1, layer_attr=None):
    """Cross entropy of outputs that are trained to sum up to about 1 without a softmax.

    softmax_selfnorm_alpha: how strongly the sum is pulled to 1.
    """
    return add_layer(name, LayerType.CROSS_ENTROPY_WITH_SELFNORM,
                     _inputs('cross_entropy_with_selfnorm', input, label), layer_attr, output_size=1, coeff=coeff,
                     softmax_selfnorm_alpha=softmax_selfnorm_alpha)


@defaults(None)
@supports()
def multi_binary_label_cross_entropy(input, label, name=None, coeff=1.0, layer_attr=None):
    """The cross entropy of many yes-or-no outputs.

    input: a layer with `SigmoidActivation()`.
    label: a sparse binary vector: the outputs that are "yes".
    """
    if not isinstance(input.activation, SigmoidActivation):
        logger.warning('multi_binary_label_cross_entropy: %r should have a sigmoid activation', input)
    return add_layer(name, LayerType.MULTI_BIN_LABEL_CROSS_ENTROPY,
                     _inputs('multi_binary_label_cross_entropy', input, label), layer_attr, coeff=coeff)


@defaults(None)
@supports()
def sum_cost(input, name=None, layer_attr=None):
    """The sum of the input is the cost."""
    return add_layer(name, LayerType.SUM_COST, [need_layer(input, 'input', 'sum_cost')], layer_attr)


@defaults(None)
@supports()
def rank_cost(left, right, label, weight=None, name=None, coeff=1.0, layer_attr=None):
    """The cost of a pair that is ranked in the wrong order (RankNet).

    left, right: layers of size 1: the scores of the pair.
    label: a layer of size 1: 1 if left ranks higher, 0 if right does, 0.5 if neither.
    """
    inputs = [_number(left, 'left', 'rank_cost'), _number(right, 'right', 'rank_cost'),
              _number(label, 'label', 'rank_cost')] + ([] if weight is None else [weight])
    return add_layer(name, LayerType.RANK_COST, inputs, layer_attr, coeff=coeff)


@defaults(None)
@supports()
def lambda_cost(input, score, name=None, NDCG_num=5, max_sort_size=-1, layer_attr=None):
    """Improves the NDCG of lists (LambdaRank). The samples of one list are one sequence. The reported cost is the
    NDCG.

    input: a layer of size 1: the score.
    score: a data layer of size 1: the true relevance.
    NDCG_num: number of ranks that count in the NDCG.
    max_sort_size: how many ranks of a list are sorted; -1 sorts all.
    """
    return add_layer(name, LayerType.LAMBDA_COST, [need_layer(input, 'input', 'lambda_cost'),
                                                   _number(score, 'score', 'lambda_cost')], layer_attr,
                     NDCG_num=NDCG_num, max_sort_size=max_sort_size)


@defaults(None)
@supports()
def huber_cost(input, label, name=None, coeff=1.0, layer_attr=None):
    """Huber's cost of a decision between two classes.

    input: a layer of size 1; a positive value means class 1.
    label: a data layer of integers, 0 or 1.
    """
    return add_layer(name, LayerType.HUBER, [_number(input, 'input', 'huber_cost'), label], layer_attr, coeff=coeff)
