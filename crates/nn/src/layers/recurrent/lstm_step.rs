//! One step of LSTM cells inside a recurrent group (v1's `lstm_step`); the formulas are in [`super::lstm`].
//!
//! Inputs: the sums of the four gates, complete but for the peepholes, and the state of the previous step. The bias
//! holds the peepholes. A second output, `state`, is the state.

use super::lstm_cell::Functions;
use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, MoreOutput, Reads, full};
use crate::matrix::Matrix;
use crate::output::Output;
use crate::parameters::ParameterIndex;
use crate::simd;

/// One step of LSTM cells.
pub(crate) struct LstmStep {
    size: usize,
    peepholes: Option<ParameterIndex>,
    functions: Functions,
    /// The four gates of each row; in backward the gradients of their sums.
    gates: Matrix,
    /// State, activated state and output of each row.
    cells: Matrix,
    state_grads: Matrix,
}

/// Builds an `lstm_step` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(2..=2)?;
    let (size, config) = (build.size(), build.config);
    build.expect(build.input_sizes == [4 * size, size], || {
        format!(
            "inputs have widths {:?}, but four gates of {size} and the state of the previous step are needed",
            build.input_sizes
        )
    })?;
    Ok(Box::new(LstmStep {
        size,
        peepholes: build.bias(3 * size)?,
        functions: Functions {
            candidate: build.gate(config.active_type())?,
            gate: build.gate(config.active_gate_type())?,
            state: build.gate(config.active_state_type())?,
        },
        gates: Matrix::default(),
        cells: Matrix::default(),
        state_grads: Matrix::default(),
    }))
}

impl Layer for LstmStep {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn more_outputs(&self) -> Vec<MoreOutput> {
        vec![MoreOutput {
            name: "state".to_owned(),
            is_layer: false,
            size: self.size,
            wants_grad: true,
            is_cost: false,
        }]
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let size = self.size;
        let x = pass.inputs.dense_of(0, 4 * size)?;
        let before = pass.inputs.dense_of(1, size)?;
        let rows = x.rows();
        pass.inputs.check_rows(1, rows)?;
        let peepholes = match self.peepholes {
            Some(peepholes) => Some(pass.parameters.full(peepholes)?),
            None => None,
        };
        self.gates.copy_from(x);
        self.cells.resize(rows, 3 * size);
        let f = self.functions;
        simd::for_row_blocks2(
            (self.gates.values_mut(), 4 * size),
            (self.cells.values_mut(), 3 * size),
            #[inline(always)]
            |first, gates, cells| {
                let rows = gates
                    .chunks_exact_mut(4 * size)
                    .zip(cells.chunks_exact_mut(3 * size))
                    .zip(before.values()[first * size..].chunks_exact(size));
                for ((gates, cell), before) in rows {
                    f.forward(size, gates, cell, Some(before), peepholes);
                }
            },
        );
        part(pass.out, &self.cells, 2 * size..3 * size);
        part(&mut pass.more[0], &self.cells, 0..size);
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let size = self.size;
        let peepholes = self.peepholes.map(|bias| full(pass.parameters, bias));
        self.state_grads.copy_from(pass.more[0].grad_mut());
        let output_grads = pass.out.grad_mut();
        let Ok(before) = pass.inputs.dense(1) else {
            unreachable!("forward read it")
        };
        let (f, cells) = (self.functions, &self.cells);
        simd::for_row_blocks2(
            (self.gates.values_mut(), 4 * size),
            (self.state_grads.values_mut(), size),
            #[inline(always)]
            |first, gates, states| {
                for (row, (gates, state)) in gates
                    .chunks_exact_mut(4 * size)
                    .zip(states.chunks_exact_mut(size))
                    .enumerate()
                {
                    let row = first + row;
                    f.backward(
                        size,
                        gates,
                        state,
                        cells.row(row),
                        Some(before.row(row)),
                        output_grads.row(row),
                        peepholes,
                    );
                }
            },
        );
        if let Some(bias) = self
            .peepholes
            .and_then(|bias| pass.gradients.dense_zeroed(bias))
        {
            add_peepholes(bias, &self.gates, cells, before, size);
        }
        for (input, grad) in [(0, &self.gates), (1, &self.state_grads)] {
            if pass.inputs.wants_grad(input) {
                let to = pass.inputs.get_mut(input).grad_mut();
                simd::add(to.values_mut(), grad.values());
            }
        }
    }
}

/// Copies some columns of the cells to an output.
fn part(out: &mut Output, cells: &Matrix, columns: std::ops::Range<usize>) {
    let out = out.value_mut();
    out.resize(cells.rows(), columns.len());
    for (out, cell) in out.iter_rows_mut().zip(cells.iter_rows()) {
        out.copy_from_slice(&cell[columns.clone()]);
    }
}

fn add_peepholes(bias: &mut [f32], grads: &Matrix, cells: &Matrix, before: &Matrix, size: usize) {
    let (input, rest) = bias.split_at_mut(size);
    let (forget, output) = rest.split_at_mut(size);
    simd::vectorised(
        #[inline(always)]
        || {
            for row in 0..grads.rows() {
                let (grads, before) = (grads.row(row), before.row(row));
                simd::add_product(input, &grads[size..2 * size], before);
                simd::add_product(forget, &grads[2 * size..3 * size], before);
                simd::add_product(output, &grads[3 * size..], &cells.row(row)[..size]);
            }
        },
    );
}
