//! Layers that work row by row.

use crate::gradient_check::{Case, Feed, Layer, Model};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new(
            "fc on dense, sparse and binary inputs",
            Model::new()
                .data("x", 3)
                .data("s", 7)
                .data("b", 6)
                .data("t", 2)
                .fc("y", &["x", "s", "b"], 2, "tanh")
                .square_error("y", "t"),
            Feed::new().dense(3).sparse(7).binary(6).dense(2).batch(),
        ),
        Case::new(
            "fc where domains meet",
            Model::new()
                .data("user", 4)
                .data("movie", 5)
                .data("genres", 3)
                .data("t", 2)
                .embedding("eu", "user", 3)
                .embedding("em", "movie", 3)
                .fc("hu", &["eu"], 3, "tanh")
                .fc("hm", &["em", "genres"], 4, "sigmoid")
                .fc("y", &["hu", "hm", "hu"], 2, "")
                .square_error("y", "t"),
            Feed::new().ids(4).ids(5).dense(3).dense(2).batch(),
        ),
        Case::new(
            "addto and concat of shared rows",
            Model::new()
                .data("a", 4)
                .data("b", 5)
                .data("t", 6)
                .embedding("ea", "a", 3)
                .embedding("eb", "b", 3)
                .layer(
                    Layer::new("addto", "sum", 3)
                        .input("ea")
                        .input("eb")
                        .input("ea")
                        .bias()
                        .act("tanh"),
                )
                .layer(
                    Layer::new("concat", "both", 6)
                        .input("sum")
                        .input("ea")
                        .act("sigmoid"),
                )
                .square_error("both", "t"),
            Feed::new().ids(4).ids(5).dense(6).batch(),
        ),
        Case::new(
            "sparse_update and a shared, a static parameter",
            Model::new()
                .data("b", 9)
                .data("c", 9)
                .data("t", 2)
                .layer(Layer::new("fc", "p", 2).weighted("b", &[9, 2]))
                .layer(
                    Layer::new("fc", "q", 2)
                        .weighted("c", &[9, 2])
                        .with(|c| c.inputs[0].input_parameter_name = Some("_p.w0".into())),
                )
                .layer(Layer::new("addto", "y", 2).input("p").input("q"))
                .fc("z", &["y"], 2, "tanh")
                .parameter("_p.w0", |p| p.sparse_update = Some(true))
                .parameter("_z.wbias", |p| p.is_static = Some(true))
                .parameter("_q.w0", |p| p.is_static = Some(true))
                .square_error("z", "t"),
            Feed::new().binary(9).sparse(9).dense(2).batch(),
        ),
        Case::new(
            "dropout and error clipping",
            Model::new()
                .data("w", 5)
                .data("t", 4)
                .embedding("e", "w", 4)
                .fc("h", &["e"], 4, "tanh")
                .layer(
                    Layer::new("addto", "d", 4)
                        .input("h")
                        .with(|c| c.drop_rate = Some(0.4)),
                )
                .layer(
                    Layer::new("addto", "c", 4)
                        .input("d")
                        .with(|c| c.error_clipping_threshold = Some(100.0)),
                )
                .square_error("c", "t"),
            Feed::new().ids(5).dense(4).batch(),
        ),
    ];
    for act in [
        "",
        "tanh",
        "sigmoid",
        "softmax",
        "relu",
        "brelu",
        "softrelu",
        "stanh",
        "abs",
        "square",
        "exponential",
    ] {
        cases.push(Case::new(
            format!("activation '{act}'"),
            Model::new()
                .data("x", 3)
                .data("t", 4)
                .fc("h", &["x"], 4, act)
                .square_error("h", "t"),
            Feed::new().dense(3).dense(4).batch(),
        ));
    }
    cases.push(Case::new(
        "activation 'log'",
        Model::new()
            .data("x", 3)
            .data("t", 4)
            .fc("e", &["x"], 4, "exponential")
            .fc("h", &["e"], 4, "sigmoid")
            .layer(Layer::new("addto", "l", 4).input("h").act("log"))
            .square_error("l", "t"),
        Feed::new().dense(3).dense(4).batch(),
    ));
    for (kind, size) in [("cos", 1), ("cos_vm", 2)] {
        cases.push(Case::new(
            kind,
            Model::new()
                .data("user", 4)
                .data("movie", 5)
                .data("t", size)
                .embedding("eu", "user", 3)
                .embedding("em", "movie", 3 * size)
                .layer(
                    Layer::new(kind, "y", size)
                        .input("eu")
                        .input("em")
                        .with(|c| c.cos_scale = Some(5.0)),
                )
                .square_error("y", "t"),
            Feed::new().ids(4).ids(5).dense(size as usize).batch(),
        ));
    }
    cases
}
