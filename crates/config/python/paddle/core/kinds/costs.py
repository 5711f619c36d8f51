"""Cost layers: one value per sample."""

from paddle.core.errors import check
from paddle.core.layer import kind


@kind('multi-class-cross-entropy', 'rank-cost', 'auc-validation', 'pnpair-validation', 'square_error',
      'multi_binary_label_cross_entropy', 'soft_binary_class_cross_entropy', 'huber', 'smooth_l1', 'sum_cost',
      size=1, coeff=1.0)
def plain_cost(layer):
    pass


@kind('multi_class_cross_entropy_with_selfnorm')
def self_normalised_cross_entropy(layer, softmax_selfnorm_alpha=0.1):
    layer.config.softmax_selfnorm_alpha = softmax_selfnorm_alpha


@kind('lambda_cost', size=1)
def lambda_rank(layer, NDCG_num=5, max_sort_size=-1):
    layer.need_inputs(2)
    check(max_sort_size == -1 or NDCG_num <= max_sort_size,
          "lambda_cost layer '%s': NDCG_num must not exceed max_sort_size", layer.config.name)
    layer.config.NDCG_num = NDCG_num
    layer.config.max_sort_size = max_sort_size
