"""Every cost, and the layers for very many classes."""

from paddle.trainer_config_helpers import *

settings(batch_size=1000, learning_rate=1e-5, is_async=True, learning_method=AdamaxOptimizer(0.8, 0.9),
         learning_rate_schedule='manual', learning_rate_args='100:1.0,200:0.5')

x = data_layer(name='x', size=20)
label = data_layer(name='label', size=10)
score = data_layer(name='score', size=1)
weight = data_layer(name='weight', size=1)
probabilities = fc_layer(input=x, size=10, act=SoftmaxActivation())
chances = fc_layer(input=x, size=10, act=SigmoidActivation())
left, right = fc_layer(input=x, size=1), fc_layer(input=x, size=1, act=STanhActivation())

outputs(
    classification_cost(input=probabilities, label=label, weight=weight),
    cross_entropy(input=probabilities, label=label, coeff=0.5, weight=weight),
    cross_entropy_with_selfnorm(input=probabilities, label=label, softmax_selfnorm_alpha=0.2),
    multi_binary_label_cross_entropy(input=chances, label=label),
    mse_cost(input=chances, label=label, weight=weight),
    rank_cost(left=left, right=right, label=score, weight=weight, coeff=2),
    lambda_cost(input=left, score=score, NDCG_num=8, max_sort_size=10, name='lambda'),
    huber_cost(input=left, label=score),
    sum_cost(input=left),
    hsigmoid(input=[x, chances], label=label, num_classes=10, bias_attr=False),
    nce_layer(input=chances, label=label, weight=weight, num_classes=10, num_neg_samples=4,
              neg_distribution=[0.1] * 10))
