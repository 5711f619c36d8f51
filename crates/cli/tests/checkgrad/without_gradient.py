"""Layers through which no gradient goes stand beside the cost: they are computed and change nothing."""
from paddle.trainer_config_helpers import *

define_py_data_sources2('all.list', None, module='samples', obj='process', args={'slots': {
    'words': ['id_sequence', 5], 'tags': ['id_sequence', 4], 'picture': ['dense', 8]}})
settings(batch_size=6, learning_rate=0.1)

tags = data_layer('tags', size=4)
picture = data_layer('picture', size=8, height=2, width=4)
scores = fc_layer(input=embedding_layer(input=data_layer('words', size=5), size=4), size=4, act=LinearActivation())
shared = ParamAttr(name='transitions')
chosen = maxid_layer(input=scores)
print_layer(input=scores)
outputs(
    crf_layer(input=scores, label=tags, size=4, param_attr=shared),
    crf_decoding_layer(input=scores, size=4, label=tags, param_attr=shared),
    eos_layer(input=chosen, eos_id=2),
    sampling_id_layer(input=fc_layer(input=scores, size=4, act=SoftmaxActivation())),
    priorbox_layer(input=img_conv_layer(input=picture, filter_size=1, num_filters=1, num_channels=1), image=picture,
                   min_size=[2], aspect_ratio=[2.0], variance=[0.1, 0.1, 0.2, 0.2]))
