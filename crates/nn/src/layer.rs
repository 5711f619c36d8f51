//! What a layer is: built from its description, then forward and backward on the outputs of its inputs.
//!
//! To add a layer: a file under `layers/` with a struct that implements [`Layer`] and a `build` function, a line in
//! `layers::REGISTRY`, and a case in the gradient check (`gradient_check/`).
//!
//! A layer says with [`Layer::reads`] how far it looks: at single rows, at single samples, or at the whole batch.
//! Rows and samples that occur several times are computed once (see [`crate::domain`]); the executor hands every
//! layer inputs whose rows correspond, copying them together where it must, unless the layer
//! [gathers itself](Layer::gathers).

use std::sync::Arc;

use config::{LayerConfig, ModelConfig};

use crate::activation::Activation;
use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::gradients::Gradients;
use crate::matrix::Matrix;
use crate::noise::Noise;
use crate::output::Output;
use crate::parameters::{ParameterIndex, ParameterSpec, Parameters};

/// How far a layer looks to compute one row of its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reads {
    /// Row r of the output depends on row r of each input only. Stored rows are computed once, however often they
    /// occur; a single input's sharing passes through to the output.
    Rows,
    /// The output for a sample depends on that sample only, for instance on its whole sequence. Equal samples are
    /// computed once; inputs have one row for each position.
    Samples,
    /// Anything else: costs, statistics over the batch, noise. Inputs have one row for each position of the batch.
    Batch,
}

/// A layer of the network.
pub trait Layer: Send {
    /// How far it looks. [`Reads::Batch`] is always right, the others save work.
    fn reads(&self) -> Reads {
        Reads::Batch
    }

    /// Whether it reads the rows of its inputs through [`Inputs::index`] itself, instead of getting copies.
    fn gathers(&self) -> bool {
        false
    }

    /// Whether its output is a cost: one number for each row, which training makes small.
    fn is_cost(&self) -> bool {
        false
    }

    /// Whether a gradient can pass through it.
    fn is_differentiable(&self) -> bool {
        true
    }

    /// Parameters whose rows are looked up by the ids or sparse columns of an input: (input, parameter).
    fn lookups(&self) -> Vec<(usize, ParameterIndex)> {
        Vec::new()
    }

    /// Computes `pass.out` from `pass.inputs`. The layout of the output is already that of the first input's rows;
    /// a layer that makes other rows sets its own.
    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError>;

    /// Adds to the gradients of inputs and parameters, given the gradient of `pass.out`, which it may destroy.
    fn backward(&mut self, pass: &mut Backward<'_>);

    /// What the batch that went forward last does to parameters that the layer itself keeps, such as moving
    /// averages; nothing unless the batch was used to learn.
    fn assigned(&self) -> Vec<Assigned<'_>> {
        Vec::new()
    }
}

/// A change of a parameter that is no gradient: `value = keep · value + (1 - keep) · values`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Assigned<'a> {
    /// The parameter; it is static, no optimizer changes it.
    pub parameter: ParameterIndex,
    /// How much of the old value stays.
    pub keep: f32,
    /// What the batch says.
    pub values: &'a [f32],
}

impl Assigned<'_> {
    /// Changes the values of the parameter.
    pub fn apply(&self, values: &mut [f32]) {
        for (value, new) in values.iter_mut().zip(self.values) {
            *value = self.keep * *value + (1.0 - self.keep) * new;
        }
    }
}

/// How the batch is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// To learn: layers with noise, such as dropout, draw it from this seed.
    Train {
        /// Seed of this batch's noise.
        noise: u64,
    },
    /// To test or to predict: no noise.
    Test,
}

/// What a layer sees in forward.
pub struct Forward<'a> {
    /// The outputs it reads.
    pub inputs: Inputs<'a>,
    /// The output it writes.
    pub out: &'a mut Output,
    /// Values of all parameters.
    pub parameters: &'a Parameters,
    /// Shapes of all parameters.
    pub specs: &'a [ParameterSpec],
    /// How the batch is used.
    pub pass: Pass,
    /// This layer's own noise, if the batch is used to learn.
    pub noise: Noise,
    /// Whether the layer may store rows once that occur several times.
    pub share: bool,
}

/// What a layer sees in backward.
pub struct Backward<'a> {
    /// The outputs it read, whose gradients it adds to.
    pub inputs: Inputs<'a>,
    /// The output it wrote, with the gradient that arrived.
    pub out: &'a mut Output,
    /// Values of all parameters.
    pub parameters: &'a Parameters,
    /// Shapes of all parameters.
    pub specs: &'a [ParameterSpec],
    /// Gradients of all parameters.
    pub gradients: &'a mut Gradients,
}

impl Backward<'_> {
    /// All values of a parameter; forward has already checked that they are there.
    pub fn full(&self, parameter: ParameterIndex) -> &[f32] {
        full(self.parameters, parameter)
    }
}

/// All values of a parameter that forward has already read as a whole.
pub fn full(parameters: &Parameters, parameter: ParameterIndex) -> &[f32] {
    parameters
        .full(parameter)
        .expect("forward read it as a whole")
}

/// One connection into a layer.
pub(crate) struct Edge {
    /// The layer it comes from.
    pub source: usize,
    /// Stored row of the source for each row of this layer; `None`: they are the same.
    pub index: Option<Arc<[u32]>>,
    /// Whether the layer gets `staged`, the rows copied together, instead of the source.
    pub copied: bool,
    /// The copy.
    pub staged: Output,
}

/// The outputs that a layer reads.
pub struct Inputs<'a> {
    pub(crate) outputs: &'a mut [Output],
    pub(crate) edges: &'a mut [Edge],
}

impl Inputs<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.edges.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }

    /// One of them.
    pub fn get(&self, input: usize) -> &Output {
        let edge = &self.edges[input];
        if edge.copied {
            &edge.staged
        } else {
            &self.outputs[edge.source]
        }
    }

    /// One of them, to add to its gradient.
    pub fn get_mut(&mut self, input: usize) -> &mut Output {
        let edge = &mut self.edges[input];
        if edge.copied {
            &mut edge.staged
        } else {
            &mut self.outputs[edge.source]
        }
    }

    /// Whether the gradient of one of them is wanted.
    pub fn wants_grad(&self, input: usize) -> bool {
        self.get(input).wants_grad
    }

    /// For a layer that gathers itself: the stored row of the input for each row of the layer; `None`: the same.
    pub fn index(&self, input: usize) -> Option<&[u32]> {
        let edge = &self.edges[input];
        if edge.copied {
            None
        } else {
            edge.index.as_deref()
        }
    }

    /// Whether two inputs are the same layer.
    pub fn same(&self, a: usize, b: usize) -> bool {
        self.edges[a].source == self.edges[b].source
    }

    /// The dense values of an input.
    pub fn dense(&self, input: usize) -> Result<&Matrix, LayerError> {
        self.get(input).dense(input)
    }

    /// The dense values of an input, which must have this width.
    pub fn dense_of(&self, input: usize, cols: usize) -> Result<&Matrix, LayerError> {
        let matrix = self.dense(input)?;
        if matrix.cols() != cols {
            return Err(LayerError::Width {
                input,
                got: matrix.cols(),
                want: cols,
            });
        }
        Ok(matrix)
    }

    /// Checks that an input has this many rows.
    pub fn check_rows(&self, input: usize, rows: usize) -> Result<(), LayerError> {
        let got = self.get(input).data.rows();
        if got == rows {
            Ok(())
        } else {
            Err(LayerError::Rows {
                input,
                got,
                want: rows,
            })
        }
    }
}

/// What a layer is built from.
pub struct Build<'a> {
    /// Its description.
    pub config: &'a LayerConfig,
    /// Width of each input.
    pub input_sizes: Vec<usize>,
    pub(crate) model: &'a ModelConfig,
    pub(crate) specs: &'a [ParameterSpec],
    pub(crate) used: Vec<ParameterIndex>,
}

impl Build<'_> {
    /// Width of the output.
    pub fn size(&self) -> usize {
        self.config.size() as usize
    }

    /// The description of the layer that an input comes from.
    pub fn input_config(&self, input: usize) -> Option<&LayerConfig> {
        let name = &self.config.inputs.get(input)?.input_layer_name;
        self.model.layers.iter().find(|layer| layer.name == *name)
    }

    /// Height and width of the images that an input says it holds.
    pub fn input_frame(&self, input: usize) -> Option<(usize, usize)> {
        let config = self.input_config(input)?;
        let frame = (config.height() as usize, config.width() as usize);
        (frame.0 > 0 && frame.1 > 0).then_some(frame)
    }

    /// An error about this layer.
    pub fn error(&self, reason: impl Into<String>) -> BuildError {
        BuildError::Layer {
            layer: self.config.name.clone(),
            kind: self.config.r#type.clone(),
            reason: reason.into(),
        }
    }

    /// An error unless the number of inputs is one of these.
    pub fn expect_inputs(&self, counts: std::ops::RangeInclusive<usize>) -> Result<(), BuildError> {
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

    /// An error unless a condition holds.
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

    /// The parameter of this name, with so many values.
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

    /// How many values the parameter on the edge of an input has; 0 if there is none.
    pub fn input_parameter_size(&self, input: usize) -> usize {
        let name = self.config.inputs[input].input_parameter_name.as_deref();
        let spec = self.specs.iter().find(|spec| Some(&*spec.name) == name);
        spec.map_or(0, |spec| spec.size())
    }

    /// The parameter on the edge of an input, with so many values.
    pub fn input_parameter(
        &mut self,
        input: usize,
        size: usize,
    ) -> Result<ParameterIndex, BuildError> {
        match self.config.inputs[input].input_parameter_name.clone() {
            Some(name) if !name.is_empty() => self.parameter(&name, size),
            _ => Err(self.error(format!("input {input} needs a parameter"))),
        }
    }

    /// The parameter on the edge of an input, if there is one.
    pub fn optional_input_parameter(
        &mut self,
        input: usize,
        size: usize,
    ) -> Result<Option<ParameterIndex>, BuildError> {
        match self.config.inputs[input].input_parameter_name() {
            "" => Ok(None),
            _ => self.input_parameter(input, size).map(Some),
        }
    }

    /// The bias, if there is one, with so many values.
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

    /// Bias and activation of the layer: one value for each column, or for equally many neighbouring columns if
    /// `shared_biases` and `bias_size` say so.
    pub fn finish(&mut self) -> Result<Finish, BuildError> {
        match self.config.bias_size() as usize {
            count if count > 0 && self.config.shared_biases() => self.finish_shared(count),
            _ => {
                let bias = self.bias(self.size())?;
                self.finish_with(bias)
            }
        }
    }

    /// Bias and activation of the layer, with so many biases, each for equally many neighbouring columns.
    pub fn finish_shared(&mut self, count: usize) -> Result<Finish, BuildError> {
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
    pub fn finish_with(&mut self, bias: Option<ParameterIndex>) -> Result<Finish, BuildError> {
        let activation = self.activation(self.config.active_type())?;
        self.expect(
            activation != Activation::SequenceSoftmax || self.size() == 1,
            || format!("sequence_softmax needs size 1, not {}", self.size()),
        )?;
        Ok(Finish::new(bias, activation))
    }
}
