//! What a layer hands on: values, their gradient, and how rows stand for positions of the batch.

use std::sync::Arc;

use rayon::prelude::*;

use crate::domain::{Domain, Layout};
use crate::error::LayerError;
use crate::matrix::{Matrix, SparseRows};
use crate::product::Accumulate;
use crate::simd;

/// The values of an output.
#[derive(Debug)]
pub enum Data {
    /// Rows of numbers.
    Dense(Matrix),
    /// One id for each row.
    Ids(Vec<u32>),
    /// Rows with few non-zero columns.
    Sparse(SparseRows),
}

impl Data {
    /// What it is called in messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Data::Dense(_) => "dense rows",
            Data::Ids(_) => "ids",
            Data::Sparse(_) => "sparse rows",
        }
    }

    /// Number of stored rows.
    pub fn rows(&self) -> usize {
        match self {
            Data::Dense(matrix) => matrix.rows(),
            Data::Ids(ids) => ids.len(),
            Data::Sparse(rows) => rows.rows(),
        }
    }
}

/// One layer's output in the current batch. Buffers are kept from batch to batch.
#[derive(Debug)]
pub struct Output {
    /// The values.
    pub data: Data,
    /// How rows stand for positions.
    pub layout: Layout,
    /// Whether the layers above should compute its gradient.
    pub wants_grad: bool,
    grad: Matrix,
    has_grad: bool,
}

impl Output {
    /// An empty output.
    pub fn new(wants_grad: bool) -> Self {
        Self {
            data: Data::Dense(Matrix::default()),
            layout: Layout::units(Domain::whole(0)),
            wants_grad,
            grad: Matrix::default(),
            has_grad: false,
        }
    }

    /// The dense values; an output of a layer that never holds anything else.
    pub fn value(&self) -> &Matrix {
        match &self.data {
            Data::Dense(matrix) => matrix,
            other => unreachable!("{} where the layer checked for dense rows", other.kind()),
        }
    }

    /// The dense values, to write; whatever was there before is replaced by an empty matrix if it was not dense.
    pub fn value_mut(&mut self) -> &mut Matrix {
        if !matches!(self.data, Data::Dense(_)) {
            self.data = Data::Dense(Matrix::default());
        }
        match &mut self.data {
            Data::Dense(matrix) => matrix,
            _ => unreachable!("made dense above"),
        }
    }

    /// The dense values of input `input`, or what is wrong with it.
    pub fn dense(&self, input: usize) -> Result<&Matrix, LayerError> {
        match &self.data {
            Data::Dense(matrix) => Ok(matrix),
            other => Err(LayerError::Kind {
                input,
                got: other.kind(),
                want: "dense rows",
            }),
        }
    }

    /// The ids of input `input`, or what is wrong with it.
    pub fn ids(&self, input: usize) -> Result<&[u32], LayerError> {
        match &self.data {
            Data::Ids(ids) => Ok(ids),
            other => Err(LayerError::Kind {
                input,
                got: other.kind(),
                want: "ids",
            }),
        }
    }

    /// The ids, to write.
    pub fn ids_mut(&mut self) -> &mut Vec<u32> {
        if !matches!(self.data, Data::Ids(_)) {
            self.data = Data::Ids(Vec::new());
        }
        match &mut self.data {
            Data::Ids(ids) => ids,
            _ => unreachable!("made ids above"),
        }
    }

    /// The sequence offsets of input `input`, or what is wrong with it.
    pub fn sequences(&self, input: usize) -> Result<&Arc<[u32]>, LayerError> {
        self.layout
            .sequences
            .as_ref()
            .ok_or(LayerError::NotSequence { input })
    }

    /// Whether any gradient arrived in this backward pass.
    pub fn has_grad(&self) -> bool {
        self.has_grad
    }

    /// Forgets the gradient of the last batch.
    pub fn clear_grad(&mut self) {
        self.has_grad = false;
    }

    /// The gradient that arrived. Call only if [`Output::has_grad`].
    pub fn grad(&self) -> &Matrix {
        &self.grad
    }

    /// The gradient to add to: zeros if none arrived yet.
    pub fn grad_mut(&mut self) -> &mut Matrix {
        self.grad_and_value().0
    }

    /// The gradient to add to, and the values.
    pub fn grad_and_value(&mut self) -> (&mut Matrix, &Matrix) {
        let Data::Dense(value) = &self.data else {
            unreachable!("only dense outputs have gradients")
        };
        if !self.has_grad {
            self.has_grad = true;
            self.grad.resize_zeroed(value.rows(), value.cols());
        }
        (&mut self.grad, value)
    }

    /// The gradient, what to do with it (replace if none arrived yet), and the values.
    pub fn grad_target(&mut self) -> (&mut Matrix, Accumulate, &Matrix) {
        let Data::Dense(value) = &self.data else {
            unreachable!("only dense outputs have gradients")
        };
        let mode = if self.has_grad {
            Accumulate::Add
        } else {
            Accumulate::Overwrite
        };
        if !self.has_grad {
            self.has_grad = true;
            self.grad.resize(value.rows(), value.cols());
        }
        (&mut self.grad, mode, value)
    }

    /// Lends the gradient, so that a layer can read it while it changes everything else; give it back.
    pub fn take_grad(&mut self) -> Matrix {
        std::mem::take(&mut self.grad)
    }

    /// Gives back what [`Output::take_grad`] lent.
    pub fn put_grad(&mut self, grad: Matrix) {
        self.grad = grad;
    }

    /// Becomes the rows of `source` that `index` names.
    pub(crate) fn gather(&mut self, source: &Output, index: &[u32]) {
        match &source.data {
            Data::Dense(from) => gather_rows(self.value_mut(), from, index),
            Data::Ids(from) => {
                let to = self.ids_mut();
                to.clear();
                to.extend(index.iter().map(|&row| from[row as usize]));
            }
            Data::Sparse(from) => self.data = Data::Sparse(gather_sparse(from, index)),
        }
        self.wants_grad = source.wants_grad;
        self.has_grad = false;
    }
}

/// `to` = the rows of `from` that `index` names.
pub fn gather_rows(to: &mut Matrix, from: &Matrix, index: &[u32]) {
    let cols = from.cols();
    to.resize(index.len(), cols);
    simd::for_row_blocks(
        to.values_mut(),
        cols,
        #[inline(always)]
        |first, block| {
            for (row, to) in block.chunks_exact_mut(cols).enumerate() {
                to.copy_from_slice(from.row(index[first + row] as usize));
            }
        },
    );
}

/// `to[index[r]] += from[r]` for every row in order; `to` keeps its shape. Columns are spread over threads.
pub fn scatter_add_rows(to: &mut Matrix, from: &[f32], index: &[u32]) {
    let cols = to.cols();
    if cols == 0 {
        return;
    }
    let threads = rayon::current_num_threads();
    if threads == 1 || from.len() < 1 << 17 || cols < 32 {
        simd::vectorised(
            #[inline(always)]
            || {
                for (from, &row) in from.chunks_exact(cols).zip(index) {
                    simd::add(to.row_mut(row as usize), from);
                }
            },
        );
        return;
    }
    let width = cols.div_ceil(threads);
    let parts = column_parts(to.values_mut(), cols, width);
    parts
        .into_par_iter()
        .enumerate()
        .for_each(|(part, mut rows)| {
            let start = part * width;
            simd::vectorised(
                #[inline(always)]
                || {
                    for (from, &row) in from.chunks_exact(cols).zip(index) {
                        let to = &mut *rows[row as usize];
                        simd::add(to, &from[start..start + to.len()]);
                    }
                },
            );
        });
}

/// Cuts the rows of a matrix into column ranges, so that threads can own one each.
fn column_parts(values: &mut [f32], cols: usize, width: usize) -> Vec<Vec<&mut [f32]>> {
    let mut parts: Vec<Vec<&mut [f32]>> = Vec::new();
    parts.resize_with(cols.div_ceil(width), Vec::new);
    for row in values.chunks_exact_mut(cols) {
        for (part, piece) in row.chunks_mut(width).enumerate() {
            parts[part].push(piece);
        }
    }
    parts
}

fn gather_sparse(from: &SparseRows, index: &[u32]) -> SparseRows {
    let mut to = SparseRows {
        cols: from.cols,
        offsets: vec![0],
        ..SparseRows::default()
    };
    for &row in index {
        let range = from.range(row as usize);
        to.columns.extend_from_slice(&from.columns[range.clone()]);
        if !from.values.is_empty() {
            to.values.extend_from_slice(&from.values[range]);
        }
        to.offsets.push(to.columns.len() as u32);
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattering_is_the_same_for_any_number_of_threads() {
        let (rows, cols) = (3000, 96);
        let from: Vec<f32> = (0..rows * cols).map(|i| (i % 1013) as f32 * 0.37).collect();
        let index: Vec<u32> = (0..rows as u32).map(|i| (i * 7919) % 13).collect();
        let run = |threads| {
            let mut to = Matrix::zeros(13, cols);
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap()
                .install(|| scatter_add_rows(&mut to, &from, &index));
            to
        };
        assert_eq!(run(1), run(3));
    }

    #[test]
    fn a_gradient_starts_at_zero_and_adds_up() {
        let mut output = Output::new(true);
        output.value_mut().resize(1, 2);
        assert!(!output.has_grad());
        output.grad_mut().values_mut()[0] += 2.0;
        output.grad_mut().values_mut()[0] += 3.0;
        assert_eq!(output.grad().values(), [5.0, 0.0]);
        output.clear_grad();
        assert_eq!(output.grad_target().1, Accumulate::Overwrite);
        assert_eq!(output.grad_target().1, Accumulate::Add);
    }
}
