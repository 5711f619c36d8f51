//! RankNet's cost of a pair: `ln(1 + eᵈ) - t d` with `d = left - right` and `t` the probability that left ranks higher.

use crate::error::{BuildError, LayerError};
use crate::functions::{clamp, exp, ln, sigmoid};
use crate::layer::{Backward, Build, Forward, Inputs, Layer};
use crate::output::OutputValues;

/// Compares two scores.
pub(crate) struct RankCost {
    coeff: f32,
}

/// Builds a `rank-cost` layer: left, right, label and, maybe, a weight.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(3..=4)?;
    build.expect(
        build.input_sizes[0] == 1 && build.input_sizes[1] == 1,
        || "scores must have width 1".to_owned(),
    )?;
    Ok(Box::new(RankCost {
        coeff: build.config.coeff() as f32,
    }))
}

fn target(inputs: &Inputs<'_>, row: usize) -> f32 {
    match &inputs.get(2).data {
        OutputValues::Ids(ids) => ids[row] as f32,
        OutputValues::Dense(values) => values.values()[row],
        OutputValues::Sparse(_) => 0.0,
    }
}

fn weight(inputs: &Inputs<'_>, row: usize) -> f32 {
    if inputs.len() == 4 {
        inputs.get(3).value().values()[row]
    } else {
        1.0
    }
}

impl Layer for RankCost {
    fn is_cost(&self) -> bool {
        true
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let rows = pass.inputs.dense_of(0, 1)?.rows();
        pass.inputs.dense_of(1, 1)?;
        for input in 1..pass.inputs.len() {
            pass.inputs.check_rows(input, rows)?;
        }
        if !matches!(pass.inputs.get(2).data, OutputValues::Ids(_)) {
            pass.inputs.dense_of(2, 1)?;
        }
        if pass.inputs.len() == 4 {
            pass.inputs.dense_of(3, 1)?;
        }
        let (left, right) = (
            pass.inputs.dense(0)?.values(),
            pass.inputs.dense(1)?.values(),
        );
        let out = pass.out.value_mut();
        out.resize(rows, 1);
        for (row, cost) in out.values_mut().iter_mut().enumerate() {
            let d = clamp(left[row] - right[row], -40.0, 40.0);
            *cost = (ln(1.0 + exp(d)) - target(&pass.inputs, row) * d) * weight(&pass.inputs, row);
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let (left, right) = (
            pass.inputs.get(0).value().values(),
            pass.inputs.get(1).value().values(),
        );
        let slopes: Vec<f32> = (0..left.len())
            .map(|row| {
                let slope = sigmoid(left[row] - right[row]) - target(&pass.inputs, row);
                self.coeff * weight(&pass.inputs, row) * slope
            })
            .collect();
        for (input, sign) in [(0, 1.0), (1, -1.0)] {
            if pass.inputs.wants_grad(input) {
                let grad = pass.inputs.get_mut(input).grad_mut();
                grad.values_mut()
                    .iter_mut()
                    .zip(&slopes)
                    .for_each(|(grad, slope)| *grad += sign * slope);
            }
        }
    }
}
