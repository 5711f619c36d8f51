//! What a run prints when it is asked to show internals: statistics of layers, clipped gradients, printers,
//! predictions.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;

use common::{Folder, failed, said, succeeded};

const PROVIDER: &str = "
from paddle.trainer.PyDataProvider2 import *
@provider(input_types={'x': dense_vector(2), 'words': integer_value_sequence(4), 'label': integer_value(2),
                       'query': integer_value(3)}, should_shuffle=False)
def process(settings, file_name):
    for number in range(6):
        yield {'x': [1.0, number - 2.5], 'words': [number % 4, 1], 'label': number % 2, 'query': number // 2}
";

const CONFIG: &str = "
from paddle.trainer_config_helpers import *
define_py_data_sources2('all.list', 'all.list', module='p', obj='process')
settings(batch_size=6, learning_rate=0.1, gradient_clipping_threshold=1e-3)
x, label = data_layer('x', size=2), data_layer('label', size=2)
words, query = data_layer('words', size=4), data_layer('query', size=3)
inputs(x, words, label, query)
h = fc_layer(input=x, size=3, name='hidden', layer_attr=ExtraAttr(error_clipping_threshold=1e-3))
y = fc_layer(input=h, size=2, act=SoftmaxActivation(), name='answer')
EVALUATORS
outputs(classification_cost(input=y, label=label))
";

/// A job of one batch per pass, with these evaluators.
fn job(evaluators: &str) -> Folder {
    let folder = Folder::empty();
    let config = CONFIG.replace("EVALUATORS", evaluators);
    fs::write(folder.path("c.py"), config).unwrap();
    fs::write(folder.path("p.py"), PROVIDER).unwrap();
    fs::write(folder.path("all.list"), "generated\n").unwrap();
    folder
}

/// The output of one pass.
fn train(folder: &Folder, more: &[&str]) -> String {
    let args = ["train", "--config=c.py", "--num_passes=1", "--save_dir=out"];
    let out = folder.canoe(&[&args[..], more].concat());
    succeeded(&out);
    said(&out)
}

fn count(text: &str, word: &str) -> usize {
    text.matches(word).count()
}

#[test]
fn layers_show_statistics_in_training_and_tests() {
    let folder = job("");
    let text = train(&folder, &["--show_layer_stat=1"]);
    assert_eq!(
        count(&text, "The output state of x: mean=0.5, std="),
        2,
        "{text}"
    );
    assert_eq!(
        count(&text, "The output state of answer: mean=0.5, "),
        2,
        "{text}"
    );
    let text = train(&folder, &[]);
    assert_eq!(count(&text, "The output state"), 0, "{text}");
}

#[test]
fn clipped_gradients_are_told() {
    let folder = job("");
    let text = train(&folder, &["--log_clipping=1", "--log_error_clipping=1"]);
    let words = [
        "parameter=_answer.w0 need clipping, max grad=",
        " layer=hidden need clipping, max error=",
    ];
    for word in words {
        assert_eq!(count(&text, word), 1, "«{word}» in {text}");
    }
    assert_eq!(count(&train(&folder, &[]), "need clipping"), 0);
}

#[test]
fn printers_print_and_write_files() {
    let folder = job("
value_printer_evaluator(input=x)
gradient_printer_evaluator(input=h)
maxid_printer_evaluator(input=y, num_results=2)
classification_error_printer_evaluator(input=y, label=label)
maxframe_printer_evaluator(input=fc_layer(input=embedding_layer(input=words, size=2), size=1))
seqtext_printer_evaluator(input=words, result_file='spoken.txt', dict_file='dict.txt')
");
    fs::write(folder.path("dict.txt"), "zero\none\ntwo\nthree\n").unwrap();
    let text = train(&folder, &[]);
    // Training and test; there is no gradient in the test.
    for (word, times) in [
        ("layer=x value:\n1 -2.5 \n1 -1.5 \n", 2),
        ("layer=hidden grad matrix:\n", 1),
        ("layer=answer row max id vector:\n", 2),
        (" Classification Error:\n", 2),
        (" sequence max frames:\n", 2),
    ] {
        assert_eq!(count(&text, word), times, "«{word}» in {text}");
    }
    let spoken = fs::read_to_string(folder.path("spoken.txt")).unwrap();
    let once = "0\t zero one\n1\t one one\n2\t two one\n3\t three one\n4\t zero one\n5\t one one\n";
    assert_eq!(spoken, format!("{once}{once}"));
}

#[test]
fn a_printer_without_its_dictionary_names_the_file() {
    let folder =
        job("seqtext_printer_evaluator(input=words, result_file='o.txt', dict_file='absent.txt')");
    let out = folder.canoe(&["train", "--config=c.py", "--num_passes=1", "--save_dir=out"]);
    assert!(failed(&out).contains("absent.txt"));
}

#[test]
fn predictions_of_the_test_go_to_a_file() {
    let folder = job(
        "auc_evaluator(input=y, label=label)\npnpair_evaluator(input=y, label=label, info=query)",
    );
    train(&folder, &["--predict_file=seen.txt"]);
    let text = fs::read_to_string(folder.path("seen.txt")).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split(' ').collect()).collect();
    assert_eq!(rows.len(), 12, "{text}");
    for (number, row) in rows[..6].iter().enumerate() {
        assert_eq!(row[1..], [(number % 2).to_string()]);
    }
    for (number, row) in rows[6..].iter().enumerate() {
        let (label, query) = ((number % 2).to_string(), (number / 2).to_string());
        assert_eq!(row[1..], [label, query]);
        assert_eq!(row[0], rows[number][0]);
    }
}

#[test]
fn validation_layers_measure_as_evaluators_do() {
    let folder = job("
auc_evaluator(input=y, label=label, name='by_evaluator')
Layer(name='by_layer', type='auc-validation', inputs=['answer', 'label'])
");
    let text = train(&folder, &[]);
    let value = |name: &str| {
        let (_, rest) = text.rsplit_once(&format!("{name}=")).unwrap();
        rest.split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(value("by_evaluator"), value("by_layer"), "{text}");
}

#[test]
fn modules_are_found_in_the_python_path() {
    let folder = job("import sizes\nfc_layer(input=h, size=sizes.WIDTH)");
    fs::create_dir(folder.path("modules")).unwrap();
    fs::write(folder.path("modules/sizes.py"), "WIDTH = 3\n").unwrap();
    fs::rename(folder.path("p.py"), folder.path("modules/p.py")).unwrap();
    train(&folder, &["--python_path=modules"]);
    let out = folder.canoe(&["train", "--config=c.py", "--save_dir=out"]);
    assert!(failed(&out).contains("sizes"));
}

#[test]
fn times_are_taken_of_one_batch_or_of_new_ones() {
    let folder = job("");
    let time = ["--job=time", "--test_period=3"];
    let text = train(&folder, &time);
    assert!(text.contains("3 batches of 6 samples"), "{text}");
    // The data end before a second batch.
    let text = train(&folder, &[&time[..], &["--feed_data=1"]].concat());
    assert!(
        text.contains("data ") && text.contains("0 batches"),
        "{text}"
    );
}
