//! Layers on sequences.

use crate::gradient_check::{Case, Feed, Layer, Model};

/// A layer `p` of width 3 on the sequence `h`, made of ids; then a cost on one row a sample.
fn pooled(name: &str, layer: Layer) -> Case {
    Case::new(
        name,
        Model::new()
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
fn recurrent(name: &str, gates: u64, layer: Layer) -> Case {
    Case::new(
        name,
        Model::new()
            .data("w", 5)
            .data("t", 3)
            .embedding("e", "w", 2)
            .fc("x", &["e"], 3 * gates, "")
            .layer(layer)
            .layer(
                Layer::new("average", "p", 3)
                    .input("r")
                    .with(|c| c.average_strategy = Some("sum".into())),
            )
            .square_error("p", "t"),
        Feed::new().id_sequence(5).dense(3).batch(),
    )
}

/// A layer `p` on the nested sequence `h`; then the sum over what is left and a cost.
fn nested(name: &str, layer: Layer) -> Case {
    let sum = Layer::new("average", "q", 3)
        .input("p")
        .with(|c| c.average_strategy = Some("sum".into()));
    Case::new(
        name,
        Model::new()
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
    let pool = Layer::new(if maximum { "max" } else { "average" }, "p", 3).input("h");
    let base = if words > 100 {
        // Wide rows that are all different, in few long sequences.
        Model::new()
            .data("w", 2)
            .data("t", 3)
            .fc("e", &["w"], 2, "tanh")
    } else {
        Model::new()
            .data("w", words)
            .data("t", 3)
            .embedding("e", "w", 2)
    };
    let model = base
        .layer(Layer::new("mixed", "c", 6).window("e", 2, -1, 3, padding))
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

fn pool(kind: &str) -> Layer {
    Layer::new(kind, "p", 3).input("h").act("linear")
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
        let strided = Layer::new("seqlastins", "s", 3).input("h").with(|c| {
            c.seq_pool_stride = Some(2);
            c.select_first = Some(first);
        });
        cases.push(Case::new(
            "ends of windows",
            Model::new()
                .data("w", 5)
                .data("t", 3)
                .embedding("e", "w", 3)
                .fc("h", &["e"], 3, "tanh")
                .layer(strided)
                .layer(Layer::new("average", "p", 3).input("s"))
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
        let lstm = Layer::new("lstmemory", "r", 3)
            .weighted("x", &[3, 3, 4])
            .bias_of(21)
            .with(set);
        cases.push(recurrent("lstm", 4, lstm));
        let bare = Layer::new("lstmemory", "r", 3)
            .weighted("x", &[3, 3, 4])
            .with(set);
        cases.push(recurrent("lstm without bias", 4, bare));
        let gru = Layer::new("gated_recurrent", "r", 3)
            .weighted("x", &[3, 9])
            .bias_of(9)
            .with(set);
        cases.push(recurrent("gru", 3, gru));
        let simple = Layer::new("recurrent", "r", 3)
            .weighted("x", &[3, 3])
            .bias()
            .with(set);
        cases.push(recurrent("recurrent", 1, simple));
    }
    for (padding, words) in [(0, 5), (2, 5), (0, 400), (2, 400)] {
        for maximum in [false, true] {
            cases.push(convolution(padding, words, maximum).step(4e-3));
        }
    }
    cases.extend(reshaped());
    cases.push(Case::new(
        "sequence softmax",
        Model::new()
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

/// Layers that make other sequences.
fn reshaped() -> Vec<Case> {
    let base = || {
        Model::new()
            .data("w", 5)
            .data("x", 2)
            .data("t", 3)
            .embedding("e", "w", 3)
            .fc("h", &["e"], 3, "tanh")
            .fc("g", &["x"], 3, "")
    };
    let sum = |input: &str| {
        Layer::new("average", "p", 3)
            .input(input)
            .with(|c| c.average_strategy = Some("sum".into()))
    };
    let feed = || Feed::new().id_sequence(5).dense(2).dense(3);
    let end = |name: &str, model: Model| {
        Case::new(
            name,
            model.layer(sum("y")).square_error("p", "t"),
            feed().batch(),
        )
    };
    let nested = Model::new()
        .data("x", 2)
        .data("t", 3)
        .fc("h", &["x"], 3, "tanh")
        .layer(
            Layer::new("average", "s", 3)
                .input("h")
                .with(|c| c.trans_type = Some("seq".into())),
        )
        .layer(
            Layer::new("expand", "y", 3)
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
                .layer(Layer::new("expand", "y0", 3).input("g").input("h").bias())
                .layer(
                    Layer::new("addto", "y", 3)
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
                Layer::new("seqconcat", "y", 3)
                    .input("h")
                    .input("h2")
                    .act("tanh")
                    .bias(),
            ),
        ),
        end(
            "seqreshape",
            base().fc("six", &["e"], 6, "tanh").layer(
                Layer::new("seqreshape", "y", 3)
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
                    Layer::new("subseq", "y", 3)
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
