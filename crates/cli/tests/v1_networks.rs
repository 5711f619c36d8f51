//! Networks and data of v1, by the program, that need more than a layer: an id without a row, labels that a random field
//! decodes beside true ones, binary files of samples, areas under curves of clicks.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;

use common::{Folder, failed, said, succeeded};

/// A job folder with a configuration, a provider and a list of one file.
fn job(config: &str, provider: &str) -> Folder {
    let folder = Folder::empty();
    let config = format!("from paddle.trainer_config_helpers import *\n{config}");
    let provider = format!("from paddle.trainer.PyDataProvider2 import *\n{provider}");
    fs::write(folder.path("c.py"), config).unwrap();
    fs::write(folder.path("p.py"), provider).unwrap();
    fs::write(folder.path("all.list"), "samples\n").unwrap();
    folder
}

#[test]
fn the_id_minus_one_is_a_row_of_zeros() {
    let folder = job(
        "
define_py_data_sources2('all.list', 'all.list', module='p', obj='process')
settings(batch_size=3, learning_rate=0.1)
outputs(embedding_layer(input=data_layer('word', size=4), size=2, param_attr=ParamAttr(initial_mean=1, initial_std=0)))
",
        "
@provider(input_types=[integer_value(4)])
def process(settings, name):
    for word in (3, -1, 0xffffffff):
        yield word
",
    );
    succeeded(&folder.canoe(&["train", "--config=c.py", "--num_passes=1", "--save_dir=out"]));
    let out = folder.canoe(&[
        "train",
        "--config=c.py",
        "--job=test",
        "--init_model_path=out/pass-00000",
        "--predict_output_dir=.",
    ]);
    succeeded(&out);
    let rows = fs::read_to_string(folder.path("rank-00000")).unwrap();
    let rows: Vec<&str> = rows.lines().map(str::trim).collect();
    assert_eq!(rows, ["1 1;", "0 0;", "0 0;"], "{}", said(&out));
}

/// Semantic role labelling has the cost, the decoding with the labels, its errors, and chunks of what was decoded.
#[test]
fn what_is_decoded_beside_labels_has_errors_and_chunks() {
    let folder = job(
        "
define_py_data_sources2('all.list', None, module='p', obj='process')
settings(batch_size=8, learning_rate=0.1)
tags = data_layer('tags', size=5)
scores = embedding_layer(input=data_layer('words', size=5), size=5)
shared = ParamAttr(name='crfw')
cost = crf_layer(input=scores, label=tags, size=5, param_attr=shared)
decoded = crf_decoding_layer(input=scores, size=5, label=tags, param_attr=shared)
sum_evaluator(name='wrong', input=decoded)
chunk_evaluator(name='chunks', input=decoded, label=tags, chunk_scheme='IOB', num_chunk_types=2)
outputs(cost)
",
        "
@provider(input_types={'words': integer_value_sequence(5), 'tags': integer_value_sequence(5)})
def process(settings, name):
    for number in xrange(40):
        tags = [[0, 1, 4, 2], [2, 3], [4, 0, 1], [4]][number % 4]
        yield {'words': tags, 'tags': tags}
",
    );
    let out = folder.canoe(&[
        "train",
        "--config=c.py",
        "--num_passes=15",
        "--save_dir=out",
    ]);
    succeeded(&out);
    let text = said(&out);
    let last = text
        .lines()
        .rfind(|line| line.contains("Pass=14 "))
        .unwrap();
    let wanted = "wrong=0 chunks=1 true_chunks=40 result_chunks=40 correct_chunks=40";
    assert!(last.contains(wanted), "{last}");
}

/// A message of v1 with its length before it; all lengths here are below 128.
fn message(content: &[u8]) -> Vec<u8> {
    let mut out = vec![u8::try_from(content.len()).unwrap()];
    out.extend_from_slice(content);
    out
}

/// `proto_sequence` through the program: a sequence of words and a label per sample.
#[test]
fn binary_files_of_samples_train() {
    let folder = job(
        "
TrainData(ProtoData(files='all.list', type='proto_sequence'))
TestData(ProtoData(files='all.list', type='proto_sequence'))
settings(batch_size=10, learning_rate=0.1)
words, label = data_layer('words', size=6), data_layer('label', size=2)
pooled = pooling_layer(input=embedding_layer(input=words, size=4), pooling_type=SumPooling())
y = fc_layer(input=pooled, size=2, act=SoftmaxActivation())
outputs(classification_cost(input=y, label=label))
",
        "",
    );
    // Two slots: ids without values (type 1, dimension 6), and one id (type 3, dimension 2).
    let mut file = message(&[0x0a, 4, 0x08, 1, 0x10, 6, 0x0a, 4, 0x08, 3, 0x10, 2]);
    for number in 0..40 {
        let label = number % 2;
        let words = [label, 2 + number % 4, 5];
        // is_beginning; a vector slot with three ids; one id.
        let slot = [0x12, 3, words[0], words[1], words[2]];
        let sample = [&[0x08, 1, 0x12, 5], &slot[..], &[0x1a, 1, label]].concat();
        file.extend(message(&sample));
    }
    fs::write(folder.path("samples"), file).unwrap();
    let out = folder.canoe(&[
        "train",
        "--config=c.py",
        "--num_passes=20",
        "--save_dir=out",
    ]);
    succeeded(&out);
    let text = said(&out);
    let last = text
        .lines()
        .rfind(|line| line.contains("Test samples=40"))
        .unwrap();
    assert!(last.contains("classification_error_evaluator=0"), "{last}");
}

/// v1 had no helper for this evaluator: configurations name its type.
#[test]
fn the_area_of_clicks_is_evaluated() {
    let folder = job(
        "
define_py_data_sources2('all.list', None, module='p', obj='process')
settings(batch_size=2, learning_rate=0)
score, clicks = data_layer('score', size=1), data_layer('clicks', size=1)
Evaluator(name='area', type='rankauc', inputs=['score', 'clicks'])
outputs(mse_cost(input=fc_layer(input=score, size=1), label=clicks))
",
        "
@provider(input_types={'score': dense_vector_sequence(1), 'clicks': dense_vector_sequence(1)})
def process(settings, name):
    yield {'score': [[.9], [.1]], 'clicks': [[1.], [0.]]}
    yield {'score': [[.5], [.5]], 'clicks': [[1.], [0.]]}
",
    );
    let out = folder.canoe(&["train", "--config=c.py", "--num_passes=1", "--save_dir=out"]);
    succeeded(&out);
    assert!(said(&out).contains("area=0.75"), "{}", said(&out));
}

/// `crf_error` is in a comment of v1 only; no release had such a type.
#[test]
fn a_type_that_no_release_had_is_named() {
    let folder = job(
        "
settings(batch_size=2, learning_rate=0)
scores, tags = data_layer('scores', size=3), data_layer('tags', size=3)
Layer(name='errors', type='crf_error', size=3, inputs=[Input('scores', parameter_name='w'), 'tags'])
Outputs('errors')
",
        "",
    );
    let text = failed(&folder.canoe(&["config", "check", "c.py"]));
    assert!(
        text.contains("crf_error") && text.contains("c.py"),
        "{text}"
    );
}
