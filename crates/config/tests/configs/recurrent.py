"""Recurrent layers, recurrent groups by hand and ready-made, attention, nested sequences."""

from paddle.trainer_config_helpers import *

settings(batch_size=10, learning_rate=1e-4, learning_method=AdaDeltaOptimizer(rho=0.9),
         model_average=ModelAverage(0.5, max_average_window=2500))

words = data_layer(name='words', size=100)
nested = data_layer(name='nested', size=100)
state = fc_layer(input=data_layer(name='start', size=6), size=6)
embedded = embedding_layer(input=words, size=12)
inner = embedding_layer(input=nested, size=12)

simple = recurrent_layer(input=embedded, reverse=True, act=ReluActivation(), bias_attr=False)
gated = grumemory(input=embedded, name='gated', gate_act=SigmoidActivation())
one_way = lstmemory(input=embedded, name='one_way', bias_attr=False)
two_ways = bidirectional_gru(input=embedded, size=4, return_seq=True, fwd_act=ReluActivation())
units = lstmemory_group(input=embedded, size=3, reverse=True, mixed_bias_attr=False)
naive = gru_group(input=embedded, naive=True, gru_layer_attr=ExtraAttr(error_clipping_threshold=10))
products = simple_gru(input=embedded, size=5)
products2 = simple_gru2(input=embedded, size=5, mixed_bias_attr=True)


def step(word, context):
    before = memory(name='decoder', size=6, boot_layer=state)
    later = memory(name=None, size=6, boot_bias=ParamAttr(initial_std=0.1), boot_bias_active_type=TanhActivation())
    focus = simple_attention(encoded_sequence=context, encoded_proj=context, decoder_state=context_state(before))
    with mixed_layer(name='decoder', size=6, act=TanhActivation()) as decoder:
        decoder += full_matrix_projection(input=word)
        decoder += full_matrix_projection(input=before)
        decoder += full_matrix_projection(input=focus)
        decoder += identity_projection(input=later)
    later.set_input(decoder)
    return decoder


def context_state(before):
    return fc_layer(input=before, size=12, name='context_state', bias_attr=True)


decoded = recurrent_group(name='decoding', step=step, input=[embedded, StaticInput(embedded, is_seq=True)])


def outer(sentence):
    def word_step(word):
        before = memory(name='inner_rnn', size=12)
        return fc_layer(input=[word, before], size=12, name='inner_rnn')
    return last_seq(name='sentence', input=recurrent_group(name='inside', step=word_step, input=sentence))


sentences = recurrent_group(name='outside', step=outer, input=SubsequenceInput(inner))
ends = [first_seq(input=simple), last_seq(input=gated, stride=5), last_seq(input=one_way), last_seq(input=two_ways),
        first_seq(input=units), last_seq(input=naive), last_seq(input=products), last_seq(input=products2),
        last_seq(input=decoded), pooling_layer(input=sentences, agg_level=AggregateLevel.EACH_SEQUENCE)]
outputs(mse_cost(input=fc_layer(input=ends, size=1), label=data_layer(name='score', size=1)))
