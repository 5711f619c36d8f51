//! The blocks of a dense table that one service holds: values, optimizer state, and the sum of a step.
//!
//! All blocks lie one after another. The state of a block is `slots` runs as long as the block, at `slots` times
//! the block's offset; so a block is updated and saved by itself.

use crate::table::Table;
use optim::Progress;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};
use wire::shard::Block;

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
    pub values: Vec<f32>,
    /// State of all blocks.
    pub state: Vec<f32>,
    /// The scalars of the table.
    pub progress: Progress,
}

impl DensePiece {
    /// A piece with the table's initial values.
    pub fn new(table: &Table, blocks: Vec<Block>) -> Self {
        let len = blocks.iter().map(|block| block.len).sum();
        let mut values = Vec::with_capacity(len);
        let mut row = RowCache {
            at: None,
            values: vec![0.0; table.cols()],
        };
        for block in &blocks {
            row.append(table, block, &mut values);
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

    /// Sums the pushes in the given order and applies them. The first buffer is used for the sum.
    pub fn apply(&self, table: &Table, samples: u64, pushes: &mut [Vec<f32>]) {
        let mut data = self.data.write().unwrap_or_else(PoisonError::into_inner);
        if self.wanted.swap(false, Ordering::AcqRel) {
            self.keep(data.clone());
        }
        let data = &mut *data;
        let step = table.rule.begin(&mut data.progress, samples);
        let longest = self.blocks.iter().map(|block| block.len).max().unwrap_or(0);
        let mut zero = if pushes.is_empty() {
            vec![0.0; longest]
        } else {
            Vec::new()
        };
        let mut at = 0;
        for block in &self.blocks {
            let range = at..at + block.len;
            let state = &mut data.state[at * table.slots..(at + block.len) * table.slots];
            let sum = match pushes.split_first_mut() {
                None => &mut zero[..block.len],
                Some((first, others)) => {
                    let sum = &mut first[range.clone()];
                    others
                        .iter()
                        .for_each(|other| add(sum, &other[range.clone()]));
                    sum
                }
            };
            table
                .rule
                .update(&step, &mut data.values[range], state, sum);
            at += block.len;
        }
    }

    /// Sums and applies block by block while the last push arrives: `receive` gives its next values. `pushes` are
    /// those of the other trainers, `before` of them come before the arriving one.
    pub fn apply_arriving<E>(
        &self,
        table: &Table,
        samples: u64,
        (pushes, before): (&mut [Vec<f32>], usize),
        mut receive: impl FnMut(&mut [f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut data = self.data.write().unwrap_or_else(PoisonError::into_inner);
        if self.wanted.swap(false, Ordering::AcqRel) {
            self.keep(data.clone());
        }
        let data = &mut *data;
        let step = table.rule.begin(&mut data.progress, samples);
        let longest = self.blocks.iter().map(|block| block.len).max().unwrap_or(0);
        let mut arriving = vec![0.0; longest];
        let mut at = 0;
        for block in &self.blocks {
            let range = at..at + block.len;
            let arriving = &mut arriving[..block.len];
            receive(arriving)?;
            let (earlier, later) = pushes.split_at_mut(before);
            let sum = match earlier.split_first_mut() {
                None => arriving,
                Some((first, others)) => {
                    let sum = &mut first[range.clone()];
                    others
                        .iter()
                        .for_each(|other| add(sum, &other[range.clone()]));
                    add(sum, arriving);
                    sum
                }
            };
            later
                .iter()
                .for_each(|other| add(sum, &other[range.clone()]));
            let state = &mut data.state[at * table.slots..(at + block.len) * table.slots];
            table
                .rule
                .update(&step, &mut data.values[range], state, sum);
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
    fn append(&mut self, table: &Table, block: &Block, out: &mut Vec<f32>) {
        let cols = self.values.len();
        let mut at = block.start;
        let end = block.start + block.len;
        while at < end {
            let (row, col) = ((at / cols) as u64, at % cols);
            if self.at != Some(row) {
                table.initial.fill(row, &mut self.values);
                self.at = Some(row);
            }
            let take = (cols - col).min(end - at);
            out.extend_from_slice(&self.values[col..col + take]);
            at += take;
        }
    }
}
