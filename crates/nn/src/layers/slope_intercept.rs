//! A straight line: `y = slope · x + intercept`.

use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::simd;

/// Scales and shifts.
pub(crate) struct SlopeIntercept {
    slope: f32,
    intercept: f32,
}

/// Builds a `slope_intercept` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    Ok(Box::new(SlopeIntercept {
        slope: build.config.slope() as f32,
        intercept: build.config.intercept() as f32,
    }))
}

impl Layer for SlopeIntercept {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let out = pass.out.value_mut();
        out.copy_from(pass.inputs.dense(0)?);
        out.values_mut()
            .iter_mut()
            .for_each(|y| *y = self.slope * *y + self.intercept);
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        if pass.inputs.wants_grad(0) {
            let grad = pass.out.grad().values();
            simd::add_scaled(
                pass.inputs.get_mut(0).grad_mut().values_mut(),
                self.slope,
                grad,
            );
        }
    }
}
