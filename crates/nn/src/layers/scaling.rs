//! Rows times scalars: `y = w x` with one weight per row. Inputs: weight (width 1), rows.

use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::simd;

/// Scales rows.
pub(crate) struct Scaling {
    size: usize,
}

/// Builds a `scaling` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(2..=2)?;
    let size = build.size();
    build.expect(build.input_sizes == [1, size], || {
        format!(
            "inputs have widths {:?}, must be 1 and {size}",
            build.input_sizes
        )
    })?;
    Ok(Box::new(Scaling { size }))
}

impl Layer for Scaling {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let (w, x) = (
            pass.inputs.dense_of(0, 1)?,
            pass.inputs.dense_of(1, self.size)?,
        );
        pass.inputs.check_rows(1, w.rows())?;
        let out = pass.out.value_mut();
        out.resize_zeroed(w.rows(), self.size);
        for ((w, x), out) in w
            .values()
            .iter()
            .zip(x.iter_rows())
            .zip(out.iter_rows_mut())
        {
            simd::add_scaled(out, *w, x);
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let grad = pass.out.grad();
        if pass.inputs.wants_grad(0) {
            let slopes: Vec<f32> = pass
                .inputs
                .get(1)
                .value()
                .iter_rows()
                .zip(grad.iter_rows())
                .map(|(x, g)| simd::dot(x, g))
                .collect();
            simd::add(pass.inputs.get_mut(0).grad_mut().values_mut(), &slopes);
        }
        if pass.inputs.wants_grad(1) {
            let weights = pass.inputs.get(0).value().values().to_vec();
            let to = pass.inputs.get_mut(1).grad_mut();
            for ((w, to), grad) in weights.iter().zip(to.iter_rows_mut()).zip(grad.iter_rows()) {
                simd::add_scaled(to, *w, grad);
            }
        }
    }
}
