"""Recurrent groups: cells, memories with every kind of boot, attention, groups over sub-sequences and in groups."""
from paddle.trainer_config_helpers import *

define_py_data_sources2('all.list', None, module='samples', obj='process', args={'slots': {
    'words': ['id_sequence', 5], 'others': ['id_sequence', 5], 'nested': ['nested', 3], 'x': ['dense', 3],
    'target': ['dense', 1]}})
settings(batch_size=6, learning_rate=0.1)

ids, others, nested = data_layer('words', size=5), data_layer('others', size=5), data_layer('nested', size=3)
x, target = data_layer('x', size=3), data_layer('target', size=1)
inputs(ids, others, nested, x, target)
words = embedding_layer(input=ids, size=12, param_attr=ParamAttr(initial_std=0.5))
state = fc_layer(input=x, size=4)
sentences = fc_layer(input=nested, size=4)


def plain(word, other):
    before = memory(name='plain', size=4, boot_layer=state)
    last_word = memory(name=other.name, size=5, boot_with_const_id=1)
    seen = embedding_layer(input=last_word, size=4)
    now = fc_layer(input=[word, before, seen], size=4, name='plain')
    return fc_layer(input=[now, word], size=4)


def learned(word):
    before = memory(name='learned', size=4, boot_bias=ParamAttr(initial_std=0.3),
                    boot_bias_active_type=SigmoidActivation())
    return fc_layer(input=[word, before], size=4, name='learned', layer_attr=ExtraAttr(drop_rate=0.2))


def attentive(encoded, projected, word):
    before = memory(name='attentive', size=4, boot_layer=state)
    context = simple_attention(encoded_sequence=encoded, encoded_proj=projected, decoder_state=before)
    return fc_layer(input=[context, word, before], size=4, name='attentive')


def sentence(part):
    last = memory(name='last', size=4)

    def word(one):
        before = memory(name='inner', size=4, boot_layer=last)
        return fc_layer(input=[one, before], size=4, name='inner')

    states = recurrent_group(step=word, input=part)
    last_seq(input=states, name='last')
    return states


def remembered(part):
    before = memory(name='remembered', size=4, is_seq=True, boot_layer=sentences)
    spread = expand_layer(input=pooling_layer(input=before, pooling_type=AvgPooling()), expand_as=part)
    return fc_layer(input=[part, spread], size=4, name='remembered')


projected = fc_layer(input=words, size=4, act=LinearActivation())
layers = [make(input=words, reverse=reverse) for make in (lstmemory_group, gru_group) for reverse in (False, True)]
layers += [
    simple_gru(input=words, size=3, naive=True),
    recurrent_group(step=plain, input=[words, others]),
    recurrent_group(step=learned, input=words, reverse=True),
    recurrent_group(step=attentive, input=[StaticInput(words, is_seq=True), StaticInput(projected, is_seq=True), words]),
    recurrent_group(step=sentence, input=SubsequenceInput(sentences)),
    recurrent_group(step=remembered, input=SubsequenceInput(sentences)),
]
Layer(name='grid', type='mdlstmemory', directions=[False], active_type='tanh', active_gate_type='sigmoid',
      active_state_type='tanh', bias=True, inputs=words.name)
Layer(name='grid_last', type='average', average_strategy='sum', inputs='grid')
Layer(name='grid_cost', type='sum_cost', inputs='grid_last')

y = fc_layer(input=[pooling_layer(input=each, pooling_type=SumPooling()) for each in layers], size=1)
outputs(mse_cost(input=y, label=target))
Outputs('grid_cost')
