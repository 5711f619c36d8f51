//! Parametric relu (`prelu`): `y = x` where `x > 0`, else `w x`, with one learned `w` per `partial_sum` columns.
//!
//! v1's configurations do not store `partial_sum`: then it follows from the number of slopes.

use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads, full};
use crate::parameters::ParameterIndex;
use crate::simd;

/// A relu whose negative side has a learned slope.
pub(crate) struct ParametricRelu {
    size: usize,
    /// Columns that share a slope.
    share: usize,
    slopes: ParameterIndex,
}

/// Builds `prelu`.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    let size = build.size();
    let share = match build.config.partial_sum() as usize {
        0 => size / build.input_parameter_size(0).max(1),
        given => given,
    };
    build.expect(
        size == build.input_sizes[0] && share > 0 && size.is_multiple_of(share),
        || {
            format!(
                "partial_sum {share} does not divide its size {size}, or its input has another size"
            )
        },
    )?;
    let slopes = build.input_parameter(0, size / share)?;
    Ok(Box::new(ParametricRelu {
        size,
        share,
        slopes,
    }))
}

impl Layer for ParametricRelu {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let x = pass.inputs.dense_of(0, self.size)?;
        let slopes = pass.parameters.full(self.slopes)?;
        let y = pass.out.value_mut();
        y.copy_from(x);
        let share = self.share;
        simd::for_row_blocks(
            y.values_mut(),
            self.size,
            #[inline(always)]
            |_, block| {
                for (y, slope) in block.chunks_exact_mut(share).zip(slopes.iter().cycle()) {
                    y.iter_mut()
                        .for_each(|y| *y = if *y > 0.0 { *y } else { slope * *y });
                }
            },
        );
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let arrived = pass.out.grad().values();
        let source = pass.inputs.get_mut(0);
        let share = self.share;
        if let Some(grads) = pass.gradients.dense_zeroed(self.slopes) {
            let count = grads.len();
            let pieces = source
                .value()
                .values()
                .chunks_exact(share)
                .zip(arrived.chunks_exact(share));
            for (piece, (x, dy)) in pieces.enumerate() {
                let sum: f32 = x
                    .iter()
                    .zip(dy)
                    .map(|(x, dy)| if *x > 0.0 { 0.0 } else { x * dy })
                    .sum();
                grads[piece % count] += sum;
            }
        }
        if !source.wants_grad {
            return;
        }
        let slopes = full(pass.parameters, self.slopes);
        let (grad, x) = source.grad_and_value();
        let (x, size) = (x.values(), self.size);
        simd::for_row_blocks(
            grad.values_mut(),
            size,
            #[inline(always)]
            |first, block| {
                let start = first * size;
                for (place, grad) in block.iter_mut().enumerate() {
                    let slope = if x[start + place] > 0.0 {
                        1.0
                    } else {
                        slopes[place % size / share]
                    };
                    *grad += slope * arrived[start + place];
                }
            },
        );
    }
}
