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
//!
//! Backward needs the gates and cells of all steps. A batch that is not used to learn keeps those of two steps, which stay
//! in the cache.

use super::TimeMajor;
use super::lstm_cell::Functions;
use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, BatchUse, Build, Forward, Layer, Reads, full};
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
    /// Whether the last batch was used to learn.
    learns: bool,
    /// The four gates of each row, in backward the gradients of their sums; those of one step unless the layer learns.
    gates: Matrix,
    /// State, activated state and output of each row; those of two steps in turns unless the layer learns.
    cells: Matrix,
    /// Output of the previous step, for each row after the first step; empty unless the layer learns.
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
        learns: false,
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
        self.learns = matches!(pass.pass, BatchUse::Train { .. });
        self.make_room();
        let (sums, peepholes) = match bias {
            Some(bias) => (Some(&bias[..4 * size]), Some(&bias[4 * size..])),
            None => (None, None),
        };
        let weight = StepWeight::new(MatrixView::new(weight, size, 4 * size));
        let out = pass.out.value_mut();
        out.resize(self.time.rows(), size);
        for step in 0..self.time.steps() {
            self.forward_step(step, (x, sums), &weight, peepholes, out);
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        assert!(self.learns, "the steps were kept");
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
    /// Resizes what the steps are kept in.
    fn make_room(&mut self) {
        let (size, rows) = (self.size, self.time.rows());
        let widest = self.time.starts.get(1).copied().unwrap_or(0);
        let (gates, cells, previous) = if self.learns {
            (rows, rows, rows)
        } else {
            (widest, 2 * widest, 0)
        };
        self.gates.resize(gates, 4 * size);
        self.cells.resize(cells, 3 * size);
        self.previous.resize(previous, size);
    }

    fn forward_step(
        &mut self,
        step: usize,
        (x, bias): (&Matrix, Option<&[f32]>),
        weight: &StepWeight<'_>,
        peepholes: Option<&[f32]>,
        out: &mut Matrix,
    ) {
        let size = self.size;
        let rows = self.time.step(step);
        let count = rows.len();
        let first = if self.learns { rows.start } else { 0 };
        let gates = &mut self.gates.values_mut()[first * 4 * size..][..count * 4 * size];
        TimeMajor::read_rows(gates, x, &self.stored[rows.clone()], bias);
        let (before, cells) = if self.learns {
            let (done, rest) = self.cells.values_mut().split_at_mut(rows.start * 3 * size);
            let start = if step > 0 {
                self.time.before(step).start
            } else {
                0
            };
            (&done[start * 3 * size..], rest)
        } else {
            let widest = self.cells.rows() / 2;
            let (even, odd) = self.cells.values_mut().split_at_mut(widest * 3 * size);
            if step.is_multiple_of(2) {
                (&*odd, even)
            } else {
                (&*even, odd)
            }
        };
        let cells = &mut cells[..count * 3 * size];
        let before = (step > 0).then(|| &before[..count * 3 * size]);
        if let Some(before) = before {
            let outputs = MatrixView::strided(&before[2 * size..], count, size, 3 * size);
            weight.multiply((gates, 4 * size), outputs, Accumulate::Add);
            if self.learns {
                let previous = &mut self.previous.values_mut()[rows.start * size..rows.end * size];
                let cells = before.chunks_exact(3 * size);
                for (to, cell) in previous.chunks_exact_mut(size).zip(cells) {
                    to.copy_from_slice(&cell[2 * size..]);
                }
            }
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
        for (cell, &position) in cells.chunks_exact(3 * size).zip(&self.time.positions[rows]) {
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

#[cfg(test)]
mod tests {
    use crate::gradient_check::{LayerBuilder, ModelBuilder, random_parameters};
    use crate::{Batch, BatchUse, Network, Slot, SlotData};

    #[test]
    fn two_steps_are_kept_without_learning_and_the_outputs_have_the_same_bits() {
        let lengths = [3, 1, 7, 0, 2, 7, 5, 1, 4];
        let starts = lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        });
        let starts: Vec<u32> = std::iter::once(0).chain(starts).collect();
        let ids = (0..30).map(|at| at * at % 11).collect();
        let batch = Batch {
            samples: lengths.len(),
            slots: vec![Slot::sequence(SlotData::Ids(ids), starts)],
        };
        for reversed in [false, true] {
            let lstm = LayerBuilder::new("lstmemory", "r", 5)
                .weighted("x", &[5, 5, 4])
                .bias_of(35)
                .act("tanh")
                .with(|c| {
                    c.reversed = Some(reversed);
                    c.active_gate_type = Some("sigmoid".into());
                    c.active_state_type = Some("tanh".into());
                });
            let model = ModelBuilder::new().data("w", 11).embedding("x", "w", 20);
            let mut network = Network::new(&model.layer(lstm).0).unwrap();
            let parameters = random_parameters(&network);
            let mut run = |pass| {
                network.forward(&parameters, &batch, pass).unwrap();
                network.output("r").unwrap().to_dense().unwrap()
            };
            let learning = run(BatchUse::Train { noise: 1 });
            assert_eq!(learning.len(), 30 * 5);
            assert_eq!(run(BatchUse::Test), learning);
            assert_eq!(run(BatchUse::Train { noise: 1 }), learning);
        }
    }
}
