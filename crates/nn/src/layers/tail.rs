//! Dropout and error clipping: applied to the output of any layer whose description asks for it.
//!
//! Both act on single positions of the batch, not on rows that several positions share, so they are a separate
//! step after the layer.
//!
//! - dropout, training: `y = x · m` with `m = 1` where `u > rate`, else 0; `u` is a pure function of the batch's noise
//!   seed, the layer and the element. Test: `y = x · (1 - rate)`.
//! - error clipping: the gradient that arrives is clipped to `±threshold`.

use config::LayerConfig;

use crate::error::LayerError;
use crate::functions::clamp;
use crate::layer::{Backward, BatchUse, Forward, Layer};
use crate::matrix::Matrix;
use crate::noise::Noise;
use crate::simd;

/// Dropout and error clipping after a layer.
#[derive(Debug)]
pub(crate) struct Tail {
    rate: f32,
    threshold: f32,
    mask: Matrix,
    training: bool,
}

impl Tail {
    /// The tail that a layer's description asks for; `None` if it needs none.
    pub(crate) fn of(config: &LayerConfig) -> Option<Self> {
        let (rate, threshold) = (
            config.drop_rate() as f32,
            config.error_clipping_threshold() as f32,
        );
        (rate > 0.0 || threshold > 0.0).then_some(Self {
            rate,
            threshold,
            mask: Matrix::default(),
            training: false,
        })
    }
}

/// 1 where the noise at an index exceeds the rate, else 0.
fn draw_mask(mask: &mut Matrix, noise: Noise, rate: f32) {
    let cols = mask.cols();
    simd::for_row_blocks(
        mask.values_mut(),
        cols,
        #[inline(always)]
        |first, block| {
            for (place, mask) in block.iter_mut().enumerate() {
                let u = noise.uniform((first * cols + place) as u64);
                *mask = if u > rate { 1.0 } else { 0.0 };
            }
        },
    );
}

impl Layer for Tail {
    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let x = pass.inputs.dense(0)?;
        let y = pass.out.value_mut();
        y.copy_from(x);
        self.training = matches!(pass.pass, BatchUse::Train { .. });
        if self.rate <= 0.0 {
            return Ok(());
        }
        let cols = y.cols();
        if !self.training {
            let keep = 1.0 - self.rate;
            simd::for_row_blocks(
                y.values_mut(),
                cols,
                #[inline(always)]
                |_, y| y.iter_mut().for_each(|y| *y *= keep),
            );
            return Ok(());
        }
        self.mask.resize(y.rows(), cols);
        draw_mask(&mut self.mask, pass.noise, self.rate);
        let mask = self.mask.values();
        simd::for_row_blocks(
            y.values_mut(),
            cols,
            #[inline(always)]
            |first, y| {
                y.iter_mut()
                    .zip(&mask[first * cols..])
                    .for_each(|(y, m)| *y *= m)
            },
        );
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let arrived = pass.out.grad().values();
        let (grad, _) = pass.inputs.get_mut(0).grad_and_value();
        let limit = if self.threshold > 0.0 {
            self.threshold
        } else {
            f32::INFINITY
        };
        let cols = grad.cols();
        let mask = (self.rate > 0.0 && self.training).then(|| self.mask.values());
        let keep = if self.rate > 0.0 && !self.training {
            1.0 - self.rate
        } else {
            1.0
        };
        simd::for_row_blocks(
            grad.values_mut(),
            cols,
            #[inline(always)]
            |first, block| {
                let start = first * cols;
                for (place, grad) in block.iter_mut().enumerate() {
                    let kept = mask.map_or(keep, |mask| mask[start + place]);
                    *grad += clamp(arrived[start + place], -limit, limit) * kept;
                }
            },
        );
    }
}
