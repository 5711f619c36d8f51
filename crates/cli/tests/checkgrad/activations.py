"""Every activation of a row, above and below a fully connected layer."""
from paddle.trainer_config_helpers import *

define_py_data_sources2('all.list', None, module='samples', obj='process', args={'slots': {
    'x': ['dense', 5], 'target': ['dense', 1]}})
settings(batch_size=6, learning_rate=0.1)

x = data_layer('x', size=5)
ordinary = [LinearActivation, TanhActivation, SigmoidActivation, SoftmaxActivation, ReluActivation, BReluActivation,
            SoftReluActivation, STanhActivation, AbsActivation, SquareActivation, ExpActivation]
layers = [fc_layer(input=fc_layer(input=x, size=4), size=3, act=kind()) for kind in ordinary]
# A logarithm needs numbers above 0.
layers.append(fc_layer(input=fc_layer(input=x, size=3, act=ExpActivation()), size=3, act=LogActivation(),
                       param_attr=ParamAttr(initial_min=0.1, initial_max=0.9),
                       bias_attr=ParamAttr(initial_mean=0.5, initial_std=0.0)))
y = fc_layer(input=layers, size=1, act=LinearActivation())
outputs(mse_cost(input=y, label=data_layer('target', size=1)))
