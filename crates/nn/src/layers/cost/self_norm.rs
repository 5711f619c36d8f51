//! Cross entropy of rows that are not normalised, with a penalty for that:
//! `-ln p[label] + ln z + α (ln z)²`, `z = Σ p`.

use super::cross_entropy::{CrossEntropy, positive};
use super::{Cost, CostTarget, RowLoss, check_ids};
use crate::error::{BuildError, LayerError};
use crate::functions::ln;
use crate::layer::{Build, Layer};
use crate::output::Output;
use crate::simd;

/// Builds a `multi_class_cross_entropy_with_selfnorm` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    let alpha = build.config.softmax_selfnorm_alpha() as f32;
    Cost::build(build, SelfNorm { alpha })
}

/// Cross entropy with a penalty for sums other than 1.
pub(crate) struct SelfNorm {
    alpha: f32,
}

impl RowLoss for SelfNorm {
    fn check(&self, cols: usize, label: &Output) -> Result<(), LayerError> {
        check_ids(label, cols)
    }

    #[inline(always)]
    fn cost(&self, row: &[f32], label: CostTarget<'_>) -> f32 {
        let log = ln(simd::sum(row));
        CrossEntropy.cost(row, label) + log + self.alpha * log * log
    }

    #[inline(always)]
    fn add_grad(&self, row: &[f32], label: CostTarget<'_>, scale: f32, grad: &mut [f32]) {
        CrossEntropy.add_grad(row, label, scale, grad);
        let sum = positive(simd::sum(row));
        let slope = scale * (1.0 + 2.0 * self.alpha * ln(sum)) / sum;
        grad.iter_mut().for_each(|grad| *grad += slope);
    }
}
