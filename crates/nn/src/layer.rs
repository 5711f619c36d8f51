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

use crate::error::LayerError;
use crate::gradients::Gradients;
use crate::matrix::Matrix;
use crate::noise::Noise;
use crate::output::Output;
use crate::parameters::{ParameterIndex, ParameterSpec, Parameters};

pub use crate::build::Build;

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
