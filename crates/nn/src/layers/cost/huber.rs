//! A robust cost for two classes, with `y` = ±1 for label 1 and 0: `-4 y x` if `y x < -1`, `(1 - y x)²` if `y x < 1`, else 0.

use super::{Cost, CostTarget, RowLoss, check_ids};
use crate::error::{BuildError, LayerError};
use crate::layer::{Build, Layer};
use crate::output::Output;

/// Builds a `huber` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect(build.input_sizes.first() == Some(&1), || {
        "the prediction must have width 1".to_owned()
    })?;
    Cost::build(build, Huber)
}

/// Huber's cost of a classification margin.
pub(crate) struct Huber;

fn sign(label: CostTarget<'_>) -> f32 {
    match label {
        CostTarget::Id(1) => 1.0,
        _ => -1.0,
    }
}

impl RowLoss for Huber {
    fn check(&self, _cols: usize, label: &Output) -> Result<(), LayerError> {
        check_ids(label, 2)
    }

    #[inline(always)]
    fn cost(&self, row: &[f32], label: CostTarget<'_>) -> f32 {
        let margin = row[0] * sign(label);
        if margin < -1.0 {
            -4.0 * margin
        } else if margin < 1.0 {
            (1.0 - margin) * (1.0 - margin)
        } else {
            0.0 * margin
        }
    }

    #[inline(always)]
    fn add_grad(&self, row: &[f32], label: CostTarget<'_>, scale: f32, grad: &mut [f32]) {
        let y = sign(label);
        let margin = row[0] * y;
        if margin < -1.0 {
            grad[0] -= scale * 4.0 * y;
        } else if margin < 1.0 {
            grad[0] -= scale * 2.0 * (1.0 - margin) * y;
        }
    }
}
