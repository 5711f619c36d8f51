"""Logistic regression as in trainer_config.lr.py, with data that Canoe reads itself.

No Python runs for a sample, so reading costs next to nothing; the network and its parameter names are the same.

Run from the job directory:  canoe train --config=quick_start/trainer_config.lr-native.py --save_dir=output --num_passes=15
"""
from paddle.trainer_config_helpers import *

dict_file = get_config_arg('dict_file', str, 'data/dict.txt')

# One line for each word, the most frequent first; the number of the line is the word's id.
with open(dict_file, encoding='utf-8') as lines:
    vocabulary = sum(1 for _ in lines)

define_native_data_sources(
    train_list='data/train.list',
    test_list='data/test.list',
    format='bow',
    dictionary=dict_file,
    slots=[native_bag(layer='word'), native_label(2, layer='label')])

settings(
    batch_size=128,
    learning_rate=2e-3,
    learning_method=AdamOptimizer(),
    regularization=L2Regularization(8e-4),
    gradient_clipping_threshold=25)

words = data_layer(name='word', size=vocabulary)
output = fc_layer(input=words, size=2, act=SoftmaxActivation())
label = data_layer(name='label', size=2)
outputs(classification_cost(input=output, label=label))
