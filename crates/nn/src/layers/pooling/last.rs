//! The last row of a sequence, or the first: `y = f(x[last] + b)`; 0 for an empty sequence.

use super::{PooledRows, Segments};
use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::simd;

/// Takes one end of each sequence.
pub(crate) struct LastInstance {
    segments: Segments,
    first: bool,
    /// Stored row of each result; `u32::MAX` for none.
    chosen: Vec<u32>,
    finish: Finish,
}

/// Builds a `seqlastins` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    Ok(Box::new(LastInstance {
        segments: Segments::new(build)?,
        first: build.config.select_first(),
        chosen: Vec::new(),
        finish: build.finish()?,
    }))
}

impl Layer for LastInstance {
    fn reads(&self) -> Reads {
        Reads::Samples
    }

    fn gathers(&self) -> bool {
        true
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let PooledRows { offsets, layout } = self.segments.of(&pass.out.layout)?;
        pass.out.layout = layout;
        let x = pass.inputs.dense(0)?;
        let index = pass.inputs.index(0);
        self.chosen.clear();
        self.chosen.extend(offsets.windows(2).map(|pair| {
            if pair[0] == pair[1] {
                return u32::MAX;
            }
            let position = if self.first { pair[0] } else { pair[1] - 1 };
            index.map_or(position, |index| index[position as usize])
        }));
        let out = pass.out.value_mut();
        out.resize(self.chosen.len(), x.cols());
        for (&stored, out) in self.chosen.iter().zip(out.iter_rows_mut()) {
            if stored == u32::MAX {
                out.fill(0.0);
            } else {
                out.copy_from_slice(x.row(stored as usize));
            }
        }
        self.finish.forward(pass)
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.finish.backward(pass);
        if !pass.inputs.wants_grad(0) {
            return;
        }
        let to = pass.inputs.get_mut(0).grad_mut();
        for (&stored, grad) in self.chosen.iter().zip(pass.out.grad().iter_rows()) {
            if stored != u32::MAX {
                simd::add(to.row_mut(stored as usize), grad);
            }
        }
    }
}
