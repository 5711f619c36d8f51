//! `-ln p[label]`, for rows of probabilities.

use super::{Cost, CostTarget, RowLoss, check_ids};
use crate::error::{BuildError, LayerError};
use crate::functions::ln;
use crate::layer::{Build, Layer};
use crate::output::Output;

/// Builds a `multi-class-cross-entropy` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    Cost::build(build, CrossEntropy)
}

/// The negative logarithm of the label's probability.
pub(crate) struct CrossEntropy;

/// The probability, but at least a small positive value, so that it can be a divisor.
pub(super) fn positive(p: f32) -> f32 {
    if p < f32::MIN_POSITIVE {
        f32::MIN_POSITIVE
    } else {
        p
    }
}

impl RowLoss for CrossEntropy {
    fn check(&self, cols: usize, label: &Output) -> Result<(), LayerError> {
        check_ids(label, cols)
    }

    #[inline(always)]
    fn cost(&self, row: &[f32], label: CostTarget<'_>) -> f32 {
        let CostTarget::Id(id) = label else {
            return 0.0;
        };
        let p = row[id as usize];
        if p.is_nan() { p } else { -ln(p) }
    }

    #[inline(always)]
    fn add_grad(&self, row: &[f32], label: CostTarget<'_>, scale: f32, grad: &mut [f32]) {
        let CostTarget::Id(id) = label else { return };
        grad[id as usize] -= scale / positive(row[id as usize]);
    }
}
