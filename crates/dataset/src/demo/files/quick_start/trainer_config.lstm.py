"""Review classification by an LSTM: it reads the review from start to end.

    words -> embedding 128 -> LSTM 128 (dropout 0.25) -> maximum over the review -> fully connected, 2 outputs -> softmax

Run from the job directory:  canoe train --config=quick_start/trainer_config.lstm.py --save_dir=output --num_passes=15
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

words = data_layer(name='word', size=vocabulary)
embedding = embedding_layer(input=words, size=128)
lstm = simple_lstm(
    input=embedding, size=128, lstm_cell_attr=ExtraAttr(drop_rate=0.25))
strongest = pooling_layer(input=lstm, pooling_type=MaxPooling())
output = fc_layer(input=strongest, size=2, act=SoftmaxActivation())

if is_predict:
    outputs([maxid_layer(output), output])
else:
    label = data_layer(name='label', size=2)
    outputs(classification_cost(input=output, label=label))
