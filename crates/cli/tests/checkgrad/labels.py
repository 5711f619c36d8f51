"""Costs of sequences of labels: random fields and alignments."""
from paddle.trainer_config_helpers import *

define_py_data_sources2('all.list', None, module='samples', obj='process', args={'slots': {
    'words': ['id_sequence', 5], 'tags': ['id_sequence', 4], 'letters': ['labels', 4], 'weight': ['positive', 1]}})
settings(batch_size=6, learning_rate=0.1)

words = embedding_layer(input=data_layer('words', size=5), size=4)
tags, letters = data_layer('tags', size=4), data_layer('letters', size=4)
scores = fc_layer(input=words, size=4, act=LinearActivation())
outputs(
    crf_layer(input=scores, label=tags, size=4, weight=data_layer('weight', size=1)),
    # Its blank is the last of size classes; that of warp_ctc is the first.
    ctc_layer(input=fc_layer(input=words, size=5, act=SoftmaxActivation()), label=letters, size=5),
    warp_ctc_layer(input=fc_layer(input=words, size=5, act=LinearActivation()), label=letters, size=5, blank=0))
