//! Bilinear interpolation (`bilinear_interp`): an image in another size.
//!
//! Corner pixels map to corner pixels: line `i` of the result is at `i · (h - 1)/(h' - 1)` of the image, between the
//! two lines around it; columns likewise.

use crate::error::{BuildError, LayerError};
use crate::image::Shape;
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::simd;

/// Resizes images.
pub(crate) struct Bilinear {
    from: Shape,
    lines: Vec<Tap>,
    columns: Vec<Tap>,
}

/// Position of a line (or column) of the result between two of the image.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Tap {
    first: usize,
    second: usize,
    /// Weight of the second.
    weight: f32,
}

/// The taps that stretch `from` pixels to `to`.
fn taps(from: usize, to: usize) -> Vec<Tap> {
    let ratio = if to > 1 {
        (from - 1) as f32 / (to - 1) as f32
    } else {
        0.0
    };
    (0..to)
        .map(|i| {
            let place = ratio * i as f32;
            let first = (place as usize).min(from - 1);
            Tap {
                first,
                second: (first + 1).min(from - 1),
                weight: place - first as f32,
            }
        })
        .collect()
}

/// Builds `bilinear_interp`.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    let Some(conf) = &build.config.inputs[0].bilinear_interp_conf else {
        return Err(build.error("its input has no bilinear_interp_conf"));
    };
    let from = Shape::of(&conf.image_conf);
    let to = Shape {
        channels: from.channels,
        height: conf.out_size_y as usize,
        width: conf.out_size_x as usize,
    };
    let (got, size) = (build.input_sizes[0], build.size());
    build.expect(from.size() > 0 && from.size() == got && to.size() == size, || {
        format!("its input has size {got}, its output {size}, but its geometry means {from:?} to {to:?}")
    })?;
    Ok(Box::new(Bilinear {
        from,
        lines: taps(from.height, to.height),
        columns: taps(from.width, to.width),
    }))
}

impl Bilinear {
    fn output_size(&self) -> usize {
        self.from.channels * self.lines.len() * self.columns.len()
    }

    /// Calls `work(index in the result, the four indices in the image, their weights)`.
    #[inline(always)]
    fn for_places(&self, mut work: impl FnMut(usize, [usize; 4], [f32; 4])) {
        let mut place = 0;
        for channel in 0..self.from.channels {
            let start = channel * self.from.pixels();
            for y in &self.lines {
                let (upper, lower) = (
                    start + y.first * self.from.width,
                    start + y.second * self.from.width,
                );
                for x in &self.columns {
                    let sources = [
                        upper + x.first,
                        upper + x.second,
                        lower + x.first,
                        lower + x.second,
                    ];
                    let (up, left) = (1.0 - y.weight, 1.0 - x.weight);
                    work(
                        place,
                        sources,
                        [
                            up * left,
                            up * x.weight,
                            y.weight * left,
                            y.weight * x.weight,
                        ],
                    );
                    place += 1;
                }
            }
        }
    }
}

impl Layer for Bilinear {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let x = pass.inputs.dense_of(0, self.from.size())?;
        let size = self.output_size();
        let y = pass.out.value_mut();
        y.resize(x.rows(), size);
        simd::for_row_blocks(
            y.values_mut(),
            size,
            #[inline(always)]
            |first, block| {
                for (row, y) in block.chunks_exact_mut(size).enumerate() {
                    let x = x.row(first + row);
                    self.for_places(|place, sources, weights| {
                        y[place] = (0..4).map(|i| weights[i] * x[sources[i]]).sum();
                    });
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
        let (arrived, size) = (pass.out.grad(), self.from.size());
        simd::for_row_blocks(
            source.grad_mut().values_mut(),
            size,
            #[inline(always)]
            |first, block| {
                for (row, grad) in block.chunks_exact_mut(size).enumerate() {
                    let dy = arrived.row(first + row);
                    self.for_places(|place, sources, weights| {
                        (0..4).for_each(|i| grad[sources[i]] += weights[i] * dy[place]);
                    });
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_meet_and_the_rest_lies_between() {
        let places = |from, to| {
            taps(from, to)
                .iter()
                .map(|t| t.first as f32 + t.weight)
                .collect::<Vec<_>>()
        };
        assert_eq!(places(3, 5), [0.0, 0.5, 1.0, 1.5, 2.0]);
        assert_eq!(places(5, 3), [0.0, 2.0, 4.0]);
        assert_eq!(places(4, 1), [0.0]);
        assert_eq!(places(1, 3), [0.0; 3]);
        assert!(
            taps(7, 23)
                .iter()
                .all(|t| t.second < 7 && (0.0..=1.0).contains(&t.weight))
        );
    }
}
