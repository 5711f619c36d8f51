//! Image convolution (`exconv`, `cudnn_conv`) and its transpose (`exconvt`, `cudnn_convt`).
//!
//! `y[f] = act(Σ_inputs Σ_c w[f,c] * x[c] + b)`, where `*` slides the filter over the channel. The weight of an input
//! is `filters × channels/groups × height × width`. The bias has one value per filter (`shared_biases`) or one
//! per pixel of each filter. The transpose maps feature maps to images: its weight is
//! `channels × filters/groups × height × width`, and what was `output` in the description is its input.

use config::model::ConvConfig;

use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::image::{Axis, Convolution, Sliding};
use crate::layer::{Backward, Build, Forward, Layer, Reads, full};
use crate::output::GradTarget;
use crate::parameters::ParameterIndex;
use crate::product::Accumulate;

/// The largest side, number of channels or number of filters that is accepted.
const LARGEST: usize = 1 << 16;

/// A convolution of one or more images, or its transpose.
pub(crate) struct Conv {
    size: usize,
    transposed: bool,
    inputs: Vec<(ParameterIndex, Convolution)>,
    finish: Finish,
}

/// Builds `exconv` and `cudnn_conv`.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    Ok(Box::new(Conv::new(build, false)?))
}

/// Builds `exconvt` and `cudnn_convt`.
pub(crate) fn build_transposed(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    Ok(Box::new(Conv::new(build, true)?))
}

impl Conv {
    fn new(build: &mut Build<'_>, transposed: bool) -> Result<Self, BuildError> {
        build.expect(!build.input_sizes.is_empty(), || {
            "it has no input".to_owned()
        })?;
        let filters = build.config.num_filters() as usize;
        let size = build.size();
        let mut inputs = Vec::new();
        for (input, config) in build.config.inputs.iter().enumerate() {
            let Some(conf) = &config.conv_conf else {
                return Err(build.error(format!("input {input} has no conv_conf")));
            };
            let convolution = convolution(build, conf, filters, transposed)?;
            let sizes = ConvSizes::of(&convolution, transposed);
            check_size(build, "input", build.input_sizes[input], sizes.input)?;
            check_size(build, "output", size, sizes.output)?;
            inputs.push((
                build.input_parameter(input, convolution.weight_size())?,
                convolution,
            ));
        }
        let finish = match build.config.shared_biases() {
            true => build.finish_shared(filters)?,
            false => build.finish()?,
        };
        Ok(Self {
            size,
            transposed,
            inputs,
            finish,
        })
    }
}

/// The convolution of a description, from an image or (transposed) to one.
pub(crate) fn convolution(
    build: &Build<'_>,
    conf: &ConvConfig,
    filters: usize,
    transposed: bool,
) -> Result<Convolution, BuildError> {
    let axis = |image: u32, window: u32, stride: u32, padding: u32, outputs: u32| Axis {
        image: image as usize,
        window: window as usize,
        stride: stride as usize,
        padding: padding as usize,
        outputs: outputs as usize,
    };
    let (width, out_width) = (conf.img_size, conf.output_x);
    let (height, out_height) = (
        conf.img_size_y.unwrap_or(width),
        conf.output_y.unwrap_or(out_width),
    );
    let (channels, groups) = (conf.channels as usize, conf.groups as usize);
    let windows = Sliding {
        channels: if transposed { filters } else { channels },
        y: axis(
            height,
            conf.filter_size_y,
            conf.stride_y,
            conf.padding_y,
            out_height,
        ),
        x: axis(
            width,
            conf.filter_size,
            conf.stride,
            conf.padding,
            out_width,
        ),
    };
    let maps = if transposed { channels } else { filters };
    let numbers = [channels, filters, groups];
    let fits = |n: usize| (1..=LARGEST).contains(&n);
    build.expect(numbers.into_iter().all(fits) && is_usable(&windows), || {
        format!("its sizes are not usable: {filters} filters, {conf:?}")
    })?;
    build.expect(
        channels.is_multiple_of(groups) && filters.is_multiple_of(groups),
        || format!("{groups} groups do not divide {channels} channels and {filters} filters"),
    )?;
    Ok(Convolution::new(windows, groups, maps))
}

/// Whether the sizes of the windows are in the accepted range.
pub(crate) fn is_usable(windows: &Sliding) -> bool {
    let small = |axis: &Axis| {
        axis.is_valid()
            && [
                axis.image,
                axis.window,
                axis.stride,
                axis.padding,
                axis.outputs,
            ]
            .into_iter()
            .all(|n| n <= LARGEST)
    };
    small(&windows.y) && small(&windows.x) && (1..=LARGEST).contains(&windows.channels)
}

/// Values per sample on both sides of a convolution layer.
pub(crate) struct ConvSizes {
    pub(crate) input: usize,
    pub(crate) output: usize,
}

impl ConvSizes {
    /// A transposed convolution reads maps and returns images.
    pub(crate) fn of(convolution: &Convolution, transposed: bool) -> Self {
        let (images, maps) = (convolution.image_size(), convolution.maps_size());
        let (input, output) = if transposed {
            (maps, images)
        } else {
            (images, maps)
        };
        Self { input, output }
    }
}

/// Returns an error unless a size is the one that follows from the geometry.
pub(crate) fn check_size(
    build: &Build<'_>,
    what: &str,
    got: usize,
    want: usize,
) -> Result<(), BuildError> {
    build.expect(got == want, || {
        format!("its {what} has size {got}, but its geometry means {want}")
    })
}

impl Layer for Conv {
    fn reads(&self) -> Reads {
        self.finish.reads()
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let Forward {
            inputs,
            out,
            parameters,
            ..
        } = pass;
        let rows = inputs.get(0).data.rows();
        let maps = out.value_mut();
        if self.transposed {
            maps.resize_zeroed(rows, self.size);
        } else {
            maps.resize(rows, self.size);
        }
        let mut mode = Accumulate::Overwrite;
        for (input, (weight, convolution)) in self.inputs.iter_mut().enumerate() {
            inputs.check_rows(input, rows)?;
            let x = inputs.dense_of(input, ConvSizes::of(convolution, self.transposed).input)?;
            let weight = parameters.full(*weight)?;
            if self.transposed {
                convolution.to_images(maps.values_mut(), x.values(), weight);
            } else {
                convolution.to_maps(maps.values_mut(), x.values(), weight, mode);
            }
            mode = Accumulate::Add;
        }
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
        let arrived = out.grad().values();
        for (input, (weight, convolution)) in self.inputs.iter_mut().enumerate() {
            let source = inputs.get_mut(input);
            if let Some((grad, mode)) = gradients.dense(*weight) {
                let x = source.value().values();
                let (images, maps) = if self.transposed {
                    (arrived, x)
                } else {
                    (x, arrived)
                };
                convolution.to_weight(grad, images, maps, mode);
            }
            if !source.wants_grad {
                continue;
            }
            let weight = full(parameters, *weight);
            if self.transposed {
                let GradTarget { grad, mode } = source.grad_target();
                convolution.to_maps(grad.values_mut(), arrived, weight, mode);
            } else {
                convolution.to_images(source.grad_mut().values_mut(), arrived, weight);
            }
        }
    }
}
