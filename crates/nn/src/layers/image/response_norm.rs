//! Normalisation over channels (`norm`): `cmrnorm-projection` and `cross-channel-norm`.
//!
//! - `cmrnorm-projection`: `y[c] = x[c] · d[c]⁻ᵖ` with `d[c] = 1 + scale · Σ x²` over the `size` channels around `c`.
//! - `cross-channel-norm`: `y[c] = s[c] · x[c]/r` with `r = √Σ x²` over all channels and a learned `s`. A pixel that is
//!   0 in all channels stays 0. (v1's backward replaces gradients and mixes up images here; ours is the derivative.)

use std::ops::Range;

use config::model::NormConfig;

use crate::error::{BuildError, LayerError};
use crate::functions::{exp, ln};
use crate::layer::{Backward, Build, Forward, Layer, Reads, full};
use crate::matrix::Matrix;
use crate::parameters::ParameterIndex;
use crate::simd;

/// Builds `norm`.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    let Some(conf) = &build.config.inputs[0].norm_conf else {
        return Err(build.error("its input has no norm_conf"));
    };
    let (size, channels) = (build.size(), conf.channels as usize);
    build.expect(
        channels > 0 && size.is_multiple_of(channels) && build.input_sizes[0] == size,
        || {
            format!(
                "its input has size {}, its output {size}, in {channels} channels",
                build.input_sizes[0]
            )
        },
    )?;
    let pixels = size / channels;
    match conf.norm_type.as_str() {
        "cmrnorm-projection" => Ok(Box::new(ResponseNorm::new(build, conf, pixels)?)),
        "cross-channel-norm" => Ok(Box::new(CrossChannelNorm {
            channels,
            pixels,
            scale: build.input_parameter(0, channels)?,
        })),
        other => Err(build.error(format!("norm type '{other}' is not known"))),
    }
}

/// Divides each value by a power of a sum over neighbouring channels.
pub(crate) struct ResponseNorm {
    channels: usize,
    pixels: usize,
    /// Number of neighbouring channels that count: before, and from the own one on.
    before: usize,
    after: usize,
    scale: f32,
    power: f32,
    denominator: Matrix,
}

impl ResponseNorm {
    fn new(build: &Build<'_>, conf: &NormConfig, pixels: usize) -> Result<Self, BuildError> {
        let size = conf.size as usize;
        build.expect(size > 0, || "its size is 0".to_owned())?;
        let before = (size - 1) / 2;
        Ok(Self {
            channels: conf.channels as usize,
            pixels,
            before,
            after: size - before,
            scale: conf.scale as f32,
            power: conf.pow as f32,
            denominator: Matrix::default(),
        })
    }

    /// The channels around one.
    fn around(&self, channel: usize) -> Range<usize> {
        channel.saturating_sub(self.before)..(channel + self.after).min(self.channels)
    }

    /// The channels that have one around them.
    fn around_others(&self, channel: usize) -> Range<usize> {
        (channel + 1).saturating_sub(self.after)..(channel + self.before + 1).min(self.channels)
    }
}

impl Layer for ResponseNorm {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let (pixels, size) = (self.pixels, self.channels * self.pixels);
        let x = pass.inputs.dense_of(0, size)?;
        let y = pass.out.value_mut();
        y.resize(x.rows(), size);
        let mut denominator = std::mem::take(&mut self.denominator);
        denominator.resize(x.rows(), size);
        simd::for_row_blocks2(
            (y.values_mut(), size),
            (denominator.values_mut(), size),
            #[inline(always)]
            |first, y, denominator| {
                for (row, (y, d)) in y
                    .chunks_exact_mut(size)
                    .zip(denominator.chunks_exact_mut(size))
                    .enumerate()
                {
                    let x = x.row(first + row);
                    d.fill(1.0);
                    for (channel, d) in d.chunks_exact_mut(pixels).enumerate() {
                        for other in self.around(channel) {
                            let other = &x[other * pixels..(other + 1) * pixels];
                            d.iter_mut()
                                .zip(other)
                                .for_each(|(d, x)| *d += self.scale * x * x);
                        }
                    }
                    for ((y, d), x) in y.iter_mut().zip(d).zip(x) {
                        *y = x * exp(-self.power * ln(*d));
                    }
                }
            },
        );
        self.denominator = denominator;
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let source = pass.inputs.get_mut(0);
        if !source.wants_grad {
            return;
        }
        let (pixels, size) = (self.pixels, self.channels * self.pixels);
        let ratio = -2.0 * self.scale * self.power;
        let (grad, x) = source.grad_and_value();
        let (y, arrived) = (pass.out.value(), pass.out.grad());
        simd::for_row_blocks(
            grad.values_mut(),
            size,
            #[inline(always)]
            |first, block| {
                for (row, grad) in block.chunks_exact_mut(size).enumerate() {
                    let row = first + row;
                    let (x, y, d, dy) = (
                        x.row(row),
                        y.row(row),
                        self.denominator.row(row),
                        arrived.row(row),
                    );
                    for (channel, grad) in grad.chunks_exact_mut(pixels).enumerate() {
                        let own = channel * pixels;
                        for (pixel, grad) in grad.iter_mut().enumerate() {
                            let mut sum = 0.0;
                            for other in self.around_others(channel) {
                                let place = other * pixels + pixel;
                                sum += dy[place] * y[place] / d[place];
                            }
                            let place = own + pixel;
                            let direct = dy[place] * exp(-self.power * ln(d[place]));
                            *grad += direct + ratio * x[place] * sum;
                        }
                    }
                }
            },
        );
    }
}

/// Normalizes the channels of every pixel to length 1, then scales each channel.
pub(crate) struct CrossChannelNorm {
    channels: usize,
    pixels: usize,
    scale: ParameterIndex,
}

impl CrossChannelNorm {
    /// `1/√Σ x²` over the channels of a pixel; 0 if all are 0.
    #[inline(always)]
    fn inverse_length(&self, x: &[f32], pixel: usize) -> f32 {
        let squares: f32 = self.places(pixel).map(|place| x[place] * x[place]).sum();
        if squares > 0.0 {
            1.0 / squares.sqrt()
        } else {
            0.0
        }
    }

    #[inline(always)]
    fn places(&self, pixel: usize) -> impl Iterator<Item = usize> + use<> {
        let pixels = self.pixels;
        (0..self.channels).map(move |channel| channel * pixels + pixel)
    }
}

impl Layer for CrossChannelNorm {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let size = self.channels * self.pixels;
        let x = pass.inputs.dense_of(0, size)?;
        let scale = pass.parameters.full(self.scale)?;
        let y = pass.out.value_mut();
        y.resize(x.rows(), size);
        simd::for_row_blocks(
            y.values_mut(),
            size,
            #[inline(always)]
            |first, block| {
                for (row, y) in block.chunks_exact_mut(size).enumerate() {
                    let x = x.row(first + row);
                    for pixel in 0..self.pixels {
                        let inverse = self.inverse_length(x, pixel);
                        for (place, scale) in self.places(pixel).zip(scale) {
                            y[place] = scale * x[place] * inverse;
                        }
                    }
                }
            },
        );
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let size = self.channels * self.pixels;
        let arrived = pass.out.grad();
        let source = pass.inputs.get_mut(0);
        if let Some(scale_grad) = pass.gradients.dense_zeroed(self.scale) {
            for (x, dy) in source.value().iter_rows().zip(arrived.iter_rows()) {
                for pixel in 0..self.pixels {
                    let inverse = self.inverse_length(x, pixel);
                    for (place, grad) in self.places(pixel).zip(scale_grad.iter_mut()) {
                        *grad += dy[place] * x[place] * inverse;
                    }
                }
            }
        }
        if !source.wants_grad {
            return;
        }
        let scale = full(pass.parameters, self.scale);
        let (grad, x) = source.grad_and_value();
        simd::for_row_blocks(
            grad.values_mut(),
            size,
            #[inline(always)]
            |first, block| {
                for (row, grad) in block.chunks_exact_mut(size).enumerate() {
                    let (x, dy) = (x.row(first + row), arrived.row(first + row));
                    for pixel in 0..self.pixels {
                        let inverse = self.inverse_length(x, pixel);
                        let along: f32 = self
                            .places(pixel)
                            .zip(scale)
                            .map(|(p, s)| s * dy[p] * x[p])
                            .sum();
                        let along = along * inverse * inverse;
                        for (place, scale) in self.places(pixel).zip(scale) {
                            grad[place] += inverse * (scale * dy[place] - x[place] * along);
                        }
                    }
                }
            },
        );
    }
}
