//! `--job=checkgrad`: compares the gradient that backward computes with differences of the cost.
//!
//! As v1: one batch; for each parameter a direction `d` (the gradient plus noise of half its norm), a step `h` so that
//! the cost should change by `eps` of itself, and a two-sided difference along `d`. The ratio of the measured change to
//! the change that the gradient predicts should be 1. Unlike v1, smaller steps are tried too, because values have
//! single precision.

use nn::{
    Batch, BatchUse, Gradient, Gradients, Network, ParameterIndex, ParameterValues, Parameters,
};
use optim::{Distribution, Initial};

use crate::error::TrainError;
use crate::log::{Level, Topic};
use crate::report::Reporter;
use nn::number::general;

/// A parameter passes if the ratio differs from 1 by at most this.
const TOLERANCE: f64 = 0.01;

/// The part of the cost that rounding to single precision may hide (2⁻²⁴); what a small step is allowed in addition.
const ROUNDING: f64 = 6e-8;

/// Checks every parameter on one batch; an error names those that fail.
pub(crate) fn check(
    network: &mut Network,
    parameters: &mut Parameters,
    batch: &Batch,
    eps: f64,
    report: &mut dyn Reporter,
) -> Result<(), TrainError> {
    if !network.has_cost() {
        return Err(TrainError::Configuration(
            "has no cost among its outputs(…), so there is no gradient to check",
        ));
    }
    let mut gradients = Gradients::new(network.parameters());
    let cost = cost(network, parameters, batch)?;
    network.backward(parameters, &mut gradients, &mut |_, _| {});
    let specs = network.parameters().to_vec();
    let mut bad = Vec::new();
    for (index, spec) in specs.iter().enumerate().filter(|(_, s)| !s.is_static) {
        let gradient = dense(gradients.get(ParameterIndex(index)), spec.size(), spec.cols);
        let line = Line::new(index, &gradient, cost);
        if line.slope == 0.0 {
            let text = format!("{:<20} no gradient in this batch", spec.name);
            report.line(Level::Warning, Topic::GradientCheck, &text);
            continue;
        }
        let trial = line.closest(network, parameters, batch, eps)?;
        report.line(Level::Info, Topic::GradientCheck, &trial.text(&spec.name));
        if !trial.agrees() {
            bad.push(spec.name.clone());
        }
    }
    if bad.is_empty() {
        Ok(())
    } else {
        Err(TrainError::GradientCheck(bad))
    }
}

/// Fractions of `eps` to try: where the cost is curved only a small step is accurate, where it is flat only a large one
/// exceeds rounding errors. A wrong gradient disagrees at all of them.
const STEPS: [f64; 6] = [1.0, 0.3, 0.1, 0.03, 0.01, 0.003];

/// The line along which one parameter is moved.
struct Line {
    parameter: usize,
    direction: Vec<f32>,
    /// How much the cost grows along the direction, if the gradient is right.
    slope: f64,
    /// The cost at the start.
    cost: f64,
}

impl Line {
    fn new(parameter: usize, gradient: &[f32], cost: f64) -> Line {
        let direction = direction(gradient, parameter as u64);
        Line {
            parameter,
            slope: dot(gradient, &direction),
            direction,
            cost,
        }
    }

    /// The first step at which the measured and the predicted change agree, or the one at which they are closest.
    fn closest(
        &self,
        network: &mut Network,
        parameters: &mut Parameters,
        batch: &Batch,
        eps: f64,
    ) -> Result<Trial, TrainError> {
        let mut closest: Option<Trial> = None;
        for part in STEPS {
            let step = part * eps * self.cost.abs().max(f64::MIN_POSITIVE) / self.slope;
            let mut at = |step| self.cost_at(network, parameters, batch, step);
            let trial = Trial {
                step,
                ahead: at(step)?,
                behind: at(-step)?,
                promised: self.slope * step,
                cost: self.cost,
            };
            if trial.agrees() {
                return Ok(trial);
            }
            closest = Some(match closest {
                Some(best) if best.ratio().abs() <= trial.ratio().abs() => best,
                _ => trial,
            });
        }
        Ok(closest.expect("there are steps to try"))
    }

    /// The cost with the parameter moved along the line; the parameter is restored afterwards.
    fn cost_at(
        &self,
        network: &mut Network,
        parameters: &mut Parameters,
        batch: &Batch,
        step: f64,
    ) -> Result<f64, TrainError> {
        let original = parameters.0[self.parameter].clone();
        if let ParameterValues::Full(values) = &mut parameters.0[self.parameter] {
            for (value, d) in values.iter_mut().zip(&self.direction) {
                *value = (f64::from(*value) + step * f64::from(*d)) as f32;
            }
        }
        let result = cost(network, parameters, batch);
        parameters.0[self.parameter] = original;
        result
    }
}

/// The result of one step size.
struct Trial {
    step: f64,
    ahead: f64,
    behind: f64,
    promised: f64,
    cost: f64,
}

impl Trial {
    fn true_delta(&self) -> f64 {
        0.5 * (self.ahead - self.behind)
    }

    /// The measured change divided by the predicted one, minus 1.
    fn ratio(&self) -> f64 {
        self.true_delta() / self.promised - 1.0
    }

    fn agrees(&self) -> bool {
        let allowed = TOLERANCE + ROUNDING * (self.cost / self.promised).abs();
        self.ratio().abs() <= allowed
    }

    fn text(&self, name: &str) -> String {
        format!(
            "{name:<20} step={:<12} cost1={:<10} cost2={:<10} true_delta={:<12} analytic_delta={:<12} diff={}{}",
            general(self.step),
            general(self.ahead),
            general(self.behind),
            general(self.true_delta()),
            general(self.promised),
            general(self.ratio()),
            if self.agrees() { "" } else { " ***" },
        )
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
        .forward(parameters, batch, BatchUse::Train { noise: 1 })
        .map_err(failed)
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

/// The gradient plus noise of half its norm, so that an error perpendicular to the gradient is noticed as well.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(ahead: f64, behind: f64) -> Trial {
        Trial {
            step: 0.1,
            ahead,
            behind,
            promised: 0.5,
            cost: 10.0,
        }
    }

    #[test]
    fn one_part_in_a_hundred_is_allowed_and_marked_beyond() {
        assert!(trial(10.504, 9.5).agrees());
        let wrong = trial(10.6, 9.5);
        assert!(!wrong.agrees() && wrong.text("w").ends_with(" ***"));
        assert!(!trial(f64::NAN, 9.5).agrees());
    }

    #[test]
    fn a_direction_is_never_against_its_gradient() {
        let gradient = [0.5, -1.0, 0.25, 0.0];
        for seed in 0..50 {
            assert!(dot(&gradient, &direction(&gradient, seed)) > 0.0);
        }
        assert_eq!(direction(&[0.0; 3], 1), [0.0; 3]);
    }

    #[test]
    fn rows_that_a_batch_touched_become_a_whole_gradient() {
        let rows = Gradient::Rows {
            ids: vec![0, 2],
            values: vec![1.0, 2.0, 3.0, 4.0],
        };
        assert_eq!(dense(&rows, 6, 2), [1.0, 2.0, 0.0, 0.0, 3.0, 4.0]);
    }
}
