"""Layers that make, join, cut and pool sequences."""
from paddle.trainer_config_helpers import *

define_py_data_sources2('all.list', None, module='samples', obj='process', args={'slots': {
    'words': ['id_sequence', 5], 'x': ['dense', 4], 'nested': ['nested', 3], 'start': ['start', 9],
    'length': ['length', 9], 'target': ['dense', 1]}})
settings(batch_size=6, learning_rate=0.1)

ids, x, nested = data_layer('words', size=5), data_layer('x', size=4), data_layer('nested', size=3)
start, length, target = data_layer('start', size=9), data_layer('length', size=9), data_layer('target', size=1)
inputs(ids, x, nested, start, length, target)
words = embedding_layer(input=ids, size=4)
h = fc_layer(input=words, size=4, name='h')
g = fc_layer(input=x, size=4)
inner = fc_layer(input=nested, size=4)
weights = fc_layer(input=h, size=1, act=SequenceSoftmaxActivation(), bias_attr=False)

sentences = pooling_layer(input=inner, pooling_type=AvgPooling(), agg_level=AggregateLevel.EACH_SEQUENCE)
longer = [
    expand_layer(input=g, expand_as=h),
    seq_concat_layer(a=h, b=words),
    seq_reshape_layer(input=h, reshape_size=2),
    scaling_layer(input=h, weight=weights),
    expand_layer(input=sentences, expand_as=inner, expand_level=ExpandLevel.FROM_SEQUENCE),
    last_seq(input=h, stride=2),
]
Layer(name='piece', type='subseq', inputs=['h', 'start', 'length'],
      bias=True)
Layer(name='piece_sum', type='average', average_strategy='sum', inputs='piece')
Layer(name='piece_cost', type='sum_cost', inputs='piece_sum')

pooled = [pooling_layer(input=each, pooling_type=SumPooling()) for each in longer]
pooled += [pooling_layer(input=h, pooling_type=kind) for kind in (MaxPooling(), AvgPooling(), SquareRootNPooling())]
pooled += [first_seq(input=h), last_seq(input=h),
           pooling_layer(input=last_seq(input=inner, agg_level=AggregateLevel.EACH_SEQUENCE),
                         pooling_type=AvgPooling())]
y = fc_layer(input=pooled, size=1)
outputs(mse_cost(input=y, label=target))
Outputs('piece_cost')
