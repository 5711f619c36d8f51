//! Combinations of rows: `y = Σₖ wₖ xₖ`, where the second input holds the rows `xₖ` one after another.

use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::simd;

/// Combines rows linearly.
pub(crate) struct LinearCombination {
    size: usize,
    count: usize,
}

/// Builds a `convex_comb` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(2..=2)?;
    let (size, count) = (build.size(), build.input_sizes[0]);
    build.expect(build.input_sizes[1] == size * count, || {
        format!(
            "{count} rows of width {size} do not make an input of width {}",
            build.input_sizes[1]
        )
    })?;
    Ok(Box::new(LinearCombination { size, count }))
}

impl Layer for LinearCombination {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let w = pass.inputs.dense_of(0, self.count)?;
        let x = pass.inputs.dense_of(1, self.count * self.size)?;
        pass.inputs.check_rows(1, w.rows())?;
        let out = pass.out.value_mut();
        out.resize_zeroed(w.rows(), self.size);
        for ((w, x), out) in w.iter_rows().zip(x.iter_rows()).zip(out.iter_rows_mut()) {
            for (w, x) in w.iter().zip(x.chunks_exact(self.size)) {
                simd::add_scaled(out, *w, x);
            }
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let grad = pass.out.grad();
        if pass.inputs.wants_grad(0) {
            let mut to = std::mem::take(pass.inputs.get_mut(0).grad_mut());
            let x = pass.inputs.get(1).value();
            for ((to, x), grad) in to.iter_rows_mut().zip(x.iter_rows()).zip(grad.iter_rows()) {
                for (to, x) in to.iter_mut().zip(x.chunks_exact(self.size)) {
                    *to += simd::dot(x, grad);
                }
            }
            *pass.inputs.get_mut(0).grad_mut() = to;
        }
        if pass.inputs.wants_grad(1) {
            let mut to = std::mem::take(pass.inputs.get_mut(1).grad_mut());
            let w = pass.inputs.get(0).value();
            for ((to, w), grad) in to.iter_rows_mut().zip(w.iter_rows()).zip(grad.iter_rows()) {
                for (to, w) in to.chunks_exact_mut(self.size).zip(w) {
                    simd::add_scaled(to, *w, grad);
                }
            }
            *pass.inputs.get_mut(1).grad_mut() = to;
        }
    }
}
