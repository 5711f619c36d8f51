//! The maximum of each column over a sequence: `y = f(max_t x[t] + b)`; 0 for an empty sequence.
//!
//! With `output_max_index` the result is the row of each maximum in the batch instead, and has no gradient.

use super::{PooledRows, Segments};
use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::simd;

/// Takes maxima.
pub(crate) struct MaxPooling {
    segments: Segments,
    /// Stored row of each maximum; `u32::MAX` for none.
    winners: Vec<u32>,
    output_index: bool,
    finish: Finish,
}

/// Builds a `max` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    Ok(Box::new(MaxPooling {
        segments: Segments::new(build)?,
        winners: Vec::new(),
        output_index: build.config.output_max_index(),
        finish: build.finish()?,
    }))
}

impl Layer for MaxPooling {
    fn reads(&self) -> Reads {
        if self.output_index {
            Reads::Batch
        } else {
            Reads::Samples
        }
    }

    fn gathers(&self) -> bool {
        !self.output_index
    }

    fn is_differentiable(&self) -> bool {
        !self.output_index
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let PooledRows { offsets, layout } = self.segments.of(&pass.out.layout)?;
        pass.out.layout = layout;
        let x = pass.inputs.dense(0)?;
        let index = pass.inputs.index(0);
        let (rows, cols) = (offsets.len() - 1, x.cols());
        let out = pass.out.value_mut();
        out.resize(rows, cols);
        self.winners.resize(rows * cols, 0);
        simd::vectorised(
            #[inline(always)]
            || {
                let results = out
                    .values_mut()
                    .chunks_exact_mut(cols)
                    .zip(self.winners.chunks_exact_mut(cols));
                for (pair, (best, winners)) in offsets.windows(2).zip(results) {
                    best.fill(f32::NEG_INFINITY);
                    winners.fill(u32::MAX);
                    for position in pair[0]..pair[1] {
                        let stored = index.map_or(position, |index| index[position as usize]);
                        for ((best, winner), &x) in best
                            .iter_mut()
                            .zip(winners.iter_mut())
                            .zip(x.row(stored as usize))
                        {
                            let wins = x > *best;
                            *best = if wins { x } else { *best };
                            *winner = if wins { stored } else { *winner };
                        }
                    }
                    if pair[0] == pair[1] {
                        best.fill(0.0);
                    }
                }
            },
        );
        if self.output_index {
            for (out, &winner) in out.values_mut().iter_mut().zip(&self.winners) {
                *out = if winner == u32::MAX {
                    0.0
                } else {
                    winner as f32
                };
            }
            return Ok(());
        }
        self.finish.forward(pass)
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.finish.backward(pass);
        if !pass.inputs.wants_grad(0) {
            return;
        }
        let grad = pass.out.grad();
        let cols = grad.cols();
        let to = pass.inputs.get_mut(0).grad_mut().values_mut();
        for (winners, grad) in self.winners.chunks_exact(cols).zip(grad.iter_rows()) {
            for (col, (&winner, &grad)) in winners.iter().zip(grad).enumerate() {
                if winner != u32::MAX {
                    to[winner as usize * cols + col] += grad;
                }
            }
        }
    }
}
