"""The raw vocabulary, as files before the helpers used it."""

default_initial_std(0.5)
default_momentum(0.9)
default_decay_rate(1e-4)
default_device(0)

TrainData(SimpleData(files='train.list', feat_dim=3, context_len=2, buffer_capacity=1000))
TestData(ProtoData(files='test.list', type='proto_group', load_file_count=4, load_thread_num=2, usage_ratio=0.5))

Settings(algorithm='sgd', batch_size=get_config_arg('batch', int, 50), learning_rate=0.01, num_batches_per_send_parameter=1,
         learning_rate_decay_a=0.1, learning_method='rmsprop', save_dir='./model', start_pass=2)

Layer(name='input', type='data', size=3 * 4)
Layer(name='picture', type='data', size=27 * 2, height=3, width=9, device=1)
Layer(name='label', type='data', size=5)
FCLayer(name='hidden', size=7, inputs=['input', Input('picture', parameter_name='shared', learning_rate=2, is_shared=True)],
        active_type='tanh', drop_rate=0.1)
Layer(name='hidden2', type='fc', size=7, inputs=[Input('picture', parameter_name='shared')], bias=False)
Layer(name='mixed', type='mixed', size=5, bias=Bias(parameter_name='mixed_bias', initial_mean=1),
      inputs=[FullMatrixProjection('hidden'), DotMulOperator(['label', 'label'], scale=2),
              TransposedFullMatrixProjection('hidden2', decay_rate_l1=0, momentum=0)])
Layer(name='norm', type='data_norm', inputs=[Input('input', parameter_name='stats')], data_norm_strategy='min-max')
Layer(name='resized', type='resize', size=6, inputs='input')
ExpressionLayer(name='copy', inputs=IdentityProjection('mixed'))
Layer(name='conv', type='exconv', num_filters=2, shared_biases=True,
      inputs=Input('picture', conv=Conv(filter_size=3, padding=1, stride=1, channels=2, groups=1)))
Layer(name='pool', type='pool', inputs=Input('conv', pool=Pool(pool_type='max-projection', channels=2, size_x=2, stride=2)))
Layer(name='choice', type='multiplex', size=5, inputs=['label', 'mixed', 'copy'])
Layer(name='cost', type='multi-class-cross-entropy', inputs=['mixed', 'label'], coeff=0.3)
Layer(name='soft', type='soft_binary_class_cross_entropy', inputs=['mixed', 'label'])
Evaluator(name='error', type='classification_error', inputs=['mixed', 'label'], top_k=2)
Parameter(name='loose', size=4, device=None, dims=[2, 2])

model_type('recurrent_nn')
RecurrentLayerGroupBegin('group', in_links=['hidden'], out_links=['step'], seq_reversed=True)
delayed = Memory(name='step', size=4, boot_bias=True, boot_bias_active_type='tanh')
Layer(name='step', type='fc', size=4, inputs=['hidden', delayed])
RecurrentLayerGroupEnd('group')
Layer(name='last', type='seqlastins', inputs=['step'])

Inputs('input', 'picture', 'label')
Outputs('cost')
