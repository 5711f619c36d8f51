//! Recurrent groups.

use crate::gradient_check::{Case, Feed, GroupBuilder, LayerBuilder, ModelBuilder};

/// A group `g` that reads the sequence `x` of width 3 (and `b`, one row of width 3 per sample) and outputs `y`.
fn group(name: &str, group: GroupBuilder) -> Case {
    let model = ModelBuilder::new()
        .data("w", 5)
        .data("d", 2)
        .data("t", 3)
        .embedding("e", "w", 2)
        .fc("x", &["e"], 3, "tanh")
        .fc("b", &["d"], 3, "tanh")
        .group(group)
        .layer(sum("y", 3))
        .square_error("p", "t");
    let feed = Feed::new().id_sequence(5).dense(2).dense(3);
    Case::new(format!("group: {name}"), model, feed.batch())
}

fn sum(input: &str, size: u64) -> LayerBuilder {
    LayerBuilder::new("average", "p", size)
        .input(input)
        .with(|c| c.average_strategy = Some("sum".into()))
}

fn fc(name: &str, inputs: &[&str]) -> LayerBuilder {
    let layer = LayerBuilder::new("fc", name, 3).bias().act("tanh");
    let weighted = |layer: LayerBuilder, input: &&str| layer.weighted(input, &[3, 3]);
    inputs.iter().fold(layer, weighted)
}

/// The plain recurrent step `h = tanh(x W + h' U + b)`.
fn simple() -> GroupBuilder {
    GroupBuilder::new("g")
        .link("x", 3)
        .memory("h", 3, |_| {})
        .layer(fc("h@g", &["x@g", "h+delay1@g"]))
        .out("h", "y")
}

fn cells() -> Vec<Case> {
    let functions = |c: &mut config::LayerConfig| {
        c.active_type = Some("tanh".into());
        c.active_gate_type = Some("sigmoid".into());
        c.active_state_type = Some("stanh".into());
    };
    let gru = GroupBuilder::new("g")
        .link("x", 3)
        .memory("h", 3, |m| m.boot_layer_name = Some("b".into()))
        .layer(LayerBuilder::new("fc", "s@g", 9).weighted("x@g", &[3, 9]))
        .layer(
            LayerBuilder::new("gru_step", "h@g", 3)
                .weighted("s@g", &[3, 9])
                .input("h+delay1@g")
                .bias_of(9)
                .with(functions),
        )
        .out("h", "y");
    let lstm = |bias: bool| {
        let step = LayerBuilder::new("lstm_step", "h@g", 3)
            .input("s@g")
            .input("c+delay1@g")
            .with(functions);
        let state = LayerBuilder::new("get_output", "c@g", 3)
            .input("h@g")
            .with(|c| c.inputs[0].input_layer_argument = Some("state".into()));
        GroupBuilder::new("g")
            .link("x", 3)
            .memory("h", 3, |_| {})
            .memory("c", 3, |m| m.boot_layer_name = Some("b".into()))
            .layer(
                LayerBuilder::new("mixed", "s@g", 12)
                    .projected("x@g", "fc", (3, 12), &[3, 12])
                    .projected("h+delay1@g", "fc", (3, 12), &[3, 12])
                    .bias(),
            )
            .layer(if bias { step.bias_of(9) } else { step })
            .layer(state)
            .out(if bias { "h" } else { "c" }, "y")
    };
    vec![
        group("gru_step", gru),
        group("lstm_step", lstm(true)),
        group("lstm_step, state only", lstm(false)),
    ]
}

fn memories() -> Vec<Case> {
    let bias = |m: &mut config::MemoryConfig| {
        m.boot_bias_parameter_name = Some("boot".into());
        m.boot_bias_active_type = Some("tanh".into());
    };
    // The word before, which is no layer of the step; the first step has word 2.
    let word = ModelBuilder::new()
        .data("w", 5)
        .data("t", 3)
        .group(
            GroupBuilder::new("g")
                .link("w", 5)
                .memory("w", 5, |m| m.boot_with_const_id = Some(2))
                .memory("h", 3, bias)
                .layer(
                    LayerBuilder::new("mixed", "h@g", 3)
                        .projected("w@g", "table", (5, 3), &[5, 3])
                        .projected("w+delay1@g", "table", (5, 3), &[5, 3])
                        .projected("h+delay1@g", "trans_fc", (3, 3), &[3, 3])
                        .act("tanh"),
                )
                .out("h", "y"),
        )
        .layer(sum("y", 3))
        .square_error("p", "t");
    let delayed = GroupBuilder::new("g")
        .link("x", 3)
        .layer(fc("u@g", &["x@g"]))
        .memory("u", 3, |m| m.boot_layer_name = Some("b".into()))
        .memory("h", 3, |_| {})
        .layer(fc("h@g", &["u+delay1@g", "h+delay1@g"]))
        .out("h", "y");
    let square = GroupBuilder::new("g")
        .link("x", 3)
        .memory("h", 3, |m| {
            m.boot_bias_parameter_name = Some("boot".into());
            m.boot_bias_active_type = Some("square".into());
        })
        .layer(fc("h@g", &["x@g", "h+delay1@g"]))
        .out("h", "y");
    // The output is the memory itself.
    let before = simple().with(|c| c.out_links[0].layer_name = "h+delay1@g".into());
    vec![
        group("no boot", simple()),
        group("reversed", simple().with(|c| c.reversed = Some(true))),
        group(
            "boot layer",
            simple().with(|c| c.memories[0].boot_layer_name = Some("b".into())),
        ),
        group("boot bias", square),
        group("memory of an earlier layer", delayed),
        group("memory as output", before),
        Case::new(
            "group: ids",
            word,
            Feed::new().id_sequence(5).dense(3).batch(),
        ),
    ]
}

/// What is computed before, in and after the steps, and values that are the same in all steps.
fn parts() -> Vec<Case> {
    let attention = GroupBuilder::new("g")
        .link("x", 3)
        .fixed("v", 3, true)
        .fixed("b", 3, false)
        .memory("h", 3, |m| m.boot_layer_name = Some("b".into()))
        .layer(LayerBuilder::new("fc", "q@g", 3).weighted("h+delay1@g", &[3, 3]))
        .layer(
            LayerBuilder::new("expand", "r@g", 3)
                .input("q@g")
                .input("v_fixed@g"),
        )
        .layer(
            LayerBuilder::new("mixed", "k@g", 3)
                .projected("r@g", "identity", (3, 3), &[])
                .projected("v_fixed@g", "identity", (3, 3), &[])
                .act("tanh"),
        )
        .layer(
            LayerBuilder::new("fc", "a@g", 1)
                .weighted("k@g", &[3, 1])
                .act("sequence_softmax"),
        )
        .layer(
            LayerBuilder::new("scaling", "z@g", 3)
                .input("a@g")
                .input("v_fixed@g"),
        )
        .layer(
            LayerBuilder::new("average", "c@g", 3)
                .input("z@g")
                .with(|c| c.average_strategy = Some("sum".into())),
        )
        .layer(fc("h@g", &["x@g", "c@g", "b_fixed@g", "h+delay1@g"]))
        .out("h", "y");
    let attention = ModelBuilder::new()
        .data("w", 5)
        .data("d", 2)
        .data("o", 2)
        .data("t", 3)
        .embedding("e", "w", 2)
        .fc("x", &["e"], 3, "tanh")
        .fc("b", &["d"], 3, "tanh")
        .fc("v", &["o"], 3, "tanh")
        .group(attention)
        .layer(sum("y", 3))
        .square_error("p", "t");
    let feed = Feed::new().id_sequence(5).dense(2).dense_sequence(2);

    let sides = GroupBuilder::new("g")
        .link("x", 3)
        .fixed("b", 3, false)
        .memory("h", 3, |_| {})
        .layer(fc("i@g", &["x@g", "b_fixed@g"]))
        .layer(fc("h@g", &["i@g", "h+delay1@g"]))
        .layer(fc("o@g", &["h@g", "x@g", "h+delay1@g"]))
        .out("o", "y");
    let dropped = simple()
        .layer(fc("i@g", &["x@g"]).with(|c| c.drop_rate = Some(0.4)))
        .memory("k", 3, |_| {})
        .layer(fc("k@g", &["i@g", "k+delay1@g"]).with(|c| c.drop_rate = Some(0.3)))
        .layer(fc("o@g", &["h@g", "k@g"]).with(|c| c.error_clipping_threshold = Some(100.0)))
        .with(|c| c.out_links[0].layer_name = "o@g".into());
    let two = ModelBuilder::new()
        .data("x", 3)
        .data("z", 3)
        .data("t", 3)
        .fc("u", &["x"], 3, "tanh")
        .group(
            GroupBuilder::new("g")
                .link("u", 3)
                .link("z", 3)
                .memory("h", 3, |_| {})
                .layer(fc("h@g", &["u@g", "z@g", "h+delay1@g"]))
                .layer(fc("o@g", &["h@g"]))
                .out("h", "y")
                .out("o", "v"),
        )
        .layer(
            LayerBuilder::new("addto", "s", 3)
                .input("y")
                .input("v")
                .input("u"),
        )
        .layer(sum("s", 3))
        .square_error("p", "t");
    // The cost is computed inside the group.
    let cost = ModelBuilder::new()
        .data("w", 5)
        .data("l", 3)
        .embedding("e", "w", 2)
        .fc("x", &["e"], 3, "tanh")
        .group(
            simple()
                .link("l", 3)
                .layer(
                    LayerBuilder::new("fc", "o@g", 3)
                        .weighted("h@g", &[3, 3])
                        .act("softmax"),
                )
                .layer(
                    LayerBuilder::new("multi-class-cross-entropy", "c@g", 1)
                        .input("o@g")
                        .input("l@g"),
                )
                .out("c", "cost"),
        );
    // The same layer is read in two ways, and a weight is used inside and outside.
    let twice = GroupBuilder::new("g")
        .link("x", 3)
        .fixed("x", 3, true)
        .memory("h", 3, |_| {})
        .layer(LayerBuilder::new("average", "m@g", 3).input("x_fixed@g"))
        .layer(fc("h@g", &["x@g", "m@g"]).input("h+delay1@g").with(|c| {
            c.inputs[2].input_parameter_name = Some("_h@g.w0".into());
        }))
        .out("h", "y");
    vec![
        Case::new("group: attention", attention, feed.dense(3).batch()),
        group("before and after", sides),
        group("dropout", dropped),
        Case::new(
            "group: two inputs and outputs",
            two,
            Feed::new()
                .dense_sequence(3)
                .dense_sequence(3)
                .dense(3)
                .batch(),
        ),
        Case::new(
            "group: cost",
            cost,
            Feed::new().id_sequence(5).id_sequence(3).batch(),
        ),
        group("one layer twice", twice),
    ]
}

/// A group over the sub-sequences of `x`, and another one inside of it.
fn nested() -> Vec<Case> {
    let case = |name: &str, group: GroupBuilder| {
        let model = ModelBuilder::new()
            .data("d", 2)
            .data("t", 3)
            .fc("x", &["d"], 3, "tanh")
            .group(group)
            .layer(sum("y", 3))
            .square_error("p", "t");
        Case::new(
            format!("nested group: {name}"),
            model,
            Feed::new().nested(2).dense(3).batch(),
        )
    };
    let inner = |boot: Option<&str>| {
        GroupBuilder::new("i@g")
            .link("x@g", 3)
            .memory("h", 3, |m| m.boot_layer_name = boot.map(Into::into))
            .layer(fc("h@i@g", &["x@i@g", "h+delay1@i@g"]))
            .out("h", "y@g")
    };
    let last = || LayerBuilder::new("seqlastins", "l@g", 3).input("y@g");
    let carried = || {
        GroupBuilder::new("g")
            .nested_link("x", 3)
            .memory("l", 3, |_| {})
            .group(inner(Some("l+delay1@g")))
            .layer(last())
    };
    // The sequence of the step before is remembered as a whole.
    let remembered = GroupBuilder::new("g")
        .nested_link("x", 3)
        .memory("k", 3, |m| {
            m.is_sequence = Some(true);
            m.boot_layer_name = Some("x".into());
        })
        .layer(LayerBuilder::new("average", "m@g", 3).input("k+delay1@g"))
        .layer(
            LayerBuilder::new("expand", "n@g", 3)
                .input("m@g")
                .input("x@g"),
        )
        .layer(fc("k@g", &["x@g", "n@g"]))
        .out("k", "y");
    vec![
        case("state of the last sub-sequence", carried().out("y", "y")),
        case("one row per sub-sequence", carried().out("l", "y")),
        case(
            "no outer memory",
            GroupBuilder::new("g")
                .nested_link("x", 3)
                .group(inner(None))
                .out("y", "y"),
        ),
        case("memory of sequences", remembered),
    ]
}

pub(crate) fn cases() -> Vec<Case> {
    [cells(), memories(), parts(), nested()]
        .into_iter()
        .flatten()
        .collect()
}
