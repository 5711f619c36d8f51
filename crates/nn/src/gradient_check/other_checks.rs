//! Other checks of whole networks: threads, compact parameters, errors, test mode.

use super::{Case, Feed, LayerBuilder, ModelBuilder, all, gradients, random_parameters};
use crate::{
    Batch, BatchUse, ExecuteError, Network, ParameterIndex, ParameterValues, Parameters, Slot,
    SlotData,
};

#[test]
fn threads_do_not_change_a_bit() {
    let base = || {
        ModelBuilder::new()
            .data("w", 500)
            .data("t", 3)
            .embedding("e", "w", 64)
    };
    let lstm = LayerBuilder::new("lstmemory", "p0", 32)
        .weighted("h", &[32, 32, 4])
        .bias_of(224)
        .act("tanh")
        .with(|c| {
            c.active_gate_type = Some("sigmoid".into());
            c.active_state_type = Some("tanh".into());
            c.drop_rate = Some(0.3);
        });
    let models = [
        base()
            .fc("h", &["e"], 96, "tanh")
            .layer(LayerBuilder::new("max", "p", 96).input("h")),
        base()
            .layer(LayerBuilder::new("mixed", "c", 192).window("e", 64, -1, 3, 2))
            .fc("h", &["c"], 96, "tanh")
            .layer(LayerBuilder::new("max", "p", 96).input("h")),
        base()
            .layer(LayerBuilder::new("mixed", "c", 192).window("e", 64, -1, 3, 0))
            .fc("h", &["c"], 96, "relu")
            .layer(LayerBuilder::new("average", "p", 96).input("h")),
        base()
            .fc("h", &["e"], 128, "")
            .layer(lstm)
            .layer(LayerBuilder::new("average", "p", 32).input("p0")),
    ];
    for model in models {
        let model = model.fc("y", &["p"], 3, "softmax").layer(
            LayerBuilder::new("multi-class-cross-entropy", "cost", 1)
                .input("y")
                .input("t"),
        );
        compare_threads(&model);
    }
}

fn compare_threads(model: &ModelBuilder) {
    let samples = 200u32;
    let offsets: Vec<u32> = (0..=samples).map(|i| i * 40).collect();
    let batch = Batch {
        samples: samples as usize,
        slots: vec![
            Slot::sequence(
                SlotData::Ids((0..samples * 40).map(|i| (i * i + i / 7) % 500).collect()),
                offsets,
            ),
            Slot::plain(SlotData::Ids((0..samples).map(|i| i % 3).collect())),
        ],
    };
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            let mut network = Network::new(&model.0).unwrap();
            let parameters = random_parameters(&network);
            gradients(&mut network, &parameters, &batch)
        })
    };
    let (one, three) = (run(1), run(3));
    assert!(one.1.to_bits() == three.1.to_bits() && one.0 == three.0);
}

#[test]
fn a_maximum_can_tell_where_it_was() {
    let model = ModelBuilder::new().data("x", 1).layer(
        LayerBuilder::new("max", "m", 1)
            .input("x")
            .with(|c| c.output_max_index = Some(true)),
    );
    let mut network = Network::new(&model.0).unwrap();
    let values = vec![1.0, 3.0, 2.0, 5.0, 4.0];
    let slot = Slot::sequence(SlotData::Dense { dim: 1, values }, vec![0, 3, 3, 5]);
    let batch = Batch {
        samples: 3,
        slots: vec![slot],
    };
    network
        .forward(&Parameters::default(), &batch, BatchUse::Test)
        .unwrap();
    assert_eq!(
        network.output("m").unwrap().to_dense().unwrap(),
        [1.0, 0.0, 3.0]
    );
}

#[test]
fn parameters_kept_by_row_give_the_same_gradients() {
    for mut case in all() {
        let learns: Vec<bool> = case
            .model
            .parameters
            .iter()
            .map(|p| !p.is_static())
            .collect();
        for parameter in &mut case.model.parameters {
            parameter.sparse_update = Some(true);
        }
        let network = Network::new(&case.model).unwrap();
        let looked_up: Vec<ParameterIndex> = network
            .rows_needed(&case.batch, |_| false)
            .iter()
            .map(|(p, _)| *p)
            .collect();
        for (index, parameter) in case.model.parameters.iter_mut().enumerate() {
            parameter.sparse_update =
                Some(looked_up.contains(&ParameterIndex(index)) && learns[index]);
        }
        compare_compact(&case);
    }
}

fn compare_compact(case: &Case) {
    let mut network = Network::new(&case.model).unwrap();
    let parameters = random_parameters(&network);
    let mut compact = parameters.clone();
    for (parameter, ids) in network.rows_needed(&case.batch, |_| false) {
        let cols = network.parameters()[parameter.0].cols;
        let ParameterValues::Full(all) = &parameters.0[parameter.0] else {
            unreachable!("made full")
        };
        let values = ids
            .iter()
            .flat_map(|&id| all[id as usize * cols..][..cols].to_vec())
            .collect();
        compact.0[parameter.0] = ParameterValues::Rows { ids, values };
    }
    let full = gradients(&mut network, &parameters, &case.batch);
    // A layer that reads a looked-up parameter as a whole cannot work with some of its rows, and says so.
    if network
        .forward(&compact, &case.batch, BatchUse::Train { noise: 5 })
        .is_ok()
    {
        assert!(
            full == gradients(&mut network, &compact, &case.batch),
            "{}",
            case.name
        );
    }
}

#[test]
fn a_cost_that_is_not_finite_names_the_first_layer() {
    let model = ModelBuilder::new()
        .data("x", 1)
        .data("t", 1)
        .fc("a", &["x"], 1, "")
        .fc("b", &["a"], 1, "tanh")
        .square_error("b", "t");
    let mut network = Network::new(&model.0).unwrap();
    let mut parameters = random_parameters(&network);
    parameters.0[0] = ParameterValues::Full(vec![f32::NAN]);
    let error = network
        .forward(
            &parameters,
            &Feed::new().dense(1).dense(1).batch(),
            BatchUse::Test,
        )
        .unwrap_err();
    assert!(matches!(error, ExecuteError::NotFinite { layer } if layer == "a"));
}

#[test]
fn dropout_scales_in_test_and_repeats_with_its_seed() {
    let model = ModelBuilder::new().data("x", 4).layer(
        LayerBuilder::new("addto", "d", 4)
            .input("x")
            .with(|c| c.drop_rate = Some(0.5)),
    );
    let mut network = Network::new(&model.0).unwrap();
    let batch = Feed::new().dense(4).batch();
    let mut run = |pass| {
        network
            .forward(&Parameters::default(), &batch, pass)
            .unwrap();
        (
            network.output("d").unwrap().to_dense().unwrap(),
            network.output("x").unwrap().to_dense().unwrap(),
        )
    };
    let (tested, x) = run(BatchUse::Test);
    assert!(tested.iter().zip(&x).all(|(y, x)| *y == 0.5 * x));
    let (a, _) = run(BatchUse::Train { noise: 1 });
    assert!(a.iter().zip(&x).all(|(y, x)| *y == *x || *y == 0.0));
    assert!(
        a.contains(&0.0)
            && a != run(BatchUse::Train { noise: 2 }).0
            && a == run(BatchUse::Train { noise: 1 }).0
    );
}

#[test]
fn wrong_batches_are_errors_that_name_the_layer() {
    let model = ModelBuilder::new()
        .data("x", 2)
        .data("t", 2)
        .fc("y", &["x"], 2, "")
        .square_error("y", "t");
    let mut network = Network::new(&model.0).unwrap();
    let parameters = random_parameters(&network);
    let cases = [
        (Feed::new().dense(2).batch(), "slots"),
        (Feed::new().dense(3).dense(2).batch(), "layer 'x'"),
        (Feed::new().ids(2).dense(2).batch(), "layer 'y'"),
        (
            Feed::new().dense_sequence(2).dense(2).batch(),
            "layer 'cost'",
        ),
        (Feed::new().ids(5).dense(2).batch(), "layer 'y'"),
    ];
    for (batch, text) in cases {
        let error = network
            .forward(&parameters, &batch, BatchUse::Test)
            .unwrap_err()
            .to_string();
        assert!(error.contains(text), "{error} does not say {text}");
    }
}

#[test]
fn layers_that_cannot_be_executed_say_so() {
    let model = ModelBuilder::new()
        .data("x", 2)
        .layer(LayerBuilder::new("warp_drive", "y", 2).input("x"));
    let error = Network::new(&model.0).err().unwrap().to_string();
    assert_eq!(
        error,
        "layer 'y' of type 'warp_drive' cannot be executed yet"
    );
}

#[test]
fn a_data_layer_that_no_sample_reaches_is_named() {
    let mut model = ModelBuilder::new().data("x", 2).fc("y", &["x"], 2, "").0;
    model.input_layer_names.clear();
    let error = Network::new(&model).err().unwrap().to_string();
    assert!(
        error.contains("'y' reads data layer 'x', which is not among the inputs"),
        "{error}"
    );
}
