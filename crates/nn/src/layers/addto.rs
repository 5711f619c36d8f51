//! `y = f(Σ xᵢ + b)` of inputs of equal width.

use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::simd;

/// Adds its inputs up.
pub(crate) struct AddTo {
    size: usize,
    finish: Finish,
}

/// Builds an `addto` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    let size = build.size();
    build.expect(!build.input_sizes.is_empty(), || {
        "it has no input".to_owned()
    })?;
    build.expect(build.input_sizes.iter().all(|&input| input == size), || {
        format!(
            "inputs of widths {:?} do not add up to width {size}",
            build.input_sizes
        )
    })?;
    Ok(Box::new(AddTo {
        size,
        finish: build.finish()?,
    }))
}

impl Layer for AddTo {
    fn reads(&self) -> Reads {
        self.finish.reads()
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let rows = pass.inputs.dense_of(0, self.size)?.rows();
        let out = pass.out.value_mut();
        out.copy_from(pass.inputs.dense(0)?);
        for input in 1..pass.inputs.len() {
            pass.inputs.check_rows(input, rows)?;
            let x = pass.inputs.dense_of(input, self.size)?.values();
            simd::for_row_blocks(
                out.values_mut(),
                self.size,
                #[inline(always)]
                |first, block| simd::add(block, &x[first * self.size..]),
            );
        }
        self.finish.forward(pass)
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.finish.backward(pass);
        for input in 0..pass.inputs.len() {
            let source = pass.inputs.get_mut(input);
            if source.wants_grad {
                let grad = pass.out.grad().values();
                simd::for_row_blocks(
                    source.grad_mut().values_mut(),
                    self.size,
                    #[inline(always)]
                    |first, block| simd::add(block, &grad[first * self.size..]),
                );
            }
        }
    }
}
