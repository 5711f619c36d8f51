//! The last step of most layers: add the bias, apply the activation; and the first step of their backward.

use crate::activation::{Activation, sequence_softmax, sequence_softmax_backward};
use crate::error::LayerError;
use crate::gradients::Gradients;
use crate::layer::{Backward, Forward, Reads};
use crate::matrix::Matrix;
use crate::output::Output;
use crate::parameters::ParameterIndex;
use crate::simd;

/// Bias and activation of one layer.
#[derive(Debug)]
pub struct Finish {
    bias: Option<ParameterIndex>,
    shared: Option<SharedBias>,
    activation: Activation,
    argument: Matrix,
}

impl Finish {
    /// A finish with an optional bias of one value per column, and an activation.
    pub fn new(bias: Option<ParameterIndex>, activation: Activation) -> Self {
        Self {
            bias,
            shared: None,
            activation,
            argument: Matrix::default(),
        }
    }

    /// Adds a bias of which each value is shared by `columns` neighbouring columns.
    pub(crate) fn with_shared_bias(mut self, parameter: ParameterIndex, columns: usize) -> Self {
        self.shared = Some(SharedBias { parameter, columns });
        self
    }

    pub fn activation(&self) -> Activation {
        self.activation
    }

    /// The bias, if it has one value per column.
    pub fn bias(&self) -> Option<ParameterIndex> {
        self.bias
    }

    /// Whether it changes nothing.
    pub(crate) fn is_identity(&self) -> bool {
        self.bias.is_none() && self.shared.is_none() && self.activation == Activation::Linear
    }

    /// What a row of the result depends on; the layer that uses this finish depends on at least as much.
    pub fn reads(&self) -> Reads {
        if self.activation == Activation::SequenceSoftmax {
            Reads::Samples
        } else {
            Reads::Rows
        }
    }

    /// `out = f(out + bias)`.
    pub fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let mut bias = match self.bias {
            Some(bias) => Some(pass.parameters.full(bias)?),
            None => None,
        };
        let out = pass.out.value_mut();
        let cols = out.cols();
        if let Some(shared) = &self.shared {
            shared.add_to(out.values_mut(), pass.parameters.full(shared.parameter)?);
        }
        if self.activation.needs_argument() {
            Activation::Linear.forward(out.values_mut(), cols, bias.take());
            self.argument.copy_from(out);
        }
        self.activation.forward(out.values_mut(), cols, bias);
        if self.activation == Activation::SequenceSoftmax {
            let sequences = pass.out.sequences(0)?.clone();
            sequence_softmax(pass.out.value_mut(), &sequences);
        }
        Ok(())
    }

    /// Turns the gradient of the output into that of its argument, and adds to the bias.
    pub fn backward(&self, pass: &mut Backward<'_>) {
        self.backward_parts(pass.out, pass.gradients);
    }

    /// As [`Finish::backward`], for callers that hold output and gradients separately.
    pub(crate) fn backward_parts(&self, out: &mut Output, gradients: &mut Gradients) {
        let sequences = out.layout.sequences.clone();
        let (grad, result) = out.grad_and_value();
        let cols = grad.cols();
        if let (Activation::SequenceSoftmax, Some(sequences)) = (self.activation, sequences) {
            sequence_softmax_backward(grad, result, &sequences);
        }
        let argument = self.argument.values();
        let block = |first: usize, block: &mut [f32]| {
            let from = first * cols;
            let argument = argument.get(from..).unwrap_or_default();
            self.activation
                .backward(block, &result.values()[from..], argument, cols);
        };
        match self.bias.and_then(|bias| gradients.dense(bias)) {
            Some(bias) => simd::for_row_blocks_with_sums(grad.values_mut(), cols, bias, block),
            None => block(0, grad.values_mut()),
        }
        if let Some(shared) = &self.shared
            && let Some(bias) = gradients.dense_zeroed(shared.parameter)
        {
            shared.add_gradient(bias, grad.values());
        }
    }
}

/// A bias of which each value is shared by several neighbouring columns: all pixels of a channel.
#[derive(Debug)]
struct SharedBias {
    parameter: ParameterIndex,
    columns: usize,
}

impl SharedBias {
    fn add_to(&self, values: &mut [f32], bias: &[f32]) {
        let columns = self.columns;
        simd::for_row_blocks(
            values,
            columns,
            #[inline(always)]
            |first, block| {
                for (piece, values) in block.chunks_exact_mut(columns).enumerate() {
                    let bias = bias[(first + piece) % bias.len()];
                    values.iter_mut().for_each(|value| *value += bias);
                }
            },
        );
    }

    fn add_gradient(&self, bias: &mut [f32], grad: &[f32]) {
        let count = bias.len();
        simd::vectorised(
            #[inline(always)]
            || {
                for (piece, grad) in grad.chunks_exact(self.columns).enumerate() {
                    bias[piece % count] += simd::sum(grad);
                }
            },
        );
    }
}
