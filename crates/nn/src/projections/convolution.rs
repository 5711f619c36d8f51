//! Convolutions inside mixed layers: as a projection with a learned filter, and as an operator whose second input is
//! the filter of each row. Both also exist transposed.

use config::{OperatorConfig, ProjectionConfig};

use super::{Operator, Projection};
use crate::error::{BuildError, LayerError};
use crate::image::Convolution;
use crate::layer::{Backward, Build, Forward, full};
use crate::layers::image::conv::{ConvSizes, check_size, convolution};
use crate::matrix::Matrix;
use crate::parameters::ParameterIndex;
use crate::product::Accumulate;

/// `y += w * x`.
pub(super) struct ConvProjection {
    weight: ParameterIndex,
    convolution: Convolution,
    transposed: bool,
}

impl ConvProjection {
    /// The convolution of a description.
    pub(super) fn new(
        build: &mut Build<'_>,
        input: usize,
        config: &ProjectionConfig,
    ) -> Result<Self, BuildError> {
        let transposed = config.r#type == "convt";
        let filters = usize::try_from(config.num_filters()).unwrap_or(0);
        let Some(conf) = &config.conv_conf else {
            return Err(build.error(format!("projection of input {input} has no conv_conf")));
        };
        let convolution = convolution(build, conf, filters, transposed)?;
        let sizes = ConvSizes::of(&convolution, transposed);
        check_size(build, "input", build.input_sizes[input], sizes.input)?;
        check_size(
            build,
            "projection",
            config.output_size as usize,
            sizes.output,
        )?;
        Ok(Self {
            weight: build.input_parameter(input, convolution.weight_size())?,
            convolution,
            transposed,
        })
    }
}

impl Projection for ConvProjection {
    fn forward(
        &mut self,
        pass: &Forward<'_>,
        input: usize,
        out: &mut Matrix,
    ) -> Result<(), LayerError> {
        let x = pass.inputs.dense_of(
            input,
            ConvSizes::of(&self.convolution, self.transposed).input,
        )?;
        let weight = pass.parameters.full(self.weight)?;
        if self.transposed {
            self.convolution
                .to_images(out.values_mut(), x.values(), weight);
        } else {
            self.convolution
                .to_maps(out.values_mut(), x.values(), weight, Accumulate::Add);
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>, input: usize, grad: &Matrix) {
        let source = pass.inputs.get_mut(input);
        let arrived = grad.values();
        if let Some((weight, mode)) = pass.gradients.dense(self.weight) {
            let x = source.value().values();
            let (images, maps) = if self.transposed {
                (arrived, x)
            } else {
                (x, arrived)
            };
            self.convolution.to_weight(weight, images, maps, mode);
        }
        if !source.wants_grad {
            return;
        }
        let weight = full(pass.parameters, self.weight);
        let to = source.grad_mut().values_mut();
        if self.transposed {
            self.convolution
                .to_maps(to, arrived, weight, Accumulate::Add);
        } else {
            self.convolution.to_images(to, arrived, weight);
        }
    }
}

/// `y += b * a`: every row of the first input with its own filter, the row of the second.
pub(super) struct ConvOperator {
    convolution: Convolution,
    transposed: bool,
}

impl ConvOperator {
    /// The convolution of a description.
    pub(super) fn new(build: &Build<'_>, config: &OperatorConfig) -> Result<Self, BuildError> {
        let transposed = config.r#type == "convt";
        let filters = usize::try_from(config.num_filters()).unwrap_or(0);
        let (Some(conf), &[image, filter]) = (&config.conv_conf, &config.input_indices[..]) else {
            return Err(build.error("a convolution operator needs a conv_conf and two inputs"));
        };
        let convolution = convolution(build, conf, filters, transposed)?;
        let sizes = ConvSizes::of(&convolution, transposed);
        check_size(
            build,
            "image",
            build.input_sizes[image as usize],
            sizes.input,
        )?;
        check_size(
            build,
            "filter",
            build.input_sizes[filter as usize],
            convolution.weight_size(),
        )?;
        check_size(build, "operator", config.output_size as usize, sizes.output)?;
        Ok(Self {
            convolution,
            transposed,
        })
    }
}

impl Operator for ConvOperator {
    fn forward(
        &mut self,
        pass: &Forward<'_>,
        inputs: &[usize],
        out: &mut Matrix,
    ) -> Result<(), LayerError> {
        let x = pass.inputs.dense_of(
            inputs[0],
            ConvSizes::of(&self.convolution, self.transposed).input,
        )?;
        let filters = pass
            .inputs
            .dense_of(inputs[1], self.convolution.weight_size())?;
        for ((out, x), filter) in out
            .iter_rows_mut()
            .zip(x.iter_rows())
            .zip(filters.iter_rows())
        {
            if self.transposed {
                self.convolution.to_images(out, x, filter);
            } else {
                self.convolution.to_maps(out, x, filter, Accumulate::Add);
            }
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>, inputs: &[usize], grad: &Matrix) {
        if pass.inputs.wants_grad(inputs[1]) {
            let x = pass.inputs.get(inputs[0]).value().clone();
            let filters = pass.inputs.get_mut(inputs[1]).grad_mut();
            for ((filter, x), arrived) in filters
                .iter_rows_mut()
                .zip(x.iter_rows())
                .zip(grad.iter_rows())
            {
                let (image, maps) = if self.transposed {
                    (arrived, x)
                } else {
                    (x, arrived)
                };
                self.convolution
                    .to_weight(filter, image, maps, Accumulate::Add);
            }
        }
        if pass.inputs.wants_grad(inputs[0]) {
            let filters = pass.inputs.get(inputs[1]).value().clone();
            let grads = pass.inputs.get_mut(inputs[0]).grad_mut();
            for ((to, filter), arrived) in grads
                .iter_rows_mut()
                .zip(filters.iter_rows())
                .zip(grad.iter_rows())
            {
                if self.transposed {
                    self.convolution
                        .to_maps(to, arrived, filter, Accumulate::Add);
                } else {
                    self.convolution.to_images(to, arrived, filter);
                }
            }
        }
    }
}
