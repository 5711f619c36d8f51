//! Image pooling (`pool`) and spatial pyramid pooling (`spp`).
//!
//! `pool` takes the maximum or the mean over windows of each channel. `spp` does so with `1, 2, …, 2ʰ⁻¹` windows to a
//! side, whatever the size of the image, and concatenates the results: channels × (4ʰ - 1)/3 values.

use config::model::PoolConfig;

use crate::error::{BuildError, LayerError};
use crate::image::pooling::Columns;
use crate::image::{Axis, PoolKind, Pooling, Shape, Sliding};
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::layers::image::conv::is_usable;

/// The highest pyramid that is accepted: 512 windows to a side.
const HIGHEST: u32 = 10;

/// One or more poolings of the same image, one after another.
pub(crate) struct ImagePool {
    levels: Vec<Pooling>,
    size: usize,
}

/// Builds `pool`.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    let Some(conf) = &build.config.inputs[0].pool_conf else {
        return Err(build.error("its input has no pool_conf"));
    };
    let level = pooling(build, conf)?;
    ImagePool::boxed(build, vec![level])
}

/// Builds `spp`.
pub(crate) fn build_pyramid(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    let Some(conf) = &build.config.inputs[0].spp_conf else {
        return Err(build.error("its input has no spp_conf"));
    };
    let kind = kind(build, &conf.pool_type)?;
    let height = conf.pyramid_height;
    build.expect((1..=HIGHEST).contains(&height), || {
        format!("a pyramid of height {height} is not usable")
    })?;
    let shape = Shape::of(&conf.image_conf);
    let levels = (0..height)
        .map(|level| Pooling {
            kind,
            windows: Sliding {
                channels: shape.channels,
                y: pyramid_axis(shape.height, 1 << level),
                x: pyramid_axis(shape.width, 1 << level),
            },
        })
        .collect();
    ImagePool::boxed(build, levels)
}

/// Windows that split an axis into equal bins, padded if the bins together are longer than the image.
fn pyramid_axis(image: usize, bins: usize) -> Axis {
    let window = image.div_ceil(bins);
    Axis {
        image,
        window,
        stride: window,
        padding: (window * bins - image).div_ceil(2),
        outputs: bins,
    }
}

fn kind(build: &Build<'_>, name: &str) -> Result<PoolKind, BuildError> {
    PoolKind::of_name(name).ok_or_else(|| build.error(format!("pool type '{name}' is not known")))
}

/// The pooling of a description; `_y` fields that are absent equal the others.
fn pooling(build: &Build<'_>, conf: &PoolConfig) -> Result<Pooling, BuildError> {
    let axis = |image: u32, window: u32, stride: u32, padding: u32, outputs: u32| Axis {
        image: image as usize,
        window: window as usize,
        stride: stride as usize,
        padding: padding as usize,
        outputs: outputs as usize,
    };
    let (image, window, stride) = (conf.img_size, conf.size_x, conf.stride);
    let (padding, outputs) = (conf.padding(), conf.output_x);
    Ok(Pooling {
        kind: kind(build, &conf.pool_type)?,
        windows: Sliding {
            channels: conf.channels as usize,
            y: axis(
                conf.img_size_y.unwrap_or(image),
                conf.size_y.unwrap_or(window),
                conf.stride_y.unwrap_or(stride),
                conf.padding_y.unwrap_or(padding),
                conf.output_y.unwrap_or(outputs),
            ),
            x: axis(image, window, stride, padding, outputs),
        },
    })
}

impl ImagePool {
    fn boxed(build: &Build<'_>, levels: Vec<Pooling>) -> Result<Box<dyn Layer>, BuildError> {
        for level in &levels {
            build.expect(is_usable(&level.windows), || {
                format!("its sizes are not usable: {:?}", level.windows)
            })?;
            let (got, want) = (build.input_sizes[0], level.windows.image_size());
            build.expect(got == want, || {
                format!("its input has size {got}, but its geometry means {want}")
            })?;
        }
        let size = levels.iter().map(Pooling::output_size).sum();
        build.expect(size == build.size(), || {
            format!(
                "it has size {}, but its geometry means {size}",
                build.size()
            )
        })?;
        Ok(Box::new(Self { levels, size }))
    }
}

impl Layer for ImagePool {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let images = pass
            .inputs
            .dense_of(0, self.levels[0].windows.image_size())?;
        let out = pass.out.value_mut();
        out.resize(images.rows(), self.size);
        let mut offset = 0;
        for level in &self.levels {
            level.forward(out.values_mut(), self.size, offset, images.values());
            offset += level.output_size();
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let source = pass.inputs.get_mut(0);
        if !source.wants_grad {
            return;
        }
        let (grad, images) = source.grad_and_value();
        let mut arrived = Columns {
            values: pass.out.value().values(),
            grads: pass.out.grad().values(),
            cols: self.size,
            offset: 0,
        };
        for level in &self.levels {
            level.backward(grad.values_mut(), images.values(), &arrived);
            arrived.offset += level.output_size();
        }
    }
}
