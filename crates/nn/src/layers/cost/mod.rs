//! Costs: one value per row, and its gradient, without a mean over the batch.
//!
//! A third input weighs the rows; `coeff` scales the gradient (not the cost that is reported), as in v1.

pub(crate) mod binary_cross_entropy;
pub(crate) mod cross_entropy;
pub(crate) mod huber;
pub(crate) mod lambda;
pub(crate) mod rank;
pub(crate) mod self_norm;
pub(crate) mod smooth_l1;
pub(crate) mod square_error;
pub(crate) mod sum;

use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer};
use crate::matrix::SparseRows;
use crate::output::{GradTarget, Output, OutputValues};
use crate::product::Accumulate;
use crate::simd;

/// The target of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CostTarget<'a> {
    /// A class.
    Id(u32),
    /// A dense row.
    Dense(&'a [f32]),
    /// A sparse row, by its index.
    Sparse(&'a SparseRows, usize),
}

impl<'a> CostTarget<'a> {
    #[inline(always)]
    fn of(output: &'a Output, row: usize) -> Self {
        match &output.data {
            OutputValues::Ids(ids) => CostTarget::Id(ids[row]),
            OutputValues::Dense(matrix) => CostTarget::Dense(matrix.row(row)),
            OutputValues::Sparse(rows) => CostTarget::Sparse(rows, row),
        }
    }
}

/// The cost of one row.
pub(crate) trait RowLoss: Send + Sync {
    /// Checks the kind of the labels and the width of a row; called once per batch.
    fn check(&self, cols: usize, label: &Output) -> Result<(), LayerError>;
    /// The cost of a row.
    fn cost(&self, row: &[f32], label: CostTarget<'_>) -> f32;
    /// `grad += scale · ` the derivative of the cost.
    fn add_grad(&self, row: &[f32], label: CostTarget<'_>, scale: f32, grad: &mut [f32]);
}

/// A cost layer: inputs are the prediction, the label and, maybe, a weight per row.
pub(crate) struct Cost<L> {
    loss: L,
    coeff: f32,
}

impl<L: RowLoss + 'static> Cost<L> {
    /// Builds the layer around a loss.
    pub(crate) fn build(build: &Build<'_>, loss: L) -> Result<Box<dyn Layer>, BuildError> {
        build.expect_inputs(2..=3)?;
        Ok(Box::new(Self {
            loss,
            coeff: build.config.coeff() as f32,
        }))
    }
}

impl<L: RowLoss> Layer for Cost<L> {
    fn is_cost(&self) -> bool {
        true
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let x = pass.inputs.dense(0)?;
        pass.inputs.check_rows(1, x.rows())?;
        let label = pass.inputs.get(1);
        self.loss.check(x.cols(), label)?;
        let out = pass.out.value_mut();
        out.resize(x.rows(), 1);
        // Blocks are sized by the values of the prediction, not of the costs.
        simd::for_blocks(
            out.values_mut(),
            x.cols(),
            #[inline(always)]
            |first, costs| {
                for (offset, cost) in costs.iter_mut().enumerate() {
                    let row = first + offset;
                    *cost = self.loss.cost(x.row(row), CostTarget::of(label, row));
                }
            },
        );
        if pass.inputs.len() == 3 {
            pass.inputs.check_rows(2, x.rows())?;
            let weight = pass.inputs.dense_of(2, 1)?;
            for (cost, weight) in out.values_mut().iter_mut().zip(weight.values()) {
                *cost *= weight;
            }
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        if !pass.inputs.wants_grad(0) {
            return;
        }
        let weights =
            (pass.inputs.len() == 3).then(|| pass.inputs.get(2).value().values().to_vec());
        let GradTarget { grad, mode } = pass.inputs.get_mut(0).grad_target();
        let mut grad = std::mem::take(grad);
        let (x, label) = (pass.inputs.get(0).value(), pass.inputs.get(1));
        let cols = grad.cols();
        simd::for_row_blocks(
            grad.values_mut(),
            cols,
            #[inline(always)]
            |first, block| {
                for (offset, grad) in block.chunks_exact_mut(cols).enumerate() {
                    let row = first + offset;
                    if mode == Accumulate::Overwrite {
                        grad.fill(0.0);
                    }
                    let scale = self.coeff * weights.as_ref().map_or(1.0, |weights| weights[row]);
                    self.loss
                        .add_grad(x.row(row), CostTarget::of(label, row), scale, grad);
                }
            },
        );
        *pass.inputs.get_mut(0).grad_mut() = grad;
    }
}

/// Checks that labels are ids below `limit`.
pub(crate) fn check_ids(label: &Output, limit: usize) -> Result<(), LayerError> {
    match label.ids(1)?.iter().find(|&&id| id as usize >= limit) {
        Some(&id) => Err(LayerError::Id { id, limit }),
        None => Ok(()),
    }
}

/// Checks that labels are dense rows of this width.
pub(crate) fn check_dense(label: &Output, cols: usize) -> Result<(), LayerError> {
    let got = label.dense(1)?.cols();
    if got == cols {
        Ok(())
    } else {
        Err(LayerError::Width {
            input: 1,
            got,
            want: cols,
        })
    }
}
