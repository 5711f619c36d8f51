//! The interface of a layer: it is built from its description, then runs forward and backward on its inputs.
//!
//! To add a layer: a file under `layers/` with a struct that implements [`Layer`] and a `build` function, a line in
//! `layers::REGISTRY`, and a case in the gradient check (`gradient_check/`). A layer also has a Python half, which
//! describes it: CONTRIBUTING.md lists the files of both halves in order.
//!
//! A layer declares with [`Layer::reads`] what one row of its output depends on: single rows, single samples, or the
//! whole batch. Rows and samples that occur several times are computed once (see [`crate::domain`]). The executor gives
//! every layer inputs whose rows correspond, and copies rows where it must, unless the layer
//! [gathers itself](Layer::gathers).

use std::sync::Arc;

use crate::domain::Layout;
use crate::error::LayerError;
use crate::gradients::Gradients;
use crate::matrix::Matrix;
use crate::noise::Noise;
use crate::output::Output;
use crate::parameters::{ParameterIndex, ParameterSpec, Parameters};
use crate::product::PackedWeights;

pub(crate) use crate::build::Build;

/// What one row of a layer's output depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reads {
    /// Row r of the output depends on row r of each input only. Stored rows are computed once, however often they
    /// occur; a single input's sharing passes through to the output.
    Rows,
    /// The output for a sample depends on that sample only, for instance on its whole sequence. Equal samples are
    /// computed once; inputs have one row per position.
    Samples,
    /// Anything else: costs, statistics over the batch, noise. Inputs have one row per position of the batch.
    Batch,
}

/// A parameter of which only the rows are read that an input names.
#[derive(Debug, Clone, Copy)]
pub struct Lookup {
    /// What has the ids or sparse columns: for a layer the number of its input, for a graph that of the node.
    pub source: usize,
    /// The parameter that is read.
    pub parameter: ParameterIndex,
}

/// A layer of the network.
pub trait Layer: Send {
    /// What a row of the output depends on. [`Reads::Batch`] is always correct, the others save work.
    fn reads(&self) -> Reads {
        Reads::Batch
    }

    /// Whether it reads the rows of its inputs through [`Inputs::index`] itself, instead of getting copies.
    fn gathers(&self) -> bool {
        false
    }

    /// Whether its output is a cost: one value per row, which training minimizes.
    fn is_cost(&self) -> bool {
        false
    }

    /// Whether a gradient can pass through it.
    fn is_differentiable(&self) -> bool {
        true
    }

    /// The outputs besides the first, in the order of [`Forward::more`].
    fn more_outputs(&self) -> Vec<MoreOutput> {
        Vec::new()
    }

    /// Parameters whose rows are looked up by the ids or sparse columns of an input.
    fn lookups(&self) -> Vec<Lookup> {
        Vec::new()
    }

    /// Computes `pass.out` from `pass.inputs`. The layout of the output is already that of the first input's rows;
    /// a layer that outputs other rows sets its own.
    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError>;

    /// Adds to the gradients of inputs and parameters, given the gradient of `pass.out`, which it may overwrite. The last
    /// forward was one to learn: after others a layer need not have kept what this takes.
    fn backward(&mut self, pass: &mut Backward<'_>);

    /// Parameters that the layer itself maintains, such as moving averages; see [`Layer::assigned`].
    fn maintains(&self) -> Vec<ParameterIndex> {
        Vec::new()
    }

    /// What the last forward does to the parameters that the layer itself maintains; empty unless the batch was used to
    /// learn.
    fn assigned(&self) -> Vec<Assigned<'_>> {
        Vec::new()
    }
}

/// An output of a layer besides its first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoreOutput {
    /// The name under which other layers read it: an argument of `get_output`, or the name of a layer if the output
    /// is one (what leaves a recurrent group).
    pub name: String,
    /// Whether the name is that of a layer.
    pub is_layer: bool,
    /// Width of a row.
    pub size: usize,
    /// Whether a gradient can arrive at it.
    pub wants_grad: bool,
    /// Whether it is a cost.
    pub is_cost: bool,
}

/// A change of a parameter that is not a gradient: `value = keep · value + (1 - keep) · values`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Assigned<'a> {
    /// The parameter; it is static, no optimizer changes it.
    pub parameter: ParameterIndex,
    /// Factor on the old value, 0 to 1.
    pub keep: f32,
    /// The new values from the batch.
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
pub enum BatchUse {
    /// To learn: layers with noise, such as dropout, draw it from this seed.
    Train {
        /// Seed of this batch's noise.
        noise: u64,
    },
    /// To test or to predict: no noise.
    Test,
}

/// The arguments of a layer's forward.
pub struct Forward<'a> {
    /// The outputs it reads.
    pub inputs: Inputs<'a>,
    /// The output it writes.
    pub out: &'a mut Output,
    /// Its further outputs, as [`Layer::more_outputs`] lists them.
    pub more: &'a mut [Output],
    /// Values of all parameters.
    pub parameters: &'a Parameters,
    /// Shapes of all parameters.
    pub specs: &'a [ParameterSpec],
    /// Weights that are packed when they are first used, if the parameters do not change for a while.
    pub packed: Option<&'a PackedWeights>,
    /// How the batch is used.
    pub pass: BatchUse,
    /// This layer's own noise, if the batch is used to learn.
    pub noise: Noise,
    /// Whether the layer may store rows that occur several times only once.
    pub share: bool,
}

/// The arguments of a layer's backward.
pub struct Backward<'a> {
    /// The outputs it read, whose gradients it adds to.
    pub inputs: Inputs<'a>,
    /// The output it wrote, with the gradient that arrived; none, if only further outputs got one.
    pub out: &'a mut Output,
    /// Its further outputs, with the gradients that arrived.
    pub more: &'a mut [Output],
    /// Values of all parameters.
    pub parameters: &'a Parameters,
    /// Shapes of all parameters.
    pub specs: &'a [ParameterSpec],
    /// As in [`Forward::packed`].
    pub packed: Option<&'a PackedWeights>,
    /// Gradients of all parameters.
    pub gradients: &'a mut Gradients,
}

impl Backward<'_> {
    /// All values of a parameter; forward has already checked that they are available.
    pub fn full(&self, parameter: ParameterIndex) -> &[f32] {
        full(self.parameters, parameter)
    }
}

/// All values of a parameter that forward has already read as a whole.
pub(crate) fn full(parameters: &Parameters, parameter: ParameterIndex) -> &[f32] {
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
    /// Whether the layer gets `staged`, a copy of the rows in order, instead of the source.
    pub copied: bool,
    /// The copied rows, if `copied`.
    pub staged: Output,
    /// The layout of the rows that the layer reads, unless it works on the rows as they are stored.
    pub layout: Layout,
}

impl Edge {
    /// An edge from a layer.
    pub(crate) fn new(source: usize) -> Self {
        let staged = Output::new(false);
        Self {
            source,
            index: None,
            copied: false,
            layout: staged.layout.clone(),
            staged,
        }
    }
}

/// The outputs that a layer reads.
pub struct Inputs<'a> {
    pub(crate) outputs: &'a mut [Output],
    pub(crate) edges: &'a mut [Edge],
}

impl Inputs<'_> {
    /// Number of inputs.
    pub fn len(&self) -> usize {
        self.edges.len()
    }

    /// Whether the layer has no inputs.
    pub fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }

    /// The output of one input.
    pub fn get(&self, input: usize) -> &Output {
        let edge = &self.edges[input];
        if edge.copied {
            &edge.staged
        } else {
            &self.outputs[edge.source]
        }
    }

    /// The output of one input, to add to its gradient.
    pub fn get_mut(&mut self, input: usize) -> &mut Output {
        let edge = &mut self.edges[input];
        if edge.copied {
            &mut edge.staged
        } else {
            &mut self.outputs[edge.source]
        }
    }

    /// Whether the gradient of an input is needed.
    pub(crate) fn wants_grad(&self, input: usize) -> bool {
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

    /// For a layer that gathers itself: how the rows of the input map to positions.
    pub(crate) fn layout(&self, input: usize) -> &Layout {
        &self.edges[input].layout
    }

    /// Exchanges values and gradient of an input's layer with those of `other`; both keep their layouts.
    pub(crate) fn exchange(&mut self, input: usize, other: &mut Output) {
        self.outputs[self.edges[input].source].exchange(other);
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
    pub(crate) fn dense_of(&self, input: usize, cols: usize) -> Result<&Matrix, LayerError> {
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
    pub(crate) fn check_rows(&self, input: usize, rows: usize) -> Result<(), LayerError> {
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
