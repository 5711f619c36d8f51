//! Interpolates between two rows: `y = w a + (1 - w) b` with one weight per row. Inputs: weight (width 1), a, b.

use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::simd;

/// Mixes rows.
pub(crate) struct Interpolation {
    size: usize,
}

/// Builds an `interpolation` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(3..=3)?;
    let size = build.size();
    build.expect(build.input_sizes == [1, size, size], || {
        format!(
            "inputs have widths {:?}, must be 1, {size} and {size}",
            build.input_sizes
        )
    })?;
    Ok(Box::new(Interpolation { size }))
}

impl Layer for Interpolation {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let w = pass.inputs.dense_of(0, 1)?;
        let (a, b) = (
            pass.inputs.dense_of(1, self.size)?,
            pass.inputs.dense_of(2, self.size)?,
        );
        pass.inputs.check_rows(1, w.rows())?;
        pass.inputs.check_rows(2, w.rows())?;
        let out = pass.out.value_mut();
        out.resize_zeroed(w.rows(), self.size);
        for (row, (w, out)) in w.values().iter().zip(out.iter_rows_mut()).enumerate() {
            simd::add_scaled(out, *w, a.row(row));
            simd::add_scaled(out, 1.0 - w, b.row(row));
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let grad = pass.out.grad();
        let weights = pass.inputs.get(0).value().values().to_vec();
        if pass.inputs.wants_grad(0) {
            let (a, b) = (pass.inputs.get(1).value(), pass.inputs.get(2).value());
            let slope = |row: usize| {
                simd::dot(a.row(row), grad.row(row)) - simd::dot(b.row(row), grad.row(row))
            };
            let slopes: Vec<f32> = (0..grad.rows()).map(slope).collect();
            simd::add(pass.inputs.get_mut(0).grad_mut().values_mut(), &slopes);
        }
        for input in [1, 2] {
            if pass.inputs.wants_grad(input) {
                let to = pass.inputs.get_mut(input).grad_mut();
                for ((w, to), grad) in weights.iter().zip(to.iter_rows_mut()).zip(grad.iter_rows())
                {
                    simd::add_scaled(to, if input == 1 { *w } else { 1.0 - w }, grad);
                }
            }
        }
    }
}
