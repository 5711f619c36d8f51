//! One step of gated recurrent units inside a recurrent group (v1's `gru_step`); the formulas are in [`super::gru`].
//!
//! Inputs: the three sums, and the output of the previous step.

use super::gru_cell::Functions;
use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads, full};
use crate::matrix::Matrix;
use crate::parameters::ParameterIndex;
use crate::product::{Accumulate, MatrixView, multiply_weight};
use crate::simd;

/// One step of gated recurrent units.
pub(crate) struct GruStep {
    size: usize,
    weight: ParameterIndex,
    bias: Option<ParameterIndex>,
    functions: Functions,
    /// The two gates and the candidate of each row; in backward the gradients of their sums.
    sums: Matrix,
    reset: Matrix,
    reset_grads: Matrix,
}

/// Builds a `gru_step` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(2..=2)?;
    let (size, config) = (build.size(), build.config);
    build.expect(build.input_sizes == [3 * size, size], || {
        format!(
            "inputs have widths {:?}, but three sums of {size} and the output of the previous step are needed",
            build.input_sizes
        )
    })?;
    Ok(Box::new(GruStep {
        size,
        weight: build.input_parameter(0, 3 * size * size)?,
        bias: build.bias(3 * size)?,
        functions: Functions {
            gate: build.gate(config.active_gate_type())?,
            candidate: build.gate(config.active_type())?,
        },
        sums: Matrix::default(),
        reset: Matrix::default(),
        reset_grads: Matrix::default(),
    }))
}

impl Layer for GruStep {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let size = self.size;
        let x = pass.inputs.dense_of(0, 3 * size)?;
        let previous = pass.inputs.dense_of(1, size)?;
        let rows = x.rows();
        pass.inputs.check_rows(1, rows)?;
        let (gates, candidate) = pass.parameters.full(self.weight)?.split_at(2 * size * size);
        self.sums.copy_from(x);
        if let Some(bias) = self.bias {
            let bias = pass.parameters.full(bias)?;
            simd::for_row_blocks(
                self.sums.values_mut(),
                3 * size,
                #[inline(always)]
                |_, block| {
                    for sums in block.chunks_exact_mut(3 * size) {
                        simd::add(sums, bias);
                    }
                },
            );
        }
        multiply_weight(
            (pass.packed, self.weight, 0),
            (self.sums.values_mut(), 3 * size),
            previous.into(),
            MatrixView::new(gates, size, 2 * size),
            Accumulate::Add,
        );
        self.reset.resize(rows, size);
        self.functions.gates(
            size,
            self.sums.values_mut(),
            previous.values(),
            self.reset.values_mut(),
        );
        let candidates = self.sums.values_mut().get_mut(2 * size..);
        multiply_weight(
            (pass.packed, self.weight, 2 * size * size),
            (candidates.unwrap_or(&mut []), 3 * size),
            MatrixView::from(&self.reset),
            MatrixView::new(candidate, size, size),
            Accumulate::Add,
        );
        let out = pass.out.value_mut();
        out.resize(rows, size);
        self.functions.output(
            size,
            self.sums.values_mut(),
            previous.values(),
            out.values_mut(),
        );
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let size = self.size;
        let (gates, candidate) = full(pass.parameters, self.weight).split_at(2 * size * size);
        let mut grads = pass.out.take_grad();
        let rows = grads.rows();
        let Ok(previous) = pass.inputs.dense(1) else {
            unreachable!("forward read it")
        };
        let sums = self.sums.values_mut();
        self.functions
            .output_backward(size, sums, previous.values(), grads.values_mut());
        self.reset_grads.resize(rows, size);
        let part = |sums: &'_ [f32]| sums.len().min(2 * size);
        let candidate_grads = MatrixView::strided(&sums[part(sums)..], rows, size, 3 * size);
        multiply_weight(
            (pass.packed, self.weight, 2 * size * size),
            (self.reset_grads.values_mut(), size),
            candidate_grads,
            MatrixView::new(candidate, size, size).t(),
            Accumulate::Overwrite,
        );
        self.functions.reset_backward(
            size,
            sums,
            previous.values(),
            self.reset_grads.values(),
            grads.values_mut(),
        );
        let sums = self.sums.values();
        let gate_grads = MatrixView::strided(sums, rows, 2 * size, 3 * size);
        multiply_weight(
            (pass.packed, self.weight, 0),
            (grads.values_mut(), size),
            gate_grads,
            MatrixView::new(gates, size, 2 * size).t(),
            Accumulate::Add,
        );
        let candidate_grads = MatrixView::strided(&sums[part(sums)..], rows, size, 3 * size);
        pass.gradients
            .add_product(self.weight, 0, previous.into(), gate_grads);
        pass.gradients.add_product(
            self.weight,
            2 * size * size,
            MatrixView::from(&self.reset),
            candidate_grads,
        );
        if let Some((bias, mode)) = self.bias.and_then(|bias| pass.gradients.dense(bias)) {
            simd::column_sums(bias, sums, mode);
        }
        for (input, grad) in [(0, &self.sums), (1, &grads)] {
            if pass.inputs.wants_grad(input) {
                let to = pass.inputs.get_mut(input).grad_mut();
                simd::add(to.values_mut(), grad.values());
            }
        }
        pass.out.put_grad(grads);
    }
}
