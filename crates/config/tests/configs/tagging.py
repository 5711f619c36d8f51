"""Sequence labels: conditional random fields, CTC, and the evaluators that go with them."""

from paddle.trainer_config_helpers import *

settings(batch_size=20, learning_rate=1e-3, learning_method=DecayedAdaGradOptimizer(),
         regularization=[L2Regularization(1e-3)], learning_rate_decay_a=5e-7, learning_rate_decay_b=0.75,
         learning_rate_schedule='discexp')

words = data_layer(name='words', size=50)
tags = data_layer(name='tags', size=7)
weights = data_layer(name='weights', size=1)
scores = fc_layer(input=embedding_layer(input=words, size=8,
                                        param_attr=ParamAttr(sparse_update=True, l1_rate=0.01)),
                  size=7, act=LinearActivation())
sharing = ParamAttr(name='crf_weights', initial_std=0)
cost = crf_layer(input=scores, label=tags, size=7, weight=weights, param_attr=sharing)
decoded = crf_decoding_layer(input=scores, size=7, label=tags, param_attr=sharing)
letters = fc_layer(input=words, size=8, act=SoftmaxActivation())
raw = fc_layer(input=words, size=8, act=LinearActivation())
connected = ctc_layer(input=letters, label=tags, norm_by_times=True)
warped = warp_ctc_layer(input=raw, label=tags, blank=7)
longer = seq_concat_layer(a=scores, b=scores)
reshaped = seq_reshape_layer(input=longer, reshape_size=14, bias_attr=True)
spread = expand_layer(input=pooling_layer(input=scores, pooling_type=MaxPooling(output_max_index=True)),
                      expand_as=scores, expand_level=ExpandLevel.FROM_TIMESTEP)
chosen = maxid_layer(input=letters)
drawn = sampling_id_layer(input=letters)
finished = eos_layer(input=chosen, eos_id=3)

sum_evaluator(name='error', input=decoded)
chunk_evaluator(input=decoded, label=tags, chunk_scheme='IOB', num_chunk_types=3, excluded_chunk_types=[1])
ctc_error_evaluator(input=letters, label=tags)
precision_recall_evaluator(input=letters, label=tags, positive_label=2, weight=weights)
auc_evaluator(input=letters, label=tags)
column_sum_evaluator(input=letters)
value_printer_evaluator(input=[scores, letters])
gradient_printer_evaluator(input=scores)
maxid_printer_evaluator(input=letters, num_results=2)
maxframe_printer_evaluator(input=weights)
classification_error_printer_evaluator(input=letters, label=tags, threshold=0.4)
classification_error_evaluator(input=letters, label=tags, threshold=0.3, top_k=3)
print_layer(input=[scores, chosen])
inputs([words, tags, weights])
outputs(cost, connected, warped, reshaped, spread, drawn, finished)
