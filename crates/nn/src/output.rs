//! The output of a layer: values, their gradient, and how rows map to positions of the batch.

use std::sync::Arc;

use rayon::prelude::*;

use crate::domain::{Domain, Layout};
use crate::error::LayerError;
use crate::kept_products::RowOrigin;
use crate::matrix::{Matrix, SparseRows};
use crate::product::Accumulate;
use crate::simd;

/// The values of an output.
#[derive(Debug)]
pub enum OutputValues {
    /// Dense rows.
    Dense(Matrix),
    /// One id per row.
    Ids(Vec<u32>),
    /// Rows with few non-zero columns.
    Sparse(SparseRows),
}

impl OutputValues {
    /// The name of the kind in messages.
    pub fn kind(&self) -> &'static str {
        match self {
            OutputValues::Dense(_) => "dense rows",
            OutputValues::Ids(_) => "ids",
            OutputValues::Sparse(_) => "sparse rows",
        }
    }

    /// Number of stored rows.
    pub fn rows(&self) -> usize {
        match self {
            OutputValues::Dense(matrix) => matrix.rows(),
            OutputValues::Ids(ids) => ids.len(),
            OutputValues::Sparse(rows) => rows.rows(),
        }
    }
}

/// One layer's output in the current batch. Buffers are reused from batch to batch.
#[derive(Debug)]
pub struct Output {
    /// The values of the stored rows.
    pub data: OutputValues,
    /// How rows map to positions.
    pub layout: Layout,
    /// Whether the layers that read it should compute its gradient.
    pub wants_grad: bool,
    /// The score of each sub-sequence, if these are the results of a generation.
    pub scores: Vec<f32>,
    /// Ids that a layer outputs besides its values, one per row, for evaluators; empty if it has none.
    pub beside: Vec<u32>,
    /// The rows of a table that the stored rows are, if they are nothing else.
    pub(crate) origin: Option<RowOrigin>,
    grad: Matrix,
    has_grad: bool,
}

/// The gradient of an output, before a layer writes to it.
pub(crate) struct GradTarget<'a> {
    pub(crate) grad: &'a mut Matrix,
    /// Replaces the contents if no gradient has arrived yet.
    pub(crate) mode: Accumulate,
}

impl Output {
    /// An empty output.
    pub fn new(wants_grad: bool) -> Self {
        Self {
            data: OutputValues::Dense(Matrix::default()),
            layout: Layout::units(Domain::whole(0)),
            wants_grad,
            scores: Vec::new(),
            beside: Vec::new(),
            origin: None,
            grad: Matrix::default(),
            has_grad: false,
        }
    }

    /// The dense values. Only for outputs that are always dense.
    pub fn value(&self) -> &Matrix {
        match &self.data {
            OutputValues::Dense(matrix) => matrix,
            other => unreachable!("{} where the layer checked for dense rows", other.kind()),
        }
    }

    /// The dense values, to write; other kinds of data are replaced by an empty matrix.
    pub(crate) fn value_mut(&mut self) -> &mut Matrix {
        if !matches!(self.data, OutputValues::Dense(_)) {
            self.data = OutputValues::Dense(Matrix::default());
        }
        match &mut self.data {
            OutputValues::Dense(matrix) => matrix,
            _ => unreachable!("made dense above"),
        }
    }

    /// The dense values of input `input`, or an error if it holds something else.
    pub fn dense(&self, input: usize) -> Result<&Matrix, LayerError> {
        match &self.data {
            OutputValues::Dense(matrix) => Ok(matrix),
            other => Err(LayerError::Kind {
                input,
                got: other.kind(),
                want: "dense rows",
            }),
        }
    }

    /// The ids of input `input`, or an error if it holds something else.
    pub fn ids(&self, input: usize) -> Result<&[u32], LayerError> {
        match &self.data {
            OutputValues::Ids(ids) => Ok(ids),
            other => Err(LayerError::Kind {
                input,
                got: other.kind(),
                want: "ids",
            }),
        }
    }

    /// The ids, to write.
    pub fn ids_mut(&mut self) -> &mut Vec<u32> {
        if !matches!(self.data, OutputValues::Ids(_)) {
            self.data = OutputValues::Ids(Vec::new());
        }
        match &mut self.data {
            OutputValues::Ids(ids) => ids,
            _ => unreachable!("made ids above"),
        }
    }

    /// The sequence offsets of input `input`, or an error if it has no sequences.
    pub fn sequences(&self, input: usize) -> Result<&Arc<[u32]>, LayerError> {
        self.layout
            .sequences
            .as_ref()
            .ok_or(LayerError::NotSequence { input })
    }

    /// Whether any gradient arrived in this backward pass.
    pub(crate) fn has_grad(&self) -> bool {
        self.has_grad
    }

    /// Discards the gradient of the last batch.
    pub(crate) fn clear_grad(&mut self) {
        self.has_grad = false;
    }

    /// The gradient that arrived. Call only if [`Output::has_grad`].
    pub fn grad(&self) -> &Matrix {
        &self.grad
    }

    /// The gradient to add to: zeros if none arrived yet.
    pub(crate) fn grad_mut(&mut self) -> &mut Matrix {
        self.grad_and_value().0
    }

    /// The gradient to add to, and the values.
    pub(crate) fn grad_and_value(&mut self) -> (&mut Matrix, &Matrix) {
        let OutputValues::Dense(value) = &self.data else {
            unreachable!("only dense outputs have gradients")
        };
        if !self.has_grad {
            self.has_grad = true;
            self.grad.resize_zeroed(value.rows(), value.cols());
        }
        (&mut self.grad, value)
    }

    /// Where the gradient goes, without filling it with zeros first.
    pub(crate) fn grad_target(&mut self) -> GradTarget<'_> {
        let OutputValues::Dense(value) = &self.data else {
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
        GradTarget {
            grad: &mut self.grad,
            mode,
        }
    }

    /// Takes the gradient out, so that a layer can read it while it changes everything else; return it with
    /// [`Output::put_grad`].
    pub(crate) fn take_grad(&mut self) -> Matrix {
        std::mem::take(&mut self.grad)
    }

    /// Puts back the gradient from [`Output::take_grad`].
    pub(crate) fn put_grad(&mut self, grad: Matrix) {
        self.grad = grad;
    }

    /// Becomes a copy of the values of another output, without a gradient.
    pub(crate) fn copy_data(&mut self, from: &Output) {
        match &from.data {
            OutputValues::Dense(matrix) => self.value_mut().copy_from(matrix),
            OutputValues::Ids(ids) => self.ids_mut().clone_from(ids),
            OutputValues::Sparse(rows) => self.data = OutputValues::Sparse(rows.clone()),
        }
        self.has_grad = false;
    }

    /// Removes all rows of a kind of data that [`Output::append`] then adds to.
    pub(crate) fn clear_rows(&mut self, like: &Output) {
        match &like.data {
            OutputValues::Dense(matrix) => self.value_mut().resize(0, matrix.cols()),
            OutputValues::Ids(_) => self.ids_mut().clear(),
            OutputValues::Sparse(rows) => {
                self.data = OutputValues::Sparse(SparseRows {
                    cols: rows.cols,
                    offsets: vec![0],
                    ..SparseRows::default()
                })
            }
        }
        self.has_grad = false;
    }

    /// Adds the first `rows` rows of another output, or those that `index` names, at the end.
    pub(crate) fn append(&mut self, from: &Output, rows: usize, index: Option<&[u32]>) {
        let row = |place: usize| index.map_or(place, |index| index[place] as usize);
        match (&mut self.data, &from.data) {
            (OutputValues::Dense(to), OutputValues::Dense(from)) => match index {
                None => to.append(&from.values()[..rows * from.cols()]),
                Some(_) => (0..rows).for_each(|place| to.append(from.row(row(place)))),
            },
            (OutputValues::Ids(to), OutputValues::Ids(from)) => {
                to.extend((0..rows).map(|place| from[row(place)]));
            }
            (OutputValues::Sparse(to), OutputValues::Sparse(from)) => {
                let index: Vec<u32> = (0..rows).map(|place| row(place) as u32).collect();
                append_sparse(to, from, &index);
            }
            _ => unreachable!("a layer outputs the same kind of data in every step"),
        }
    }

    /// Adds rows to the gradient: row `r` to the row that `index` names, or to row `r`.
    pub(crate) fn add_grad(&mut self, rows: &[f32], index: Option<&[u32]>) {
        if let Some(source) = index.and_then(|index| self.sources(index)) {
            return scatter_first_rows(self.grad_target().grad, rows, &source);
        }
        let grad = self.grad_mut();
        match index {
            Some(index) => scatter_add_rows(grad, rows, index),
            None => {
                let part = &mut grad.values_mut()[..rows.len()];
                simd::vectorised(
                    #[inline(always)]
                    || simd::add(part, rows),
                );
            }
        }
    }

    /// For each row of the gradient its place in `index`, if no gradient arrived yet and each row is named once.
    fn sources(&self, index: &[u32]) -> Option<Vec<u32>> {
        let OutputValues::Dense(value) = &self.data else {
            return None;
        };
        if self.has_grad || index.len() != value.rows() {
            return None;
        }
        let mut source = vec![u32::MAX; index.len()];
        for (place, &row) in index.iter().enumerate() {
            let source = &mut source[row as usize];
            if *source != u32::MAX {
                return None;
            }
            *source = place as u32;
        }
        Some(source)
    }

    /// Shows the first `rows` rows of dense values that were moved here; a gradient gets zeros for more rows.
    pub(crate) fn limit(&mut self, rows: usize) {
        if let OutputValues::Dense(matrix) = &mut self.data {
            matrix.limit(rows);
            if self.has_grad {
                self.grad.resize(rows, matrix.cols());
            }
        }
    }

    /// Exchanges values and gradient with another output; both keep their layouts.
    pub(crate) fn exchange(&mut self, other: &mut Output) {
        std::mem::swap(&mut self.data, &mut other.data);
        std::mem::swap(&mut self.grad, &mut other.grad);
        std::mem::swap(&mut self.has_grad, &mut other.has_grad);
        (self.origin, other.origin) = (None, None);
    }

    /// Replaces the data by the rows of `source` that `index` names.
    pub(crate) fn gather(&mut self, source: &Output, index: &[u32]) {
        match &source.data {
            OutputValues::Dense(from) => gather_rows(self.value_mut(), from, index),
            OutputValues::Ids(from) => {
                let to = self.ids_mut();
                to.clear();
                to.extend(index.iter().map(|&row| from[row as usize]));
            }
            OutputValues::Sparse(from) => {
                self.data = OutputValues::Sparse(gather_sparse(from, index))
            }
        }
        self.wants_grad = source.wants_grad;
        self.has_grad = false;
    }
}

/// `to` = the rows of `from` that `index` names.
pub(crate) fn gather_rows(to: &mut Matrix, from: &Matrix, index: &[u32]) {
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

/// `to[r] = 0 + from[source[r]]`: what adding to zeros gives, without writing the zeros.
fn scatter_first_rows(to: &mut Matrix, from: &[f32], source: &[u32]) {
    let cols = to.cols();
    simd::for_row_blocks(
        to.values_mut(),
        cols,
        #[inline(always)]
        |first, block| {
            for (row, to) in block.chunks_exact_mut(cols).enumerate() {
                let start = source[first + row] as usize * cols;
                for (to, from) in to.iter_mut().zip(&from[start..start + cols]) {
                    // The sum of zero and minus zero is zero.
                    *to = 0.0 + from;
                }
            }
        },
    );
}

/// `to[index[r]] += from[r]` for every row in order; `to` keeps its shape. Columns are spread over threads.
pub(crate) fn scatter_add_rows(to: &mut Matrix, from: &[f32], index: &[u32]) {
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

/// Splits the rows of a matrix into column ranges, so that threads can own one each.
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
    append_sparse(&mut to, from, index);
    to
}

fn append_sparse(to: &mut SparseRows, from: &SparseRows, index: &[u32]) {
    for &row in index {
        let range = from.range(row as usize);
        to.columns.extend_from_slice(&from.columns[range.clone()]);
        if !from.values.is_empty() {
            to.values.extend_from_slice(&from.values[range]);
        }
        to.offsets.push(to.columns.len() as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_gradient_is_the_bits_of_a_sum_with_zeros() {
        let index = [2u32, 0, 1];
        let rows = [-0.0f32, 1.0, f32::MIN_POSITIVE, -0.0, 3.0, -5.5];
        let mut summed = Matrix::zeros(3, 2);
        scatter_add_rows(&mut summed, &rows, &index);
        let mut out = Output::new(true);
        out.value_mut().resize(3, 2);
        let bits = |matrix: &Matrix| {
            matrix
                .values()
                .iter()
                .map(|x| x.to_bits())
                .collect::<Vec<_>>()
        };
        out.add_grad(&rows, Some(&index));
        assert_eq!(bits(out.grad()), bits(&summed));
        out.add_grad(&rows, Some(&index));
        scatter_add_rows(&mut summed, &rows, &index);
        assert_eq!(bits(out.grad()), bits(&summed));
        // A row that is named twice gets both.
        out.clear_grad();
        out.add_grad(&rows, Some(&[0, 0, 1]));
        assert_eq!(
            out.grad().values(),
            [f32::MIN_POSITIVE, 1.0, 3.0, -5.5, 0.0, 0.0]
        );
    }

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
        assert_eq!(output.grad_target().mode, Accumulate::Overwrite);
        assert_eq!(output.grad_target().mode, Accumulate::Add);
    }
}
