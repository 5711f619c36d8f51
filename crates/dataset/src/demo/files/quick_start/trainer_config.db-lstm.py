"""Review classification by eight LSTMs on top of each other that read in alternating directions.

    words -> embedding 128 -> linear 128 -> LSTM 32 (dropout 0.1)
          -> 7 times: fully connected 128 on what went into and came out of the LSTM below -> LSTM 32 (dropout 0.1)
          -> maximum over the review -> fully connected, 2 outputs -> softmax

Run from the job directory:  canoe train --config=quick_start/trainer_config.db-lstm.py --save_dir=output --num_passes=15
Predict:  add --job=test --init_model_path=output/pass-00014 --config_args=is_predict=1 --predict_output_dir=.
"""
from paddle.trainer_config_helpers import *

is_predict = get_config_arg('is_predict', bool, False)
dict_file = get_config_arg('dict_file', str, 'data/dict.txt')

# One line for each word, the most frequent first; the number of the line is the word's id.
with open(dict_file, encoding='utf-8') as lines:
    vocabulary = sum(1 for _ in lines)

define_py_data_sources2(
    train_list=None if is_predict else 'data/train.list',
    test_list='data/pred.list' if is_predict else 'data/test.list',
    module='dataprovider_emb',
    obj='process_predict' if is_predict else 'process',
    args={'dict_file': dict_file})

settings(
    batch_size=1 if is_predict else 128,
    learning_rate=2e-3,
    learning_method=AdamOptimizer(),
    regularization=L2Regularization(8e-4),
    gradient_clipping_threshold=25)

# The sums of an LSTM are four times as wide as its output.
width = get_config_arg('width', int, 128)

words = data_layer(name='word', size=vocabulary)
embedding = embedding_layer(input=words, size=width)

# Starts at zero and is not pulled back to it.
free_bias = ParamAttr(initial_std=0., l2_rate=0.)

below = mixed_layer(size=width, input=[full_matrix_projection(input=embedding)])
lstm = lstmemory(input=below, layer_attr=ExtraAttr(drop_rate=0.1))

for level in range(1, 8):
    below = fc_layer(input=[below, lstm], size=width)
    lstm = lstmemory(
        input=below, reverse=level % 2 == 1, layer_attr=ExtraAttr(drop_rate=0.1))

strongest = pooling_layer(input=lstm, pooling_type=MaxPooling())
output = fc_layer(
    input=strongest, size=2, bias_attr=free_bias, act=SoftmaxActivation())

if is_predict:
    outputs([maxid_layer(output), output])
else:
    label = data_layer(name='label', size=2)
    outputs(classification_cost(input=output, label=label))
