"""Generation by beam search."""

from paddle.trainer_config_helpers import *

settings(batch_size=1, learning_rate=0)

start = data_layer(name='start', size=8)
hint = fc_layer(input=start, size=8, name='hint')


def step(same_hint, word):
    before = memory(name='state', size=8, boot_layer=hint)
    state = fc_layer(input=[word, before, same_hint], size=8, name='state')
    return fc_layer(input=state, size=30, act=SoftmaxActivation(), name='next', param_attr=ParamAttr(name='words'))


sentence = beam_search(name='generator', step=step, bos_id=0, eos_id=1, beam_size=3, max_length=20,
                       num_results_per_sample=2,
                       input=[StaticInput(hint), GeneratedInput(size=30, embedding_name='table', embedding_size=4)])
seqtext_printer_evaluator(input=sentence, result_file='result.txt', dict_file='words.txt', id_input=start)
outputs(sentence)
