//! Rows that sum to one: `y = x / Σⱼ xⱼ`.

use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::simd;

/// Normalises rows by their sum.
pub(crate) struct SumToOne;

/// Builds a `sum_to_one_norm` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    Ok(Box::new(SumToOne))
}

impl Layer for SumToOne {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let out = pass.out.value_mut();
        out.copy_from(pass.inputs.dense(0)?);
        for row in out.iter_rows_mut() {
            let sum = simd::sum(row);
            if sum == 0.0 {
                return Err(LayerError::Value(
                    "a row that sums to 0 cannot be made to sum to 1".to_owned(),
                ));
            }
            row.iter_mut().for_each(|y| *y /= sum);
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        if !pass.inputs.wants_grad(0) {
            return;
        }
        let (y, grad) = (pass.out.value(), pass.out.grad());
        let (to, x) = pass.inputs.get_mut(0).grad_and_value();
        for (row, to) in to.iter_rows_mut().enumerate() {
            let (inverse, mean) = (
                1.0 / simd::sum(x.row(row)),
                simd::dot(y.row(row), grad.row(row)),
            );
            to.iter_mut()
                .zip(grad.row(row))
                .for_each(|(to, grad)| *to += inverse * (grad - mean));
        }
    }
}
