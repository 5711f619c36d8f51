//! Cost layers.

use crate::gradient_check::{Case, Feed, LayerBuilder, ModelBuilder};

/// A prediction `y` of `size` columns with an activation, and the cost layer.
fn cost(name: &str, act: &str, size: u64, label: u64, feed: Feed, layer: LayerBuilder) -> Case {
    let model = ModelBuilder::new()
        .data("x", 3)
        .data("t", label)
        .data("v", 1)
        .fc("y", &["x"], size, act)
        .layer(layer);
    Case::new(name, model, feed.batch())
}

fn layer(kind: &str) -> LayerBuilder {
    LayerBuilder::new(kind, "cost", 1).input("y").input("t")
}

pub(crate) fn cases() -> Vec<Case> {
    let classes = || Feed::new().dense(3).ids(4).dense(1);
    let numbers = || Feed::new().dense(3).positive(4).dense(1);
    vec![
        cost(
            "cross entropy",
            "softmax",
            4,
            4,
            classes(),
            layer("multi-class-cross-entropy"),
        ),
        cost(
            "cross entropy with weight",
            "softmax",
            4,
            4,
            classes(),
            layer("multi-class-cross-entropy").input("v"),
        ),
        cost(
            "cross entropy with coeff",
            "softmax",
            4,
            4,
            classes(),
            layer("multi-class-cross-entropy").with(|c| c.coeff = Some(0.3)),
        )
        .scaled(0.3),
        cost(
            "self-normalised cross entropy",
            "sigmoid",
            4,
            4,
            classes(),
            layer("multi_class_cross_entropy_with_selfnorm"),
        ),
        cost(
            "binary cross entropy of ids",
            "sigmoid",
            4,
            4,
            classes(),
            layer("multi_binary_label_cross_entropy"),
        ),
        cost(
            "binary cross entropy of sets",
            "sigmoid",
            4,
            4,
            Feed::new().dense(3).binary(4).dense(1),
            layer("multi_binary_label_cross_entropy"),
        ),
        cost(
            "soft binary cross entropy",
            "sigmoid",
            4,
            4,
            numbers(),
            layer("soft_binary_class_cross_entropy"),
        ),
        cost(
            "square error with weight",
            "",
            4,
            4,
            numbers(),
            layer("square_error").input("v"),
        ),
        cost(
            "square error of sparse rows",
            "",
            4,
            4,
            Feed::new().dense(3).sparse(4).dense(1),
            layer("square_error"),
        ),
        cost("smooth l1", "", 4, 4, numbers(), layer("smooth_l1")),
        cost(
            "huber",
            "",
            1,
            2,
            Feed::new().dense(3).ids(2).dense(1),
            layer("huber"),
        ),
        cost(
            "sum",
            "tanh",
            4,
            4,
            numbers(),
            LayerBuilder::new("sum_cost", "cost", 1).input("y"),
        ),
        Case::new(
            "rank",
            ModelBuilder::new()
                .data("x", 3)
                .data("t", 1)
                .data("v", 1)
                .fc("l", &["x"], 1, "")
                .fc("r", &["x"], 1, "tanh")
                .layer(
                    LayerBuilder::new("rank-cost", "cost", 1)
                        .input("l")
                        .input("r")
                        .input("t")
                        .input("v"),
                ),
            Feed::new().dense(3).positive(1).positive(1).batch(),
        ),
    ]
}
