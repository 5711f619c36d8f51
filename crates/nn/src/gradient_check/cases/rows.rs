//! Layers that work row by row.

use crate::gradient_check::{Case, Feed, LayerBuilder, ModelBuilder};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new(
            "fc on dense, sparse and binary inputs",
            ModelBuilder::new()
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
            ModelBuilder::new()
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
            ModelBuilder::new()
                .data("a", 4)
                .data("b", 5)
                .data("t", 6)
                .embedding("ea", "a", 3)
                .embedding("eb", "b", 3)
                .layer(
                    LayerBuilder::new("addto", "sum", 3)
                        .input("ea")
                        .input("eb")
                        .input("ea")
                        .bias()
                        .act("tanh"),
                )
                .layer(
                    LayerBuilder::new("concat", "both", 6)
                        .input("sum")
                        .input("ea")
                        .act("sigmoid"),
                )
                .square_error("both", "t"),
            Feed::new().ids(4).ids(5).dense(6).batch(),
        ),
        Case::new(
            "sparse_update and a shared, a static parameter",
            ModelBuilder::new()
                .data("b", 9)
                .data("c", 9)
                .data("t", 2)
                .layer(LayerBuilder::new("fc", "p", 2).weighted("b", &[9, 2]))
                .layer(
                    LayerBuilder::new("fc", "q", 2)
                        .weighted("c", &[9, 2])
                        .with(|c| c.inputs[0].input_parameter_name = Some("_p.w0".into())),
                )
                .layer(LayerBuilder::new("addto", "y", 2).input("p").input("q"))
                .fc("z", &["y"], 2, "tanh")
                .parameter("_p.w0", |p| p.sparse_update = Some(true))
                .parameter("_z.wbias", |p| p.is_static = Some(true))
                .parameter("_q.w0", |p| p.is_static = Some(true))
                .square_error("z", "t"),
            Feed::new().binary(9).sparse(9).dense(2).batch(),
        ),
        Case::new(
            "sparse_update of a parameter that is read as a whole and by row",
            ModelBuilder::new()
                .data("b", 3)
                .data("x", 3)
                .data("t", 2)
                .layer(LayerBuilder::new("fc", "p", 2).weighted("b", &[3, 2]))
                .layer(
                    LayerBuilder::new("fc", "q", 2)
                        .weighted("x", &[3, 2])
                        .with(|c| c.inputs[0].input_parameter_name = Some("_p.w0".into())),
                )
                .layer(
                    LayerBuilder::new("addto", "y", 2)
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
            ModelBuilder::new()
                .data("w", 5)
                .data("t", 4)
                .embedding("e", "w", 4)
                .fc("h", &["e"], 4, "tanh")
                .layer(
                    LayerBuilder::new("addto", "d", 4)
                        .input("h")
                        .with(|c| c.drop_rate = Some(0.4)),
                )
                .layer(
                    LayerBuilder::new("addto", "c", 4)
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
            ModelBuilder::new()
                .data("x", 3)
                .data("t", 4)
                .fc("h", &["x"], 4, act)
                .square_error("h", "t"),
            Feed::new().dense(3).dense(4).batch(),
        ));
    }
    cases.push(Case::new(
        "activation 'log'",
        ModelBuilder::new()
            .data("x", 3)
            .data("t", 4)
            .fc("e", &["x"], 4, "exponential")
            .fc("h", &["e"], 4, "sigmoid")
            .layer(LayerBuilder::new("addto", "l", 4).input("h").act("log"))
            .square_error("l", "t"),
        Feed::new().dense(3).dense(4).batch(),
    ));
    for (kind, size) in [("cos", 1), ("cos_vm", 2)] {
        cases.push(Case::new(
            kind,
            ModelBuilder::new()
                .data("user", 4)
                .data("movie", 5)
                .data("t", size)
                .embedding("eu", "user", 3)
                .embedding("em", "movie", 3 * size)
                .layer(
                    LayerBuilder::new(kind, "y", size)
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
fn combined(widths: &[u64], size: u64, layer: LayerBuilder) -> Case {
    let mut model = ModelBuilder::new().data("x", 3).data("t", size);
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
    let layer = |kind: &str, size| LayerBuilder::new(kind, "y", size);
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
            "multiplex",
            ModelBuilder::new()
                .data("c", 2)
                .data("x", 3)
                .data("t", 3)
                .fc("a", &["x"], 3, "tanh")
                .fc("b", &["x"], 3, "")
                .layer(
                    LayerBuilder::new("multiplex", "m", 3)
                        .input("c")
                        .input("a")
                        .input("b")
                        .act("sigmoid"),
                )
                .square_error("m", "t"),
            Feed::new().ids(2).dense(3).dense(3).batch(),
        ),
        normalised("z-score"),
        normalised("min-max"),
        normalised("decimal-scaling"),
        // The id -1 has no row.
        Case::new(
            "ids without a row",
            ModelBuilder::new()
                .data("w", 3)
                .data("t", 2)
                .embedding("e", "w", 2)
                .layer(
                    LayerBuilder::new("mixed", "m", 2)
                        .projected("w", "table", (3, 2), &[3, 2])
                        .projected("e", "identity", (2, 2), &[])
                        .act("tanh"),
                )
                .square_error("m", "t"),
            Feed::new()
                .given_ids(&[1, u32::MAX, 1, 0, u32::MAX, 1])
                .dense(2)
                .batch(),
        ),
        Case::new(
            "trans, twice",
            ModelBuilder::new()
                .data("x", 3)
                .data("t", 2)
                .fc("h", &["x"], 2, "tanh")
                .layer(LayerBuilder::new("trans", "a", 6).input("h"))
                .layer(LayerBuilder::new("trans", "b", 2).input("a"))
                .square_error("b", "t"),
            Feed::new().dense(3).dense(2).batch(),
        ),
        Case::new(
            "resize, there and back",
            ModelBuilder::new()
                .data("x", 3)
                .data("t", 4)
                .fc("h", &["x"], 4, "tanh")
                .layer(LayerBuilder::new("resize", "a", 8).input("h"))
                .layer(LayerBuilder::new("resize", "b", 4).input("a"))
                .square_error("b", "t"),
            Feed::new().dense(3).dense(4).batch(),
        ),
    ]
}

/// Statistics that never change, on a layer that learns.
fn normalised(strategy: &str) -> Case {
    let layer = LayerBuilder::new("data_norm", "n", 3)
        .weighted("h", &[5, 3])
        .with(|c| c.data_norm_strategy = Some(strategy.into()));
    Case::new(
        format!("data_norm, {strategy}"),
        ModelBuilder::new()
            .data("x", 2)
            .data("t", 3)
            .fc("h", &["x"], 3, "tanh")
            .layer(layer)
            .parameter("_n.w0", |p| p.is_static = Some(true))
            .square_error("n", "t"),
        Feed::new().dense(2).dense(3).batch(),
    )
}
