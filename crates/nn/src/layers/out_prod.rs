//! The outer product of two rows: `y[i, j] = aᵢ bⱼ`.

use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::simd;

/// Multiplies every value of a row with every value of another.
pub(crate) struct OuterProduct {
    widths: [usize; 2],
}

/// Builds an `out_prod` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(2..=2)?;
    let widths = [build.input_sizes[0], build.input_sizes[1]];
    build.expect(build.size() == widths[0] * widths[1], || {
        format!("size {} is not {} · {}", build.size(), widths[0], widths[1])
    })?;
    Ok(Box::new(OuterProduct { widths }))
}

impl Layer for OuterProduct {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let [rows, cols] = self.widths;
        let (a, b) = (
            pass.inputs.dense_of(0, rows)?,
            pass.inputs.dense_of(1, cols)?,
        );
        pass.inputs.check_rows(1, a.rows())?;
        let out = pass.out.value_mut();
        out.resize_zeroed(a.rows(), rows * cols);
        for ((a, b), out) in a.iter_rows().zip(b.iter_rows()).zip(out.iter_rows_mut()) {
            for (a, out) in a.iter().zip(out.chunks_exact_mut(cols)) {
                simd::add_scaled(out, *a, b);
            }
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let cols = self.widths[1];
        let grad = pass.out.grad();
        if pass.inputs.wants_grad(0) {
            let mut to = std::mem::take(pass.inputs.get_mut(0).grad_mut());
            let b = pass.inputs.get(1).value();
            for ((to, b), grad) in to.iter_rows_mut().zip(b.iter_rows()).zip(grad.iter_rows()) {
                for (to, grad) in to.iter_mut().zip(grad.chunks_exact(cols)) {
                    *to += simd::dot(b, grad);
                }
            }
            *pass.inputs.get_mut(0).grad_mut() = to;
        }
        if pass.inputs.wants_grad(1) {
            let mut to = std::mem::take(pass.inputs.get_mut(1).grad_mut());
            let a = pass.inputs.get(0).value();
            for ((to, a), grad) in to.iter_rows_mut().zip(a.iter_rows()).zip(grad.iter_rows()) {
                for (a, grad) in a.iter().zip(grad.chunks_exact(cols)) {
                    simd::add_scaled(to, *a, grad);
                }
            }
            *pass.inputs.get_mut(1).grad_mut() = to;
        }
    }
}
