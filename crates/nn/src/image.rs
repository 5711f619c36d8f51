//! Images inside rows: a row holds channel after channel, each of them line after line.
//!
//! - [`sliding`]: windows that move over an image; unfolding it into columns and folding it back.
//! - [`convolution`]: the three products of a convolution, for a whole batch.
//! - [`pooling`]: maximum and average over windows.

pub(crate) mod convolution;
pub(crate) mod pooling;
pub(crate) mod sliding;

pub use convolution::Convolution;
pub use pooling::{PoolKind, Pooling};
pub use sliding::{Axis, Sliding};

use config::model::ImageConfig;

/// Channels, height and width of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Number of channels.
    pub channels: usize,
    /// Lines per channel.
    pub height: usize,
    /// Pixels per line.
    pub width: usize,
}

impl Shape {
    /// The shape that a layer's description gives; images are square unless it says otherwise.
    pub fn of(config: &ImageConfig) -> Self {
        let width = config.img_size as usize;
        Self {
            channels: config.channels as usize,
            height: config.img_size_y.map_or(width, |height| height as usize),
            width,
        }
    }

    /// Pixels per channel.
    pub fn pixels(&self) -> usize {
        self.height * self.width
    }

    /// Number of values in the whole image.
    pub fn size(&self) -> usize {
        self.channels * self.pixels()
    }
}
