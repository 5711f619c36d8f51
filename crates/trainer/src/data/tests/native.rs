//! Native readers: bag of words, libsvm, CSV.

use super::*;

fn native(format: &str, args: &str, inputs: &[(&str, usize)], data: &str) -> Job {
    let mut job = Job::new("native", inputs);
    job.config.load_data_module = Some(format.to_owned());
    job.config.load_data_object = None;
    job.config.load_data_args = Some(args.to_owned());
    job.options.training = false;
    job.write("train.list", "data.txt\n");
    job.write("data.txt", data);
    job.write("dict.txt", "unk\t-1\nthe\t9\nfilm\t5\nis\t4\ngood\t3\n");
    job
}

const BOW: &str =
    r#"{"dictionary": "dict.txt", "slots": [{"part": "bag"}, {"part": "label", "classes": 2}]}"#;

fn binary(batch: &Batch, slot: usize) -> (Vec<u32>, Vec<u32>) {
    match &batch.slots[slot].data {
        SlotData::Binary { offsets, columns } => (offsets.clone(), columns.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn bags_of_words_and_labels() {
    let job = native(
        "bow",
        BOW,
        &[("word", 5), ("label", 2)],
        "1\tthe film is  good good\n0\t\r\n\n1\tawful film",
    );
    let got = batches(&mut job.open().unwrap(), 0, 0);
    assert_eq!(got.len(), 1);
    assert_eq!(
        binary(&got[0], 0),
        (vec![0, 5, 5, 7], vec![1, 2, 3, 4, 4, 0, 2])
    );
    assert_eq!(ids(&got, 1), [[1, 0, 1]]);
}

#[test]
fn words_as_sequences_by_layer_name_and_text_without_labels() {
    let args = r#"{"dictionary": "dict.txt", "unknown": 4,
                   "slots": [{"part": "label", "classes": 2, "layer": "label"}, {"part": "ids", "layer": "word"}]}"#;
    let job = native(
        "bow",
        args,
        &[("word", 5), ("label", 2)],
        "1\tthe film\n0\tx\n",
    );
    let got = batches(&mut job.open().unwrap(), 0, 0);
    assert_eq!(ids(&got, 0), [[1, 2, 4]]);
    assert_eq!(got[0].slots[0].sequences.as_deref(), Some(&[0, 2, 3][..]));
    assert_eq!(ids(&got, 1), [[1, 0]]);
    let args = r#"{"dictionary": "dict.txt", "slots": [{"part": "ids"}]}"#;
    let job = native("bow", args, &[("word", 5)], "the film\n");
    assert_eq!(ids(&batches(&mut job.open().unwrap(), 0, 0), 0), [[1, 2]]);
}

#[test]
fn bad_lines_of_words_are_named() {
    let inputs = [("word", 5), ("label", 2)];
    let message = |data: &str| native("bow", BOW, &inputs, data).failure().to_string();
    assert_eq!(
        message("1\tthe\nno label here\n"),
        "data.txt:2: there is no tab between label and words"
    );
    assert_eq!(
        message("1\tthe\n\nx\tthe\n"),
        "data.txt:3: the label \"x\" is not an integer"
    );
    assert_eq!(
        message("2\tthe\n"),
        "data.txt, line 1: slot label has the value 2, it must be below 2"
    );
    assert_eq!(
        message("-1\tthe\n"),
        "data.txt, line 1: slot label has the value -1, it must be 0 or more and below 2"
    );
}

#[test]
fn missing_files_and_dictionaries_are_named() {
    let inputs = [("word", 5), ("label", 2)];
    let job = native("bow", BOW, &inputs, "");
    job.write("train.list", "gone.txt\n");
    let got = job.failure();
    assert!(
        matches!(got, DataError::File { .. })
            && got.to_string().starts_with("read data file gone.txt")
    );
    let job = native("bow", &BOW.replace("dict.txt", "no.txt"), &inputs, "");
    assert!(matches!(job.failure(), DataError::Dictionary { .. }));
    let unknown = BOW.replace("\"slots\"", "\"unknown\": 5, \"slots\"");
    let got = native("bow", &unknown, &inputs, "").failure().to_string();
    assert!(
        got.contains("the id 5 of unknown words is not in dictionary dict.txt, which has 5 words"),
        "{got}"
    );
    let got = native("bow", BOW, &[("word", 6), ("label", 2)], "")
        .failure()
        .to_string();
    assert!(
        got.contains("has dimension 5 but the layer has size 6"),
        "{got}"
    );
}

#[test]
fn the_order_is_that_of_the_pass_and_later_passes_need_no_file() {
    let data: String = (0..500).map(|i| format!("{}\tthe\n", i % 2)).collect();
    let args = BOW.replace("\"bag\"", "\"ids\"");
    let mut job = native("bow", &args, &[("word", 5), ("label", 2)], &data);
    job.options.training = true;
    let mut source = job.open().unwrap();
    let first = ids(&batches(&mut source, 0, 0), 1);
    std::fs::remove_file(job.directory.path().join("data.txt")).unwrap();
    let second = ids(&batches(&mut source, 1, 0), 1);
    assert_ne!(first, second);
    assert_eq!(ids(&batches(&mut source, 0, 100), 1), first[100..]);
    assert_eq!(first.concat().iter().sum::<u32>(), 250);
}

const LIBSVM: &str = r#"{"slots": [{"part": "features", "dimension": 4, "first": 1, "binary": false},
                                   {"part": "label", "classes": 2}]}"#;

#[test]
fn libsvm_lines() {
    let inputs = [("x", 4), ("y", 2)];
    let job = native(
        "libsvm",
        LIBSVM,
        &inputs,
        "+1 1:0.5 4:-2 # comment\n-1 qid:3 2:1e-1\n1.0\n",
    );
    let got = batches(&mut job.open().unwrap(), 0, 0);
    let want = SlotData::Sparse {
        offsets: vec![0, 2, 3, 3],
        columns: vec![0, 3, 1],
        values: vec![0.5, -2.0, 0.1],
    };
    assert_eq!(got[0].slots[0].data, want);
    assert_eq!(ids(&got, 1), [[1, 0, 1]]);
    let job = native(
        "libsvm",
        &LIBSVM.replace("false", "true"),
        &inputs,
        "1 1:1 2:0 3:7\n",
    );
    assert_eq!(
        binary(&batches(&mut job.open().unwrap(), 0, 0)[0], 0),
        (vec![0, 2], vec![0, 2])
    );
    let message = |data: &str| {
        native("libsvm", LIBSVM, &inputs, data)
            .failure()
            .to_string()
    };
    assert_eq!(message("1 1:x\n"), "data.txt:1: \"1:x\" is not INDEX:VALUE");
    assert_eq!(
        message("1 5:1\n"),
        "data.txt, line 1: slot x has the value 5, it must be 1 to 4"
    );
    assert_eq!(
        message("1 0:1\n"),
        "data.txt, line 1: slot x has the value 0, it must be 1 to 4"
    );
    assert_eq!(
        message("1\n2 1:1\n"),
        "data.txt, line 2: slot y has the value 2, it must be below 2"
    );
    assert_eq!(
        message("a 1:1\n"),
        "data.txt:1: the label \"a\" is not an integer"
    );
    let commented = "# only a comment\n  # another\n1 1:1 2:0 3:7 # and a sample\n";
    let job = native(
        "libsvm",
        &LIBSVM.replace("false", "true"),
        &inputs,
        commented,
    );
    assert_eq!(ids(&batches(&mut job.open().unwrap(), 0, 0), 1), [[1]]);
}

#[test]
fn csv_columns_by_number_and_by_name() {
    let inputs = [("x", 2), ("y", 3)];
    let dense = |values: &[f32]| SlotData::Dense {
        dim: 2,
        values: values.to_vec(),
    };
    let args = r#"{"slots": [{"part": "dense", "columns": [2, 0]}, {"part": "integer", "column": 1, "limit": 3}]}"#;
    let job = native("csv", args, &inputs, "1.5,2,3\n \"4\" ,0,5\n");
    let failed = job.failure().to_string();
    assert!(failed.contains("is not a number"), "{failed}");
    let job = native("csv", args, &inputs, "1.5,2,3,\n\"4\",0, 5 ,ignored\n");
    let got = batches(&mut job.open().unwrap(), 0, 0);
    assert_eq!(got[0].slots[0].data, dense(&[3.0, 1.5, 5.0, 4.0]));
    assert_eq!(ids(&got, 1), [[2, 0]]);
    let named = r#"{"header": true, "separator": ";",
        "slots": [{"part": "dense", "columns": ["a", "c \"x\""]}, {"part": "integer", "column": "b", "limit": 3}]}"#;
    let job = native("csv", named, &inputs, "b;\"c \"\"x\"\"\";a\n1;2;3\n");
    let got = batches(&mut job.open().unwrap(), 0, 0);
    assert_eq!(got[0].slots[0].data, dense(&[3.0, 2.0]));
    let message = |args: &str, data: &str| native("csv", args, &inputs, data).failure().to_string();
    assert_eq!(
        message(args, "1,2\n"),
        "data.txt:1: the line has 2 fields, column 2 is missing"
    );
    assert_eq!(
        message(args, "1,3,2\n"),
        "data.txt, line 1: slot y has the value 3, it must be below 3"
    );
    assert_eq!(
        message(args, "1,0,2\nx,0,2\n"),
        "data.txt:2: column 0 of slot x: \"x\" is not a number"
    );
    assert_eq!(
        message(args, "1,0,2\n1,0,2,9\n"),
        "data.txt:2: the line has 4 fields, but the first line has 3"
    );
    assert_eq!(
        message(named, "b;\"c \"\"x\"\"\";a\n1;2;3\n1;2;3;4\n"),
        "data.txt:3: the line has 4 fields, but the header has 3"
    );
    assert_eq!(
        message(args, "\"1,0,2\n"),
        "data.txt:1: a quote is not closed"
    );
    assert_eq!(
        message(named, "a;b\n"),
        "data.txt:1: there is no column \"c \\\"x\\\"\" in the header"
    );
    let cased = message(named, "B;c \"x\";a\n");
    assert!(
        cased.ends_with("in the header; did you mean \"B\"?"),
        "{cased}"
    );
}

#[test]
fn declarations_that_make_no_sense_are_refused() {
    let message =
        |format: &str, args: &str| native(format, args, &[("x", 2)], "").failure().to_string();
    assert!(
        message("bow", "{").starts_with("native reader \"bow\": its declaration cannot be read")
    );
    assert!(
        message("xml", r#"{"slots": [{"part": "bag"}]}"#)
            .contains("it is unknown; use bow, libsvm or csv")
    );
    assert!(message("bow", r#"{"slots": [{"part": "bag"}]}"#).ends_with("it needs a dictionary"));
    let wrong = r#"{"slots": [{"part": "dense", "columns": [0]}], "dictionary": "dict.txt"}"#;
    assert!(message("bow", wrong).ends_with("its slots are native_bag, native_ids, native_label"));
    let wide = r#"{"slots": [{"part": "dense", "columns": [0]}], "separator": "||"}"#;
    assert!(message("csv", wide).ends_with("the separator \"||\" is not one byte"));
}

#[test]
fn no_bytes_make_a_reader_panic() {
    let inputs = [("x", 4), ("y", 2)];
    let csv = r#"{"slots": [{"part": "dense", "columns": [0, 1, 2, 3]}, {"part": "integer", "column": 4, "limit": 2}]}"#;
    let mut state = 1u64;
    for round in 0..60 {
        let mut bytes = Vec::new();
        for _ in 0..200 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let alphabet = b"01 :,\t\n\"-.e#\xff\x00";
            bytes.push(alphabet[(state >> 33) as usize % alphabet.len()]);
        }
        for (format, args) in [("bow", BOW), ("libsvm", LIBSVM), ("csv", csv)] {
            let job = native(
                format,
                args,
                if format == "bow" {
                    &[("x", 5), ("y", 2)]
                } else {
                    &inputs
                },
                "",
            );
            std::fs::write(job.directory.path().join("data.txt"), &bytes).unwrap();
            let mut source = job.open().unwrap();
            source.start_pass(round, 0);
            while let Ok(Some(_)) = source.next_batch() {}
        }
    }
}

/// The whole way: one call in a configuration file, evaluated by Python, opened here.
#[test]
fn a_configuration_declares_native_data_with_one_call() {
    let job = Job::new("native", &[("word", 3), ("label", 2)]);
    job.write("train.list", "data.txt\n");
    job.write("dict.txt", "unk\t-1\ngood\t2\nbad\t1\n");
    job.write("data.txt", "1\tgood stuff\n0\tbad\n");
    let file = "trainer_config.py";
    job.write(
        file,
        "from paddle.trainer_config_helpers import *
define_native_data_sources(None, 'train.list', format='bow', dictionary='dict.txt',
                           slots=[native_label(2, layer='label'), native_bag(layer='word')])
settings(batch_size=4)
word = data_layer(name='word', size=3)
label = data_layer(name='label', size=2)
outputs(classification_cost(input=fc_layer(input=word, size=2, act=SoftmaxActivation()), label=label))
",
    );
    let options = config::python::EvaluateOptions {
        directory: Some(job.directory.path().to_owned()),
        ..config::python::EvaluateOptions::new(file)
    };
    let config = config::evaluate(&options).unwrap();
    let data = config.test_data_config.unwrap();
    assert_eq!(data.r#type, "native");
    let options = DataOptions {
        training: false,
        ..job.options.clone()
    };
    let mut source = open(&data, &job.inputs, &options).unwrap();
    let got = batches(&mut source, 0, 0);
    assert_eq!(binary(&got[0], 0), (vec![0, 2, 3], vec![1, 0, 2]));
    assert_eq!(ids(&got, 1), [[1, 0]]);
}
