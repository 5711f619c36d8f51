//! `--job=checkgrad`: compares the gradient that backward computes with differences of the cost.
//!
//! As v1: one batch; for each parameter a direction `d` (the gradient plus noise of half its norm), a step `h` so that
//! the cost should change by `eps` of itself, and a two-sided difference along `d`. The ratio of what happened to what
//! the gradient promised should be 1.

use nn::{Batch, Gradient, Gradients, Network, ParameterIndex, Parameters, Pass, Values};
use optim::{Distribution, Initial};

use crate::error::TrainError;
use crate::log::Level;
use crate::number::general;
use crate::report::Report;

/// A parameter passes if the ratio differs from 1 by at most this.
const TOLERANCE: f64 = 0.01;

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
        let step = eps * cost.abs().max(f64::MIN_POSITIVE) / slope;
        let ahead = shifted(network, parameters, batch, index, &direction, step)?;
        let behind = shifted(network, parameters, batch, index, &direction, -step)?;
        let true_delta = 0.5 * (ahead - behind);
        let promised = slope * step;
        let ratio = true_delta / promised - 1.0;
        let wrong = ratio.is_nan() || ratio.abs() > TOLERANCE;
        let text = format!(
            "{:<20} step={:<12} cost1={:<10} cost2={:<10} true_delta={:<12} analytic_delta={:<12} diff={}{}",
            spec.name,
            general(step),
            general(ahead),
            general(behind),
            general(true_delta),
            general(promised),
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
