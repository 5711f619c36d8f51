"""Layers on images. With --config_args=use_gpu=1,cudnn_version=5000 the types are those that v1 took for GPUs."""
from paddle.trainer_config_helpers import *

define_py_data_sources2('all.list', None, module='samples', obj='process', args={'slots': {
    'picture': ['dense', 2 * 6 * 6], 'plain': ['dense', 9], 'target': ['dense', 1]}})
settings(batch_size=6, learning_rate=0.1)

picture = data_layer('picture', size=2 * 6 * 6, height=6, width=6)
square = fc_layer(input=data_layer('plain', size=9), size=9)
conv = img_conv_layer(input=picture, filter_size=3, num_filters=4, num_channels=2, padding=1, act=LinearActivation())
soft = img_conv_layer(input=picture, filter_size=3, num_filters=4, num_channels=2, groups=2, act=TanhActivation(),
                      shared_biases=False)
layers = [
    batch_norm_layer(input=conv, act=TanhActivation()),
    batch_norm_layer(input=square, act=LinearActivation()),
    img_pool_layer(input=soft, pool_size=3, stride=2, pool_type=AvgPooling(), padding=1),
    img_pool_layer(input=soft, pool_size=2, stride=2, pool_type=MaxPooling()),
    img_cmrnorm_layer(input=soft, size=3, scale=0.5),
    cross_channel_norm_layer(input=soft, param_attr=ParamAttr(initial_mean=2, initial_std=0.1)),
    spp_layer(input=soft, pyramid_height=2, pool_type=MaxPooling()),
    pad_layer(input=soft, pad_c=[1, 0], pad_h=[0, 1], pad_w=[1, 1]),
    maxout_layer(input=conv, groups=2),
    bilinear_interp_layer(input=conv, out_size_x=9, out_size_y=4),
    img_conv_layer(input=soft, filter_size=3, num_filters=2, stride=2, padding=1, trans=True, act=TanhActivation()),
    rotate_layer(input=square, height=3, width=3),
    pooling_layer(input=fc_layer(input=block_expand_layer(input=soft, num_channels=4, block_x=2, block_y=4,
                                                          stride_x=2, stride_y=1), size=3),
                  pooling_type=AvgPooling()),
]
y = fc_layer(input=layers, size=1)
outputs(mse_cost(input=y, label=data_layer('target', size=1)))
