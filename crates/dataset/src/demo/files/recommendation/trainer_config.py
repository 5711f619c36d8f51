"""How many stars will a user give a movie?

    movie: id, title characters, genres   -> 256 numbers each -> fully connected 256 -+
                                                                                      +-> cosine, times 5
    user:  id, gender, age, occupation    -> 256 numbers each -> fully connected 256 -+

The score to predict is 2 * stars - 5, from -3 to 5; the error in stars is sqrt(cost) / 2.

Run from the job directory:  canoe train --config=recommendation/trainer_config.py --save_dir=output --num_passes=15
Predict:  add --job=test --init_model_path=output/pass-00009 --config_args=is_predict=1 --predict_output_dir=.
"""
from paddle.trainer_config_helpers import *

import pickle

is_predict = get_config_arg('is_predict', bool, False)
meta_file = get_config_arg('meta_file', str, 'data/meta.bin')

with open(meta_file, 'rb') as stored:
    meta = pickle.load(stored)

settings(
    batch_size=1600,
    learning_rate=1e-3,
    learning_method=RMSPropOptimizer())

define_py_data_sources2(
    train_list=None if is_predict else 'data/train.list',
    test_list='data/pred.list' if is_predict else 'data/test.list',
    module='dataprovider',
    obj='process_predict' if is_predict else 'process',
    args={'meta_file': meta_file})


def feature(field, kind):
    """256 numbers for one field of a movie or user."""
    name = field.get('name', kind + '_id')
    if field['type'] == 'id':
        number = data_layer(name=name, size=field['max'])
        return fc_layer(input=embedding_layer(input=number, size=256), size=256)
    values = data_layer(name=name, size=len(field['dict']))
    if field['type'] == 'one_hot_dense':
        return fc_layer(input=fc_layer(input=values, size=256), size=256)
    embedding = embedding_layer(input=values, size=256)
    if field['seq'] == 'sequence':
        return text_conv_pool(input=embedding, context_len=5, hidden_size=256)
    return fc_layer(input=embedding, size=256)


def features(kind):
    """256 numbers for all fields together."""
    fields = meta[kind]['__meta__']['raw_meta']
    return fc_layer(
        name=kind + '_fusion',
        input=[feature(field, kind) for field in fields],
        size=256)


similarity = cos_sim(a=features('movie'), b=features('user'), scale=5)

if is_predict:
    outputs(similarity)
else:
    outputs(mse_cost(input=similarity, label=data_layer(name='rating', size=1)))
