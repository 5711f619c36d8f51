//! `y += x`, or `y += ` some columns of `x`.

use super::Projection;
use crate::error::LayerError;
use crate::layer::{Backward, Forward};
use crate::matrix::Matrix;
use crate::simd;

/// Passes columns on, from an offset.
pub(super) struct IdentityProjection {
    offset: usize,
}

impl IdentityProjection {
    /// Reads from this column on, as many columns as the output has.
    pub(super) fn new(offset: usize) -> Self {
        Self { offset }
    }
}

impl Projection for IdentityProjection {
    fn forward(
        &mut self,
        pass: &Forward<'_>,
        input: usize,
        out: &mut Matrix,
    ) -> Result<(), LayerError> {
        let x = pass.inputs.dense(input)?;
        let columns = self.offset..self.offset + out.cols();
        for (out, x) in out.iter_rows_mut().zip(x.iter_rows()) {
            simd::add(out, &x[columns.clone()]);
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>, input: usize, grad: &Matrix) {
        let source = pass.inputs.get_mut(input);
        if !source.wants_grad {
            return;
        }
        let columns = self.offset..self.offset + grad.cols();
        for (input_grad, grad) in source.grad_mut().iter_rows_mut().zip(grad.iter_rows()) {
            simd::add(&mut input_grad[columns.clone()], grad);
        }
    }
}
