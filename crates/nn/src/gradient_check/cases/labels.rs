//! Costs of labels that are more than one softmax: random fields, alignments, trees, noise; and chosen columns.

use crate::gradient_check::{Case, Feed, LayerBuilder, ModelBuilder};
use crate::{Batch, Slot, SlotData};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = sequences();
    cases.extend(trees_and_noise());
    cases.push(selection());
    cases.push(Case::new(
        "circular convolution",
        ModelBuilder::new()
            .data("x", 2)
            .data("t", 4)
            .fc("a", &["x"], 4, "")
            .fc("b", &["x"], 3, "")
            .layer(
                LayerBuilder::new("conv_shift", "y", 4)
                    .input("a")
                    .input("b"),
            )
            .square_error("y", "t"),
        Feed::new().dense(2).dense(4).batch(),
    ));
    cases
}

/// Scores of three classes for each position of a sequence.
fn scores(act: &str) -> ModelBuilder {
    ModelBuilder::new()
        .data("w", 5)
        .data("l", 3)
        .embedding("e", "w", 2)
        .fc("y", &["e"], 3, act)
}

fn sequences() -> Vec<Case> {
    let crf = || {
        LayerBuilder::new("crf", "cost", 3)
            .weighted("y", &[5, 3])
            .input("l")
    };
    let ctc = |kind: &str| LayerBuilder::new(kind, "cost", 3).input("y").input("l");
    vec![
        Case::new(
            "random field",
            scores("").layer(crf()),
            Feed::new().id_sequence(5).id_sequence(3).batch(),
        ),
        Case::new(
            "random field with weights",
            scores("")
                .data("c", 1)
                .layer(crf().input("c").with(|c| c.coeff = Some(0.5))),
            Feed::new()
                .id_sequence(5)
                .id_sequence(3)
                .positive(1)
                .batch(),
        )
        .scaled(0.5),
        Case::new(
            "alignment of probabilities",
            scores("softmax").layer(ctc("ctc")),
            unaligned(0),
        )
        .step(3e-3),
        Case::new(
            "alignment of scores",
            scores("").layer(ctc("warp_ctc").with(|c| c.blank = Some(0))),
            unaligned(1),
        ),
    ]
}

/// Words, and fewer labels than words: `first` and `first + 1` in turns, one of them twice; one sequence too short.
fn unaligned(first: u32) -> Batch {
    let mut batch = Feed::new().id_sequence(5).batch();
    let labels: [&[u32]; 6] = [&[0], &[], &[1], &[1, 1], &[0, 1], &[0, 0]];
    let mut offsets = vec![0];
    for labels in labels {
        offsets.push(offsets.last().unwrap() + labels.len() as u32);
    }
    let ids = labels.concat().iter().map(|label| label + first).collect();
    batch
        .slots
        .push(Slot::sequence(SlotData::Ids(ids), offsets));
    batch
}

fn trees_and_noise() -> Vec<Case> {
    let below = || {
        ModelBuilder::new()
            .data("x", 2)
            .data("z", 3)
            .data("l", 6)
            .fc("h", &["x"], 3, "tanh")
            .fc("g", &["z"], 2, "tanh")
    };
    let feed = || Feed::new().dense(2).dense(3);
    let classes = |c: &mut config::LayerConfig| c.num_classes = Some(6);
    let tree = || {
        LayerBuilder::new("hsigmoid", "cost", 1)
            .weighted("h", &[5, 3])
            .weighted("g", &[5, 2])
            .input("l")
            .bias_of(5)
            .with(classes)
    };
    let noise = || {
        LayerBuilder::new("nce", "cost", 1)
            .weighted("h", &[6, 3])
            .weighted("g", &[6, 2])
            .input("l")
            .bias_of(6)
            .act("sigmoid")
            .with(classes)
            .with(|c| c.num_neg_samples = Some(3))
    };
    let given = vec![0.1, 0.2, 0.3, 0.1, 0.1, 0.2];
    vec![
        Case::new(
            "tree of sigmoids",
            below().layer(tree()),
            feed().ids(6).batch(),
        ),
        Case::new(
            "tree of sigmoids, by row",
            below()
                .layer(tree())
                .parameter("_cost.w0", |p| p.sparse_update = Some(true)),
            feed().ids(6).batch(),
        ),
        Case::new(
            "noise contrast, by row",
            below()
                .layer(noise())
                .parameter("_cost.w1", |p| p.sparse_update = Some(true)),
            feed().ids(6).batch(),
        ),
        Case::new(
            "noise contrast of several labels, weighted, from a distribution",
            below()
                .data("c", 1)
                .layer(noise().input("c").with(|c| c.neg_sampling_dist = given)),
            feed().binary(6).positive(1).batch(),
        ),
    ]
}

fn selection() -> Case {
    let model = ModelBuilder::new()
        .data("x", 3)
        .data("s", 5)
        .data("t", 2)
        .fc("h", &["x"], 3, "")
        .layer(
            LayerBuilder::new("selective_fc", "y", 5)
                .weighted("h", &[5, 3])
                .weighted("x", &[5, 3])
                .input("s")
                .bias()
                .act("tanh"),
        )
        .square_error("y", "t");
    let mut batch = Feed::new().dense(3).dense(3).dense(2).batch();
    batch.slots[1] = Slot::plain(SlotData::Binary {
        offsets: vec![0, 2, 4, 6, 8, 10, 12],
        columns: vec![0, 4, 1, 2, 0, 3, 1, 4, 0, 4, 2, 3],
    });
    Case::new("chosen columns", model, batch)
}
