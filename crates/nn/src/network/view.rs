//! A layer's output as seen from outside: one row per position of the batch, whatever is shared inside.

use std::sync::Arc;

use crate::domain::{Domain, SpreadLayout};
use crate::matrix::SparseRows;
use crate::output::{Output, OutputValues};

/// The output of one layer for the whole batch.
#[derive(Debug)]
pub struct LayerView<'a> {
    output: &'a Output,
    index: Option<Arc<[u32]>>,
    sequences: Option<Arc<[u32]>>,
    subsequences: Option<Arc<[u32]>>,
    rows: usize,
}

impl<'a> LayerView<'a> {
    pub(crate) fn new(output: &'a Output, samples: usize) -> Self {
        let unit_of = output.layout.domain.of_sample.clone();
        let SpreadLayout { layout, index } = output
            .layout
            .spread(&Domain::whole(samples), unit_of.as_ref());
        let rows = index
            .as_ref()
            .map_or(output.data.rows(), |index| index.len());
        Self {
            output,
            index,
            sequences: layout.sequences,
            subsequences: layout.subsequences,
            rows,
        }
    }

    /// Number of rows: samples, or positions of sequences.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Width of a row; 1 for ids.
    pub fn cols(&self) -> usize {
        match &self.output.data {
            OutputValues::Dense(matrix) => matrix.cols(),
            OutputValues::Ids(_) => 1,
            OutputValues::Sparse(rows) => rows.cols,
        }
    }

    /// Offset of each sample's first row, if they are sequences.
    pub fn sequences(&self) -> Option<&[u32]> {
        self.sequences.as_deref()
    }

    /// Offset of each sub-sequence's first row, if sequences are nested.
    pub fn subsequences(&self) -> Option<&[u32]> {
        self.subsequences.as_deref()
    }

    /// The scores of sub-sequences that are results of a generation, if there may be several results per sample.
    pub fn scores(&self) -> Option<&'a [f32]> {
        let scores = self.output.scores.as_slice();
        let several = self.subsequences.is_some() && self.is_ids() && !scores.is_empty();
        several.then_some(scores)
    }

    fn stored(&self, row: usize) -> usize {
        self.index.as_ref().map_or(row, |index| index[row] as usize)
    }

    /// A dense row; `None` if the layer's output is not dense.
    pub fn row(&self, row: usize) -> Option<&'a [f32]> {
        match &self.output.data {
            OutputValues::Dense(matrix) => Some(matrix.row(self.stored(row))),
            _ => None,
        }
    }

    /// The id of a row; `None` if the layer's output is not ids.
    pub fn id(&self, row: usize) -> Option<u32> {
        match &self.output.data {
            OutputValues::Ids(ids) => Some(ids[self.stored(row)]),
            _ => None,
        }
    }

    /// The id of a row, also if the layer outputs ids besides its values; `None` if it has none.
    pub fn label(&self, row: usize) -> Option<u32> {
        let beside = || self.output.beside.get(self.stored(row)).copied();
        self.id(row).or_else(beside)
    }

    /// Whether the output is ids.
    pub fn is_ids(&self) -> bool {
        matches!(self.output.data, OutputValues::Ids(_))
    }

    /// Whether the output is dense.
    pub fn is_dense(&self) -> bool {
        matches!(self.output.data, OutputValues::Dense(_))
    }

    /// The non-zero columns of a row, with their values; `None` if the layer's output is not sparse.
    pub fn sparse_row(&self, row: usize) -> Option<impl Iterator<Item = (u32, f32)> + 'a> {
        match &self.output.data {
            OutputValues::Sparse(rows) => Some(entries(rows, self.stored(row))),
            _ => None,
        }
    }

    /// All dense rows one after another; `None` if the layer's output is not dense.
    pub fn to_dense(&self) -> Option<Vec<f32>> {
        let mut all = Vec::with_capacity(self.rows * self.cols());
        for row in 0..self.rows {
            all.extend_from_slice(self.row(row)?);
        }
        Some(all)
    }

    /// The gradient that arrived at a dense row; shared rows have the sum over their positions. `None` if none arrived.
    pub fn grad(&self, row: usize) -> Option<&'a [f32]> {
        self.output
            .has_grad()
            .then(|| self.output.grad().row(self.stored(row)))
    }
}

fn entries(rows: &SparseRows, row: usize) -> impl Iterator<Item = (u32, f32)> + '_ {
    rows.range(row)
        .map(|entry| (rows.columns[entry], rows.value(entry)))
}
