"""Images: convolutions of all kinds, pooling, normalisation, and layers that change their shape."""

from paddle.trainer_config_helpers import *

settings(batch_size=16, learning_rate=0.1 / 128, learning_method=MomentumOptimizer(0.9, sparse=False))

picture = data_layer(name='picture', size=3 * 16 * 24, height=16, width=24)
plain = data_layer(name='plain', size=2 * 8 * 8)

conv = img_conv_layer(input=picture, filter_size=(3, 5), num_filters=8, num_channels=3, padding=(1, 2), stride=1,
                      groups=1, act=LinearActivation())
normed = batch_norm_layer(input=conv, moving_average_fraction=0.8, use_global_stats=False)
pooled = img_pool_layer(input=normed, pool_size=3, stride=2, pool_type=AvgPooling(), padding=1)
floored = img_pool_layer(input=normed, pool_size=3, stride=2, ceil_mode=False, pool_size_y=2)
response = img_cmrnorm_layer(input=pooled, size=5)
largest = maxout_layer(input=conv, groups=2)
resized = bilinear_interp_layer(input=conv, out_size_x=10, out_size_y=12)
pyramid = spp_layer(input=conv, pyramid_height=2, pool_type=MaxPooling())
padded = pad_layer(input=conv, pad_c=[1, 2], pad_h=[0, 1], pad_w=[3, 0])
blocks = block_expand_layer(input=conv, num_channels=8, block_x=1, block_y=16, stride_x=1, stride_y=1)
grown = img_conv_layer(input=plain, filter_size=4, num_filters=6, num_channels=2, stride=2, padding=1, trans=True,
                       shared_biases=False)
turned = rotate_layer(input=plain, height=8, width=8)
grouped = img_conv_layer(input=plain, filter_size=3, num_filters=4, num_channels=2, groups=2, bias_attr=False)
scaled = cross_channel_norm_layer(input=conv, param_attr=ParamAttr(initial_mean=20, initial_std=0))
boxes = priorbox_layer(input=conv, image=picture, min_size=[4], max_size=[8], aspect_ratio=[2.0],
                       variance=[0.1, 0.1, 0.2, 0.2])
simple = simple_img_conv_pool(input=plain, filter_size=3, num_filters=4, num_channel=2, pool_size=2, pool_stride=2,
                              act=ReluActivation())
with_norm = img_conv_bn_pool(input=plain, filter_size=3, num_filters=4, num_channel=2, pool_size=2, pool_stride=2,
                             act=ReluActivation())
group = img_conv_group(input=plain, num_channels=2, conv_num_filter=[4, 4], pool_size=2, pool_stride=2,
                       conv_with_batchnorm=[True, False], conv_batchnorm_drop_rate=[0.3, 0])
mixed = mixed_layer(input=[conv_projection(input=conv, filter_size=3, num_filters=2, padding=1),
                           conv_projection(input=normed, filter_size=1, num_filters=2)], bias_attr=True,
                    act=ReluActivation())
joined = concat_layer(input=[conv_projection(input=plain, filter_size=1, num_filters=2, num_channels=2),
                             conv_projection(input=plain, filter_size=1, num_filters=3, num_channels=2)],
                      bias_attr=ParamAttr(initial_std=0.0))
dense = fc_layer(input=[response, floored, simple, with_norm, group], size=10, act=SoftmaxActivation())
outputs(classification_cost(input=dense, label=data_layer(name='digit', size=10), top_k=2),
        largest, resized, pyramid, padded, blocks, grown, turned, grouped, scaled, mixed, joined)
