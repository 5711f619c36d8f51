"""Costs of one row."""
from paddle.trainer_config_helpers import *

define_py_data_sources2('all.list', None, module='samples', obj='process', args={'slots': {
    'x': ['dense', 4], 'label': ['ids', 6], 'labels': ['binary', 6], 'truth': ['zero_or_one', 1],
    'chance': ['positive', 3], 'target': ['dense', 3], 'weight': ['positive', 1], 'two': ['ids', 2]}})
settings(batch_size=6, learning_rate=0.1)

x = data_layer('x', size=4)
label, labels = data_layer('label', size=6), data_layer('labels', size=6)
truth, weight = data_layer('truth', size=1), data_layer('weight', size=1)
chance, target, two = data_layer('chance', size=3), data_layer('target', size=3), data_layer('two', size=2)
inputs(x, label, labels, truth, weight, chance, target, two)
h = fc_layer(input=x, size=5)
probabilities = fc_layer(input=h, size=6, act=SoftmaxActivation())
chances = fc_layer(input=h, size=6, act=SigmoidActivation())
left, right = fc_layer(input=h, size=1), fc_layer(input=x, size=1)
three = fc_layer(input=h, size=3, act=SigmoidActivation(), name='three')

outputs(
    classification_cost(input=probabilities, label=label),
    cross_entropy(input=probabilities, label=label, weight=weight),
    cross_entropy_with_selfnorm(input=fc_layer(input=h, size=6, act=ExpActivation()), label=label),
    multi_binary_label_cross_entropy(input=chances, label=labels),
    mse_cost(input=three, label=target, weight=weight),
    rank_cost(left=left, right=right, label=truth, weight=weight),
    huber_cost(input=left, label=two),
    sum_cost(input=right),
    hsigmoid(input=[h, x], label=label, num_classes=6),
    nce_layer(input=[h, x], label=label, weight=weight, num_classes=6, num_neg_samples=3))
Layer(name='soft', type='soft_binary_class_cross_entropy', inputs=['three', 'chance'])
Layer(name='smooth', type='smooth_l1', inputs=['three', 'target'])
Outputs('soft', 'smooth')
