"""What is the water like tomorrow? Too low, good, or too high."""
from paddle.trainer_config_helpers import *

GAUGES = 20
READINGS = 8

define_py_data_sources2(
    train_list='data/train.list',
    test_list='data/test.list',
    module='provider',
    obj='process',
    args={'gauges': GAUGES, 'readings': READINGS})

settings(
    batch_size=100,
    learning_rate=get_config_arg('rate', float, 0.003),
    learning_method=AdamOptimizer())

gauge = data_layer(name='gauge', size=GAUGES)
readings = data_layer(name='readings', size=READINGS)
place = embedding_layer(input=gauge, size=8)
hidden = fc_layer(input=[place, readings], size=32, act=TanhActivation())
hidden = fc_layer(input=hidden, size=32, act=TanhActivation())
output = fc_layer(input=hidden, size=3, act=SoftmaxActivation())
label = data_layer(name='label', size=3)
outputs(classification_cost(input=output, label=label))
