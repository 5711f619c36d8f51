"""Layers that work on rows of numbers."""
from paddle.trainer_config_helpers import *

define_py_data_sources2('all.list', None, module='samples', obj='process', args={'slots': {
    'choice': ['ids', 2], 'x': ['dense', 4], 'sparse': ['sparse', 6], 'binary': ['binary', 6], 'picked': ['binary', 5],
    'target': ['dense', 1], 'pair': ['dense', 2], 'four': ['dense', 4]}})
settings(batch_size=6, learning_rate=0.1)

x = data_layer('x', size=4)
target, pair, four = data_layer('target', size=1), data_layer('pair', size=2), data_layer('four', size=4)
sparse, binary, picked = data_layer('sparse', size=6), data_layer('binary', size=6), data_layer('picked', size=5)
choice = data_layer('choice', size=2)
inputs(choice, x, sparse, binary, picked, target, pair, four)
a = fc_layer(input=[x, sparse, binary], size=6, name='a')
b = fc_layer(input=x, size=6, act=SigmoidActivation())
c = fc_layer(input=x, size=3, act=SoftmaxActivation())
w = fc_layer(input=x, size=1, act=SigmoidActivation())

parts = [
    addto_layer(input=[a, b], act=SigmoidActivation(), bias_attr=True),
    concat_layer(input=[a, c], act=TanhActivation()),
    cos_sim(a=a, b=b, scale=2),
    cos_sim(a=c, b=a, size=2),
    interpolation_layer(input=[a, b], weight=w),
    power_layer(input=b, weight=w),
    scaling_layer(input=a, weight=w),
    slope_intercept_layer(input=a, slope=0.7, intercept=0.1),
    sum_to_one_norm_layer(input=b),
    trans_layer(input=trans_layer(input=a)),
    conv_shift_layer(a=a, b=c),
    linear_comb_layer(weights=c, vectors=a),
    out_prod_layer(a, c),
    repeat_layer(input=c, num_repeats=2),
    tensor_layer(a=a, b=c, size=2),
    dropout_layer(input=a, dropout_rate=0.3),
]
y = fc_layer(input=parts, size=1)
selected = selective_fc_layer(input=[a, b], select=picked, size=5)

# Types for which v1 has no helper.
Layer(name='normal', type='data_norm', inputs=Input('x', initial_mean=0.5, initial_std=0.1))
Layer(name='normal_six', type='fc', size=6, inputs='normal')
Layer(name='chosen', type='multiplex', size=6, inputs=['choice', 'a', 'normal_six'])
Layer(name='slopes', type='prelu', partial_sum=2, inputs=Input('chosen', initial_mean=0.3, initial_std=0.1))
Layer(name='two_rows', type='resize', size=3, inputs='slopes')
Layer(name='one_row', type='resize', size=6, inputs='two_rows')
Layer(name='same', type='get_output', size=6, inputs=Input('one_row', input_layer_argument='value'))
Layer(name='both', type='fc', size=4, inputs='same')
Layer(name='slope_cost', type='square_error', inputs=['both', 'four'])

outputs(mse_cost(input=y, label=target), mse_cost(input=selected, label=pair))
Outputs('slope_cost')
