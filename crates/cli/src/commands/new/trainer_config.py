"""A small network of your own: two numbers in, one of two classes out.

`canoe config check model/trainer_config.py` says whether it can be trained.
"""
from paddle.trainer_config_helpers import *

# Values from the command line: canoe run . -- --config_args=hidden=64
hidden = get_config_arg('hidden', int, 16)

define_py_data_sources2(train_list='data/train.list', test_list='data/test.list', module='provider', obj='process')

settings(batch_size=32, learning_rate=0.01, learning_method=AdamOptimizer())

point = data_layer(name='point', size=2)
label = data_layer(name='label', size=2)

inner = fc_layer(input=point, size=hidden, act=TanhActivation())
output = fc_layer(input=inner, size=2, act=SoftmaxActivation())

# Adds the cost that is minimised, and the classification error that is measured.
outputs(classification_cost(input=output, label=label))
