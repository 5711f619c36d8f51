//! `y += x ∘ w`: every column times its own weight.

use super::Projection;
use crate::error::LayerError;
use crate::layer::{Backward, Forward, full};
use crate::matrix::Matrix;
use crate::parameters::ParameterIndex;
use crate::simd;

/// Scales columns.
pub(super) struct DotMul {
    weight: ParameterIndex,
}

impl DotMul {
    /// A projection with this weight, one value per column.
    pub(super) fn new(weight: ParameterIndex) -> Self {
        Self { weight }
    }
}

impl Projection for DotMul {
    fn forward(
        &mut self,
        pass: &Forward<'_>,
        input: usize,
        out: &mut Matrix,
    ) -> Result<(), LayerError> {
        let x = pass.inputs.dense_of(input, out.cols())?;
        let weight = pass.parameters.full(self.weight)?;
        for (out, x) in out.iter_rows_mut().zip(x.iter_rows()) {
            simd::add_product(out, x, weight);
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>, input: usize, grad: &Matrix) {
        let source = pass.inputs.get_mut(input);
        if let Some(weight_grad) = pass.gradients.dense_zeroed(self.weight) {
            for (x, grad) in source.value().iter_rows().zip(grad.iter_rows()) {
                simd::add_product(weight_grad, x, grad);
            }
        }
        if source.wants_grad {
            let weight = full(pass.parameters, self.weight);
            for (input_grad, grad) in source.grad_mut().iter_rows_mut().zip(grad.iter_rows()) {
                simd::add_product(input_grad, grad, weight);
            }
        }
    }
}
