//! Layers on sequences.

use crate::gradient_check::{Case, Feed, LayerBuilder, ModelBuilder};

/// A layer `p` of width 3 on the sequence `h`, made of ids; then a cost on one row per sample.
fn pooled(name: &str, layer: LayerBuilder) -> Case {
    Case::new(
        name,
        ModelBuilder::new()
            .data("w", 5)
            .data("t", 3)
            .embedding("e", "w", 3)
            .fc("h", &["e"], 3, "tanh")
            .layer(layer)
            .square_error("p", "t"),
        Feed::new().id_sequence(5).dense(3).batch(),
    )
}

/// A recurrent layer `r` of width 3 that reads `gates` sums, pooled, and a cost.
fn recurrent(name: &str, gates: u64, layer: LayerBuilder) -> Case {
    Case::new(
        name,
        ModelBuilder::new()
            .data("w", 5)
            .data("t", 3)
            .embedding("e", "w", 2)
            .fc("x", &["e"], 3 * gates, "")
            .layer(layer)
            .layer(
                LayerBuilder::new("average", "p", 3)
                    .input("r")
                    .with(|c| c.average_strategy = Some("sum".into())),
            )
            .square_error("p", "t"),
        Feed::new().id_sequence(5).dense(3).batch(),
    )
}

/// A layer `p` on the nested sequence `h`; then the sum over the rest and a cost.
fn nested(name: &str, layer: LayerBuilder) -> Case {
    let sum = LayerBuilder::new("average", "q", 3)
        .input("p")
        .with(|c| c.average_strategy = Some("sum".into()));
    Case::new(
        name,
        ModelBuilder::new()
            .data("x", 2)
            .data("t", 3)
            .fc("h", &["x"], 3, "tanh")
            .layer(layer)
            .layer(sum)
            .square_error("q", "t"),
        Feed::new().nested(2).dense(3).batch(),
    )
}

/// A window, a fully connected layer and a pooling. Many words: more stored rows than maxima.
fn convolution(padding: u64, words: u64, maximum: bool) -> Case {
    let pool = LayerBuilder::new(if maximum { "max" } else { "average" }, "p", 3).input("h");
    let base = if words > 100 {
        // Wide rows that are all different, in few long sequences.
        ModelBuilder::new()
            .data("w", 2)
            .data("t", 3)
            .fc("e", &["w"], 2, "tanh")
    } else {
        ModelBuilder::new()
            .data("w", words)
            .data("t", 3)
            .embedding("e", "w", 2)
    };
    let model = base
        .layer(LayerBuilder::new("mixed", "c", 6).window("e", 2, -1, 3, padding))
        .fc("h", &["c"], 3, "tanh")
        .layer(pool)
        .square_error("p", "t");
    let batch = if words > 100 {
        Feed::long(2, 40)
    } else {
        Feed::new().id_sequence(words as u32)
    };
    Case::new(
        format!("convolution, {padding} rows of padding, maximum {maximum}"),
        model,
        batch.dense(3).batch(),
    )
}

fn pool(kind: &str) -> LayerBuilder {
    LayerBuilder::new(kind, "p", 3).input("h").act("linear")
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        pooled("max", pool("max").bias()).step(2e-3),
        pooled("last", pool("seqlastins")),
        pooled(
            "first",
            pool("seqlastins").with(|c| c.select_first = Some(true)),
        ),
        nested(
            "max of sub-sequences",
            pool("max").with(|c| c.trans_type = Some("seq".into())),
        )
        .step(2e-3),
        nested(
            "last of sub-sequences",
            pool("seqlastins").with(|c| c.trans_type = Some("seq".into())),
        ),
        nested(
            "average of sub-sequences",
            pool("average").with(|c| c.trans_type = Some("seq".into())),
        ),
    ];
    for strategy in ["average", "sum", "squarerootn"] {
        cases.push(pooled(
            strategy,
            pool("average").with(|c| c.average_strategy = Some(strategy.into())),
        ));
    }
    for first in [false, true] {
        let strided = LayerBuilder::new("seqlastins", "s", 3)
            .input("h")
            .with(|c| {
                c.seq_pool_stride = Some(2);
                c.select_first = Some(first);
            });
        cases.push(Case::new(
            "ends of windows",
            ModelBuilder::new()
                .data("w", 5)
                .data("t", 3)
                .embedding("e", "w", 3)
                .fc("h", &["e"], 3, "tanh")
                .layer(strided)
                .layer(LayerBuilder::new("average", "p", 3).input("s"))
                .square_error("p", "t"),
            Feed::new().id_sequence(5).dense(3).batch(),
        ));
    }
    for (reversed, act) in [(false, "tanh"), (true, "stanh")] {
        let set = move |c: &mut config::LayerConfig| {
            c.reversed = Some(reversed);
            c.active_type = Some(act.into());
            c.active_gate_type = Some("sigmoid".into());
            c.active_state_type = Some("tanh".into());
        };
        let lstm = LayerBuilder::new("lstmemory", "r", 3)
            .weighted("x", &[3, 3, 4])
            .bias_of(21)
            .with(set);
        cases.push(recurrent("lstm", 4, lstm));
        let bare = LayerBuilder::new("lstmemory", "r", 3)
            .weighted("x", &[3, 3, 4])
            .with(set);
        cases.push(recurrent("lstm without bias", 4, bare));
        let gru = LayerBuilder::new("gated_recurrent", "r", 3)
            .weighted("x", &[3, 9])
            .bias_of(9)
            .with(set);
        cases.push(recurrent("gru", 3, gru));
        let simple = LayerBuilder::new("recurrent", "r", 3)
            .weighted("x", &[3, 3])
            .bias()
            .with(set);
        cases.push(recurrent("recurrent", 1, simple));
    }
    cases.extend(grids());
    for (padding, words) in [(0, 5), (2, 5), (0, 400), (2, 400)] {
        for maximum in [false, true] {
            cases.push(convolution(padding, words, maximum).step(4e-3));
        }
    }
    cases.extend(reshaped());
    cases.push(Case::new(
        "sequence softmax",
        ModelBuilder::new()
            .data("w", 5)
            .data("t", 1)
            .embedding("e", "w", 3)
            .fc("a", &["e"], 1, "sequence_softmax")
            .fc("b", &["e", "a"], 1, "")
            .square_error("b", "t"),
        Feed::new().id_sequence(5).dense_sequence(1).batch(),
    ));
    cases
}

/// LSTMs along one and two axes.
fn grids() -> Vec<Case> {
    let lstm = |directions: &'static [bool]| {
        let axes = directions.len() as u64;
        LayerBuilder::new("mdlstmemory", "r", 2)
            .weighted("x", &[2, 2 * (3 + axes)])
            .bias_of(2 * (5 + 2 * axes))
            .with(|c| {
                c.active_type = Some("tanh".into());
                c.active_gate_type = Some("sigmoid".into());
                c.active_state_type = Some("tanh".into());
                c.directions = directions.to_vec();
            })
    };
    let sum = || {
        LayerBuilder::new("average", "p", 2)
            .input("r")
            .with(|c| c.average_strategy = Some("sum".into()))
    };
    let mut cases = Vec::new();
    for directions in [&[true][..], &[false]] {
        cases.push(Case::new(
            "mdlstm on one axis",
            ModelBuilder::new()
                .data("w", 5)
                .data("t", 2)
                .embedding("x", "w", 8)
                .layer(lstm(directions))
                .layer(sum())
                .square_error("p", "t"),
            Feed::new().id_sequence(5).dense(2).batch(),
        ));
    }
    for directions in [&[true, true][..], &[false, true]] {
        let blocks = config::model::BlockExpandConfig {
            channels: 1,
            stride_x: 1,
            stride_y: 1,
            block_x: 1,
            block_y: 1,
            output_x: 3,
            output_y: 2,
            img_size_x: 3,
            img_size_y: 2,
            ..Default::default()
        };
        cases.push(Case::new(
            "mdlstm on two axes",
            ModelBuilder::new()
                .data("i", 6)
                .data("t", 2)
                .layer(
                    LayerBuilder::new("blockexpand", "b", 1)
                        .input("i")
                        .with(|c| c.inputs[0].block_expand_conf = Some(blocks)),
                )
                .fc("x", &["b"], 10, "")
                .layer(lstm(directions))
                .layer(sum())
                .square_error("p", "t"),
            Feed::new().dense(6).dense(2).batch(),
        ));
    }
    cases
}

/// Layers that output other sequences.
fn reshaped() -> Vec<Case> {
    let base = || {
        ModelBuilder::new()
            .data("w", 5)
            .data("x", 2)
            .data("t", 3)
            .embedding("e", "w", 3)
            .fc("h", &["e"], 3, "tanh")
            .fc("g", &["x"], 3, "")
    };
    let sum = |input: &str| {
        LayerBuilder::new("average", "p", 3)
            .input(input)
            .with(|c| c.average_strategy = Some("sum".into()))
    };
    let feed = || Feed::new().id_sequence(5).dense(2).dense(3);
    let end = |name: &str, model: ModelBuilder| {
        Case::new(
            name,
            model.layer(sum("y")).square_error("p", "t"),
            feed().batch(),
        )
    };
    let nested = ModelBuilder::new()
        .data("x", 2)
        .data("t", 3)
        .fc("h", &["x"], 3, "tanh")
        .layer(
            LayerBuilder::new("average", "s", 3)
                .input("h")
                .with(|c| c.trans_type = Some("seq".into())),
        )
        .layer(
            LayerBuilder::new("expand", "y", 3)
                .input("s")
                .input("h")
                .with(|c| c.trans_type = Some("seq".into())),
        )
        .layer(sum("y"))
        .square_error("p", "t");
    vec![
        end(
            "expand",
            base()
                .layer(
                    LayerBuilder::new("expand", "y0", 3)
                        .input("g")
                        .input("h")
                        .bias(),
                )
                .layer(
                    LayerBuilder::new("addto", "y", 3)
                        .input("y0")
                        .input("h")
                        .act("tanh"),
                ),
        ),
        Case::new(
            "expand to sub-sequences",
            nested,
            Feed::new().nested(2).dense(3).batch(),
        ),
        end(
            "seqconcat",
            base().fc("h2", &["e"], 3, "sigmoid").layer(
                LayerBuilder::new("seqconcat", "y", 3)
                    .input("h")
                    .input("h2")
                    .act("tanh")
                    .bias(),
            ),
        ),
        end(
            "seqreshape",
            base().fc("six", &["e"], 6, "tanh").layer(
                LayerBuilder::new("seqreshape", "y", 3)
                    .input("six")
                    .act("tanh")
                    .bias(),
            ),
        ),
        Case::new(
            "subseq",
            base()
                .data("offset", 9)
                .data("size", 9)
                .layer(
                    LayerBuilder::new("subseq", "y", 3)
                        .input("h")
                        .input("offset")
                        .input("size")
                        .act("tanh")
                        .bias(),
                )
                .layer(sum("y"))
                .square_error("p", "t"),
            feed()
                .given_ids(&[1, 0, 0, 2, 1, 0])
                .given_ids(&[2, 0, 1, 1, 2, 2])
                .batch(),
        ),
    ]
}
