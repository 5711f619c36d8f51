//! The rows of one request, and the gradients that a trainer pushes for them.

use std::ops::Range;
use std::sync::Arc;
use wire::shared;

/// Rows of one request, with the slots they were found in.
#[derive(Debug, Default)]
pub struct FoundRows {
    /// The piece's counter of replaced rows when the slots were found; if it has changed, they are invalid.
    pub(super) generation: u64,
    pub(super) ids: Vec<u32>,
    pub(super) hashes: Vec<u64>,
    pub(super) slots: Vec<u32>,
    pub(super) runs: Vec<IdRun>,
}

/// Neighbouring ids of one shard.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdRun {
    pub shard: usize,
    pub start: usize,
    pub end: usize,
}

impl FoundRows {
    /// The ids of a request, to be filled in; [`super::SparsePiece::group`] checks them.
    pub fn ids_mut(&mut self) -> &mut Vec<u32> {
        &mut self.ids
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True for no rows.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// A trainer's gradients of rows.
#[derive(Debug)]
pub struct RowPush {
    /// The rows.
    pub found: FoundRows,
    /// Their gradients.
    pub gradients: RowGradients,
}

/// Gradients of rows, one after another.
#[derive(Debug)]
pub enum RowGradients {
    /// As they were received.
    Received(Vec<f32>),
    /// In the row buffer of a trainer on this host, from its beginning.
    Tray(Arc<shared::SharedRegion>),
}

impl RowGradients {
    /// A range of the gradients. Those in a row buffer are copied into `copy`, all others are prefetched.
    pub(super) fn get<'a>(&'a self, range: Range<usize>, copy: &'a mut Vec<f32>) -> &'a [f32] {
        match self {
            Self::Received(all) => {
                let numbers = &all[range];
                wire::prefetch::slice(numbers);
                numbers
            }
            Self::Tray(tray) => {
                copy.resize(range.len(), 0.0);
                tray.read(range.start, copy);
                copy
            }
        }
    }
}
