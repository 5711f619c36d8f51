"""Recurrent layers, in both directions."""
from paddle.trainer_config_helpers import *

define_py_data_sources2('all.list', None, module='samples', obj='process', args={'slots': {
    'words': ['id_sequence', 5], 'target': ['dense', 1]}})
settings(batch_size=6, learning_rate=0.1)

words = embedding_layer(input=data_layer('words', size=5), size=12, param_attr=ParamAttr(initial_std=0.5))
layers = [make(input=words, reverse=reverse)
          for make in (lstmemory, grumemory, recurrent_layer) for reverse in (False, True)]
layers += [simple_lstm(input=words, size=3), simple_gru2(input=words, size=3),
           bidirectional_lstm(input=words, size=2, return_seq=True)]
y = fc_layer(input=[pooling_layer(input=each, pooling_type=AvgPooling()) for each in layers], size=1)
outputs(mse_cost(input=y, label=data_layer('target', size=1)))
