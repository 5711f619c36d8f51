"""Text networks: bag of words, embedding, convolution, LSTM in one and two directions, residuals."""

from paddle.trainer_config_helpers import *

with_label = not get_config_arg('is_predict', bool, False)

settings(batch_size=128, learning_rate=2e-3, learning_method=AdamOptimizer(),
         regularization=L2Regularization(8e-4), gradient_clipping_threshold=25)

bag = data_layer(name='bag', size=1000)
words = data_layer(name='words', size=1000)
label = data_layer(name='label', size=2)

embedded = embedding_layer(input=words, size=16, param_attr=ParamAttr(name='table', initial_std=0.1))
mean = pooling_layer(input=embedded, pooling_type=AvgPooling())
convolved = sequence_conv_pool(input=embedded, context_len=3, hidden_size=12)
wide = text_conv_pool(input=embedded, context_len=4, hidden_size=8, context_start=-2, context_proj_param_attr=True,
                      fc_act=ReluActivation(), pool_type=SumPooling(), pool_bias_attr=True)
lstm = simple_lstm(input=embedded, size=8, lstm_cell_attr=ExtraAttr(drop_rate=0.25))
pooled = pooling_layer(input=lstm, pooling_type=MaxPooling())
both = bidirectional_lstm(input=embedded, size=8)
dropped = dropout_layer(input=both, dropout_rate=0.5)
summed = addto_layer(input=[lstm, simple_lstm(input=lstm, size=8, reverse=True)], bias_attr=True,
                     act=ReluActivation(), layer_attr=ExtraAttr(drop_rate=0.1))
parts = [bag, mean, convolved, wide, pooled, dropped, last_seq(input=summed)]
probabilities = fc_layer(input=parts, size=2, act=SoftmaxActivation(),
                         bias_attr=ParamAttr(l2_rate=0.01, initial_std=0.2))

if with_label:
    outputs(classification_cost(input=probabilities, label=label))
else:
    outputs([maxid_layer(probabilities), probabilities])
