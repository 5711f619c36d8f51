//! Backward of [`SequenceConv`]: through the products of stored rows, or through the maxima alone.

use rayon::prelude::*;

use super::SequenceConv;
use crate::layer::{Backward, full};
use crate::matrix::Matrix;
use crate::product::{Accumulate, MatrixView, multiply, multiply_strided};
use crate::simd;

/// How much faster a product of matrices does a multiplication than a loop over single rows does.
const PRODUCT_ADVANTAGE: usize = 6;

/// Number of columns whose weights and gradients fit into a near cache.
const COLUMN_BLOCK: usize = 64;

/// Buffers of backward, reused from batch to batch.
#[derive(Default)]
pub(super) struct Buffers {
    /// Gradient of each row, the padding's after the input's.
    rows: Matrix,
    /// Weights by output column: `size × (length · dim)`.
    weight: Matrix,
    /// Their gradient.
    weight_grad: Matrix,
}

impl SequenceConv {
    fn row_count(&self, input_rows: usize) -> usize {
        input_rows
            + if self.window.padding.is_some() {
                self.window.padding_rows()
            } else {
                0
            }
    }

    /// Each maximum costs `length` rows of weights; each stored row costs `length` blocks, but in a product.
    pub(super) fn visiting_winners_is_cheaper(&self, input_rows: usize) -> bool {
        (self.sequences.len() - 1) * PRODUCT_ADVANTAGE < self.row_count(input_rows)
    }

    /// `products` becomes the gradient of the products.
    pub(super) fn scatter(&mut self, pass: &Backward<'_>) {
        let input_rows = pass.inputs.get(0).data.rows();
        let (size, length, index) = (self.size, self.window.length, pass.inputs.index(0));
        let mut products = std::mem::take(&mut self.products);
        products.resize_zeroed(self.row_count(input_rows), length * size);
        let grad = pass.out.grad();
        simd::vectorised(
            #[inline(always)]
            || {
                for (sequence, pair) in self.sequences.windows(2).enumerate() {
                    let range = pair[0] as usize..pair[1] as usize;
                    if self.maximum {
                        for col in 0..size {
                            let place = sequence * size + col;
                            let (winner, grad) = (self.winners[place], grad.values()[place]);
                            if winner == u32::MAX {
                                continue;
                            }
                            for k in 0..length {
                                let neighbour = self.window.neighbour(&range, winner as usize, k);
                                if let Some(row) = self.row(input_rows, index, neighbour) {
                                    products.row_mut(row)[k * size + col] += grad;
                                }
                            }
                        }
                        continue;
                    }
                    for position in range.clone() {
                        for k in 0..length {
                            let neighbour = self.window.neighbour(&range, position, k);
                            if let Some(row) = self.row(input_rows, index, neighbour) {
                                simd::add(
                                    &mut products.row_mut(row)[k * size..(k + 1) * size],
                                    grad.row(position),
                                );
                            }
                        }
                    }
                }
            },
        );
        self.products = products;
    }

    /// Gradients of the weight and of the rows, from that of the products.
    pub(super) fn multiply_back(&mut self, pass: &mut Backward<'_>) {
        let (size, length, dim) = (self.size, self.window.length, self.window.dim);
        let source = pass.inputs.get(0);
        let x = if self.window.padding.is_some() {
            &self.padded
        } else {
            source.value()
        };
        let rows = x.rows();
        let grads = |k: usize| {
            MatrixView::strided(
                self.products.values().get(k * size..).unwrap_or_default(),
                rows,
                size,
                length * size,
            )
        };
        if let Some((weight, mode)) = pass.gradients.dense(self.weight) {
            for (k, block) in weight.chunks_exact_mut(dim * size).enumerate() {
                multiply_strided(block, size, MatrixView::from(x).t(), grads(k), mode);
            }
        }
        if !source.wants_grad && self.window.padding.is_none() {
            return;
        }
        let weight = full(pass.parameters, self.weight);
        self.buffers.rows.resize(rows, dim);
        for (k, block) in weight.chunks_exact(dim * size).enumerate() {
            let mode = if k == 0 {
                Accumulate::Overwrite
            } else {
                Accumulate::Add
            };
            multiply(
                self.buffers.rows.values_mut(),
                grads(k),
                MatrixView::new(block, dim, size).t(),
                mode,
            );
        }
    }

    /// Gradients of the weight and of the rows, one maximum after another. Columns are spread over threads.
    pub(super) fn visit_winners(&mut self, pass: &mut Backward<'_>) {
        let (size, length, dim) = (self.size, self.window.length, self.window.dim);
        let mut buffers = std::mem::take(&mut self.buffers);
        let source = pass.inputs.get(0);
        let (input_rows, index) = (source.data.rows(), pass.inputs.index(0));
        let x = if self.window.padding.is_some() {
            &self.padded
        } else {
            source.value()
        };
        let weight = full(pass.parameters, self.weight);
        transpose(weight, length * dim, size, &mut buffers.weight);
        buffers.weight_grad.resize_zeroed(size, length * dim);
        buffers.rows.resize_zeroed(self.row_count(input_rows), dim);
        let grad = pass.out.grad();
        let width = dim.div_ceil(rayon::current_num_threads()).max(32);
        let weight = &buffers.weight;
        let parts = column_parts(buffers.weight_grad.values_mut(), dim, width)
            .into_iter()
            .zip(column_parts(buffers.rows.values_mut(), dim, width))
            .enumerate();
        let work =
            |(part, (mut weight_grad, mut rows)): (usize, (ColumnPart<'_>, ColumnPart<'_>))| {
                let start = part * width;
                simd::vectorised(
                    #[inline(always)]
                    || {
                        for block in (0..size).step_by(COLUMN_BLOCK) {
                            for (sequence, pair) in self.sequences.windows(2).enumerate() {
                                let range = pair[0] as usize..pair[1] as usize;
                                for col in block..(block + COLUMN_BLOCK).min(size) {
                                    let place = sequence * size + col;
                                    let (winner, grad) =
                                        (self.winners[place], grad.values()[place]);
                                    if winner == u32::MAX {
                                        continue;
                                    }
                                    for k in 0..length {
                                        let neighbour =
                                            self.window.neighbour(&range, winner as usize, k);
                                        let Some(row) = self.row(input_rows, index, neighbour)
                                        else {
                                            continue;
                                        };
                                        let columns = start..start + rows[row].len();
                                        simd::add_scaled(
                                            weight_grad[col * length + k],
                                            grad,
                                            &x.row(row)[columns.clone()],
                                        );
                                        simd::add_scaled(
                                            rows[row],
                                            grad,
                                            &weight.row(col)[k * dim..][columns],
                                        );
                                    }
                                }
                            }
                        }
                    },
                );
            };
        if width >= dim {
            parts.for_each(work);
        } else {
            parts.collect::<Vec<_>>().into_par_iter().for_each(work);
        }
        if let Some((weight, mode)) = pass.gradients.dense(self.weight) {
            add_transposed(weight, &buffers.weight_grad, mode);
        }
        self.buffers = buffers;
    }

    /// Adds the gradients of the rows to the input and to the padding.
    pub(super) fn hand_down(&mut self, pass: &mut Backward<'_>) {
        let rows = self.buffers.rows.values();
        let input_values = pass.inputs.get(0).data.rows() * self.window.dim;
        if pass.inputs.wants_grad(0) {
            let grad = pass.inputs.get_mut(0).grad_mut();
            simd::add(grad.values_mut(), &rows[..input_values]);
        }
        if let Some(padding) = self
            .window
            .padding
            .and_then(|padding| pass.gradients.dense_zeroed(padding))
        {
            simd::add(padding, &rows[input_values..]);
        }
    }
}

/// A range of columns of every row.
type ColumnPart<'a> = Vec<&'a mut [f32]>;

/// Splits rows of `dim` into column ranges, so that threads can own one each: for each range its part of every row.
fn column_parts(values: &mut [f32], dim: usize, width: usize) -> Vec<ColumnPart<'_>> {
    let mut parts: Vec<ColumnPart<'_>> = Vec::new();
    parts.resize_with(dim.div_ceil(width), Vec::new);
    for row in values.chunks_exact_mut(dim) {
        for (part, piece) in row.chunks_mut(width).enumerate() {
            parts[part].push(piece);
        }
    }
    parts
}

/// Side of the squares in which a matrix is transposed.
const TILE: usize = 32;

/// `to = fromᵀ` for a `rows × cols` matrix.
fn transpose(from: &[f32], rows: usize, cols: usize, to: &mut Matrix) {
    to.resize(cols, rows);
    for_tiles(rows, cols, |row, col| {
        to.values_mut()[col * rows + row] = from[row * cols + col]
    });
}

/// `to (+)= fromᵀ`.
fn add_transposed(to: &mut [f32], from: &Matrix, mode: Accumulate) {
    let (rows, cols) = (from.cols(), from.rows());
    let from = from.values();
    for_tiles(rows, cols, |row, col| {
        let to = &mut to[row * cols + col];
        *to = if mode == Accumulate::Add { *to } else { 0.0 } + from[col * rows + row];
    });
}

#[inline(always)]
fn for_tiles(rows: usize, cols: usize, mut visit: impl FnMut(usize, usize)) {
    for row in (0..rows).step_by(TILE) {
        for col in (0..cols).step_by(TILE) {
            for row in row..(row + TILE).min(rows) {
                for col in col..(col + TILE).min(cols) {
                    visit(row, col);
                }
            }
        }
    }
}
