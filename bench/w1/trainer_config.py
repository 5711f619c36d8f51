"""W1: logistic regression over 30,000 words, 60 a sample, batch 128, Adam. Read natively, no Python a sample."""
from paddle.trainer_config_helpers import *

define_native_data_sources('train.list', None, format='bow', dictionary='dict.txt')
settings(batch_size=128, learning_rate=2e-3, learning_method=AdamOptimizer())

sparse = get_config_arg('sparse', bool, False)
words = data_layer(name='word', size=30000)
label = data_layer(name='label', size=2)
output = fc_layer(input=words, size=2, act=SoftmaxActivation(), param_attr=ParamAttr(sparse_update=sparse))
outputs(classification_cost(input=output, label=label))
