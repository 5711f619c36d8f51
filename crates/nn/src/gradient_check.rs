//! Checks every layer against central differences: one harness, and one list of cases per family of layers.
//!
//! A case is a small model and a batch. Its analytic gradients must agree with central differences of the cost for
//! every value of every parameter; an input's gradient is checked by the parameters of the layer below it. Everything
//! is done with and without sharing of equal rows, which must agree with each other.
//!
//! To add a layer, add a case to a file under `cases/` (or a new file and a line in [`all`]).

mod batches;
mod cases;
mod group;
mod group_checks;
mod image_checks;
mod model;
mod other_checks;

pub(crate) use batches::Feed;
pub(crate) use group::GroupBuilder;
pub(crate) use model::{LayerBuilder, ModelBuilder};

use config::ModelConfig;

use crate::noise::Noise;
use crate::{
    Batch, BatchUse, Gradient, Gradients, Network, NetworkOptions, ParameterIndex, ParameterValues,
    Parameters,
};

/// A model, a batch, and how the gradient relates to the cost.
pub(crate) struct Case {
    name: String,
    model: ModelConfig,
    batch: Batch,
    /// The gradient is this factor times the derivative of the cost (`coeff`).
    scale: f64,
    /// Step of the differences.
    step: f32,
}

impl Case {
    /// A case of a model fed with a batch; slots in the order of its data layers.
    pub(crate) fn new(name: impl Into<String>, model: ModelBuilder, batch: Batch) -> Self {
        Self {
            name: name.into(),
            model: model.0,
            batch,
            scale: 1.0,
            step: 1e-2,
        }
    }

    /// The gradient is `scale` times the derivative of the cost.
    pub(crate) fn scaled(mut self, scale: f64) -> Self {
        self.scale = scale;
        self
    }

    /// Another step, for functions with high curvature.
    pub(crate) fn step(mut self, step: f32) -> Self {
        self.step = step;
        self
    }
}

fn all() -> Vec<Case> {
    [
        cases::rows::cases(),
        cases::sequences::cases(),
        cases::costs::cases(),
        cases::groups::cases(),
        cases::mixed::cases(),
        cases::images::cases(),
        cases::labels::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Values in [-0.6, 0.6), the same for the same model.
pub(crate) fn random_parameters(network: &Network) -> Parameters {
    let noise = Noise::new(11);
    let values = network
        .parameters()
        .iter()
        .enumerate()
        .map(|(index, spec)| {
            let part = noise.part(index as u64);
            ParameterValues::Full(
                (0..spec.size())
                    .map(|i| (part.uniform(i as u64) - 0.5) * 1.2)
                    .collect(),
            )
        });
    Parameters(values.collect())
}

/// The gradient of every parameter, dense, and the cost.
pub(crate) fn gradients(
    network: &mut Network,
    parameters: &Parameters,
    batch: &Batch,
) -> (Vec<Vec<f32>>, f64) {
    let mut gradients = Gradients::new(network.parameters());
    let cost = forward(network, parameters, batch);
    let mut complete = Vec::new();
    network.backward(parameters, &mut gradients, &mut |index, _| {
        complete.push(index)
    });
    let specs = network.parameters();
    let dense = specs.iter().enumerate().map(|(index, spec)| {
        assert_eq!(
            complete.contains(&ParameterIndex(index)),
            !spec.is_static,
            "'{}' is completed",
            spec.name
        );
        match gradients.get(ParameterIndex(index)) {
            Gradient::Dense(values) => values.clone(),
            Gradient::Rows { ids, values } => {
                let mut dense = vec![0.0; spec.size()];
                assert!(ids.is_sorted_by(|a, b| a < b), "rows ascend");
                for (&id, row) in ids.iter().zip(values.chunks_exact(spec.cols)) {
                    dense[id as usize * spec.cols..][..spec.cols].copy_from_slice(row);
                }
                dense
            }
        }
    });
    (dense.collect(), cost)
}

fn forward(network: &mut Network, parameters: &Parameters, batch: &Batch) -> f64 {
    network
        .forward(parameters, batch, BatchUse::Train { noise: 5 })
        .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)))
}

fn check(case: &Case) {
    let mut results = Vec::new();
    for options in [
        NetworkOptions::default(),
        NetworkOptions {
            share: false,
            fuse: false,
        },
    ] {
        let mut network = Network::with_options(&case.model, options)
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let parameters = random_parameters(&network);
        let (analytic, cost) = gradients(&mut network, &parameters, &case.batch);
        let (again, _) = gradients(&mut network, &parameters, &case.batch);
        assert!(
            analytic == again,
            "{}: buffers of the last batch change the next",
            case.name
        );
        check_against_differences(case, &mut network, &parameters, &analytic);
        results.push((analytic, cost));
    }
    let (shared, plain) = (&results[0], &results[1]);
    assert!(
        (shared.1 - plain.1).abs() <= 1e-5 * plain.1.abs().max(1.0),
        "{}: cost {} or {}",
        case.name,
        shared.1,
        plain.1
    );
    for (shared, plain) in shared.0.iter().zip(&plain.0) {
        let largest = plain.iter().fold(1e-3f32, |max, x| max.max(x.abs()));
        for (a, b) in shared.iter().zip(plain) {
            assert!(
                (a - b).abs() <= 1e-4 * largest,
                "{}: gradient {a} or {b}",
                case.name
            );
        }
    }
}

fn check_against_differences(
    case: &Case,
    network: &mut Network,
    parameters: &Parameters,
    analytic: &[Vec<f32>],
) {
    let mut moved = parameters.clone();
    let mut any = false;
    for (index, analytic) in analytic.iter().enumerate() {
        let spec = network.parameters()[index].clone();
        if spec.is_static {
            continue;
        }
        let largest = analytic.iter().fold(0.0f32, |max, x| max.max(x.abs()));
        any |= largest > 0.0;
        for (place, &got) in analytic.iter().enumerate() {
            let mut at = |offset: f32| {
                let ParameterValues::Full(values) = &mut moved.0[index] else {
                    unreachable!("made full")
                };
                let old = values[place];
                values[place] = old + offset;
                let cost = forward(network, &moved, &case.batch);
                let ParameterValues::Full(values) = &mut moved.0[index] else {
                    unreachable!("made full")
                };
                values[place] = old;
                cost
            };
            // A second, smaller step: near a kink (a maximum moves to another element) the first one sees both sides.
            let wants = [case.step, case.step / 8.0]
                .map(|step| (at(step) - at(-step)) / (2.0 * f64::from(step)) * case.scale);
            let agrees = |want: &f64| {
                let tolerance =
                    0.02 * want.abs().max(f64::from(got.abs())) + 0.003 * f64::from(largest) + 1e-3;
                (f64::from(got) - want).abs() <= tolerance
            };
            assert!(
                wants.iter().any(agrees),
                "{}: parameter '{}' value {place}: gradient {got}, differences {wants:?}",
                case.name,
                spec.name
            );
        }
    }
    assert!(any, "{}: no gradient at all", case.name);
}

#[test]
fn every_layer_agrees_with_central_differences() {
    for case in all() {
        check(&case);
    }
}
