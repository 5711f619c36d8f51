"""An encoder and a decoder with attention, as in v1's translation demo: trains, or generates with beam=N."""

from paddle.trainer_config_helpers import *

words = get_config_arg('words', int, 30000)
size = get_config_arg('size', int, 512)
beam = get_config_arg('beam', int, 0)
length = get_config_arg('length', int, 30)

settings(batch_size=50, learning_rate=0)

source = embedding_layer(input=data_layer(name='source', size=words), size=size,
                         param_attr=ParamAttr(name='source_words'))
ahead = simple_gru(input=source, size=size)
back = simple_gru(input=source, size=size, reverse=True)
encoded = concat_layer(input=[ahead, back])
with mixed_layer(size=size) as projected:
    projected += full_matrix_projection(input=encoded)
with mixed_layer(size=size, act=TanhActivation()) as boot:
    boot += full_matrix_projection(input=first_seq(input=back))


def decode(encoded, projected, word):
    before = memory(name='decoder', size=size, boot_layer=boot)
    context = simple_attention(encoded_sequence=encoded, encoded_proj=projected, decoder_state=before)
    with mixed_layer(size=3 * size) as sums:
        sums += full_matrix_projection(input=context)
        sums += full_matrix_projection(input=word)
    state = gru_step_layer(name='decoder', input=sums, output_mem=before, size=size)
    with mixed_layer(size=words, bias_attr=True, act=SoftmaxActivation()) as next_word:
        next_word += full_matrix_projection(input=state)
    return next_word


fixed = [StaticInput(input=encoded, is_seq=True), StaticInput(input=projected, is_seq=True)]
if beam:
    generated = GeneratedInput(size=words, embedding_name='target_words', embedding_size=size)
    outputs(beam_search(step=decode, input=fixed + [generated], bos_id=0, eos_id=1, beam_size=beam, max_length=length))
else:
    target = embedding_layer(input=data_layer(name='target', size=words), size=size,
                             param_attr=ParamAttr(name='target_words'))
    predicted = recurrent_group(step=decode, input=fixed + [target])
    outputs(classification_cost(input=predicted, label=data_layer(name='next', size=words)))
