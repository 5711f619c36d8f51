//! Each evaluator on a handful of rows whose measure is known.

use config::{EvaluatorConfig, LayerConfig, ModelConfig};

use super::Evaluators;
use crate::{Batch, BatchUse, Network, Parameters, Slot, SlotData};

fn model(kind: &str, inputs: usize, change: impl FnOnce(&mut EvaluatorConfig)) -> ModelConfig {
    let names: Vec<String> = (0..inputs).map(|i| format!("in{i}")).collect();
    let mut evaluator = EvaluatorConfig {
        name: "e".into(),
        r#type: kind.into(),
        input_layers: names.clone(),
        ..EvaluatorConfig::default()
    };
    change(&mut evaluator);
    let layer = |name: &String| LayerConfig {
        name: name.clone(),
        r#type: "data".into(),
        size: Some(100),
        ..LayerConfig::default()
    };
    ModelConfig {
        layers: names.iter().map(layer).collect(),
        input_layer_names: names,
        evaluators: vec![evaluator],
        ..ModelConfig::default()
    }
}

fn dense(dim: usize, values: &[f32]) -> Slot {
    Slot::plain(SlotData::Dense {
        dim,
        values: values.to_vec(),
    })
}

fn ids(ids: &[u32]) -> Slot {
    Slot::plain(SlotData::Ids(ids.to_vec()))
}

/// The text after each half of two equal passes over the slots, merged.
fn text(mut model: ModelConfig, samples: usize, slots: Vec<Slot>) -> String {
    for (layer, slot) in model.layers.iter_mut().zip(&slots) {
        if let SlotData::Dense { dim, .. } = slot.data {
            layer.size = Some(dim as u64);
        }
        if let SlotData::Binary { .. } = slot.data {
            layer.size = Some(3);
        }
    }
    let mut network = Network::new(&model).unwrap();
    network
        .forward(
            &Parameters::default(),
            &Batch { samples, slots },
            BatchUse::Test,
        )
        .unwrap();
    let mut evaluators = Evaluators::new(&model).unwrap();
    evaluators.accumulate(&network).unwrap();
    evaluators.reset();
    evaluators.accumulate(&network).unwrap();
    let mut other = Evaluators::new(&model).unwrap();
    other.merge(&evaluators);
    assert_eq!(other.line(), evaluators.line());
    assert_eq!(other.values(), evaluators.values());
    evaluators.line()
}

#[test]
fn classification_error_counts_rows_weights_and_top_k() {
    let p = || {
        dense(
            3,
            &[0.1, 0.2, 0.7, 0.5, 0.3, 0.2, 0.2, 0.5, 0.3, 0.4, 0.4, 0.2],
        )
    };
    let labels = || ids(&[2, 1, 0, 0]);
    assert_eq!(
        text(
            model("classification_error", 2, |_| {}),
            4,
            vec![p(), labels()]
        ),
        "e=0.5 "
    );
    let weights = dense(1, &[1.0, 3.0, 0.0, 0.0]);
    assert_eq!(
        text(
            model("classification_error", 3, |_| {}),
            4,
            vec![p(), labels(), weights]
        ),
        "e=0.75 "
    );
    assert_eq!(
        text(
            model("classification_error", 2, |e| e.top_k = Some(2)),
            4,
            vec![p(), labels()]
        ),
        " top_2_error=0.25 "
    );
    let sets = Slot::plain(SlotData::Binary {
        offsets: vec![0, 1, 1, 2, 3],
        columns: vec![2, 0, 0],
    });
    assert_eq!(
        text(model("classification_error", 2, |_| {}), 4, vec![p(), sets]),
        "e=0.333333 "
    );
    let columns = dense(
        3,
        &[0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0],
    );
    assert_eq!(
        text(
            model("classification_error", 2, |_| {}),
            4,
            vec![p(), columns]
        ),
        "e=1 "
    );
    let sequence = |slot: Slot| Slot {
        sequences: Some(vec![0, 1, 2, 4].into()),
        ..slot
    };
    let by_sequence = text(
        model("seq_classification_error", 2, |_| {}),
        3,
        vec![sequence(p()), sequence(labels())],
    );
    assert_eq!(by_sequence, "e=0.666667 ");
}

#[test]
fn sums_are_means_over_rows() {
    let x = || dense(2, &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(text(model("sum", 1, |_| {}), 2, vec![x()]), "e=5 ");
    assert_eq!(
        text(
            model("sum", 2, |_| {}),
            2,
            vec![ids(&[3, 4]), dense(1, &[1.0, 3.0])]
        ),
        "e=3.75 "
    );
    assert_eq!(
        text(model("last-column-sum", 1, |_| {}), 2, vec![x()]),
        "e=3 "
    );
}

#[test]
fn auc_is_the_share_of_pairs_in_order() {
    let p = dense(1, &[0.9, 0.8, 0.3, 0.3, 0.1]);
    assert_eq!(
        text(
            model("last-column-auc", 2, |_| {}),
            5,
            vec![p, ids(&[1, 0, 1, 0, 0])]
        ),
        "e=0.75 "
    );
}

#[test]
fn precision_and_recall_of_one_class_and_of_all() {
    let p = || {
        dense(
            3,
            &[0.8, 0.1, 0.1, 0.7, 0.2, 0.1, 0.1, 0.8, 0.1, 0.1, 0.2, 0.7],
        )
    };
    let one = text(
        model("precision_recall", 2, |e| e.positive_label = Some(0)),
        4,
        vec![p(), ids(&[0, 1, 1, 2])],
    );
    assert_eq!(
        one,
        "positive_label=0 precision=0.5 recall=1 F1-score=0.666667 "
    );
    let all = text(
        model("precision_recall", 2, |_| {}),
        4,
        vec![p(), ids(&[0, 1, 1, 2])],
    );
    assert_eq!(
        all,
        "macro-average-precision=0.833333 macro-average-recall=0.833333 macro-average-F1-score=0.833333 micro-average-precision=0.75 "
    );
    let sets = Slot::plain(SlotData::Binary {
        offsets: vec![0, 1, 3, 4, 5],
        columns: vec![0, 0, 1, 1, 2],
    });
    let multi = text(model("precision_recall", 2, |_| {}), 4, vec![p(), sets]);
    assert!(
        multi.ends_with(
            "micro-average-precision=1 micro-average-recall=0.8 micro-average-F1-score=0.888889 "
        ),
        "{multi}"
    );
}

#[test]
fn pairs_count_within_their_query() {
    let p = dense(1, &[0.9, 0.1, 0.5, 0.4, 0.6]);
    let slots = vec![p, ids(&[1, 0, 0, 0, 1]), ids(&[7, 7, 7, 8, 8])];
    assert_eq!(text(model("pnpair", 3, |_| {}), 5, slots), " pos/neg=3 ");
}

#[test]
fn chunks_must_have_the_right_ends_and_type() {
    let scheme = |name: &'static str| {
        move |e: &mut EvaluatorConfig| {
            e.chunk_scheme = Some(name.into());
            e.num_chunk_types = Some(2);
        }
    };
    let sequences =
        |labels: &[u32]| Slot::sequence(SlotData::Ids(labels.to_vec()), vec![0, 6, 6, 8]);
    // IOB, two types: 0 begins type 0, 1 is inside it, 2 and 3 the same for type 1, 4 is outside.
    let truth = sequences(&[0, 1, 4, 2, 3, 0, 2, 2]);
    let found = sequences(&[0, 1, 4, 2, 2, 0, 2, 3]);
    let line = text(model("chunk", 2, scheme("IOB")), 3, vec![found, truth]);
    assert_eq!(
        line,
        "e=0.4 true_chunks=5 result_chunks=5 correct_chunks=2 "
    );
    let plain = || sequences(&[0, 0, 2, 1, 1, 0, 1, 1]);
    let line = text(
        model("chunk", 2, scheme("plain")),
        3,
        vec![plain(), plain()],
    );
    assert_eq!(line, "e=1 true_chunks=4 result_chunks=4 correct_chunks=4 ");
}

#[test]
fn wrong_descriptions_are_errors() {
    assert!(Evaluators::new(&model("crystal_ball", 1, |_| {})).is_err());
    assert!(Evaluators::new(&model("chunk", 2, |e| e.chunk_scheme = Some("IOX".into()))).is_err());
    let missing = model("sum", 1, |e| e.input_layers = vec!["nowhere".into()]);
    assert!(Evaluators::new(&missing).is_err());
}

fn sequence(data: SlotData, offsets: &[u32]) -> Slot {
    Slot::sequence(data, offsets.to_vec())
}

#[test]
fn edit_distance_compares_what_was_recognised() {
    // classes 0, 1 and blank; recognised: [0, 0] of [0, 1], and [] of []
    let values = vec![0.8, 0.1, 0.1, 0.1, 0.1, 0.8, 0.7, 0.2, 0.1, 0.2, 0.1, 0.7];
    let output = sequence(SlotData::Dense { dim: 3, values }, &[0, 3, 4]);
    let labels = sequence(SlotData::Ids(vec![0, 1]), &[0, 2, 2]);
    assert_eq!(
        text(
            model("ctc_edit_distance", 2, |_| {}),
            2,
            vec![output, labels]
        ),
        "e=0.25  deletions error=0  insertions error=0  substitutions error=0.25  sequences error=0.5 "
    );
}

/// The messages of a printer about one batch.
fn messages(
    kind: &str,
    slots: Vec<Slot>,
    change: impl FnOnce(&mut EvaluatorConfig),
) -> Vec<super::Message> {
    let mut model = model(kind, slots.len(), change);
    for (layer, slot) in model.layers.iter_mut().zip(&slots) {
        if let SlotData::Dense { dim, .. } = slot.data {
            layer.size = Some(dim as u64);
        }
    }
    let mut network = Network::new(&model).unwrap();
    let batch = Batch { samples: 2, slots };
    network
        .forward(&Parameters::default(), &batch, BatchUse::Test)
        .unwrap();
    let mut evaluators = Evaluators::new(&model).unwrap();
    for file in evaluators.dictionary_files() {
        evaluators.set_dictionary(&file, &["the", "cat", "sat"].map(str::to_owned));
    }
    evaluators.accumulate(&network).unwrap();
    assert_eq!(evaluators.line(), "e=0 ");
    let messages = evaluators.take_messages();
    assert!(evaluators.take_messages().is_empty());
    messages
}

fn log(text: &str) -> super::Message {
    super::Message {
        file: None,
        text: text.to_owned(),
    }
}

#[test]
fn printers_show_values_maxima_and_errors() {
    let p = || dense(3, &[0.5, 0.25, 0.75, 1.0, 0.0, 0.0]);
    assert_eq!(
        messages("value_printer", vec![p(), ids(&[7, 8])], |_| {}),
        [
            log("layer=in0 value:\n0.5 0.25 0.75 \n1 0 0 \n"),
            log("layer=in1 id:\n[7 8 ]\n")
        ]
    );
    assert!(messages("gradient_printer", vec![p()], |_| {}).is_empty());
    assert_eq!(
        messages("max_id_printer", vec![p()], |e| e.num_results = Some(2)),
        [log(
            "layer=in0 row max id vector:\n2 : 0.75, 0 : 0.5, \n0 : 1, 1 : 0, \n"
        )]
    );
    assert_eq!(
        messages(
            "classification_error_printer",
            vec![p(), ids(&[2, 1])],
            |_| {}
        ),
        [log("Printer=e Classification Error:\n0 \n1 \n")]
    );
    let values = vec![0.5, 2.0, 1.0];
    let frames = sequence(SlotData::Dense { dim: 1, values }, &[0, 3, 3]);
    assert_eq!(
        messages("max_frame_printer", vec![frames], |e| e.num_results =
            Some(2)),
        [log(
            "layer=in0 sequence max frames:\n1 : 2, 2 : 1, total 3 frames\ntotal 0 frames\n"
        )]
    );
}

#[test]
fn texts_are_words_for_a_file() {
    let words = || sequence(SlotData::Ids(vec![0, 1, 2]), &[0, 2, 3]);
    let message = |text: &str| super::Message {
        file: Some("out.txt".into()),
        text: text.to_owned(),
    };
    let file = |e: &mut EvaluatorConfig| e.result_file = Some("out.txt".into());
    assert_eq!(
        messages("seq_text_printer", vec![words()], file),
        [message("0\t 0 1\n1\t 2\n")]
    );
    assert_eq!(
        messages("seq_text_printer", vec![ids(&[40, 50]), words()], |e| {
            file(e);
            e.dict_file = Some("words.txt".into());
            e.delimited = Some(false);
        }),
        [message("40\tthecat\n50\tsat\n")]
    );
}
