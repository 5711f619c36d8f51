//! `Σⱼ (yⱼ - tⱼ)²`, without a half; the targets may be dense, sparse, or ids for a single column.

use super::{Cost, CostTarget, RowLoss, check_dense};
use crate::error::{BuildError, LayerError};
use crate::layer::{Build, Layer};
use crate::output::{Output, OutputValues};
use crate::simd;

/// Builds a `square_error` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    Cost::build(build, SquareError)
}

/// The squared distance.
pub(crate) struct SquareError;

impl RowLoss for SquareError {
    fn check(&self, cols: usize, label: &Output) -> Result<(), LayerError> {
        match &label.data {
            OutputValues::Sparse(rows) if rows.cols == cols => Ok(()),
            OutputValues::Ids(_) if cols == 1 => Ok(()),
            _ => check_dense(label, cols),
        }
    }

    #[inline(always)]
    fn cost(&self, row: &[f32], label: CostTarget<'_>) -> f32 {
        match label {
            CostTarget::Dense(target) => simd::squared_distance(row, target),
            CostTarget::Id(id) => (row[0] - id as f32) * (row[0] - id as f32),
            CostTarget::Sparse(rows, r) => {
                let all = simd::dot(row, row);
                rows.range(r).fold(all, |cost, entry| {
                    let (y, t) = (row[rows.columns[entry] as usize], rows.value(entry));
                    cost + (y - t) * (y - t) - y * y
                })
            }
        }
    }

    #[inline(always)]
    fn add_grad(&self, row: &[f32], label: CostTarget<'_>, scale: f32, grad: &mut [f32]) {
        let scale = 2.0 * scale;
        match label {
            CostTarget::Dense(target) => {
                for ((grad, y), t) in grad.iter_mut().zip(row).zip(target) {
                    *grad += scale * (y - t);
                }
            }
            CostTarget::Id(id) => grad[0] += scale * (row[0] - id as f32),
            CostTarget::Sparse(rows, r) => {
                simd::add_scaled(grad, scale, row);
                for entry in rows.range(r) {
                    grad[rows.columns[entry] as usize] -= scale * rows.value(entry);
                }
            }
        }
    }
}
