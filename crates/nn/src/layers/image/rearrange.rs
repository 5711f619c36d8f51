//! Layers that only move values inside an image: `rotate`, `pad` and `blockexpand`.
//!
//! - `rotate` turns every channel by 90° clockwise.
//! - `pad` adds channels, lines and columns of zeros around an image.
//! - `blockexpand` splits an image into a sequence of (overlapping) blocks, line by line; a block is one row.
//!
//! Each is a list with the source index of every value of the result; backward uses the same list.

use std::sync::Arc;

use config::LayerConfig;
use config::model::BlockExpandConfig;

use crate::build::ImageFrame;
use crate::error::{BuildError, LayerError};
use crate::image::{Axis, Shape, Sliding};
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::layers::image::conv::is_usable;
use crate::simd;

/// Marks a value of the result that is 0.
const NOTHING: u32 = u32::MAX;

/// Moves the values of each image.
pub(crate) struct Rearrange {
    from: usize,
    /// Index in the image of each value of the result.
    places: Vec<u32>,
    /// Number of rows that an image becomes, as a sequence; `None`: it stays one row.
    blocks: Option<usize>,
}

pub(crate) fn build_rotate(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    let (height, width) = (
        build.config.height() as usize,
        build.config.width() as usize,
    );
    let size = build.input_sizes[0];
    let pixels = height.saturating_mul(width);
    build.expect(
        pixels > 0 && size.is_multiple_of(pixels) && size == build.size(),
        || format!("an input of size {size} is not made of channels of {height} x {width}"),
    )?;
    let turned = |place: usize| {
        let (channel, pixel) = (place / pixels, place % pixels);
        let (line, column) = (pixel / height, pixel % height);
        channel * pixels + (height - 1 - column) * width + line
    };
    Rearrange::boxed(
        build,
        (0..size).map(|place| turned(place) as u32).collect(),
        None,
    )
}

pub(crate) fn build_pad(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    let Some(conf) = &build.config.inputs[0].pad_conf else {
        return Err(build.error("its input has no pad_conf"));
    };
    let shape = Shape::of(&conf.image_conf);
    build.expect(shape.size() == build.input_sizes[0], || {
        format!(
            "its input has size {}, but its geometry means {}",
            build.input_sizes[0],
            shape.size()
        )
    })?;
    let (Some(channels), Some(lines), Some(columns)) = (
        padded(&conf.pad_c, shape.channels),
        padded(&conf.pad_h, shape.height),
        padded(&conf.pad_w, shape.width),
    ) else {
        return Err(build.error("pad_c, pad_h and pad_w need two numbers each"));
    };
    let total = [&channels, &lines, &columns]
        .iter()
        .try_fold(1usize, |n, axis| n.checked_mul(axis.len()));
    build.expect(total == Some(build.size()), || {
        format!(
            "it has size {}, but its geometry means {total:?}",
            build.size()
        )
    })?;
    let mut places = Vec::with_capacity(build.size());
    for channel in &channels {
        for line in &lines {
            for column in &columns {
                places.push(match (channel, line, column) {
                    (Some(c), Some(y), Some(x)) => {
                        ((c * shape.height + y) * shape.width + x) as u32
                    }
                    _ => NOTHING,
                });
            }
        }
    }
    Rearrange::boxed(build, places, None)
}

/// The positions along an axis after padding it, `None` for those that are new; `None` if `pad` is not two values.
fn padded(pad: &[u32], length: usize) -> Option<Vec<Option<usize>>> {
    let &[before, after] = pad else { return None };
    if before.max(after) >= 1 << 16 {
        return None;
    }
    let new = |n: u32| std::iter::repeat_n(None, n as usize);
    Some(
        new(before)
            .chain((0..length).map(Some))
            .chain(new(after))
            .collect(),
    )
}

/// The blocks of an image; sizes of 0 mean `below`, those of the layer below.
fn blocks(conf: &BlockExpandConfig, below: ImageFrame) -> Sliding {
    let ImageFrame { height, width } = match (conf.img_size_y as usize, conf.img_size_x as usize) {
        (0, _) | (_, 0) => below,
        (height, width) => ImageFrame { height, width },
    };
    let axis = |image: usize, window: u32, stride: u32, padding: u32| {
        let window = window as usize;
        let (stride, padding) = (stride as usize, padding as usize);
        let rest = (2 * padding + image).saturating_sub(window);
        Axis {
            image,
            window,
            stride,
            padding,
            outputs: 1 + rest.div_ceil(stride.max(1)),
        }
    };
    Sliding {
        channels: conf.channels as usize,
        y: axis(height, conf.block_y, conf.stride_y, conf.padding_y),
        x: axis(width, conf.block_x, conf.stride_x, conf.padding_x),
    }
}

/// Number of blocks on both axes of a `blockexpand` layer above such images; `None` if it is not one.
pub(crate) fn block_grid(layer: &LayerConfig, below: ImageFrame) -> Option<ImageFrame> {
    let conf = layer.inputs.first()?.block_expand_conf.as_ref()?;
    let windows = blocks(conf, below);
    Some(ImageFrame {
        height: windows.y.outputs,
        width: windows.x.outputs,
    })
}

/// Builds `blockexpand`.
pub(crate) fn build_block_expand(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    let Some(conf) = &build.config.inputs[0].block_expand_conf else {
        return Err(build.error("its input has no block_expand_conf"));
    };
    let windows = blocks(conf, build.input_frame(0).unwrap_or_default());
    build.expect(is_usable(&windows), || {
        format!("its sizes are not usable: {conf:?}")
    })?;
    let (got, want) = (build.input_sizes[0], windows.image_size());
    build.expect(got == want, || {
        format!("its input has size {got}, but its geometry means {want}")
    })?;
    let (got, want) = (build.size(), windows.window_size());
    build.expect(got == want, || {
        format!("it has size {got}, but its geometry means {want}")
    })?;
    let places = windows
        .places()
        .into_iter()
        .map(|place| place.map_or(NOTHING, |place| place as u32))
        .collect();
    Rearrange::boxed(build, places, Some(windows.positions()))
}

impl Rearrange {
    fn boxed(
        build: &Build<'_>,
        places: Vec<u32>,
        blocks: Option<usize>,
    ) -> Result<Box<dyn Layer>, BuildError> {
        let from = build.input_sizes[0];
        build.expect(from < NOTHING as usize, || {
            format!("an input of size {from} is too large")
        })?;
        Ok(Box::new(Self {
            from,
            places,
            blocks,
        }))
    }
}

impl Layer for Rearrange {
    fn reads(&self) -> Reads {
        if self.blocks.is_some() {
            Reads::Samples
        } else {
            Reads::Rows
        }
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let x = pass.inputs.dense_of(0, self.from)?;
        let to = self.places.len();
        if let Some(blocks) = self.blocks {
            if pass.out.layout.sequences.is_some() {
                return Err(LayerError::Value(
                    "its input is a sequence, but a single image is needed".to_owned(),
                ));
            }
            let offsets: Arc<[u32]> = (0..=x.rows()).map(|row| (row * blocks) as u32).collect();
            pass.out.layout.sequences = Some(offsets);
        }
        let blocks = self.blocks.unwrap_or(1);
        let y = pass.out.value_mut();
        y.resize(x.rows() * blocks, to / blocks);
        simd::for_row_blocks(
            y.values_mut(),
            to,
            #[inline(always)]
            |first, block| {
                for (row, y) in block.chunks_exact_mut(to).enumerate() {
                    let x = x.row(first + row);
                    for (y, &place) in y.iter_mut().zip(&self.places) {
                        *y = if place == NOTHING {
                            0.0
                        } else {
                            x[place as usize]
                        };
                    }
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
        let (arrived, to) = (pass.out.grad().values(), self.places.len());
        simd::for_row_blocks(
            source.grad_mut().values_mut(),
            self.from,
            #[inline(always)]
            |first, block| {
                for (row, grad) in block.chunks_exact_mut(self.from).enumerate() {
                    let arrived = &arrived[(first + row) * to..(first + row + 1) * to];
                    for (dy, &place) in arrived.iter().zip(&self.places) {
                        if place != NOTHING {
                            grad[place as usize] += dy;
                        }
                    }
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use config::model::{BlockExpandConfig, ImageConfig, PadConfig};

    use crate::gradient_check::{LayerBuilder, ModelBuilder};
    use crate::{Batch, BatchUse, Network, Parameters, Slot, SlotData};

    /// The output of a layer for images with the values 1, 2, 3 …: rows, and where sequences start.
    fn result(layer: LayerBuilder, size: u64) -> (Vec<f32>, Option<Vec<u32>>) {
        let mut network =
            Network::new(&ModelBuilder::new().data("x", size).layer(layer).0).unwrap();
        let batch = Batch {
            samples: 2,
            slots: vec![Slot::plain(SlotData::Dense {
                dim: size as usize,
                values: (1..=2 * size).map(|x| x as f32).collect(),
            })],
        };
        network
            .forward(&Parameters::default(), &batch, BatchUse::Test)
            .unwrap();
        let view = network.output("y").unwrap();
        (
            view.to_dense().unwrap(),
            view.sequences().map(<[u32]>::to_vec),
        )
    }

    #[test]
    fn rotation_is_clockwise() {
        let layer = LayerBuilder::new("rotate", "y", 6)
            .input("x")
            .with(|c| (c.height, c.width) = (Some(2), Some(3)));
        // 1 2 3      4 1
        // 4 5 6  ->  5 2
        //            6 3
        assert_eq!(
            result(layer, 6).0,
            [
                4.0, 1.0, 5.0, 2.0, 6.0, 3.0, 10.0, 7.0, 11.0, 8.0, 12.0, 9.0
            ]
        );
    }

    #[test]
    fn padding_surrounds_the_image() {
        let layer = LayerBuilder::new("pad", "y", 12).input("x").with(|c| {
            let (channels, img_size) = (1, 2);
            let img_size_y = Some(1);
            c.inputs[0].pad_conf = Some(PadConfig {
                image_conf: ImageConfig {
                    channels,
                    img_size,
                    img_size_y,
                },
                pad_c: vec![1, 0],
                pad_h: vec![0, 1],
                pad_w: vec![1, 0],
            })
        });
        let zeros = [0.0; 6];
        let want = [
            &zeros[..],
            &[0.0, 1.0, 2.0],
            &zeros[..3],
            &zeros[..],
            &[0.0, 3.0, 4.0],
            &zeros[..3],
        ]
        .concat();
        assert_eq!(result(layer, 2).0, want);
    }

    #[test]
    fn blocks_follow_each_other_line_by_line() {
        let layer = LayerBuilder::new("blockexpand", "y", 4)
            .input("x")
            .with(|c| {
                c.inputs[0].block_expand_conf = Some(BlockExpandConfig {
                    channels: 2,
                    stride_x: 2,
                    stride_y: 1,
                    block_x: 2,
                    block_y: 1,
                    img_size_x: 3,
                    img_size_y: 2,
                    ..BlockExpandConfig::default()
                })
            });
        let (rows, sequences) = result(layer, 12);
        assert_eq!(sequences.unwrap(), [0, 4, 8]);
        let want = [
            1.0, 2.0, 7.0, 8.0, 3.0, 0.0, 9.0, 0.0, 4.0, 5.0, 10.0, 11.0, 6.0, 0.0, 12.0, 0.0,
        ];
        assert_eq!(rows[..16], want);
    }
}
