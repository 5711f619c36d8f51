//! Maximum or average over the windows of each channel.
//!
//! As v1: the average counts the padding that a window covers, but nothing beyond it; the gradient of a maximum goes
//! to every pixel that equals it. A window that is completely outside the image yields 0 (v1's maximum: -3.4e38).

use super::sliding::Sliding;
use crate::simd;

/// The function of a window's pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolKind {
    /// Its greatest pixel.
    Max,
    /// The mean of its pixels.
    Average,
}

impl PoolKind {
    /// The kind of a v1 name; `None` if there is none.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        match name {
            "max-projection" | "cudnn-max-pool" => Some(Self::Max),
            "avg-projection" | "cudnn-avg-pool" => Some(Self::Average),
            _ => None,
        }
    }
}

/// Pooling of all channels.
#[derive(Debug, Clone, Copy)]
pub struct Pooling {
    /// The function of a window's pixels.
    pub kind: PoolKind,
    /// The windows of each channel.
    pub windows: Sliding,
}

impl Pooling {
    /// Number of values in the result of one image.
    pub fn output_size(&self) -> usize {
        self.windows.channels * self.windows.positions()
    }

    /// Pools the images of a batch into columns of `out`: those from `offset`, in rows of `cols`.
    pub fn forward(&self, out: &mut [f32], cols: usize, offset: usize, images: &[f32]) {
        let size = self.windows.image_size();
        simd::for_row_blocks(
            out,
            cols,
            #[inline(always)]
            |first, block| {
                for (row, out) in block.chunks_exact_mut(cols).enumerate() {
                    let image = &images[(first + row) * size..(first + row + 1) * size];
                    self.pool(&mut out[offset..offset + self.output_size()], image);
                }
            },
        );
    }

    #[inline(always)]
    fn pool(&self, out: &mut [f32], image: &[f32]) {
        self.for_windows(|place, window| {
            out[place] = match self.kind {
                PoolKind::Max => {
                    window.fold(
                        image,
                        f32::NEG_INFINITY,
                        |max, x| if x > max { x } else { max },
                    )
                }
                PoolKind::Average => {
                    window.fold(image, 0.0, |sum, x| sum + x) / window.covered as f32
                }
            };
            if window.is_empty() {
                out[place] = 0.0;
            }
        });
    }

    /// Adds the gradient of the images, given columns of the gradient and (for a maximum) of the result.
    pub fn backward(&self, grad: &mut [f32], images: &[f32], arrived: &Columns<'_>) {
        let size = self.windows.image_size();
        simd::for_row_blocks(
            grad,
            size,
            #[inline(always)]
            |first, block| {
                for (row, grad) in block.chunks_exact_mut(size).enumerate() {
                    let row = first + row;
                    let image = &images[row * size..(row + 1) * size];
                    let start = row * arrived.cols + arrived.offset;
                    let (values, grads) = (&arrived.values[start..], &arrived.grads[start..]);
                    self.unpool(grad, image, values, grads);
                }
            },
        );
    }

    #[inline(always)]
    fn unpool(&self, grad: &mut [f32], image: &[f32], values: &[f32], grads: &[f32]) {
        self.for_windows(|place, window| match self.kind {
            PoolKind::Max => {
                let (value, arrived) = (values[place], grads[place]);
                window.for_pixels(|pixel| {
                    if image[pixel] == value {
                        grad[pixel] += arrived;
                    }
                });
            }
            PoolKind::Average => {
                let share = grads[place] / window.covered.max(1) as f32;
                window.for_pixels(|pixel| grad[pixel] += share);
            }
        });
    }

    /// Calls `work` with the index of each result and its window.
    #[inline(always)]
    fn for_windows(&self, mut work: impl FnMut(usize, &Window)) {
        let Sliding { channels, y, x } = self.windows;
        let mut place = 0;
        for channel in 0..channels {
            for oy in 0..y.outputs {
                let (lines, covered) = (y.inside(oy), y.covered(oy));
                for ox in 0..x.outputs {
                    let window = Window {
                        start: channel * y.image * x.image,
                        width: x.image,
                        lines: (lines.start, lines.end),
                        columns: (x.inside(ox).start, x.inside(ox).end),
                        covered: covered * x.covered(ox),
                    };
                    work(place, &window);
                    place += 1;
                }
            }
        }
    }
}

/// Columns of a matrix and of its gradient.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    /// All values of the matrix, row after row.
    pub values: &'a [f32],
    /// The gradient of the matrix, row after row.
    pub grads: &'a [f32],
    /// Width of a row.
    pub cols: usize,
    /// Index of the first column.
    pub offset: usize,
}

/// The part of a window that is inside the image.
struct Window {
    start: usize,
    width: usize,
    lines: (usize, usize),
    columns: (usize, usize),
    covered: usize,
}

impl Window {
    fn is_empty(&self) -> bool {
        self.lines.0 >= self.lines.1 || self.columns.0 >= self.columns.1
    }

    #[inline(always)]
    fn for_pixels(&self, mut work: impl FnMut(usize)) {
        for line in self.lines.0..self.lines.1 {
            let start = self.start + line * self.width;
            for pixel in start + self.columns.0..start + self.columns.1 {
                work(pixel);
            }
        }
    }

    #[inline(always)]
    fn fold(&self, image: &[f32], first: f32, step: impl Fn(f32, f32) -> f32) -> f32 {
        let mut value = first;
        self.for_pixels(|pixel| value = step(value, image[pixel]));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Axis;

    /// 4 × 3 pixels, windows of 2 × 2, stride 2, one pixel of padding on the left and right only.
    fn windows() -> Sliding {
        let y = Axis {
            image: 4,
            window: 2,
            stride: 2,
            padding: 0,
            outputs: 2,
        };
        let x = Axis {
            image: 3,
            window: 2,
            stride: 2,
            padding: 1,
            outputs: 3,
        };
        Sliding { channels: 1, y, x }
    }

    #[rustfmt::skip]
    const IMAGE: [f32; 12] = [
        1.0, 2.0, 3.0,
        4.0, 5.0, 6.0,
        -1.0, -2.0, -3.0,
        -4.0, -5.0, -6.0,
    ];

    fn run(kind: PoolKind) -> (Vec<f32>, Vec<f32>) {
        let pooling = Pooling {
            kind,
            windows: windows(),
        };
        let mut out = vec![9.0; 7];
        pooling.forward(&mut out, 7, 1, &IMAGE);
        assert_eq!(out.remove(0), 9.0, "columns before the offset stay");
        let mut grad = vec![0.0; 12];
        let grads = [1.0; 6];
        let arrived = Columns {
            values: &out,
            grads: &grads,
            cols: 6,
            offset: 0,
        };
        pooling.backward(&mut grad, &IMAGE, &arrived);
        (out, grad)
    }

    #[test]
    fn the_maximum_ignores_padding_and_its_gradient_finds_it() {
        let (out, grad) = run(PoolKind::Max);
        assert_eq!(out, [4.0, 6.0, 0.0, -1.0, -2.0, 0.0]);
        assert_eq!(
            grad,
            [0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
        );
    }

    #[test]
    fn the_average_counts_padding() {
        let (out, grad) = run(PoolKind::Average);
        assert_eq!(out, [1.25, 4.0, 0.0, -1.25, -4.0, 0.0]);
        assert_eq!(grad, [0.25; 12]);
    }

    #[test]
    fn equal_maxima_all_get_the_gradient() {
        let pooling = Pooling {
            kind: PoolKind::Max,
            windows: windows(),
        };
        let mut grad = vec![0.0; 12];
        let arrived = Columns {
            values: &[2.0; 6],
            grads: &[1.0; 6],
            cols: 6,
            offset: 0,
        };
        pooling.backward(&mut grad, &[2.0; 12], &arrived);
        assert_eq!(grad, [1.0; 12]);
    }
}
