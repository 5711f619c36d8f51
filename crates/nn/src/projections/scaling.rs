//! `y += w x` with one weight for all values.

use super::Projection;
use crate::error::LayerError;
use crate::layer::{Backward, Forward, full};
use crate::matrix::Matrix;
use crate::parameters::ParameterIndex;
use crate::simd;

/// Scales everything.
pub(super) struct ScalingProjection {
    weight: ParameterIndex,
}

impl ScalingProjection {
    /// A projection with this weight, a single value.
    pub(super) fn new(weight: ParameterIndex) -> Self {
        Self { weight }
    }
}

impl Projection for ScalingProjection {
    fn forward(
        &mut self,
        pass: &Forward<'_>,
        input: usize,
        out: &mut Matrix,
    ) -> Result<(), LayerError> {
        let x = pass.inputs.dense_of(input, out.cols())?;
        let weight = pass.parameters.full(self.weight)?[0];
        simd::add_scaled(out.values_mut(), weight, x.values());
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>, input: usize, grad: &Matrix) {
        let source = pass.inputs.get_mut(input);
        if let Some(weight_grad) = pass.gradients.dense_zeroed(self.weight) {
            weight_grad[0] += simd::dot(source.value().values(), grad.values());
        }
        if source.wants_grad {
            let weight = full(pass.parameters, self.weight)[0];
            simd::add_scaled(source.grad_mut().values_mut(), weight, grad.values());
        }
    }
}
