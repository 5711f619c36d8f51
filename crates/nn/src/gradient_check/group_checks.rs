//! Compares recurrent groups with what they must equal: recurrent layers, flat sequences, other numbers of threads. Also
//! checks what they refuse.

use std::sync::Arc;

use super::{Feed, GroupBuilder, LayerBuilder, ModelBuilder, gradients, random_parameters};
use crate::{
    Batch, BatchUse, ExecuteError, LayerError, Network, NetworkOptions, ParameterValues,
    Parameters, Slot, SlotData,
};

fn base(size: u64) -> ModelBuilder {
    ModelBuilder::new()
        .data("w", 5)
        .data("t", 3)
        .embedding("e", "w", 2)
        .fc("x", &["e"], size, "")
}

fn end(model: ModelBuilder, input: &str) -> ModelBuilder {
    model
        .layer(LayerBuilder::new("seqlastins", "p", 3).input(input))
        .square_error("p", "t")
}

fn functions(c: &mut config::LayerConfig) {
    c.active_type = Some("tanh".into());
    c.active_gate_type = Some("sigmoid".into());
    c.active_state_type = Some("tanh".into());
}

/// Costs and gradients of two models are equal; `arrange` makes the parameters of the second from those of the first,
/// and the gradients of the first comparable with those of the second.
fn assert_equal(
    name: &str,
    (first, first_batch): (ModelBuilder, &Batch),
    (second, second_batch): (ModelBuilder, &Batch),
    arrange: impl Fn(Vec<Vec<f32>>) -> Vec<Vec<f32>>,
) {
    for share in [true, false] {
        let options = NetworkOptions { share, fuse: true };
        let mut a = Network::with_options(&first.0, options).unwrap();
        let mut b = Network::with_options(&second.0, options).unwrap();
        let parameters = random_parameters(&a);
        let dense = parameters.0.iter().map(|values| match values {
            ParameterValues::Full(values) => values.clone(),
            ParameterValues::Rows { .. } | ParameterValues::Shared(_) => unreachable!("made full"),
        });
        let arranged = arrange(dense.collect());
        let other = Parameters(arranged.into_iter().map(ParameterValues::Full).collect());
        let (a_gradients, a_cost) = gradients(&mut a, &parameters, first_batch);
        let (b_gradients, b_cost) = gradients(&mut b, &other, second_batch);
        assert!(
            (a_cost - b_cost).abs() < 1e-5 * a_cost,
            "{name}: costs {a_cost} and {b_cost}"
        );
        let a_gradients = arrange(a_gradients);
        assert_eq!(a_gradients.len(), b_gradients.len());
        for (a, b) in a_gradients.iter().zip(&b_gradients) {
            let largest = a.iter().fold(1e-3f32, |max, x| max.max(x.abs()));
            assert_eq!(a.len(), b.len(), "{name}");
            for (a, b) in a.iter().zip(b) {
                assert!((a - b).abs() <= 1e-5 * largest, "{name}: {a} and {b}");
            }
        }
    }
}

#[test]
fn a_recurrent_layer_equals_the_same_as_a_group() {
    let feed = || Feed::new().id_sequence(5).dense(3).batch();
    for reversed in [false, true] {
        let turned = move |c: &mut config::LayerConfig| {
            functions(c);
            c.reversed = Some(reversed);
        };
        let turn = |group: GroupBuilder| group.with(|c| c.reversed = Some(reversed));
        let plain = LayerBuilder::new("recurrent", "r", 3)
            .weighted("x", &[3, 3])
            .bias()
            .with(turned);
        let step = LayerBuilder::new("mixed", "r@g", 3)
            .projected("x@g", "identity", (3, 3), &[])
            .projected("r+delay1@g", "fc", (3, 3), &[3, 3])
            .bias()
            .act("tanh");
        let group = GroupBuilder::new("g")
            .link("x", 3)
            .memory("r", 3, |_| {})
            .layer(step)
            .out("r", "r");
        assert_equal(
            "recurrent",
            (end(base(3).layer(plain), "r"), &feed()),
            (end(base(3).group(turn(group)), "r"), &feed()),
            |parameters| parameters,
        );
        let gru = LayerBuilder::new("gated_recurrent", "r", 3)
            .weighted("x", &[3, 9])
            .bias_of(9)
            .with(turned);
        let step = LayerBuilder::new("gru_step", "r@g", 3)
            .weighted("x@g", &[3, 9])
            .input("r+delay1@g")
            .bias_of(9)
            .with(functions);
        let group = GroupBuilder::new("g")
            .link("x", 9)
            .memory("r", 3, |_| {})
            .layer(step)
            .out("r", "r");
        assert_equal(
            "gru",
            (end(base(9).layer(gru), "r"), &feed()),
            (end(base(9).group(turn(group)), "r"), &feed()),
            |parameters| parameters,
        );
        let lstm = LayerBuilder::new("lstmemory", "r", 3)
            .weighted("x", &[3, 3, 4])
            .bias_of(21)
            .with(turned);
        let group = GroupBuilder::new("g")
            .link("x", 12)
            .memory("r", 3, |_| {})
            .memory("c", 3, |_| {})
            .layer(
                LayerBuilder::new("mixed", "s@g", 12)
                    .projected("x@g", "identity", (12, 12), &[])
                    .projected("r+delay1@g", "fc", (3, 12), &[3, 12])
                    .bias(),
            )
            .layer(
                LayerBuilder::new("lstm_step", "r@g", 3)
                    .input("s@g")
                    .input("c+delay1@g")
                    .bias_of(9)
                    .with(functions),
            )
            .layer(
                LayerBuilder::new("get_output", "c@g", 3)
                    .input("r@g")
                    .with(|c| c.inputs[0].input_layer_argument = Some("state".into())),
            )
            .out("r", "r");
        assert_equal(
            "lstm",
            (end(base(12).layer(lstm), "r"), &feed()),
            (end(base(12).group(turn(group)), "r"), &feed()),
            |mut parameters| {
                // Bias and peepholes are one parameter of the layer, and two of the group.
                let bias = parameters.last_mut().unwrap();
                let peepholes = bias.split_off(12);
                parameters.push(peepholes);
                parameters
            },
        );
    }
}

/// Ids of six samples, flat or cut into sub-sequences of at most two.
fn words(nested: bool) -> Slot {
    let flat = Feed::new().id_sequence(5).batch().slots.remove(0);
    let subsequences = Feed::new().nested(1).batch().slots.remove(0).subsequences;
    Slot {
        subsequences: subsequences.filter(|_| nested),
        ..flat
    }
}

fn words_and_targets(nested: bool) -> Batch {
    let targets = Feed::new().dense(3).batch().slots.remove(0);
    Batch {
        samples: 6,
        slots: vec![words(nested), targets],
    }
}

#[test]
fn a_nested_group_that_passes_its_state_on_equals_a_flat_one() {
    let step = |name: &str, x: &str, memory: &str| {
        let mut layer = LayerBuilder::new("fc", name, 3)
            .weighted(x, &[3, 3])
            .weighted(memory, &[3, 3])
            .bias()
            .act("tanh");
        // The same names in both models.
        layer.rename("step");
        layer
    };
    let flat = GroupBuilder::new("g")
        .link("x", 3)
        .memory("h", 3, |_| {})
        .layer(step("h@g", "x@g", "h+delay1@g"))
        .out("h", "y");
    let inner = GroupBuilder::new("i@g")
        .link("x@g", 3)
        .memory("h", 3, |m| m.boot_layer_name = Some("l+delay1@g".into()))
        .layer(step("h@i@g", "x@i@g", "h+delay1@i@g"))
        .out("h", "y@g");
    let nested = GroupBuilder::new("g")
        .nested_link("x", 3)
        .memory("l", 3, |_| {})
        .group(inner)
        .layer(LayerBuilder::new("seqlastins", "l@g", 3).input("y@g"))
        .out("y", "y");
    assert_equal(
        "nested",
        (end(base(3).group(flat), "y"), &words_and_targets(false)),
        (end(base(3).group(nested), "y"), &words_and_targets(true)),
        |parameters| parameters,
    );
}

#[test]
fn sub_sequences_of_two_inputs_may_have_other_lengths() {
    // The second input's sub-sequences are longer; the outputs take their lengths from it.
    let group = |target: i32| {
        GroupBuilder::new("g")
            .nested_link("x", 1)
            .nested_link("z", 1)
            .layer(LayerBuilder::new("average", "m@g", 1).input("x@g"))
            .layer(
                LayerBuilder::new("expand", "n@g", 1)
                    .input("m@g")
                    .input("z@g"),
            )
            .layer(
                LayerBuilder::new("addto", "s@g", 1)
                    .input("n@g")
                    .input("z@g"),
            )
            .out("s", "y")
            .with(|c| c.target_inlinkid = Some(target))
    };
    let slot = |values: &[f32], sequences: &[u32], inner: &[u32]| Slot {
        data: SlotData::Dense {
            dim: 1,
            values: values.to_vec(),
        },
        sequences: Some(sequences.into()),
        subsequences: Some(inner.into()),
    };
    let batch = Batch {
        samples: 2,
        slots: vec![
            slot(&[1.0, 2.0, 10.0], &[0, 1, 3], &[0, 1, 2, 3]),
            slot(&[0.1, 0.2, 0.3, 0.4, 0.5], &[0, 2, 5], &[0, 2, 3, 5]),
        ],
    };
    let model = ModelBuilder::new()
        .data("x", 1)
        .data("z", 1)
        .group(group(1));
    let mut network = Network::new(&model.0).unwrap();
    network
        .forward(&Parameters::default(), &batch, BatchUse::Test)
        .unwrap();
    let y = network.output("y").unwrap();
    assert_eq!(y.to_dense().unwrap(), [1.1, 1.2, 2.3, 10.4, 10.5]);
    assert_eq!(y.sequences(), Some(&[0, 2, 5][..]));
    assert_eq!(y.subsequences(), Some(&[0, 2, 3, 5][..]));
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let (size, length, samples) = (96, 9, 60);
    let step = LayerBuilder::new("gru_step", "h@g", size)
        .weighted("s@g", &[size, 3 * size])
        .input("h+delay1@g")
        .with(functions);
    let model = ModelBuilder::new()
        .data("w", 40)
        .data("t", size)
        .embedding("e", "w", size)
        .fc("x", &["e"], size, "tanh")
        .group(
            GroupBuilder::new("g")
                .link("x", size)
                .fixed("x", size, true)
                .memory("h", size, |_| {})
                .layer(LayerBuilder::new("average", "m@g", size).input("x_fixed@g"))
                .layer(
                    LayerBuilder::new("fc", "s@g", 3 * size)
                        .weighted("x@g", &[size, 3 * size])
                        .weighted("m@g", &[size, 3 * size])
                        .weighted("h+delay1@g", &[size, 3 * size])
                        .with(|c| c.drop_rate = Some(0.2)),
                )
                .layer(step)
                .layer(
                    LayerBuilder::new("fc", "o@g", size)
                        .weighted("h@g", &[size, size])
                        .act("softmax"),
                )
                .out("o", "y"),
        )
        .layer(LayerBuilder::new("average", "p", size).input("y"))
        .square_error("p", "t");
    let lengths = (0..samples).map(|sample| 1 + (sample * 7) % length);
    let mut offsets = vec![0];
    for length in lengths {
        offsets.push(offsets.last().unwrap() + length);
    }
    let ids = (0..*offsets.last().unwrap()).map(|i| (i * 13 + i / 7) % 40);
    let targets = (0..samples * size as u32).map(|i| (i % 7) as f32 * 0.1);
    let batch = Batch {
        samples: samples as usize,
        slots: vec![
            Slot::sequence(SlotData::Ids(ids.collect()), offsets.clone()),
            Slot::plain(SlotData::Dense {
                dim: size as usize,
                values: targets.collect(),
            }),
        ],
    };
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap().install(|| {
            let mut network = Network::new(&model.0).unwrap();
            let parameters = random_parameters(&network);
            gradients(&mut network, &parameters, &batch)
        })
    };
    let (one, three) = (run(1), run(3));
    assert!(one.1.to_bits() == three.1.to_bits() && one.0 == three.0);
}

#[test]
fn inputs_that_do_not_fit_are_errors_that_name_the_layer() {
    let group = |nested: bool| {
        let group = GroupBuilder::new("g").memory("h", 3, |_| {});
        let group = if nested {
            group.nested_link("x", 3)
        } else {
            group.link("x", 3)
        };
        let step = LayerBuilder::new("fc", "h@g", 3)
            .weighted("x@g", &[3, 3])
            .weighted("h+delay1@g", &[3, 3]);
        let model = ModelBuilder::new()
            .data("x", 3)
            .group(group.layer(step).out("h", "y"));
        let network = Network::new(&model.0).unwrap();
        let parameters = random_parameters(&network);
        (network, parameters)
    };
    let data = || SlotData::Dense {
        dim: 3,
        values: vec![0.0; 6],
    };
    let offsets: Arc<[u32]> = [0, 1, 2].into();
    let nested = Slot {
        subsequences: Some(offsets.clone()),
        ..Slot::sequence(data(), offsets.clone())
    };
    let cases = [
        (false, Slot::plain(data()), "input 0 is not a sequence"),
        (false, nested, "pass it as SubsequenceInput"),
        (
            true,
            Slot::sequence(data(), offsets),
            "input 0 has no sub-sequences",
        ),
    ];
    for (is_nested, slot, want) in cases {
        let (mut network, parameters) = group(is_nested);
        let batch = Batch {
            samples: 2,
            slots: vec![slot],
        };
        let error = network.forward(&parameters, &batch, BatchUse::Test);
        let Err(ExecuteError::Layer { layer, source }) = error else {
            panic!("{want}: no error");
        };
        assert!(
            layer == "g" && source.to_string().contains(want),
            "{source}"
        );
    }
    let memory = GroupBuilder::new("g")
        .link("x", 3)
        .memory("h", 3, |m| m.boot_layer_name = Some("x".into()))
        .layer(LayerBuilder::new("fc", "h@g", 3).weighted("h+delay1@g", &[3, 3]))
        .out("h", "y");
    let model = ModelBuilder::new().data("x", 3).group(memory);
    let mut network = Network::new(&model.0).unwrap();
    let parameters = random_parameters(&network);
    let batch = Batch {
        samples: 2,
        slots: vec![Slot::sequence(data(), vec![0, 1, 2])],
    };
    let error = network
        .forward(&parameters, &batch, BatchUse::Test)
        .unwrap_err();
    assert!(
        matches!(&error, ExecuteError::Layer { source: LayerError::Value(text), .. } if text.contains("is a sequence")),
        "{error:?}"
    );
}
