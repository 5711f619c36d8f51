"""W2: the recommendation network of the peer benchmark: two towers, a title convolution, cosine similarity."""
from paddle.trainer_config_helpers import *

define_py_data_sources2('train.list', None, module='provider', obj='process')
settings(batch_size=1600, learning_rate=1e-4, learning_method=AdamOptimizer())


def embedded(name, size):
    layer = embedding_layer(input=data_layer(name=name, size=size), size=256)
    return fc_layer(input=layer, size=256, act=TanhActivation())


user = fc_layer(input=[embedded('user', 6041), embedded('gender', 2), embedded('age', 7), embedded('occupation', 21)],
                size=256, act=TanhActivation())
title = embedding_layer(input=data_layer(name='title', size=5000), size=256)
title = sequence_conv_pool(input=title, context_len=5, hidden_size=256, fc_act=TanhActivation(),
                           pool_type=MaxPooling())
genres = fc_layer(input=data_layer(name='genres', size=18), size=256, act=TanhActivation())
movie = fc_layer(input=[embedded('movie', 3953), genres, title], size=256, act=TanhActivation())
outputs(mse_cost(input=cos_sim(a=user, b=movie, scale=5), label=data_layer(name='rating', size=1)))
