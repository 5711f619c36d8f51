//! Long short-term memory with peepholes (v1's `lstmemory`). The input has the four gates' sums, in this order:
//!
//! ```text
//! c = act(x₀ + h⁻W₀ + b₀)               candidate
//! i = gate(x₁ + h⁻W₁ + b₁ + s⁻∘p₀)      input gate
//! f = gate(x₂ + h⁻W₂ + b₂ + s⁻∘p₁)      forget gate
//! s = c∘i + s⁻∘f                        state
//! o = gate(x₃ + h⁻W₃ + b₃ + s∘p₂)       output gate
//! h = o∘state_act(s)                    output
//! ```
//!
//! `W` is `size × 4 size`; the bias has 7 size values: b₀ … b₃, then the peepholes p₀, p₁, p₂.

use super::TimeMajor;
use super::lstm_cell::Functions;
use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads, full};
use crate::matrix::Matrix;
use crate::output::scatter_add_rows;
use crate::parameters::ParameterIndex;
use crate::product::{Accumulate, MatrixView, StepWeight, multiply_strided};
use crate::simd;

/// A layer of LSTM cells.
pub(crate) struct Lstm {
    size: usize,
    weight: ParameterIndex,
    bias: Option<ParameterIndex>,
    reversed: bool,
    functions: Functions,
    time: TimeMajor,
    stored: Vec<u32>,
    /// The four gates of each row; in backward the gradients of their sums.
    gates: Matrix,
    /// State, activated state and output of each row.
    cells: Matrix,
    /// Output of the previous step, for each row after the first step.
    previous: Matrix,
    /// Gradient of each row's output.
    output_grads: Matrix,
    /// Gradient of each running sequence's state.
    state_grads: Matrix,
}

/// Builds an `lstmemory` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    let (size, config) = (build.size(), build.config);
    build.expect(build.input_sizes[0] == 4 * size, || {
        format!(
            "input has width {}, but four gates of {size} are needed",
            build.input_sizes[0]
        )
    })?;
    Ok(Box::new(Lstm {
        size,
        weight: build.input_parameter(0, 4 * size * size)?,
        bias: build.bias(7 * size)?,
        reversed: config.reversed(),
        functions: Functions {
            candidate: build.gate(config.active_type())?,
            gate: build.gate(config.active_gate_type())?,
            state: build.gate(config.active_state_type())?,
        },
        time: TimeMajor::default(),
        stored: Vec::new(),
        gates: Matrix::default(),
        cells: Matrix::default(),
        previous: Matrix::default(),
        output_grads: Matrix::default(),
        state_grads: Matrix::default(),
    }))
}

impl Layer for Lstm {
    fn reads(&self) -> Reads {
        Reads::Samples
    }

    fn gathers(&self) -> bool {
        true
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let size = self.size;
        let sequences = pass.out.sequences(0)?.clone();
        let x = pass.inputs.dense_of(0, 4 * size)?;
        let weight = pass.parameters.full(self.weight)?;
        let bias = match self.bias {
            Some(bias) => Some(pass.parameters.full(bias)?),
            None => None,
        };
        self.time.arrange(&sequences, self.reversed);
        self.time.stored(pass.inputs.index(0), &mut self.stored);
        TimeMajor::read(
            &mut self.gates,
            x,
            &self.stored,
            bias.map(|bias| &bias[..4 * size]),
        );
        self.cells.resize(self.time.rows(), 3 * size);
        self.previous.resize(self.time.rows(), size);
        let peepholes = bias.map(|bias| &bias[4 * size..]);
        let weight = StepWeight::new(MatrixView::new(weight, size, 4 * size));
        for step in 0..self.time.steps() {
            self.forward_step(step, &weight, peepholes);
        }
        self.write_outputs(pass.out.value_mut());
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let size = self.size;
        let weight = full(pass.parameters, self.weight);
        let bias = self.bias.map(|bias| full(pass.parameters, bias));
        crate::output::gather_rows(
            &mut self.output_grads,
            pass.out.grad(),
            &self.time.positions,
        );
        let sequences = self.time.starts.get(1).copied().unwrap_or(0);
        self.state_grads.resize_zeroed(sequences, size);
        let peepholes = bias.map(|bias| &bias[4 * size..]);
        let weight = StepWeight::new(MatrixView::new(weight, size, 4 * size).t());
        for step in (0..self.time.steps()).rev() {
            self.backward_step(step, &weight, peepholes);
        }
        self.add_parameter_grads(pass);
        if pass.inputs.wants_grad(0) {
            scatter_add_rows(
                pass.inputs.get_mut(0).grad_mut(),
                self.gates.values(),
                &self.stored,
            );
        }
    }
}

impl Lstm {
    fn forward_step(&mut self, step: usize, weight: &StepWeight<'_>, peepholes: Option<&[f32]>) {
        let size = self.size;
        let rows = self.time.step(step);
        let count = rows.len();
        let (done, cells) =
            self.cells.values_mut()[..rows.end * 3 * size].split_at_mut(rows.start * 3 * size);
        let gates = &mut self.gates.values_mut()[rows.start * 4 * size..rows.end * 4 * size];
        let before = (step > 0).then(|| {
            let before = self.time.before(step);
            &done[before.start * 3 * size..before.end * 3 * size]
        });
        if let Some(before) = before {
            let previous = &mut self.previous.values_mut()[rows.start * size..rows.end * size];
            for (to, cell) in previous
                .chunks_exact_mut(size)
                .zip(before.chunks_exact(3 * size))
            {
                to.copy_from_slice(&cell[2 * size..]);
            }
            weight.multiply(
                (gates, 4 * size),
                MatrixView::new(previous, count, size),
                Accumulate::Add,
            );
        }
        let f = self.functions;
        simd::for_row_blocks2(
            (gates, 4 * size),
            (cells, 3 * size),
            #[inline(always)]
            |first, gates, cells| {
                for (row, (gates, cell)) in gates
                    .chunks_exact_mut(4 * size)
                    .zip(cells.chunks_exact_mut(3 * size))
                    .enumerate()
                {
                    let before = before.map(|before| &before[(first + row) * 3 * size..][..size]);
                    f.forward(size, gates, cell, before, peepholes);
                }
            },
        );
    }

    fn write_outputs(&self, out: &mut Matrix) {
        let size = self.size;
        out.resize(self.time.rows(), size);
        for (cell, &position) in self.cells.iter_rows().zip(&self.time.positions) {
            out.row_mut(position as usize)
                .copy_from_slice(&cell[2 * size..]);
        }
    }

    fn backward_step(&mut self, step: usize, weight: &StepWeight<'_>, peepholes: Option<&[f32]>) {
        let size = self.size;
        let rows = self.time.step(step);
        let gates = &mut self.gates.values_mut()[rows.start * 4 * size..rows.end * 4 * size];
        let states = &mut self.state_grads.values_mut()[..rows.len() * size];
        let before = if step > 0 {
            self.time.before(step)
        } else {
            0..0
        };
        let (cells, output_grads, f) = (&self.cells, &self.output_grads, self.functions);
        simd::for_row_blocks2(
            (gates, 4 * size),
            (states, size),
            #[inline(always)]
            |first, gates, states| {
                for (row, (gates, state)) in gates
                    .chunks_exact_mut(4 * size)
                    .zip(states.chunks_exact_mut(size))
                    .enumerate()
                {
                    let row = first + row;
                    let previous = (step > 0).then(|| &cells.row(before.start + row)[..size]);
                    let cell = cells.row(rows.start + row);
                    f.backward(
                        size,
                        gates,
                        state,
                        cell,
                        previous,
                        output_grads.row(rows.start + row),
                        peepholes,
                    );
                }
            },
        );
        if step > 0 {
            let grads = MatrixView::new(
                &self.gates.values()[rows.start * 4 * size..rows.end * 4 * size],
                rows.len(),
                4 * size,
            );
            let to = &mut self.output_grads.values_mut()[before.start * size..before.end * size];
            weight.multiply((to, size), grads, Accumulate::Add);
        }
    }

    fn add_parameter_grads(&mut self, pass: &mut Backward<'_>) {
        let size = self.size;
        let rows = self.time.rows();
        if let Some((weight, mode)) = pass.gradients.dense(self.weight) {
            let first = self.time.starts.get(1).copied().unwrap_or(0);
            let previous =
                MatrixView::new(&self.previous.values()[first * size..], rows - first, size);
            let grads = MatrixView::new(
                &self.gates.values()[first * 4 * size..],
                rows - first,
                4 * size,
            );
            multiply_strided(weight, 4 * size, previous.t(), grads, mode);
        }
        let Some((bias, mode)) = self.bias.and_then(|bias| pass.gradients.dense(bias)) else {
            return;
        };
        let (sums, peepholes) = bias.split_at_mut(4 * size);
        simd::column_sums(sums, self.gates.values(), mode);
        if mode == Accumulate::Overwrite {
            peepholes.fill(0.0);
        }
        let (time, gates, cells) = (&self.time, &self.gates, &self.cells);
        simd::vectorised(
            #[inline(always)]
            || {
                for step in 0..time.steps() {
                    for (offset, row) in time.step(step).enumerate() {
                        let grads = gates.row(row);
                        if step > 0 {
                            let previous = &cells.row(time.starts[step - 1] + offset)[..size];
                            simd::add_product(
                                &mut peepholes[..size],
                                &grads[size..2 * size],
                                previous,
                            );
                            simd::add_product(
                                &mut peepholes[size..2 * size],
                                &grads[2 * size..3 * size],
                                previous,
                            );
                        }
                        simd::add_product(
                            &mut peepholes[2 * size..],
                            &grads[3 * size..],
                            &cells.row(row)[..size],
                        );
                    }
                }
            },
        );
    }
}
