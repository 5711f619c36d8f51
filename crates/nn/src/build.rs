//! The inputs of a layer's builder: the layer's description and the model around it, with the checks that builders share.
//!
//! Every check that fails returns an error that names the layer and its type.

use std::sync::Arc;

use config::{LayerConfig, ModelConfig};

use crate::activation::Activation;
use crate::error::BuildError;
use crate::finish::Finish;
use crate::parameters::{ParameterIndex, ParameterSpec};

/// The inputs of a layer's builder.
pub struct Build<'a> {
    /// The layer's part of the configuration.
    pub config: &'a LayerConfig,
    /// Width of each input.
    pub input_sizes: Vec<usize>,
    /// Whether each input's gradient is needed.
    pub(crate) wants_grad: Vec<bool>,
    pub(crate) model: &'a Arc<ModelConfig>,
    pub(crate) specs: &'a Arc<[ParameterSpec]>,
    /// Whether rows that occur several times may be stored once.
    pub(crate) share: bool,
    pub(crate) used: Vec<ParameterIndex>,
}

/// The size of an image.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ImageFrame {
    pub(crate) height: usize,
    pub(crate) width: usize,
}

impl Build<'_> {
    /// Width of the output.
    pub fn size(&self) -> usize {
        self.config.size() as usize
    }

    /// The description of the layer that an input comes from.
    pub(crate) fn input_config(&self, input: usize) -> Option<&LayerConfig> {
        let name = &self.config.inputs.get(input)?.input_layer_name;
        self.model.layers.iter().find(|layer| layer.name == *name)
    }

    /// The size of the images that an input's description declares.
    pub(crate) fn input_frame(&self, input: usize) -> Option<ImageFrame> {
        let config = self.input_config(input)?;
        let frame = ImageFrame {
            height: config.height() as usize,
            width: config.width() as usize,
        };
        (frame.height > 0 && frame.width > 0).then_some(frame)
    }

    /// An error that names this layer and its type.
    pub fn error(&self, reason: impl Into<String>) -> BuildError {
        BuildError::Layer {
            layer: self.config.name.clone(),
            kind: self.config.r#type.clone(),
            reason: reason.into(),
        }
    }

    /// Returns an error unless the number of inputs is in this range.
    pub(crate) fn expect_inputs(
        &self,
        counts: std::ops::RangeInclusive<usize>,
    ) -> Result<(), BuildError> {
        if counts.contains(&self.input_sizes.len()) {
            return Ok(());
        }
        Err(self.error(format!(
            "it has {} inputs, but takes {} to {}",
            self.input_sizes.len(),
            counts.start(),
            counts.end()
        )))
    }

    /// Returns an error unless a condition holds.
    pub fn expect(
        &self,
        condition: bool,
        reason: impl FnOnce() -> String,
    ) -> Result<(), BuildError> {
        if condition {
            Ok(())
        } else {
            Err(self.error(reason()))
        }
    }

    /// The parameter of this name, which must have `size` values.
    pub fn parameter(&mut self, name: &str, size: usize) -> Result<ParameterIndex, BuildError> {
        let index = self
            .specs
            .iter()
            .position(|spec| spec.name == name)
            .ok_or_else(|| BuildError::UnknownParameter {
                layer: self.config.name.clone(),
                parameter: name.to_owned(),
            })?;
        let got = self.specs[index].size();
        if got != size {
            return Err(self.error(format!(
                "parameter '{name}' has {got} values, but {size} are needed"
            )));
        }
        self.used.push(ParameterIndex(index));
        Ok(ParameterIndex(index))
    }

    /// Number of values of the parameter on the edge of an input; 0 if there is none.
    pub(crate) fn input_parameter_size(&self, input: usize) -> usize {
        let name = self.config.inputs[input].input_parameter_name.as_deref();
        let spec = self.specs.iter().find(|spec| Some(&*spec.name) == name);
        spec.map_or(0, |spec| spec.size())
    }

    /// The parameter on the edge of an input, which must have this many values.
    pub(crate) fn input_parameter(
        &mut self,
        input: usize,
        size: usize,
    ) -> Result<ParameterIndex, BuildError> {
        match self.config.inputs[input].input_parameter_name.clone() {
            Some(name) if !name.is_empty() => self.parameter(&name, size),
            _ => Err(self.error(format!("input {input} needs a parameter"))),
        }
    }

    /// The bias, if there is one, which must have `size` values.
    pub fn bias(&mut self, size: usize) -> Result<Option<ParameterIndex>, BuildError> {
        match self.config.bias_parameter_name.clone() {
            Some(name) if !name.is_empty() => self.parameter(&name, size).map(Some),
            _ => Ok(None),
        }
    }

    /// An activation function by its v1 name.
    pub fn activation(&self, name: &str) -> Result<Activation, BuildError> {
        Activation::of_name(name)
            .ok_or_else(|| self.error(format!("activation '{name}' is not known")))
    }

    /// An activation function for gates, by its v1 name.
    pub fn gate(&self, name: &str) -> Result<Activation, BuildError> {
        let activation = self.activation(name)?;
        self.expect(activation.is_gate(), || {
            format!("activation '{name}' cannot be used inside a recurrent layer")
        })?;
        Ok(activation)
    }

    /// Bias and activation of the layer: one value per column, or one per group of neighbouring columns if
    /// `shared_biases` and `bias_size` ask for it.
    pub fn finish(&mut self) -> Result<Finish, BuildError> {
        match self.config.bias_size() as usize {
            count if count > 0 && self.config.shared_biases() => self.finish_shared(count),
            _ => {
                let bias = self.bias(self.size())?;
                self.finish_with(bias)
            }
        }
    }

    /// Bias and activation of the layer, with `count` bias values, each for the same number of neighbouring columns.
    pub(crate) fn finish_shared(&mut self, count: usize) -> Result<Finish, BuildError> {
        let size = self.size();
        self.expect(count > 0 && size.is_multiple_of(count), || {
            format!("{count} biases cannot be shared by {size} columns")
        })?;
        let bias = self.bias(count)?;
        let finish = self.finish_with(None)?;
        Ok(match bias {
            Some(bias) => finish.with_shared_bias(bias, size / count),
            None => finish,
        })
    }

    /// Activation of the layer after the given bias.
    pub(crate) fn finish_with(
        &mut self,
        bias: Option<ParameterIndex>,
    ) -> Result<Finish, BuildError> {
        let activation = self.activation(self.config.active_type())?;
        self.expect(
            activation != Activation::SequenceSoftmax || self.size() == 1,
            || format!("sequence_softmax needs size 1, not {}", self.size()),
        )?;
        Ok(Finish::new(bias, activation))
    }
}
