//! The blocks of a dense table that one service holds: values, optimizer state, and the sum of a step.
//!
//! All blocks lie one after another. The state of a block is `slots` runs as long as the block, at `slots` times
//! the block's offset; so a block is updated and saved by itself.

use crate::gradient::Source;
use crate::table::Table;
use optim::Progress;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};
use wire::shard::Block;
use wire::shared::Part;

/// One service's part of a dense table.
#[derive(Debug)]
pub struct DensePiece {
    blocks: Vec<Block>,
    len: usize,
    data: RwLock<DenseData>,
    wanted: AtomicBool,
    captured: Mutex<Option<DenseData>>,
}

/// The numbers of a piece.
#[derive(Debug, Clone)]
pub struct DenseData {
    /// Values of all blocks.
    pub values: Numbers,
    /// State of all blocks.
    pub state: Vec<f32>,
    /// The scalars of the table.
    pub progress: Progress,
}

/// Values, in memory of this process or in memory that trainers on this host can read.
#[derive(Debug)]
pub enum Numbers {
    /// Nobody else sees them.
    Own(Vec<f32>),
    /// Shared.
    Shared(Part),
}

impl std::ops::Deref for Numbers {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match self {
            Self::Own(values) => values,
            Self::Shared(values) => values,
        }
    }
}

impl std::ops::DerefMut for Numbers {
    fn deref_mut(&mut self) -> &mut [f32] {
        match self {
            Self::Own(values) => values,
            Self::Shared(values) => values,
        }
    }
}

impl Clone for Numbers {
    fn clone(&self) -> Self {
        Self::Own(self.to_vec())
    }
}

impl DensePiece {
    /// A piece with the table's initial values, in memory that is as long as its blocks together.
    pub fn new(table: &Table, blocks: Vec<Block>, mut values: Numbers) -> Self {
        let len = values.len();
        let mut row = RowCache {
            at: None,
            values: vec![0.0; table.cols()],
        };
        let mut rest = &mut *values;
        for block in &blocks {
            let (own, later) = rest.split_at_mut(block.len);
            row.fill(table, block, own);
            rest = later;
        }
        let data = DenseData {
            values,
            state: vec![0.0; len * table.slots],
            progress: Progress::default(),
        };
        Self {
            blocks,
            len,
            data: RwLock::new(data),
            wanted: AtomicBool::new(false),
            captured: Mutex::new(None),
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the service holds no block of this table.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The blocks, ascending.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The numbers, for reading.
    pub fn read(&self) -> RwLockReadGuard<'_, DenseData> {
        self.data.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the numbers from outside of training: a restore, values from trainer 0, a new pass.
    pub fn change(&self, with: impl FnOnce(&mut DenseData)) {
        with(&mut self.data.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Sums the gradients in the given order and applies them, block by block. If one of them breaks off, the piece is
    /// half changed and of no more use.
    pub fn apply<E>(
        &self,
        table: &Table,
        samples: u64,
        gradients: &mut [Source<'_, E>],
    ) -> Result<(), E> {
        let mut data = self.data.write().unwrap_or_else(PoisonError::into_inner);
        if self.wanted.swap(false, Ordering::AcqRel) {
            self.keep(data.clone());
        }
        let data = &mut *data;
        let step = table.rule.begin(&mut data.progress, samples);
        let longest = self.blocks.iter().map(|block| block.len).max().unwrap_or(0);
        let (mut sum, mut other) = (vec![0.0; longest], vec![0.0; longest]);
        let mut packed = Vec::new();
        let mut at = 0;
        for block in &self.blocks {
            let sum = &mut sum[..block.len];
            if let Some((first, others)) = gradients.split_first_mut() {
                first.next(sum, &mut packed)?;
                for gradient in others {
                    gradient.next(&mut other[..block.len], &mut packed)?;
                    add(sum, &other[..block.len]);
                }
            }
            let state = &mut data.state[at * table.slots..(at + block.len) * table.slots];
            let values = &mut data.values[at..at + block.len];
            table.rule.update(&step, values, state, sum);
            at += block.len;
        }
        Ok(())
    }

    /// Asks for a copy of the numbers as they are now; whoever comes first makes it: [`DensePiece::capture`] or
    /// the next change.
    pub fn want(&self) {
        self.wanted.store(true, Ordering::Release);
    }

    /// The copy that was asked for.
    pub fn capture(&self) -> Option<DenseData> {
        let data = self.read();
        if self.wanted.swap(false, Ordering::AcqRel) {
            return Some(data.clone());
        }
        drop(data);
        self.captured
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    fn keep(&self, copy: DenseData) {
        *self.captured.lock().unwrap_or_else(PoisonError::into_inner) = Some(copy);
    }
}

/// `sum += other`, element by element.
fn add(sum: &mut [f32], other: &[f32]) {
    for (sum, other) in sum.iter_mut().zip(other) {
        *sum += *other;
    }
}

/// Initial values come by row; blocks cut rows anywhere, so the last row is kept.
struct RowCache {
    at: Option<u64>,
    values: Vec<f32>,
}

impl RowCache {
    fn fill(&mut self, table: &Table, block: &Block, out: &mut [f32]) {
        let cols = self.values.len();
        let mut done = 0;
        while done < block.len {
            let at = block.start + done;
            let (row, col) = ((at / cols) as u64, at % cols);
            if self.at != Some(row) {
                table.initial.fill(row, &mut self.values);
                self.at = Some(row);
            }
            let take = (cols - col).min(block.len - done);
            out[done..done + take].copy_from_slice(&self.values[col..col + take]);
            done += take;
        }
    }
}
