//! The plain recurrent layer: `h[t] = f(x[t] + h[t-1] W + b)`.

use super::TimeMajor;
use crate::activation::Activation;
use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads, full};
use crate::matrix::Matrix;
use crate::output::{gather_rows, scatter_add_rows};
use crate::parameters::ParameterIndex;
use crate::product::{Accumulate, MatrixView, StepWeight, multiply};
use crate::simd;

/// A recurrent layer.
pub(crate) struct Recurrent {
    size: usize,
    weight: ParameterIndex,
    bias: Option<ParameterIndex>,
    reversed: bool,
    function: Activation,
    time: TimeMajor,
    stored: Vec<u32>,
    /// Output of each row.
    hidden: Matrix,
    /// Output of the previous step, for each row after the first step.
    previous: Matrix,
    /// Gradient of each row's output, then of its sum.
    grads: Matrix,
}

/// Builds a `recurrent` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    let size = build.size();
    build.expect(build.input_sizes[0] == size, || {
        format!("input has width {}, the layer {size}", build.input_sizes[0])
    })?;
    Ok(Box::new(Recurrent {
        size,
        weight: build.input_parameter(0, size * size)?,
        bias: build.bias(size)?,
        reversed: build.config.reversed(),
        function: build.gate(build.config.active_type())?,
        time: TimeMajor::default(),
        stored: Vec::new(),
        hidden: Matrix::default(),
        previous: Matrix::default(),
        grads: Matrix::default(),
    }))
}

impl Layer for Recurrent {
    fn reads(&self) -> Reads {
        Reads::Samples
    }

    fn gathers(&self) -> bool {
        true
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let size = self.size;
        let sequences = pass.out.sequences(0)?.clone();
        let x = pass.inputs.dense_of(0, size)?;
        let weight = pass.parameters.full(self.weight)?;
        let bias = match self.bias {
            Some(bias) => Some(pass.parameters.full(bias)?),
            None => None,
        };
        self.time.arrange(&sequences, self.reversed);
        self.time.stored(pass.inputs.index(0), &mut self.stored);
        TimeMajor::read(&mut self.hidden, x, &self.stored, bias);
        self.previous.resize(self.time.rows(), size);
        let weight = StepWeight::new(MatrixView::new(weight, size, size));
        for step in 0..self.time.steps() {
            let rows = self.time.step(step);
            let (done, rest) = self.hidden.values_mut().split_at_mut(rows.start * size);
            let sums = &mut rest[..rows.len() * size];
            if step > 0 {
                let before = self.time.before(step);
                let previous = &mut self.previous.values_mut()[rows.start * size..rows.end * size];
                previous.copy_from_slice(&done[before.start * size..before.end * size]);
                let previous = MatrixView::new(previous, rows.len(), size);
                weight.multiply((sums, size), previous, Accumulate::Add);
            }
            self.function.forward(sums, size, None);
        }
        let out = pass.out.value_mut();
        out.resize(self.time.rows(), size);
        for (hidden, &position) in self.hidden.iter_rows().zip(&self.time.positions) {
            out.row_mut(position as usize).copy_from_slice(hidden);
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let size = self.size;
        let weight = full(pass.parameters, self.weight);
        gather_rows(&mut self.grads, pass.out.grad(), &self.time.positions);
        let weight = StepWeight::new(MatrixView::new(weight, size, size).t());
        for step in (0..self.time.steps()).rev() {
            let rows = self.time.step(step);
            let (done, rest) = self.grads.values_mut().split_at_mut(rows.start * size);
            let grads = &mut rest[..rows.len() * size];
            let hidden = &self.hidden.values()[rows.start * size..rows.end * size];
            self.function.backward(grads, hidden, &[], size);
            if step > 0 {
                let before = self.time.before(step);
                let to = &mut done[before.start * size..before.end * size];
                let grads = MatrixView::new(grads, rows.len(), size);
                weight.multiply((to, size), grads, Accumulate::Add);
            }
        }
        let rows = self.time.rows();
        let first = self.time.starts.get(1).copied().unwrap_or(0);
        if let Some((weight, mode)) = pass.gradients.dense(self.weight) {
            let previous =
                MatrixView::new(&self.previous.values()[first * size..], rows - first, size);
            let grads = MatrixView::new(&self.grads.values()[first * size..], rows - first, size);
            multiply(weight, previous.t(), grads, mode);
        }
        if let Some((bias, mode)) = self.bias.and_then(|bias| pass.gradients.dense(bias)) {
            simd::column_sums(bias, self.grads.values(), mode);
        }
        if pass.inputs.wants_grad(0) {
            scatter_add_rows(
                pass.inputs.get_mut(0).grad_mut(),
                self.grads.values(),
                &self.stored,
            );
        }
    }
}
