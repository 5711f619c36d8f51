//! A row repeated: `y = f((x, x, …))`, `num_filters` times (v1's `repeat_layer`).

use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::simd;

/// Repeats rows.
pub(crate) struct Repeat {
    times: usize,
    finish: Finish,
}

/// Builds a `featmap_expand` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    let (times, width) = (build.config.num_filters() as usize, build.input_sizes[0]);
    build.expect(build.size() == times * width, || {
        format!("size {} is not {times} times {width}", build.size())
    })?;
    Ok(Box::new(Repeat {
        times,
        finish: build.finish()?,
    }))
}

impl Layer for Repeat {
    fn reads(&self) -> Reads {
        self.finish.reads()
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let x = pass.inputs.dense(0)?;
        let width = x.cols();
        let out = pass.out.value_mut();
        out.resize(x.rows(), width * self.times);
        for (x, out) in x.iter_rows().zip(out.iter_rows_mut()) {
            out.chunks_exact_mut(width)
                .for_each(|out| out.copy_from_slice(x));
        }
        self.finish.forward(pass)
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.finish.backward(pass);
        if !pass.inputs.wants_grad(0) {
            return;
        }
        let to = pass.inputs.get_mut(0).grad_mut();
        for (to, grad) in to.iter_rows_mut().zip(pass.out.grad().iter_rows()) {
            grad.chunks_exact(to.len())
                .for_each(|grad| simd::add(to, grad));
        }
    }
}
