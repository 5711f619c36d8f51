//! One mini-batch as the data source hands it over: a slot for each data layer, ragged, nothing padded.

use std::sync::Arc;

/// Samples that are computed together.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Number of samples.
    pub samples: usize,
    /// One slot for each data layer, in the order of the network's inputs.
    pub slots: Vec<Slot>,
}

/// What all samples of a batch say about one data layer.
#[derive(Debug, Clone)]
pub struct Slot {
    /// The rows: one for each sample, or one for each position if there are sequences.
    pub data: SlotData,
    /// Where each sample's positions start: `samples + 1` offsets into the rows, the first 0.
    pub sequences: Option<Arc<[u32]>>,
    /// Where each sub-sequence starts: offsets into the rows; every sequence offset is one of them.
    pub subsequences: Option<Arc<[u32]>>,
}

impl Slot {
    /// A slot without sequences: one row for each sample.
    pub fn plain(data: SlotData) -> Self {
        Self {
            data,
            sequences: None,
            subsequences: None,
        }
    }

    /// A slot whose rows are positions of sequences.
    pub fn sequence(data: SlotData, sequences: impl Into<Arc<[u32]>>) -> Self {
        Self {
            data,
            sequences: Some(sequences.into()),
            subsequences: None,
        }
    }
}

/// The rows of a slot.
#[derive(Debug, Clone, PartialEq)]
pub enum SlotData {
    /// Rows of `dim` numbers, one after another.
    Dense {
        /// Width of a row.
        dim: usize,
        /// `rows * dim` numbers.
        values: Vec<f32>,
    },
    /// One id for each row.
    Ids(Vec<u32>),
    /// Rows whose few non-zero columns are all 1.
    Binary {
        /// Where each row's columns start, one more than rows.
        offsets: Vec<u32>,
        /// The columns that are 1.
        columns: Vec<u32>,
    },
    /// Rows with few non-zero columns.
    Sparse {
        /// Where each row's columns start, one more than rows.
        offsets: Vec<u32>,
        /// The columns that are not 0.
        columns: Vec<u32>,
        /// Their values.
        values: Vec<f32>,
    },
}

impl SlotData {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        match self {
            SlotData::Dense { dim, values } => values.len().checked_div(*dim).unwrap_or(0),
            SlotData::Ids(ids) => ids.len(),
            SlotData::Binary { offsets, .. } | SlotData::Sparse { offsets, .. } => {
                offsets.len().saturating_sub(1)
            }
        }
    }
}
