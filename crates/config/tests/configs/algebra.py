"""Mixed layers, arithmetic on layers, and layers without parameters."""

from paddle.trainer_config_helpers import *

settings(batch_size=100, learning_rate=1e-3, learning_method=AdaGradOptimizer())

a = data_layer(name='a', size=12)
b = data_layer(name='b', size=12)
one = data_layer(name='one', size=1)
three = data_layer(name='three', size=3)
ids = data_layer(name='ids', size=30)

with mixed_layer(size=6, bias_attr=True, act=TanhActivation(), layer_attr=ExtraAttr(drop_rate=0.5)) as mixed:
    mixed += full_matrix_projection(input=a, param_attr=ParamAttr(initial_min=-0.5, initial_max=0.25))
    mixed += trans_full_matrix_projection(input=b, param_attr=ParamAttr(name='shared', learning_rate=0.5))
    mixed += table_projection(input=ids)
    mixed += identity_projection(input=a, offset=3)
products = mixed_layer(input=[dotmul_projection(input=a), scaling_projection(input=b), identity_projection(input=a),
                              dotmul_operator(a=a, b=b, scale=0.5)])
images = mixed_layer(input=[conv_operator(img=a, filter=b, filter_size=2, num_filters=1, num_channels=3)], size=1)
context = mixed_layer(input=context_projection(input=a, context_len=4, padding_attr=ParamAttr(momentum=0.1)))
static = fc_layer(input=a, size=2, param_attr=ParamAttr(is_static=True), act=BReluActivation())
transposed = fc_layer(input=mixed, size=12, param_attr=ParamAttr(name='shared2'), act=SoftReluActivation())
tensor = tensor_layer(a=a, b=b, size=4)
selected = selective_fc_layer(input=[a, b], size=5, select=data_layer(name='mask', size=5), pass_generation=True)
number = (a + 1.5) * 2 - b + one - 3
power = 1 - layer_math.square(layer_math.exp(a)) * one

outputs([
    mixed, products, images, context, static, transposed, tensor, selected, number, power, layer_math.log(b),
    layer_math.abs(a), layer_math.sigmoid(a), layer_math.tanh(a), layer_math.relu(a),
    cos_sim(a=a, b=b), cos_sim(a=three, b=a, size=4, scale=2), interpolation_layer(input=[a, b], weight=one),
    power_layer(input=a, weight=one), scaling_layer(input=a, weight=one),
    slope_intercept_layer(input=a, slope=0.1, intercept=2), sum_to_one_norm_layer(input=a), trans_layer(input=a),
    conv_shift_layer(a=a, b=three), linear_comb_layer(weights=three, vectors=a), out_prod_layer(three, a),
    repeat_layer(input=three, num_repeats=4), concat_layer(input=[a, three], act=AbsActivation()),
    concat_layer(input=[full_matrix_projection(input=a, size=3), identity_projection(input=b)])])
