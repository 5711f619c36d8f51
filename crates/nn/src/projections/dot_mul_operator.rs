//! `y += scale · a ∘ b` of two inputs.

use super::Operator;
use crate::error::LayerError;
use crate::layer::{Backward, Forward};
use crate::matrix::Matrix;

/// The scaled element-wise product of two inputs.
pub(super) struct DotMulOperator {
    scale: f32,
}

impl DotMulOperator {
    /// An operator with this scale.
    pub(super) fn new(scale: f32) -> Self {
        Self { scale }
    }
}

impl Operator for DotMulOperator {
    fn forward(
        &mut self,
        pass: &Forward<'_>,
        inputs: &[usize],
        out: &mut Matrix,
    ) -> Result<(), LayerError> {
        let a = pass.inputs.dense_of(inputs[0], out.cols())?;
        let b = pass.inputs.dense_of(inputs[1], out.cols())?;
        for ((out, a), b) in out.values_mut().iter_mut().zip(a.values()).zip(b.values()) {
            *out += self.scale * a * b;
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>, inputs: &[usize], grad: &Matrix) {
        for (this, other) in [(inputs[0], inputs[1]), (inputs[1], inputs[0])] {
            if !pass.inputs.wants_grad(this) {
                continue;
            }
            let factors: Vec<f32> = pass
                .inputs
                .get(other)
                .value()
                .values()
                .iter()
                .map(|x| self.scale * x)
                .collect();
            let input_grad = pass.inputs.get_mut(this).grad_mut();
            for ((input_grad, grad), factor) in input_grad
                .values_mut()
                .iter_mut()
                .zip(grad.values())
                .zip(&factors)
            {
                *input_grad += grad * factor;
            }
        }
    }
}
