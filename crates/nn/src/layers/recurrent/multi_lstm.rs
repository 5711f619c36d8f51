//! LSTM along several axes (v1's `mdlstmemory`): a sequence is a grid, and every cell follows its neighbour on each axis.
//!
//! ```text
//! sums = x + Σ h⁻ⱼ W + b                  candidate, input gate, one forget gate per axis, output gate
//! i  = gate(sumᵢ + Σ s⁻ⱼ∘p₀)              input gate
//! fⱼ = gate(sumⱼ + s⁻ⱼ∘pⱼ)                forget gate of axis j
//! s  = act(sum₀)∘i + Σ s⁻ⱼ∘fⱼ             state
//! o  = gate(sumₒ + s∘pₒ)                  output gate
//! h  = o∘state_act(s)                     output
//! ```
//!
//! Neighbours outside the grid are left out of the sums. With one axis the grid is the sequence; with two it is that of
//! the `blockexpand` layer below.

use config::LayerConfig;

use super::lstm_cell::Functions;
use crate::build::ImageFrame;
use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads, full};
use crate::layers::image::rearrange::block_grid;
use crate::matrix::Matrix;
use crate::parameters::ParameterIndex;
use crate::product::{Accumulate, MatrixView, multiply};
use crate::simd;

/// A layer of LSTM cells on grids.
pub(crate) struct MultiLstm {
    size: usize,
    /// Whether each axis is followed from its start.
    directions: Vec<bool>,
    /// Lengths of the axes; `None`: one axis as long as the sequence.
    grid: Option<Vec<usize>>,
    weight: ParameterIndex,
    bias: ParameterIndex,
    functions: Functions,
    /// The cells in the order in which they are computed.
    visits: Vec<Visit>,
    /// Values of all gates; in backward the gradients of their sums.
    gates: Matrix,
    states: Matrix,
    activated: Matrix,
    state_grads: Matrix,
}

/// A cell: its row, and the row before it on each axis.
#[derive(Debug, PartialEq)]
struct Visit {
    row: usize,
    before: Vec<Option<usize>>,
}

/// Builds an `mdlstmemory` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    let (size, config) = (build.size(), build.config);
    let axes = config.directions.len();
    let sums = (3 + axes) * size;
    build.expect(axes > 0 && build.input_sizes[0] == sums, || {
        format!(
            "input has width {}, but {axes} axes of {size} need {sums}",
            build.input_sizes[0]
        )
    })?;
    let grid = match axes {
        1 => None,
        _ => Some(grid_below(build, axes)?),
    };
    Ok(Box::new(MultiLstm {
        size,
        directions: config.directions.clone(),
        grid,
        weight: build.input_parameter(0, sums * size)?,
        bias: build
            .bias((5 + 2 * axes) * size)?
            .ok_or_else(|| build.error("it needs a bias, which has its peepholes"))?,
        functions: Functions {
            candidate: build.gate(config.active_type())?,
            gate: build.gate(config.active_gate_type())?,
            state: build.gate(config.active_state_type())?,
        },
        visits: Vec::new(),
        gates: Matrix::default(),
        states: Matrix::default(),
        activated: Matrix::default(),
        state_grads: Matrix::default(),
    }))
}

/// The grid of the `blockexpand` layer that the input comes from.
fn grid_below(build: &Build<'_>, axes: usize) -> Result<Vec<usize>, BuildError> {
    let find = |name: &str| build.model.layers.iter().find(|layer| layer.name == name);
    let below = |layer: &LayerConfig| find(&layer.inputs.first()?.input_layer_name);
    let mut layer = build.input_config(0);
    while let Some(found) = layer {
        if found.r#type == "blockexpand" && axes == 2 {
            let frame = below(found).map(|images| ImageFrame {
                height: images.height() as usize,
                width: images.width() as usize,
            });
            if let Some(grid) = block_grid(found, frame.unwrap_or_default()) {
                return Ok(vec![grid.height, grid.width]);
            }
        }
        layer = below(found);
    }
    Err(build.error(format!(
        "its sequences are no grids with {axes} axes: a block_expand_layer below it would give two"
    )))
}

/// The cells of a grid in order, with their rows counted from `start`.
fn visits(start: usize, grid: &[usize], directions: &[bool], visits: &mut Vec<Visit>) {
    let cells: usize = grid.iter().product();
    for place in 0..cells {
        let mut rest = place;
        let mut position = vec![0; grid.len()];
        for axis in (0..grid.len()).rev() {
            let at = rest % grid[axis];
            position[axis] = if directions[axis] {
                at
            } else {
                grid[axis] - 1 - at
            };
            rest /= grid[axis];
        }
        let offset = |position: &[usize]| {
            let cells = position.iter().zip(grid);
            start + cells.fold(0, |sum, (at, length)| sum * length + at)
        };
        let before = (0..grid.len()).map(|axis| {
            let mut other = position.clone();
            other[axis] = if directions[axis] {
                other[axis].checked_sub(1)?
            } else {
                Some(other[axis] + 1).filter(|&at| at < grid[axis])?
            };
            Some(offset(&other))
        });
        visits.push(Visit {
            before: before.collect(),
            row: offset(&position),
        });
    }
}

/// The parts of the bias.
struct Bias<'a> {
    sums: &'a [f32],
    input: &'a [f32],
    forget: &'a [f32],
    output: &'a [f32],
}

impl<'a> Bias<'a> {
    fn new(values: &'a [f32], size: usize, axes: usize) -> Self {
        let (sums, rest) = values.split_at((3 + axes) * size);
        let (input, rest) = rest.split_at(size);
        let (forget, output) = rest.split_at(axes * size);
        Self {
            sums,
            input,
            forget,
            output,
        }
    }
}

impl Layer for MultiLstm {
    fn reads(&self) -> Reads {
        Reads::Samples
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let (size, axes) = (self.size, self.directions.len());
        let sums = (3 + axes) * size;
        let x = pass.inputs.dense_of(0, sums)?;
        let sequences = pass.inputs.get(0).sequences(0)?;
        let weight = MatrixView::new(pass.parameters.full(self.weight)?, size, sums);
        let bias = Bias::new(pass.parameters.full(self.bias)?, size, axes);
        self.visits.clear();
        for range in sequences.windows(2) {
            let length = (range[1] - range[0]) as usize;
            let own = [length];
            let grid = self.grid.as_deref().unwrap_or(&own);
            if grid.iter().product::<usize>() != length {
                return Err(LayerError::Value(format!(
                    "a sequence has {length} positions, its grid is {grid:?}"
                )));
            }
            visits(range[0] as usize, grid, &self.directions, &mut self.visits);
        }
        self.gates.copy_from(x);
        self.states.resize(x.rows(), size);
        self.activated.resize(x.rows(), size);
        let out = pass.out.value_mut();
        out.resize(x.rows(), size);
        let f = self.functions;
        for visit in &self.visits {
            let gates = self.gates.row_mut(visit.row);
            simd::add(gates, bias.sums);
            for &before in visit.before.iter().flatten() {
                let before = MatrixView::new(out.row(before), 1, size);
                multiply(gates, before, weight, Accumulate::Add);
            }
            let (candidate, rest) = gates.split_at_mut(size);
            let (input, rest) = rest.split_at_mut(size);
            let (forget, output) = rest.split_at_mut(axes * size);
            for j in 0..size {
                candidate[j] = f.candidate.at(candidate[j]);
                let mut state = 0.0;
                for (axis, before) in visit.before.iter().enumerate() {
                    let place = axis * size + j;
                    let before = before.map_or(0.0, |row| self.states.row(row)[j]);
                    input[j] += before * bias.input[j];
                    forget[place] = f.gate.at(forget[place] + before * bias.forget[place]);
                    state += before * forget[place];
                }
                input[j] = f.gate.at(input[j]);
                state += candidate[j] * input[j];
                output[j] = f.gate.at(output[j] + state * bias.output[j]);
                self.states.row_mut(visit.row)[j] = state;
                let activated = f.state.at(state);
                self.activated.row_mut(visit.row)[j] = activated;
                out.row_mut(visit.row)[j] = output[j] * activated;
            }
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let (size, axes) = (self.size, self.directions.len());
        let sums = (3 + axes) * size;
        let weight = MatrixView::new(full(pass.parameters, self.weight), size, sums);
        let bias = Bias::new(full(pass.parameters, self.bias), size, axes);
        let mut peepholes = vec![0.0; (2 + axes) * size];
        let (mut befores, mut grads) = (Vec::new(), Vec::new());
        let (out_grads, out) = pass.out.grad_and_value();
        self.state_grads.resize_zeroed(out.rows(), size);
        let f = self.functions;
        for visit in self.visits.iter().rev() {
            let gates = self.gates.row_mut(visit.row);
            let (candidate, rest) = gates.split_at_mut(size);
            let (input, rest) = rest.split_at_mut(size);
            let (forget, output) = rest.split_at_mut(axes * size);
            for j in 0..size {
                let (grad, activated) = (
                    out_grads.row(visit.row)[j],
                    self.activated.row(visit.row)[j],
                );
                let d_output = grad * activated * f.gate.slope(output[j]);
                let d_state = self.state_grads.row(visit.row)[j]
                    + grad * output[j] * f.state.slope(activated)
                    + d_output * bias.output[j];
                peepholes[(1 + axes) * size + j] += d_output * self.states.row(visit.row)[j];
                let d_input = d_state * candidate[j] * f.gate.slope(input[j]);
                for (axis, before) in visit.before.iter().enumerate() {
                    let place = axis * size + j;
                    let Some(before) = *before else {
                        forget[place] = 0.0;
                        continue;
                    };
                    let state = self.states.row(before)[j];
                    let d_forget = d_state * state * f.gate.slope(forget[place]);
                    self.state_grads.row_mut(before)[j] += d_state * forget[place]
                        + d_input * bias.input[j]
                        + d_forget * bias.forget[place];
                    peepholes[j] += d_input * state;
                    peepholes[size + place] += d_forget * state;
                    forget[place] = d_forget;
                }
                candidate[j] = d_state * input[j] * f.candidate.slope(candidate[j]);
                input[j] = d_input;
                output[j] = d_output;
            }
            let gates = &*gates;
            for &before in visit.before.iter().flatten() {
                multiply(
                    out_grads.row_mut(before),
                    MatrixView::new(gates, 1, sums),
                    weight.t(),
                    Accumulate::Add,
                );
                befores.extend_from_slice(out.row(before));
                grads.extend_from_slice(gates);
            }
        }
        let rows = grads.len() / sums;
        pass.gradients.add_product(
            self.weight,
            0,
            MatrixView::new(&befores, rows, size),
            MatrixView::new(&grads, rows, sums),
        );
        if let Some(bias) = pass.gradients.dense_zeroed(self.bias) {
            simd::column_sums(&mut bias[..sums], self.gates.values(), Accumulate::Add);
            simd::add(&mut bias[sums..], &peepholes);
        }
        if pass.inputs.wants_grad(0) {
            let to = pass.inputs.get_mut(0).grad_mut();
            simd::add(to.values_mut(), self.gates.values());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_follow_their_neighbours() {
        let mut found = Vec::new();
        visits(10, &[2, 2], &[true, false], &mut found);
        let visit = |row, before: [Option<usize>; 2]| Visit {
            row,
            before: before.to_vec(),
        };
        assert_eq!(
            found,
            [
                visit(11, [None, None]),
                visit(10, [None, Some(11)]),
                visit(13, [Some(11), None]),
                visit(12, [Some(10), Some(13)]),
            ]
        );
    }
}
