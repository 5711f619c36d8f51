//! A job with recurrent groups: an encoder and a decoder with attention that learn to reverse sentences.

use std::fs;

use super::Folder;

/// A decoder with attention over generated reviews: it trains a group, or generates with `generate=1`.
pub(crate) const CONFIG: &str = "
from paddle.trainer_config_helpers import *
WORDS = 12
generating = get_config_arg('generate', bool, False)
beam = get_config_arg('beam', int, 1)
define_py_data_sources2('data/train.list', 'data/train.list', module='p', obj='generated' if generating else 'process')
settings(batch_size=8, learning_rate=0.05, learning_method=AdamOptimizer())
read = data_layer('source', WORDS)
source = embedding_layer(input=read, size=8, param_attr=ParamAttr(name='_source'))
encoded = simple_gru(input=source, size=8)
projected = fc_layer(input=encoded, size=8, act=LinearActivation(), bias_attr=False)

boot = last_seq(encoded)

def step(encoded, projected, word):
    before = memory(name='decoder', size=8, boot_layer=boot)
    context = simple_attention(encoded_sequence=encoded, encoded_proj=projected, decoder_state=before)
    state = fc_layer(input=[context, word, before], size=8, name='decoder', layer_attr=ExtraAttr(drop_rate=0.1))
    return fc_layer(input=state, size=WORDS, act=SoftmaxActivation(), name='next')

fixed = [StaticInput(encoded, is_seq=True), StaticInput(projected, is_seq=True)]
if generating:
    number = data_layer('number', 100)
    words = beam_search(step=step, input=fixed + [GeneratedInput(WORDS, '_target', 8)], bos_id=0, eos_id=1,
                        beam_size=beam, max_length=9, name='decoding')
    seqtext_printer_evaluator(input=words, id_input=number, dict_file='words.txt', result_file='result.txt')
    inputs(number, read)
    outputs(words)
else:
    target = embedding_layer(input=data_layer('target', WORDS), size=8, param_attr=ParamAttr(name='_target'))
    predicted = recurrent_group(step=step, input=fixed + [target], name='decoding')
    outputs(classification_cost(input=predicted, label=data_layer('following', WORDS)))
";

/// The translation of a sentence is the sentence backwards.
pub(crate) const PROVIDER: &str = "
from paddle.trainer.PyDataProvider2 import *

def sentences(file_name):
    for line in open(file_name):
        yield [int(word) for word in line.split()]

@provider(input_types=dict(source=integer_value_sequence(12), target=integer_value_sequence(12),
                           following=integer_value_sequence(12)), should_shuffle=False)
def process(settings, file_name):
    for words in sentences(file_name):
        back = words[::-1]
        yield dict(source=words, target=[0] + back, following=back + [1])

@provider(input_types=dict(source=integer_value_sequence(12), number=integer_value(100)), should_shuffle=False)
def generated(settings, file_name):
    for number, words in enumerate(sentences(file_name)):
        yield dict(source=words, number=number)
";

/// The job in `job`, with 36 sentences; not split into shards.
pub(crate) fn job() -> Folder {
    let folder = Folder::empty();
    fs::create_dir_all(folder.path("job/quick_start")).unwrap();
    fs::create_dir_all(folder.path("job/data")).unwrap();
    fs::write(folder.path("job/quick_start/c.py"), CONFIG).unwrap();
    fs::write(folder.path("job/quick_start/p.py"), PROVIDER).unwrap();
    fs::write(folder.path("job/data/train.list"), "data/x.txt\n").unwrap();
    let sentence = |sample: usize| {
        let words = (0..1 + sample % 6).map(|at| (2 + (sample * 7 + at * 5) % 10).to_string());
        words.collect::<Vec<_>>().join(" ") + "\n"
    };
    let text: String = (0..36).map(sentence).collect();
    fs::write(folder.path("job/data/x.txt"), text).unwrap();
    let words: String = (0..12).map(|word| format!("w{word}\n")).collect();
    fs::write(folder.path("job/words.txt"), words).unwrap();
    folder
}
