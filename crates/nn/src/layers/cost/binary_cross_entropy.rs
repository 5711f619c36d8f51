//! `Σⱼ -(tⱼ ln pⱼ + (1 - tⱼ) ln(1 - pⱼ))`: independent binary labels, given as an id, a set or values.

use super::cross_entropy::positive;
use super::{Cost, CostTarget, RowLoss, check_dense, check_ids};
use crate::error::{BuildError, LayerError};
use crate::functions::ln;
use crate::layer::{Build, Layer};
use crate::output::{Output, OutputValues};

/// Builds a `multi_binary_label_cross_entropy` or `soft_binary_class_cross_entropy` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    Cost::build(build, BinaryCrossEntropy)
}

/// The cross entropy of each column on its own.
pub(crate) struct BinaryCrossEntropy;

/// Calls `visit(column, target)` for every column.
fn targets(label: CostTarget<'_>, cols: usize, mut visit: impl FnMut(usize, f32)) {
    match label {
        CostTarget::Dense(row) => row
            .iter()
            .enumerate()
            .for_each(|(col, &target)| visit(col, target)),
        CostTarget::Id(id) => {
            (0..cols).for_each(|col| visit(col, if col == id as usize { 1.0 } else { 0.0 }))
        }
        CostTarget::Sparse(rows, row) => {
            let columns = &rows.columns[rows.range(row)];
            (0..cols).for_each(|col| {
                visit(
                    col,
                    if columns.contains(&(col as u32)) {
                        1.0
                    } else {
                        0.0
                    },
                )
            });
        }
    }
}

impl RowLoss for BinaryCrossEntropy {
    fn check(&self, cols: usize, label: &Output) -> Result<(), LayerError> {
        match &label.data {
            OutputValues::Dense(_) => check_dense(label, cols),
            OutputValues::Ids(_) => check_ids(label, cols),
            OutputValues::Sparse(rows) if rows.cols == cols => Ok(()),
            OutputValues::Sparse(rows) => Err(LayerError::Width {
                input: 1,
                got: rows.cols,
                want: cols,
            }),
        }
    }

    #[inline(always)]
    fn cost(&self, row: &[f32], label: CostTarget<'_>) -> f32 {
        let mut cost = 0.0;
        targets(label, row.len(), |col, target| {
            let p = row[col];
            cost -= if p.is_nan() {
                p
            } else {
                target * ln(p) + (1.0 - target) * ln(1.0 - p)
            };
        });
        cost
    }

    #[inline(always)]
    fn add_grad(&self, row: &[f32], label: CostTarget<'_>, scale: f32, grad: &mut [f32]) {
        targets(label, row.len(), |col, target| {
            let p = row[col];
            grad[col] += scale * ((1.0 - target) / positive(1.0 - p) - target / positive(p));
        });
    }
}
