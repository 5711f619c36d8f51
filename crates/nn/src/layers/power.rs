//! Powers of positive values: `y = x^w` with one exponent per row. Inputs: exponent (width 1), rows.

use crate::error::{BuildError, LayerError};
use crate::functions::{exp, ln};
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::simd;

/// Raises rows to powers.
pub(crate) struct Power {
    size: usize,
}

/// Builds a `power` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(2..=2)?;
    let size = build.size();
    build.expect(build.input_sizes == [1, size], || {
        format!(
            "inputs have widths {:?}, must be 1 and {size}",
            build.input_sizes
        )
    })?;
    Ok(Box::new(Power { size }))
}

impl Layer for Power {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let (w, x) = (
            pass.inputs.dense_of(0, 1)?,
            pass.inputs.dense_of(1, self.size)?,
        );
        pass.inputs.check_rows(1, w.rows())?;
        if let Some(negative) = x.values().iter().find(|&&x| x < 0.0) {
            return Err(LayerError::Value(format!(
                "{negative} cannot be raised to a power that is not whole"
            )));
        }
        let out = pass.out.value_mut();
        out.resize(w.rows(), self.size);
        for ((w, x), out) in w
            .values()
            .iter()
            .zip(x.iter_rows())
            .zip(out.iter_rows_mut())
        {
            out.iter_mut()
                .zip(x)
                .for_each(|(out, x)| *out = exp(w * ln(*x)));
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let (y, grad) = (pass.out.value(), pass.out.grad());
        if pass.inputs.wants_grad(0) {
            let x = pass.inputs.get(1).value();
            let slope = |row: usize| {
                x.row(row)
                    .iter()
                    .zip(y.row(row))
                    .zip(grad.row(row))
                    .map(|((x, y), g)| g * y * ln(*x))
                    .sum()
            };
            let slopes: Vec<f32> = (0..y.rows()).map(slope).collect();
            simd::add(pass.inputs.get_mut(0).grad_mut().values_mut(), &slopes);
        }
        if pass.inputs.wants_grad(1) {
            let weights = pass.inputs.get(0).value().values().to_vec();
            let (to, x) = pass.inputs.get_mut(1).grad_and_value();
            for (row, to) in to.iter_rows_mut().enumerate() {
                for (col, to) in to.iter_mut().enumerate() {
                    let x = x.row(row)[col].max(f32::MIN_POSITIVE);
                    *to += grad.row(row)[col] * weights[row] * y.row(row)[col] / x;
                }
            }
        }
    }
}
