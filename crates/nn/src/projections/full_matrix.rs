//! `y += x W`, or `y += x Wᵀ` if the weight is stored transposed.

use super::Projection;
use crate::error::LayerError;
use crate::layer::{Backward, Forward, full};
use crate::matrix::Matrix;
use crate::parameters::ParameterIndex;
use crate::product::{Accumulate, MatrixView, multiply};

/// Multiplies by a weight.
pub(super) struct FullMatrix {
    weight: ParameterIndex,
    from: usize,
    to: usize,
    transposed: bool,
}

impl FullMatrix {
    /// A projection from `from` columns to `to`.
    pub(super) fn new(weight: ParameterIndex, from: usize, to: usize, transposed: bool) -> Self {
        Self {
            weight,
            from,
            to,
            transposed,
        }
    }

    fn view<'a>(&self, values: &'a [f32]) -> MatrixView<'a> {
        if self.transposed {
            MatrixView::new(values, self.to, self.from).t()
        } else {
            MatrixView::new(values, self.from, self.to)
        }
    }
}

impl Projection for FullMatrix {
    fn forward(
        &mut self,
        pass: &Forward<'_>,
        input: usize,
        out: &mut Matrix,
    ) -> Result<(), LayerError> {
        let x = pass.inputs.dense_of(input, self.from)?;
        let weight = pass.parameters.full(self.weight)?;
        multiply(
            out.values_mut(),
            x.into(),
            self.view(weight),
            Accumulate::Add,
        );
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>, input: usize, grad: &Matrix) {
        let source = pass.inputs.get_mut(input);
        let (mut left, mut right) = (MatrixView::from(source.value()), MatrixView::from(grad));
        if self.transposed {
            std::mem::swap(&mut left, &mut right);
        }
        pass.gradients.add_product(self.weight, 0, left, right);
        if source.wants_grad {
            let weight = full(pass.parameters, self.weight);
            let target = source.grad_target();
            multiply(
                target.grad.values_mut(),
                grad.into(),
                self.view(weight).t(),
                target.mode,
            );
        }
    }
}
