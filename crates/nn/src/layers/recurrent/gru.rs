//! Gated recurrent units (v1's `gated_recurrent`). The input has three sums, in this order:
//!
//! ```text
//! z = gate(x₀ + h⁻W₀ + b₀)          update gate
//! r = gate(x₁ + h⁻W₁ + b₁)          reset gate
//! c = act(x₂ + (r∘h⁻)W₂ + b₂)       candidate
//! h = (1 - z)∘h⁻ + z∘c              output
//! ```
//!
//! The weight is `size × 2 size` for the gates, followed by `size × size` for the candidate.

use super::TimeMajor;
use super::gru_cell::Functions;
use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads, full};
use crate::matrix::Matrix;
use crate::output::{gather_rows, scatter_add_rows};
use crate::parameters::ParameterIndex;
use crate::product::{Accumulate, MatrixView, StepWeight, multiply, multiply_strided};
use crate::simd;

/// A layer of gated recurrent units.
pub(crate) struct Gru {
    size: usize,
    weight: ParameterIndex,
    bias: Option<ParameterIndex>,
    reversed: bool,
    functions: Functions,
    time: TimeMajor,
    stored: Vec<u32>,
    /// The two gates and the candidate of each row; in backward the gradients of their sums.
    sums: Matrix,
    hidden: Matrix,
    /// Output of the previous step, and the same after the reset gate, for each row (zeros in the first step).
    previous: Matrix,
    reset: Matrix,
    grads: Matrix,
    /// Gradient of `reset` in one step.
    reset_grads: Matrix,
}

/// Builds a `gated_recurrent` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    let (size, config) = (build.size(), build.config);
    build.expect(build.input_sizes[0] == 3 * size, || {
        format!(
            "input has width {}, but three sums of {size} are needed",
            build.input_sizes[0]
        )
    })?;
    Ok(Box::new(Gru {
        size,
        weight: build.input_parameter(0, 3 * size * size)?,
        bias: build.bias(3 * size)?,
        reversed: config.reversed(),
        functions: Functions {
            gate: build.gate(config.active_gate_type())?,
            candidate: build.gate(config.active_type())?,
        },
        time: TimeMajor::default(),
        stored: Vec::new(),
        sums: Matrix::default(),
        hidden: Matrix::default(),
        previous: Matrix::default(),
        reset: Matrix::default(),
        grads: Matrix::default(),
        reset_grads: Matrix::default(),
    }))
}

impl Layer for Gru {
    fn reads(&self) -> Reads {
        Reads::Samples
    }

    fn gathers(&self) -> bool {
        true
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let size = self.size;
        let sequences = pass.out.sequences(0)?.clone();
        let x = pass.inputs.dense_of(0, 3 * size)?;
        let weight = pass.parameters.full(self.weight)?;
        let bias = match self.bias {
            Some(bias) => Some(pass.parameters.full(bias)?),
            None => None,
        };
        self.time.arrange(&sequences, self.reversed);
        self.time.stored(pass.inputs.index(0), &mut self.stored);
        TimeMajor::read(&mut self.sums, x, &self.stored, bias);
        let rows = self.time.rows();
        self.hidden.resize(rows, size);
        self.previous.resize_zeroed(rows, size);
        self.reset.resize_zeroed(rows, size);
        let weights = self.weights(weight);
        let gates = StepWeight::new(weights.gates);
        let candidate = StepWeight::new(weights.candidate);
        for step in 0..self.time.steps() {
            self.forward_step(step, &gates, &candidate);
        }
        let out = pass.out.value_mut();
        out.resize(rows, size);
        for (hidden, &position) in self.hidden.iter_rows().zip(&self.time.positions) {
            out.row_mut(position as usize).copy_from_slice(hidden);
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let weight = full(pass.parameters, self.weight);
        gather_rows(&mut self.grads, pass.out.grad(), &self.time.positions);
        let weights = self.weights(weight);
        let gates = StepWeight::new(weights.gates.t());
        let candidate = StepWeight::new(weights.candidate.t());
        for step in (0..self.time.steps()).rev() {
            self.backward_step(step, &gates, &candidate);
        }
        let (size, rows) = (self.size, self.time.rows());
        if let Some((weight, mode)) = pass.gradients.dense(self.weight) {
            let (gates, candidate) = weight.split_at_mut(2 * size * size);
            let gate_grads = MatrixView::strided(self.sums.values(), rows, 2 * size, 3 * size);
            multiply_strided(
                gates,
                2 * size,
                MatrixView::from(&self.previous).t(),
                gate_grads,
                mode,
            );
            let grads = MatrixView::strided(
                self.sums.values().get(2 * size..).unwrap_or(&[]),
                rows,
                size,
                3 * size,
            );
            multiply(candidate, MatrixView::from(&self.reset).t(), grads, mode);
        }
        if let Some((bias, mode)) = self.bias.and_then(|bias| pass.gradients.dense(bias)) {
            simd::column_sums(bias, self.sums.values(), mode);
        }
        if pass.inputs.wants_grad(0) {
            scatter_add_rows(
                pass.inputs.get_mut(0).grad_mut(),
                self.sums.values(),
                &self.stored,
            );
        }
    }
}

/// The two matrices of the weight.
struct GruWeights<'a> {
    /// Of both gates.
    gates: MatrixView<'a>,
    candidate: MatrixView<'a>,
}

impl Gru {
    fn weights<'a>(&self, weight: &'a [f32]) -> GruWeights<'a> {
        let size = self.size;
        let (gates, candidate) = weight.split_at(2 * size * size);
        GruWeights {
            gates: MatrixView::new(gates, size, 2 * size),
            candidate: MatrixView::new(candidate, size, size),
        }
    }

    fn forward_step(&mut self, step: usize, gates: &StepWeight<'_>, candidate: &StepWeight<'_>) {
        let size = self.size;
        let rows = self.time.step(step);
        let count = rows.len();
        let (done, rest) = self.hidden.values_mut().split_at_mut(rows.start * size);
        let sums = &mut self.sums.values_mut()[rows.start * 3 * size..rows.end * 3 * size];
        let previous = &mut self.previous.values_mut()[rows.start * size..rows.end * size];
        if step > 0 {
            let before = self.time.before(step);
            previous.copy_from_slice(&done[before.start * size..before.end * size]);
            let previous = MatrixView::new(previous, count, size);
            gates.multiply((sums, 3 * size), previous, Accumulate::Add);
        }
        let reset = &mut self.reset.values_mut()[rows.start * size..rows.end * size];
        self.functions.gates(size, sums, previous, reset);
        if step > 0 {
            let reset = MatrixView::new(reset, count, size);
            candidate.multiply((&mut sums[2 * size..], 3 * size), reset, Accumulate::Add);
        }
        self.functions
            .output(size, sums, previous, &mut rest[..count * size]);
    }

    fn backward_step(&mut self, step: usize, gates: &StepWeight<'_>, candidate: &StepWeight<'_>) {
        let size = self.size;
        let rows = self.time.step(step);
        let count = rows.len();
        let sums = &mut self.sums.values_mut()[rows.start * 3 * size..rows.end * 3 * size];
        let (done, rest) = self.grads.values_mut().split_at_mut(rows.start * size);
        let grads = &mut rest[..count * size];
        let previous = &self.previous.values()[rows.start * size..rows.end * size];
        self.functions.output_backward(size, sums, previous, grads);
        if step == 0 {
            // There was nothing to reset or to keep.
            sums.chunks_exact_mut(3 * size)
                .for_each(|sums| sums[size..2 * size].fill(0.0));
            return;
        }
        self.reset_grads.resize(count, size);
        let candidate_grads = MatrixView::strided(&sums[2 * size..], count, size, 3 * size);
        candidate.multiply(
            (self.reset_grads.values_mut(), size),
            candidate_grads,
            Accumulate::Overwrite,
        );
        self.functions
            .reset_backward(size, sums, previous, self.reset_grads.values(), grads);
        let gate_grads = MatrixView::strided(sums, count, 2 * size, 3 * size);
        gates.multiply((grads, size), gate_grads, Accumulate::Add);
        let before = self.time.before(step);
        simd::add(&mut done[before.start * size..before.end * size], grads);
    }
}
