//! Gradients of single rows of a weight, for layers that use few of its rows: `row += scale · x`.

use crate::error::LayerError;
use crate::gradients::Gradients;
use crate::matrix::Matrix;
use crate::parameters::{ParameterIndex, ParameterSpec};
use crate::rows::RowSet;
use crate::simd;

/// `row r of the parameter += scale · row x of the input`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Term {
    /// Row of the parameter.
    pub row: u32,
    /// Factor on the row of the input.
    pub scale: f32,
    /// Row of the input.
    pub x: u32,
}

/// Adds terms to a gradient, whether it is kept whole or by row. Owns the buffers.
#[derive(Debug, Default)]
pub(crate) struct RowGradient {
    touched: RowSet,
    rows: Matrix,
}

impl RowGradient {
    /// Adds the terms in order.
    pub(crate) fn add(
        &mut self,
        gradients: &mut Gradients,
        parameter: ParameterIndex,
        spec: &ParameterSpec,
        terms: &[Term],
        x: &Matrix,
    ) -> Result<(), LayerError> {
        if let Some(grad) = gradients.dense_zeroed(parameter) {
            add_terms(grad, terms, x, |row| row as usize);
            return Ok(());
        }
        if !gradients.by_row(parameter) {
            return Ok(());
        }
        let rows: Vec<u32> = terms.iter().map(|term| term.row).collect();
        self.touched.collect(&rows, spec.rows)?;
        self.rows.resize_zeroed(self.touched.ids().len(), x.cols());
        add_terms(self.rows.values_mut(), terms, x, |row| {
            self.touched.place(row) as usize
        });
        gradients.add_rows(parameter, self.touched.ids(), &self.rows);
        Ok(())
    }
}

fn add_terms(grad: &mut [f32], terms: &[Term], x: &Matrix, place: impl Fn(u32) -> usize) {
    let cols = x.cols();
    simd::vectorised(
        #[inline(always)]
        || {
            for term in terms {
                let start = place(term.row) * cols;
                simd::add_scaled(
                    &mut grad[start..start + cols],
                    term.scale,
                    x.row(term.x as usize),
                );
            }
        },
    );
}

/// `sums[i] += ` the product of the row of the weight and the row of the input that term i names.
pub(crate) fn products(sums: &mut [f32], terms: &[Term], weight: &[f32], x: &Matrix) {
    let cols = x.cols();
    simd::for_row_blocks(
        sums,
        1,
        #[inline(always)]
        |first, block| {
            for (sum, term) in block.iter_mut().zip(&terms[first..]) {
                let start = term.row as usize * cols;
                *sum += simd::dot(x.row(term.x as usize), &weight[start..start + cols]);
            }
        },
    );
}

/// `grad[x] += scale · weight[row]` for all terms in order.
pub(crate) fn add_weights(grad: &mut Matrix, terms: &[Term], weight: &[f32]) {
    let cols = grad.cols();
    simd::vectorised(
        #[inline(always)]
        || {
            for term in terms {
                let start = term.row as usize * cols;
                simd::add_scaled(
                    grad.row_mut(term.x as usize),
                    term.scale,
                    &weight[start..start + cols],
                );
            }
        },
    );
}
