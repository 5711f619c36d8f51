//! One mini-batch as the data source provides it: one slot per data layer, ragged, without padding.

use std::sync::Arc;

/// Samples that are computed together.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Number of samples.
    pub samples: usize,
    /// One slot per data layer, in the order of the network's inputs.
    pub slots: Vec<Slot>,
}

/// The input of one data layer for all samples of a batch.
#[derive(Debug, Clone)]
pub struct Slot {
    /// The rows: one per sample, or one per position if there are sequences.
    pub data: SlotData,
    /// `samples + 1` offsets into the rows: where each sample's positions start, the first 0. `None`: no sequences.
    pub sequences: Option<Arc<[u32]>>,
    /// Offsets into the rows: where each sub-sequence starts. They include every sequence offset. `None`: not nested.
    pub subsequences: Option<Arc<[u32]>>,
}

impl Slot {
    /// A slot without sequences: one row per sample.
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
    /// Rows of `dim` values, one after another.
    Dense {
        /// Width of a row.
        dim: usize,
        /// `rows * dim` values.
        values: Vec<f32>,
    },
    /// One id per row.
    Ids(Vec<u32>),
    /// Rows whose few non-zero columns are all 1.
    Binary {
        /// Offset of each row's first column, and the end: one more than rows.
        offsets: Vec<u32>,
        /// The columns that are 1.
        columns: Vec<u32>,
    },
    /// Rows with few non-zero columns.
    Sparse {
        /// Offset of each row's first column, and the end: one more than rows.
        offsets: Vec<u32>,
        /// The columns that are not 0.
        columns: Vec<u32>,
        /// The values of these columns.
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
