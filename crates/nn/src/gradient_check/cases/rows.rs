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
            "sparse_update of a parameter that is read as a whole and by row",
            Model::new()
                .data("b", 3)
                .data("x", 3)
                .data("t", 2)
                .layer(Layer::new("fc", "p", 2).weighted("b", &[3, 2]))
                .layer(
                    Layer::new("fc", "q", 2)
                        .weighted("x", &[3, 2])
                        .with(|c| c.inputs[0].input_parameter_name = Some("_p.w0".into())),
                )
                .layer(
                    Layer::new("addto", "y", 2)
                        .input("p")
                        .input("q")
                        .act("tanh"),
                )
                .parameter("_p.w0", |p| p.sparse_update = Some(true))
                .parameter("_q.w0", |p| p.is_static = Some(true))
                .square_error("y", "t"),
            Feed::new().binary(3).dense(3).dense(2).batch(),
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
    cases.extend(of_two_inputs());
    cases
}

/// A layer `y` of two or three inputs: `w` of the first width with values in (0, 1), then others.
fn combined(widths: &[u64], size: u64, layer: Layer) -> Case {
    let mut model = Model::new().data("x", 3).data("t", size);
    let mut layer = layer;
    for (input, &width) in widths.iter().enumerate() {
        let name = format!("i{input}");
        model = model.fc(&name, &["x"], width, "sigmoid");
        layer = if layer.config.r#type == "tensor" && input == 0 {
            layer.weighted(&name, &[widths[0], widths[1], size])
        } else {
            layer.input(&name)
        };
    }
    let name = layer.config.r#type.clone();
    Case::new(
        name,
        model.layer(layer).square_error("y", "t"),
        Feed::new().dense(3).dense(size as usize).batch(),
    )
}

fn of_two_inputs() -> Vec<Case> {
    let layer = |kind: &str, size| Layer::new(kind, "y", size);
    vec![
        combined(&[1, 3], 3, layer("scaling", 3)),
        combined(&[1, 3, 3], 3, layer("interpolation", 3)),
        combined(&[1, 3], 3, layer("power", 3)),
        combined(
            &[3],
            3,
            layer("slope_intercept", 3).with(|c| (c.slope, c.intercept) = (Some(0.7), Some(0.9))),
        ),
        combined(&[3], 3, layer("sum_to_one_norm", 3)),
        combined(&[2, 3], 4, layer("tensor", 4).bias().act("tanh")),
        combined(&[2, 6], 3, layer("convex_comb", 3)),
        combined(&[2, 3], 6, layer("out_prod", 6)),
        combined(
            &[3],
            6,
            layer("featmap_expand", 6)
                .act("tanh")
                .with(|c| c.num_filters = Some(2)),
        ),
        combined(&[3], 3, layer("get_output", 3)),
        combined(&[3], 3, layer("print", 3)),
        Case::new(
            "trans, twice",
            Model::new()
                .data("x", 3)
                .data("t", 2)
                .fc("h", &["x"], 2, "tanh")
                .layer(Layer::new("trans", "a", 6).input("h"))
                .layer(Layer::new("trans", "b", 2).input("a"))
                .square_error("b", "t"),
            Feed::new().dense(3).dense(2).batch(),
        ),
        Case::new(
            "resize, there and back",
            Model::new()
                .data("x", 3)
                .data("t", 4)
                .fc("h", &["x"], 4, "tanh")
                .layer(Layer::new("resize", "a", 8).input("h"))
                .layer(Layer::new("resize", "b", 4).input("a"))
                .square_error("b", "t"),
            Feed::new().dense(3).dense(4).batch(),
        ),
    ]
}
