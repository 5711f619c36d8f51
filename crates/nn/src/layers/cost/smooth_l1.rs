//! `Σⱼ h(yⱼ - tⱼ)` with `h(d) = d²/2` for `|d| < 1`, else `|d| - ½`.

use super::{Cost, CostTarget, RowLoss, check_dense};
use crate::error::{BuildError, LayerError};
use crate::functions::clamp;
use crate::layer::{Build, Layer};
use crate::output::Output;

/// Builds a `smooth_l1` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    Cost::build(build, SmoothL1)
}

/// Square near the target, straight far from it.
pub(crate) struct SmoothL1;

impl RowLoss for SmoothL1 {
    fn check(&self, cols: usize, label: &Output) -> Result<(), LayerError> {
        check_dense(label, cols)
    }

    #[inline(always)]
    fn cost(&self, row: &[f32], label: CostTarget<'_>) -> f32 {
        let CostTarget::Dense(target) = label else {
            return 0.0;
        };
        let price = |d: f32| {
            if d.abs() < 1.0 {
                0.5 * d * d
            } else {
                d.abs() - 0.5
            }
        };
        row.iter().zip(target).map(|(y, t)| price(y - t)).sum()
    }

    #[inline(always)]
    fn add_grad(&self, row: &[f32], label: CostTarget<'_>, scale: f32, grad: &mut [f32]) {
        let CostTarget::Dense(target) = label else {
            return;
        };
        for ((grad, y), t) in grad.iter_mut().zip(row).zip(target) {
            *grad += scale * clamp(y - t, -1.0, 1.0);
        }
    }
}
