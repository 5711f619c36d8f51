//! Maxout (`maxout`): the greatest of `groups` neighbouring channels, pixel by pixel.
//!
//! `y[c] = max(x[c·groups], …, x[c·groups + groups - 1])`; the gradient goes to the first channel with the maximum.

use crate::error::{BuildError, LayerError};
use crate::image::Shape;
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::simd;

/// The maximum over groups of channels.
pub(crate) struct MaxOut {
    groups: usize,
    pixels: usize,
    /// Width of the input and of the output.
    from: usize,
    to: usize,
}

/// Builds `maxout`.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    let Some(conf) = &build.config.inputs[0].maxout_conf else {
        return Err(build.error("its input has no maxout_conf"));
    };
    let (channels, groups) = (Shape::of(&conf.image_conf).channels, conf.groups as usize);
    let (from, to) = (build.input_sizes[0], build.size());
    build.expect(
        groups > 0 && channels > 0 && channels.is_multiple_of(groups),
        || format!("{groups} groups do not divide {channels} channels"),
    )?;
    build.expect(from.is_multiple_of(channels) && from / groups == to, || {
        format!("its input has size {from}, its output {to}, with {channels} channels in groups of {groups}")
    })?;
    Ok(Box::new(MaxOut {
        groups,
        pixels: from / channels,
        from,
        to,
    }))
}

impl MaxOut {
    /// The index in the input of the maximum for index `place` of the output.
    #[inline(always)]
    fn winner(&self, x: &[f32], place: usize) -> usize {
        let (channel, pixel) = (place / self.pixels, place % self.pixels);
        let first = channel * self.groups * self.pixels + pixel;
        let mut best = first;
        for group in 1..self.groups {
            let other = first + group * self.pixels;
            if x[other] > x[best] {
                best = other;
            }
        }
        best
    }
}

impl Layer for MaxOut {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let x = pass.inputs.dense_of(0, self.from)?;
        let y = pass.out.value_mut();
        y.resize(x.rows(), self.to);
        simd::for_row_blocks(
            y.values_mut(),
            self.to,
            #[inline(always)]
            |first, block| {
                for (row, y) in block.chunks_exact_mut(self.to).enumerate() {
                    let x = x.row(first + row);
                    y.iter_mut()
                        .enumerate()
                        .for_each(|(place, y)| *y = x[self.winner(x, place)]);
                }
            },
        );
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let source = pass.inputs.get_mut(0);
        if !source.wants_grad {
            return;
        }
        let arrived = pass.out.grad();
        let (grad, x) = source.grad_and_value();
        simd::for_row_blocks(
            grad.values_mut(),
            self.from,
            #[inline(always)]
            |first, block| {
                for (row, grad) in block.chunks_exact_mut(self.from).enumerate() {
                    let x = x.row(first + row);
                    for (place, dy) in arrived.row(first + row).iter().enumerate() {
                        grad[self.winner(x, place)] += dy;
                    }
                }
            },
        );
    }
}
