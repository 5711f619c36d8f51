//! Projections and operators of mixed layers.

use crate::gradient_check::{Case, Feed, LayerBuilder, ModelBuilder};

/// A mixed layer on top of `h` (width 3, not a sequence), and a cost on its `size` columns.
fn on_rows(name: &str, size: u64, mixed: LayerBuilder) -> Case {
    Case::new(
        name,
        ModelBuilder::new()
            .data("x", 2)
            .data("w", 5)
            .data("t", size)
            .fc("h", &["x"], 3, "")
            .fc("g", &["x"], 3, "tanh")
            .layer(mixed)
            .square_error("m", "t"),
        Feed::new().dense(2).ids(5).dense(size as usize).batch(),
    )
}

/// A mixed layer on top of the sequence `h` of width 3, pooled, and a cost.
fn on_sequences(name: &str, size: u64, mixed: LayerBuilder) -> Case {
    Case::new(
        name,
        ModelBuilder::new()
            .data("w", 5)
            .data("t", 2)
            .embedding("h", "w", 3)
            .layer(mixed)
            .layer(
                LayerBuilder::new("average", "p", size)
                    .input("m")
                    .with(|c| c.average_strategy = Some("sum".into())),
            )
            .fc("y", &["p"], 2, "")
            .square_error("y", "t"),
        Feed::new().id_sequence(5).dense(2).batch(),
    )
}

fn mixed(size: u64) -> LayerBuilder {
    LayerBuilder::new("mixed", "m", size)
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        on_rows(
            "full matrix",
            4,
            mixed(4)
                .projected("h", "fc", (3, 4), &[3, 4])
                .bias()
                .act("tanh"),
        ),
        on_rows(
            "transposed full matrix",
            4,
            mixed(4).projected("h", "trans_fc", (3, 4), &[4, 3]),
        ),
        on_rows(
            "full matrix beside others",
            4,
            mixed(4)
                .projected("h", "fc", (3, 4), &[3, 4])
                .projected("g", "trans_fc", (3, 4), &[4, 3])
                .projected("w", "table", (5, 4), &[5, 4])
                .bias(),
        ),
        on_rows(
            "table",
            4,
            mixed(4)
                .projected("w", "table", (5, 4), &[5, 4])
                .bias()
                .act("tanh"),
        ),
        on_rows(
            "identity",
            3,
            mixed(3).projected("h", "identity", (3, 3), &[]).projected(
                "g",
                "identity",
                (3, 3),
                &[],
            ),
        ),
        on_rows(
            "identity with offset",
            2,
            mixed(2)
                .projected("h", "identity_offset", (3, 2), &[])
                .with(|c| {
                    c.inputs[0].proj_conf.as_mut().unwrap().offset = Some(1);
                }),
        ),
        on_rows(
            "dot_mul",
            3,
            mixed(3).projected("h", "dot_mul", (3, 3), &[1, 3]),
        ),
        on_rows(
            "scaling",
            3,
            mixed(3).projected("h", "scaling", (3, 3), &[1, 1]),
        ),
        on_rows(
            "dot_mul operator",
            3,
            mixed(3)
                .input("h")
                .input("g")
                .operator("dot_mul", &[0, 1], 0.7),
        ),
        on_rows(
            "dot_mul operator with itself",
            3,
            mixed(3).input("h").operator("dot_mul", &[0, 0], 0.7),
        ),
        on_rows(
            "concat2",
            7,
            LayerBuilder::new("concat2", "m", 7)
                .projected("h", "fc", (3, 4), &[3, 4])
                .projected("g", "identity", (3, 3), &[])
                .bias(),
        ),
        on_sequences("context", 9, mixed(9).window("h", 3, -1, 3, 0)),
        on_sequences(
            "context after the position",
            6,
            mixed(6).window("h", 3, 1, 2, 0).bias().act("tanh"),
        ),
        on_sequences(
            "context with trainable padding",
            15,
            mixed(15).window("h", 3, -2, 5, 4),
        ),
        on_sequences(
            "context that starts far ahead",
            6,
            mixed(6).window("h", 3, 2, 2, 3),
        ),
    ]
}
