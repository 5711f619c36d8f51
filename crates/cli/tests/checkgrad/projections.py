"""Projections and operators of mixed layers."""
from paddle.trainer_config_helpers import *

define_py_data_sources2('all.list', None, module='samples', obj='process', args={'slots': {
    'x': ['dense', 4], 'id': ['ids', 5], 'words': ['id_sequence', 5], 'target': ['dense', 1]}})
settings(batch_size=6, learning_rate=0.1)

x = data_layer('x', size=4)
a = fc_layer(input=x, size=8)
b = fc_layer(input=x, size=8)
image = fc_layer(input=x, size=2 * 4 * 4)
filters = fc_layer(input=x, size=2 * 3 * 2 * 2)
square = fc_layer(input=x, size=2 * 2 * 2 * 2)

with mixed_layer(size=6, act=TanhActivation(), bias_attr=True) as mixed:
    mixed += full_matrix_projection(input=a)
    mixed += trans_full_matrix_projection(input=b)
    mixed += table_projection(input=data_layer('id', size=5))
    mixed += identity_projection(input=a, offset=1)
products = mixed_layer(input=[dotmul_projection(input=a), scaling_projection(input=b), identity_projection(input=a),
                              dotmul_operator(a=a, b=b, scale=0.5)])
convolved = mixed_layer(input=[conv_projection(input=image, filter_size=3, num_filters=2, num_channels=2, padding=1)],
                        bias_attr=True, act=TanhActivation())
grown = mixed_layer(input=[conv_projection(input=image, filter_size=2, num_filters=1, num_channels=2, stride=2,
                                           trans=True)])
joined = concat_layer(input=[full_matrix_projection(input=a, size=3), identity_projection(input=b)], bias_attr=True)
operated = mixed_layer(size=27, input=[conv_operator(img=image, filter=filters, filter_size=2, num_filters=3,
                                                     num_channels=2)])

spread = mixed_layer(size=50, input=[conv_operator(img=image, filter=square, filter_size=2, num_filters=2,
                                                   num_channels=2, trans=True)])

words = embedding_layer(input=data_layer('words', size=5), size=3)
near = mixed_layer(input=context_projection(input=words, context_len=3), size=9)
trained = mixed_layer(input=context_projection(input=words, context_len=3, padding_attr=ParamAttr()), size=9)
ends = [pooling_layer(input=fc_layer(input=each, size=3), pooling_type=AvgPooling()) for each in (near, trained)]

y = fc_layer(input=[mixed, products, convolved, grown, joined, operated, spread] + ends, size=1)
outputs(mse_cost(input=y, label=data_layer('target', size=1)))
