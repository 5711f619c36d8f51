//! A row-major matrix of `f32` whose buffer is reused from batch to batch.

/// Rows of equal width, one after another in memory.
#[derive(Debug, Clone, Default)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    /// The rows, and after [`Matrix::limit`] more of them.
    data: Vec<f32>,
}

impl PartialEq for Matrix {
    fn eq(&self, other: &Self) -> bool {
        (self.rows, self.cols) == (other.rows, other.cols) && self.values() == other.values()
    }
}

impl Matrix {
    /// A matrix of zeros.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        Self {
            rows,
            cols,
            data: vec![0.0; rows * cols],
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Width of a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Changes the shape. The values are unspecified afterwards: old values or zeros.
    pub fn resize(&mut self, rows: usize, cols: usize) {
        self.rows = rows;
        self.cols = cols;
        self.data.resize(rows * cols, 0.0);
    }

    /// Changes the shape and sets all values to zero.
    pub(crate) fn resize_zeroed(&mut self, rows: usize, cols: usize) {
        self.resize(rows, cols);
        self.data.fill(0.0);
    }

    /// All values, row after row.
    pub fn values(&self) -> &[f32] {
        &self.data[..self.rows * self.cols]
    }

    /// All values, row after row.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.data[..self.rows * self.cols]
    }

    /// Shows only the first `rows` rows, or more of them again: until the next change of shape none is lost.
    pub fn limit(&mut self, rows: usize) {
        assert!(
            rows * self.cols <= self.data.len(),
            "only rows that exist can be shown"
        );
        self.rows = rows;
    }

    /// Adds rows at the end.
    pub fn append(&mut self, rows: &[f32]) {
        self.data.truncate(self.rows * self.cols);
        self.data.extend_from_slice(rows);
        self.rows += rows.len().checked_div(self.cols).unwrap_or(0);
    }

    /// One row; panics if the index is not below [`Matrix::rows`].
    pub fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.cols..(row + 1) * self.cols]
    }

    /// One row, to change it; panics if the index is not below [`Matrix::rows`].
    pub fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.data[row * self.cols..(row + 1) * self.cols]
    }

    /// The rows in order. Empty if the width is 0.
    pub(crate) fn iter_rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values().chunks_exact(self.cols.max(1))
    }

    /// The rows in order. Empty if the width is 0.
    pub(crate) fn iter_rows_mut(&mut self) -> std::slice::ChunksExactMut<'_, f32> {
        let cols = self.cols.max(1);
        self.values_mut().chunks_exact_mut(cols)
    }

    /// Splits the rows at the offsets, which ascend from 0 to the number of rows.
    pub(crate) fn split_rows_mut(&mut self, offsets: &[u32]) -> Vec<&mut [f32]> {
        let cols = self.cols;
        let mut rest = self.values_mut();
        let mut pieces = Vec::with_capacity(offsets.len().saturating_sub(1));
        for range in offsets.windows(2) {
            let (piece, after) = rest.split_at_mut((range[1] - range[0]) as usize * cols);
            pieces.push(piece);
            rest = after;
        }
        pieces
    }

    /// Becomes a copy of `other`, keeping its buffer.
    pub fn copy_from(&mut self, other: &Matrix) {
        self.rows = other.rows;
        self.cols = other.cols;
        self.data.clear();
        self.data.extend_from_slice(other.values());
    }
}

/// Rows with few non-zero columns (compressed sparse rows).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SparseRows {
    /// Width of a row.
    pub cols: usize,
    /// Offset of each row in `columns`, and the end: one more than rows.
    pub offsets: Vec<u32>,
    /// Column of each entry.
    pub columns: Vec<u32>,
    /// Value of each entry; empty if all are 1.
    pub values: Vec<f32>,
}

impl SparseRows {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The range of a row's entries.
    pub fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }

    /// The value of an entry.
    pub fn value(&self, entry: usize) -> f32 {
        self.values.get(entry).copied().unwrap_or(1.0)
    }
}
