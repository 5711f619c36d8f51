//! The average over a sequence: `y = f(s Σ_t x[t] + b)` with `s` = 1/n (`average`), 1 (`sum`) or 1/√n (`squarerootn`).
//!
//! An empty sequence yields 0.

use super::{PooledRows, Segments};
use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::simd;

/// How a sum is scaled by the number of its terms.
#[derive(Debug, Clone, Copy)]
enum Strategy {
    Average,
    Sum,
    SquareRoot,
}

impl Strategy {
    fn scale(self, terms: u32) -> f32 {
        match self {
            Strategy::Average => 1.0 / terms.max(1) as f32,
            Strategy::Sum => 1.0,
            Strategy::SquareRoot => 1.0 / (terms.max(1) as f32).sqrt(),
        }
    }
}

/// Averages sequences.
pub(crate) struct AveragePooling {
    segments: Segments,
    strategy: Strategy,
    offsets: std::sync::Arc<[u32]>,
    finish: Finish,
}

/// Builds an `average` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    let strategy = match build.config.average_strategy() {
        "average" | "" => Strategy::Average,
        "sum" => Strategy::Sum,
        "squarerootn" => Strategy::SquareRoot,
        other => return Err(build.error(format!("average_strategy '{other}' is not known"))),
    };
    Ok(Box::new(AveragePooling {
        segments: Segments::new(build)?,
        strategy,
        offsets: Vec::new().into(),
        finish: build.finish()?,
    }))
}

impl Layer for AveragePooling {
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
        let cols = x.cols();
        let out = pass.out.value_mut();
        out.resize(offsets.len() - 1, cols);
        simd::for_row_blocks(
            out.values_mut(),
            cols,
            #[inline(always)]
            |first, block| {
                for (row, out) in block.chunks_exact_mut(cols).enumerate() {
                    let (start, end) = (offsets[first + row], offsets[first + row + 1]);
                    out.fill(0.0);
                    for position in start..end {
                        simd::add(out, x.row(index.map_or(position, |index| index[position as usize]) as usize));
                    }
                    let scale = self.strategy.scale(end - start);
                    out.iter_mut().for_each(|x| *x *= scale);
                }
            },
        );
        self.offsets = offsets;
        self.finish.forward(pass)
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.finish.backward(pass);
        if !pass.inputs.wants_grad(0) {
            return;
        }
        let grad = pass.out.grad();
        let index = pass.inputs.edges[0].index.clone();
        let to = pass.inputs.get_mut(0).grad_mut();
        simd::vectorised(
            #[inline(always)]
            || {
                for (pair, grad) in self.offsets.windows(2).zip(grad.iter_rows()) {
                    let scale = self.strategy.scale(pair[1] - pair[0]);
                    for position in pair[0]..pair[1] {
                        let stored = index
                            .as_ref()
                            .map_or(position, |index| index[position as usize]);
                        simd::add_scaled(to.row_mut(stored as usize), scale, grad);
                    }
                }
            },
        );
    }
}
