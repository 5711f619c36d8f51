//! Batch normalisation (`batch_norm`, `cudnn_batch_norm`).
//!
//! `y = act(γ (x - μ)/√(σ² + 10⁻⁵) + β)` for each channel. In training, μ and σ² are the mean and the variance of the
//! channel over all pixels of all rows of the batch; the running ones,
//! `m ← fraction · m + (1 - fraction) · μ` (the variance likewise), are kept in two static parameters and reported
//! through [`Layer::assigned`]. Testing uses the running ones, unless `use_global_stats` is false.
//!
//! Backward, with `n` values in a channel and `z = (x - μ)/√…`: `dx = γ/√… (dy - Σdy/n - z Σ(dy z)/n)`.
//!
//! Deliberately unlike v1: the variance is that of the differences from the mean, in double precision, instead of
//! `E[x²] - E[x]²`, and testing never changes the running statistics.

use rayon::prelude::*;

use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::image::Shape;
use crate::layer::{Assigned, Backward, BatchUse, Build, Forward, Layer};
use crate::matrix::Matrix;
use crate::parameters::ParameterIndex;
use crate::simd;

const EPSILON: f64 = 1e-5;
/// Channels per work item of a thread.
const CHANNEL_BLOCK: usize = 16;

/// Normalises each channel over the batch.
pub(crate) struct BatchNorm {
    planes: Planes,
    scale: ParameterIndex,
    shift: Option<ParameterIndex>,
    moving_mean: ParameterIndex,
    moving_variance: ParameterIndex,
    fraction: f32,
    global_in_test: bool,
    finish: Finish,
    /// `(x - μ)/√(σ² + ε)` of the last batch.
    normal: Matrix,
    mean: Vec<f32>,
    variance: Vec<f32>,
    /// Whether μ and σ² are those of the batch.
    of_batch: bool,
    training: bool,
}

/// Builds `batch_norm`: the inputs are the images and, twice more, the edges of the moving mean and variance.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(3..=3)?;
    let Some(image) = &build.config.inputs[0].image_conf else {
        return Err(build.error("its input has no image_conf"));
    };
    let (size, channels) = (build.size(), Shape::of(image).channels);
    build.expect(
        channels > 0 && size.is_multiple_of(channels) && build.input_sizes[0] == size,
        || {
            format!(
                "its input has size {}, its output {size}, in {channels} channels",
                build.input_sizes[0]
            )
        },
    )?;
    let planes = Planes {
        channels,
        pixels: size / channels,
    };
    Ok(Box::new(BatchNorm {
        planes,
        scale: build.input_parameter(0, channels)?,
        moving_mean: build.input_parameter(1, channels)?,
        moving_variance: build.input_parameter(2, channels)?,
        shift: build.bias(channels)?,
        fraction: build.config.moving_average_fraction() as f32,
        global_in_test: build.config.use_global_stats.unwrap_or(true),
        finish: build.finish_with(None)?,
        normal: Matrix::default(),
        mean: Vec::new(),
        variance: Vec::new(),
        of_batch: true,
        training: false,
    }))
}

impl Layer for BatchNorm {
    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let Forward {
            inputs,
            out,
            parameters,
            ..
        } = pass;
        let x = inputs.dense_of(0, self.planes.size())?;
        self.training = matches!(pass.pass, BatchUse::Train { .. });
        self.of_batch = self.training || !self.global_in_test;
        if self.of_batch {
            let statistics = self.planes.statistics(x.values());
            (self.mean, self.variance) = (statistics.means, statistics.variances);
        } else {
            self.mean = parameters.full(self.moving_mean)?.to_vec();
            self.variance = parameters.full(self.moving_variance)?.to_vec();
        }
        let scale = parameters.full(self.scale)?;
        let shift = self.shift.map(|shift| parameters.full(shift)).transpose()?;
        let inverse = inverse_deviation(&self.variance);
        self.normal.resize(x.rows(), x.cols());
        let y = out.value_mut();
        y.resize(x.rows(), x.cols());
        let Planes { channels, pixels } = self.planes;
        let (x, mean) = (x.values(), &self.mean);
        simd::for_row_blocks2(
            (y.values_mut(), pixels),
            (self.normal.values_mut(), pixels),
            #[inline(always)]
            |first, y, normal| {
                let x = x[first * pixels..].chunks_exact(pixels);
                let planes = y
                    .chunks_exact_mut(pixels)
                    .zip(normal.chunks_exact_mut(pixels))
                    .zip(x);
                for (plane, ((y, normal), x)) in planes.enumerate() {
                    let channel = (first + plane) % channels;
                    let (mean, inverse, scale) = (mean[channel], inverse[channel], scale[channel]);
                    let shift = shift.map_or(0.0, |shift| shift[channel]);
                    for ((y, normal), x) in y.iter_mut().zip(normal).zip(x) {
                        *normal = (x - mean) * inverse;
                        *y = scale * *normal + shift;
                    }
                }
            },
        );
        self.finish.forward(pass)
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.finish.backward(pass);
        let Backward {
            inputs,
            out,
            parameters,
            gradients,
            ..
        } = pass;
        let (arrived, normal) = (out.grad().values(), self.normal.values());
        let sums = self.planes.sums(arrived, normal);
        if let Some(shift) = self.shift.and_then(|shift| gradients.dense_zeroed(shift)) {
            shift
                .iter_mut()
                .zip(&sums.values)
                .for_each(|(grad, sum)| *grad += *sum as f32);
        }
        if let Some(scale) = gradients.dense_zeroed(self.scale) {
            scale
                .iter_mut()
                .zip(&sums.products)
                .for_each(|(grad, sum)| *grad += *sum as f32);
        }
        let source = inputs.get_mut(0);
        if !source.wants_grad {
            return;
        }
        let scale = crate::layer::full(parameters, self.scale);
        let inverse = inverse_deviation(&self.variance);
        let Planes { channels, pixels } = self.planes;
        let count = (arrived.len() / channels) as f64;
        let share = |sum: f64| {
            if self.of_batch {
                (sum / count) as f32
            } else {
                0.0
            }
        };
        simd::for_row_blocks(
            source.grad_mut().values_mut(),
            pixels,
            #[inline(always)]
            |first, block| {
                for (plane, grad) in block.chunks_exact_mut(pixels).enumerate() {
                    let plane = first + plane;
                    let channel = plane % channels;
                    let factor = scale[channel] * inverse[channel];
                    let (mean, slope) =
                        (share(sums.values[channel]), share(sums.products[channel]));
                    let range = plane * pixels..(plane + 1) * pixels;
                    for ((grad, dy), z) in grad
                        .iter_mut()
                        .zip(&arrived[range.clone()])
                        .zip(&normal[range])
                    {
                        *grad += factor * (dy - mean - z * slope);
                    }
                }
            },
        );
    }

    fn maintains(&self) -> Vec<ParameterIndex> {
        vec![self.moving_mean, self.moving_variance]
    }

    fn assigned(&self) -> Vec<Assigned<'_>> {
        if !self.training {
            return Vec::new();
        }
        let assigned = |parameter, values| Assigned {
            parameter,
            keep: self.fraction,
            values,
        };
        vec![
            assigned(self.moving_mean, &self.mean),
            assigned(self.moving_variance, &self.variance),
        ]
    }
}

/// `1/√(σ² + ε)`.
fn inverse_deviation(variance: &[f32]) -> Vec<f32> {
    variance
        .iter()
        .map(|&v| (1.0 / (f64::from(v.max(0.0)) + EPSILON).sqrt()) as f32)
        .collect()
}

/// Rows of channels of pixels.
#[derive(Debug, Clone, Copy)]
struct Planes {
    channels: usize,
    pixels: usize,
}

/// The values of each channel in a batch.
struct ChannelStatistics {
    means: Vec<f32>,
    variances: Vec<f32>,
}

/// Sums over each channel of a batch.
struct ChannelSums {
    values: Vec<f64>,
    /// Of the products with a second set of values.
    products: Vec<f64>,
}

impl Planes {
    fn size(self) -> usize {
        self.channels * self.pixels
    }

    fn statistics(self, x: &[f32]) -> ChannelStatistics {
        let count = (x.len() / self.channels).max(1) as f64;
        let sums = self.reduce(
            x,
            x,
            #[inline(always)]
            |_, x, _| x,
        );
        let means: Vec<f64> = sums.iter().map(|sum| sum / count).collect();
        let squares = self.reduce(
            x,
            x,
            #[inline(always)]
            |channel, x, _| (x - means[channel]) * (x - means[channel]),
        );
        ChannelStatistics {
            means: means.iter().map(|&mean| mean as f32).collect(),
            variances: squares.iter().map(|sum| (sum / count) as f32).collect(),
        }
    }

    /// Sums of `a` and of `a · b`.
    fn sums(self, a: &[f32], b: &[f32]) -> ChannelSums {
        let values = self.reduce(
            a,
            b,
            #[inline(always)]
            |_, a, _| a,
        );
        let products = self.reduce(
            a,
            b,
            #[inline(always)]
            |_, a, b| a * b,
        );
        ChannelSums { values, products }
    }

    /// Adds up `term(channel, a, b)` over all rows in order; channels are spread over threads.
    #[inline(always)]
    fn reduce(
        self,
        a: &[f32],
        b: &[f32],
        term: impl Fn(usize, f64, f64) -> f64 + Sync,
    ) -> Vec<f64> {
        let (size, pixels) = (self.size(), self.pixels);
        let mut sums = vec![0.0; self.channels];
        let blocks = sums.par_chunks_mut(CHANNEL_BLOCK).enumerate();
        blocks.for_each(|(block, sums)| {
            simd::vectorised(
                #[inline(always)]
                || {
                    let rows = a.chunks_exact(size).zip(b.chunks_exact(size));
                    for (a, b) in rows {
                        for (place, sum) in sums.iter_mut().enumerate() {
                            let channel = block * CHANNEL_BLOCK + place;
                            let plane = channel * pixels..(channel + 1) * pixels;
                            *sum += lane_sum(
                                &a[plane.clone()],
                                &b[plane],
                                #[inline(always)]
                                |a, b| term(channel, a, b),
                            );
                        }
                    }
                },
            );
        });
        sums
    }
}

/// The sum of `term(a, b)`, in eight lanes.
#[inline(always)]
fn lane_sum(a: &[f32], b: &[f32], term: impl Fn(f64, f64) -> f64) -> f64 {
    const LANES: usize = 8;
    let mut lanes = [0.0; LANES];
    let (a_blocks, b_blocks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let (a_rest, b_rest) = (a_blocks.remainder(), b_blocks.remainder());
    for (a, b) in a_blocks.zip(b_blocks) {
        for lane in 0..LANES {
            lanes[lane] += term(f64::from(a[lane]), f64::from(b[lane]));
        }
    }
    for (lane, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        lanes[lane] += term(f64::from(*a), f64::from(*b));
    }
    lanes.iter().sum()
}

#[cfg(test)]
mod tests {
    use config::model::ImageConfig;

    use crate::gradient_check::{LayerBuilder, ModelBuilder};
    use crate::{Batch, BatchUse, Network, ParameterValues, Parameters, Slot, SlotData};

    /// Two channels of two pixels: γ = (2, 1), β = (0.5, 0), moving mean (1, 2), moving variance (4, 9).
    fn network(use_global_stats: Option<bool>) -> (Network, Parameters) {
        let norm = LayerBuilder::new("batch_norm", "y", 4)
            .weighted("x", &[1, 2])
            .weighted("x", &[1, 2])
            .weighted("x", &[1, 2])
            .bias_of(2)
            .with(|c| {
                (c.use_global_stats, c.moving_average_fraction) = (use_global_stats, Some(0.75));
                let (channels, img_size) = (2, 1);
                let img_size_y = Some(2);
                c.inputs[0].image_conf = Some(ImageConfig {
                    channels,
                    img_size,
                    img_size_y,
                });
            });
        let values = [[2.0, 1.0], [1.0, 2.0], [4.0, 9.0], [0.5, 0.0]];
        let parameters = values
            .map(|values| ParameterValues::Full(values.to_vec()))
            .to_vec();
        (
            Network::new(&ModelBuilder::new().data("x", 4).layer(norm).0).unwrap(),
            Parameters(parameters),
        )
    }

    fn batch() -> Batch {
        let values = vec![1.0, 3.0, 0.0, 0.0, 5.0, 7.0, 4.0, 4.0];
        Batch {
            samples: 2,
            slots: vec![Slot::plain(SlotData::Dense { dim: 4, values })],
        }
    }

    fn assert_near(got: &[f32], want: &[f32]) {
        assert!(
            got.iter()
                .zip(want)
                .all(|(got, want)| (got - want).abs() < 1e-4),
            "{got:?} {want:?}"
        );
    }

    #[test]
    fn training_uses_the_batch_and_moves_the_averages() {
        let (mut network, mut parameters) = network(None);
        network
            .forward(&parameters, &batch(), BatchUse::Train { noise: 0 })
            .unwrap();
        let (a, b) = (1.0 / 5.0f32.sqrt(), 3.0 / 5.0f32.sqrt()); // mean 4, variance 5; mean 2, variance 4
        let want = [
            0.5 - 2.0 * b,
            0.5 - 2.0 * a,
            -1.0,
            -1.0,
            0.5 + 2.0 * a,
            0.5 + 2.0 * b,
            1.0,
            1.0,
        ];
        assert_near(&network.output("y").unwrap().to_dense().unwrap(), &want);
        network.assign(&mut parameters);
        assert_eq!(
            parameters.0[1],
            ParameterValues::Full(vec![0.75 + 1.0, 1.5 + 0.5])
        );
        assert_eq!(
            parameters.0[2],
            ParameterValues::Full(vec![3.0 + 1.25, 6.75 + 1.0])
        );
    }

    #[test]
    fn testing_uses_the_averages_and_leaves_them() {
        for (global, first) in [
            (None, 0.5),
            (Some(true), 0.5),
            (Some(false), 0.5 - 6.0 / 5.0f32.sqrt()),
        ] {
            let (mut network, parameters) = network(global);
            network
                .forward(&parameters, &batch(), BatchUse::Test)
                .unwrap();
            assert_near(
                &network.output("y").unwrap().to_dense().unwrap()[..1],
                &[first],
            );
            assert!(network.assigned().is_empty());
        }
    }
}
