//! `--job=checkgrad`: compares the gradient that backward computes with differences of the cost.
//!
//! As v1: one batch; for each parameter a direction `d` (the gradient plus noise of half its norm), a step `h` so that
//! the cost should change by `eps` of itself, and a two-sided difference along `d`. The ratio of what happened to what
//! the gradient promised should be 1. Unlike v1, smaller steps are tried too, because numbers have single precision.

use nn::{Batch, Gradient, Gradients, Network, ParameterIndex, Parameters, Pass, Values};
use optim::{Distribution, Initial};

use crate::error::TrainError;
use crate::log::Level;
use crate::number::general;
use crate::report::Report;

/// A parameter passes if the ratio differs from 1 by at most this.
const TOLERANCE: f64 = 0.01;

/// The part of the cost that rounding to single precision may hide; what a small step is allowed in addition.
const ROUNDING: f64 = 1e-8;

/// Checks every parameter on one batch; an error names those that fail.
pub fn check(
    network: &mut Network,
    parameters: &mut Parameters,
    batch: &Batch,
    eps: f64,
    report: &mut dyn Report,
) -> Result<(), TrainError> {
    let mut gradients = Gradients::new(network.parameters());
    let cost = cost(network, parameters, batch)?;
    network.backward(parameters, &mut gradients, &mut |_, _| {});
    let specs = network.parameters().to_vec();
    let mut bad = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        if spec.is_static {
            continue;
        }
        let gradient = dense(gradients.get(ParameterIndex(index)), spec.size(), spec.cols);
        let direction = direction(&gradient, index as u64);
        let slope: f64 = dot(&gradient, &direction);
        if slope == 0.0 {
            let text = format!("{:<20} no gradient in this batch", spec.name);
            report.line(Level::Warning, "Trainer.cpp:310", &text);
            continue;
        }
        let tried = steps(eps).map(|eps| {
            let step = eps * cost.abs().max(f64::MIN_POSITIVE) / slope;
            let ahead = shifted(network, parameters, batch, index, &direction, step)?;
            let behind = shifted(network, parameters, batch, index, &direction, -step)?;
            Ok(Trial {
                step,
                ahead,
                behind,
                promised: slope * step,
            })
        });
        let tried = tried.collect::<Result<Vec<_>, TrainError>>()?;
        let Some(trial) = tried.into_iter().min_by(Trial::closer) else {
            continue;
        };
        let ratio = trial.ratio();
        let allowed = TOLERANCE + ROUNDING * (cost / trial.promised).abs();
        let wrong = ratio.is_nan() || ratio.abs() > allowed;
        let text = format!(
            "{:<20} step={:<12} cost1={:<10} cost2={:<10} true_delta={:<12} analytic_delta={:<12} diff={}{}",
            spec.name,
            general(trial.step),
            general(trial.ahead),
            general(trial.behind),
            general(trial.true_delta()),
            general(trial.promised),
            general(ratio),
            if wrong { " ***" } else { "" },
        );
        report.line(Level::Info, "Trainer.cpp:315", &text);
        if wrong {
            bad.push(spec.name.clone());
        }
    }
    if bad.is_empty() {
        Ok(())
    } else {
        Err(TrainError::GradientCheck(bad))
    }
}

/// Step sizes to try: where the cost is curved only a small step is true, where it is flat only a large one rises
/// above rounding. A wrong gradient disagrees at all of them.
fn steps(eps: f64) -> impl Iterator<Item = f64> {
    [1.0, 0.1, 0.01, 0.001]
        .into_iter()
        .map(move |part| eps * part)
}

/// What happened with one step size.
struct Trial {
    step: f64,
    ahead: f64,
    behind: f64,
    promised: f64,
}

impl Trial {
    fn true_delta(&self) -> f64 {
        0.5 * (self.ahead - self.behind)
    }

    /// By how much the truth differs from the promise, as a part of it.
    fn ratio(&self) -> f64 {
        self.true_delta() / self.promised - 1.0
    }

    fn closer(&self, other: &Trial) -> std::cmp::Ordering {
        self.ratio().abs().total_cmp(&other.ratio().abs())
    }
}

fn failed(source: nn::ExecuteError) -> TrainError {
    TrainError::Execute {
        pass: 0,
        batch: 0,
        source,
    }
}

fn cost(network: &mut Network, parameters: &Parameters, batch: &Batch) -> Result<f64, TrainError> {
    network
        .forward(parameters, batch, Pass::Train { noise: 1 })
        .map_err(failed)
}

/// The cost with one parameter moved along a direction; the parameter is as before afterwards.
fn shifted(
    network: &mut Network,
    parameters: &mut Parameters,
    batch: &Batch,
    index: usize,
    direction: &[f32],
    step: f64,
) -> Result<f64, TrainError> {
    let original = parameters.0[index].clone();
    if let Values::Full(values) = &mut parameters.0[index] {
        for (value, d) in values.iter_mut().zip(direction) {
            *value = (f64::from(*value) + step * f64::from(*d)) as f32;
        }
    }
    let result = cost(network, parameters, batch);
    parameters.0[index] = original;
    result
}

fn dense(gradient: &Gradient, size: usize, cols: usize) -> Vec<f32> {
    match gradient {
        Gradient::Dense(values) => values.clone(),
        Gradient::Rows { ids, values } => {
            let mut all = vec![0.0; size];
            for (id, row) in ids.iter().zip(values.chunks_exact(cols)) {
                let start = *id as usize * cols;
                all[start..start + cols].copy_from_slice(row);
            }
            all
        }
    }
}

/// The gradient plus noise of half its norm, so that an error across the gradient shows as well.
fn direction(gradient: &[f32], seed: u64) -> Vec<f32> {
    let mut noise = vec![0.0; gradient.len()];
    let normal = Initial {
        distribution: Distribution::Normal {
            mean: 0.0,
            std: 1.0,
        },
        seed,
    };
    normal.fill(0, &mut noise);
    let scale = 0.5 * (dot(gradient, gradient) / dot(&noise, &noise).max(f64::MIN_POSITIVE)).sqrt();
    gradient
        .iter()
        .zip(&noise)
        .map(|(g, n)| (f64::from(*g) + scale * f64::from(*n)) as f32)
        .collect()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(x, y)| f64::from(*x) * f64::from(*y))
        .sum()
}
