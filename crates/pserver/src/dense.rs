//! The blocks of a dense table that one service holds: values, optimizer state, and the sum of a step.
//!
//! All blocks are stored one after another. The state of a block is `slots` runs as long as the block, at `slots` times
//! the block's offset; so each block is updated and saved by itself.

use crate::gradient::{GradientSource, Held, Receive};
use crate::table::Table;
use optim::{ParameterProgress, UpdateStep};
use std::convert::Infallible;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::runs;
use wire::shard::Block;
use wire::shared::PublishedValues;
use words::lock::{Mutex, RwLock, RwLockReadGuard};

/// One service's part of a dense table.
#[derive(Debug)]
pub struct DensePiece {
    blocks: Vec<Block>,
    len: usize,
    data: RwLock<DenseData>,
    wanted: AtomicBool,
    captured: Mutex<Option<DenseData>>,
}

/// Values, state and scalars of a piece.
#[derive(Debug, Clone)]
pub struct DenseData {
    /// Values of all blocks.
    pub values: BlockValues,
    /// State of all blocks.
    pub state: Vec<f32>,
    /// The scalars of the table.
    pub progress: ParameterProgress,
}

/// Values, in memory of this process or in memory that trainers on this host can read.
#[derive(Debug)]
pub enum BlockValues {
    /// No other process sees them.
    Own(Vec<f32>),
    /// Trainers on this host can read them.
    Shared(PublishedValues),
}

impl std::ops::Deref for BlockValues {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match self {
            Self::Own(values) => values,
            Self::Shared(values) => values,
        }
    }
}

impl std::ops::DerefMut for BlockValues {
    fn deref_mut(&mut self) -> &mut [f32] {
        match self {
            Self::Own(values) => values,
            Self::Shared(values) => values,
        }
    }
}

impl Clone for BlockValues {
    fn clone(&self) -> Self {
        Self::Own(self.to_vec())
    }
}

impl DensePiece {
    /// A piece with the table's initial values. `values` is as long as its blocks together.
    pub fn new(table: &Table, blocks: Vec<Block>, mut values: BlockValues) -> Self {
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
            progress: ParameterProgress::default(),
        };
        Self {
            blocks,
            len,
            data: RwLock::new(data),
            wanted: AtomicBool::new(false),
            captured: Mutex::new(None),
        }
    }

    /// Length in `f32` values.
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

    /// Whether the values can be read now, without waiting for an update.
    pub(crate) fn is_free(&self) -> bool {
        self.data.try_read().is_some()
    }

    /// The data, for reading.
    pub fn read(&self) -> RwLockReadGuard<'_, DenseData> {
        self.data.read()
    }

    /// Where those values of rows of the table lie that are in these blocks: ranges among the values of all blocks, each
    /// inside one block. Ids ascend.
    pub(crate) fn runs(&self, ids: &[u32], cols: usize) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::with_capacity(ids.len());
        // `at` is the first block that does not end before the row, and `before` counts the values of those that do.
        let (mut at, mut before) = (0, 0);
        for id in ids {
            let (start, end) = (*id as usize * cols, (*id as usize + 1) * cols);
            while let Some(block) = self.blocks.get(at).filter(|block| block.start < end) {
                let block_end = block.start + block.len;
                let (from, to) = (start.max(block.start), end.min(block_end));
                if from < to {
                    let run = before + from - block.start..before + to - block.start;
                    // Runs end where blocks do.
                    match from == block.start {
                        true => runs.push(run),
                        false => runs::push(&mut runs, run),
                    }
                }
                if end < block_end {
                    break;
                }
                before += block.len;
                at += 1;
            }
        }
        runs
    }

    /// Changes the data outside of training: a restore, values from trainer 0, a new pass.
    pub fn change(&self, with: impl FnOnce(&mut DenseData)) {
        with(&mut self.data.write());
    }

    /// Sums the gradients in the given order and applies them.
    pub fn apply(&self, table: &Table, samples: u64, gradients: &[Held]) {
        self.update(table, samples, |stretch, step| {
            stretch.share(table, step, gradients);
        });
    }

    /// Sums and applies block by block while the last gradient arrives; `before` of the others precede it in the sum.
    /// If it breaks off, the piece is half changed and must not be used any more.
    pub(crate) fn apply_arriving<E>(
        &self,
        table: &Table,
        samples: u64,
        gradients: &[Held],
        before: usize,
        arriving: Receive<'_, E>,
    ) -> Result<(), E> {
        let held = gradients
            .iter()
            .map(|held| GradientSource::after(held, &[]));
        let mut sources: Vec<GradientSource<'_, E>> = held.collect();
        sources.insert(before, GradientSource::Arriving(arriving));
        self.update(table, samples, |stretch, step| {
            stretch.apply(table, step, &mut sources)
        })
    }

    /// Begins a step and calls `change` to apply it.
    fn update<T>(
        &self,
        table: &Table,
        samples: u64,
        change: impl FnOnce(Stretch<'_>, &UpdateStep) -> T,
    ) -> T {
        let mut data = self.data.write();
        if self.wanted.swap(false, Ordering::AcqRel) {
            self.keep(data.clone());
        }
        let data = &mut *data;
        let step = table.rule.begin(&mut data.progress, samples);
        let all = Stretch {
            blocks: &self.blocks,
            values: &mut data.values,
            state: &mut data.state,
        };
        change(all, &step)
    }

    /// Requests a copy of the data as they are now. It is made by whichever comes first: [`DensePiece::capture`] or
    /// the next change.
    pub fn want(&self) {
        self.wanted.store(true, Ordering::Release);
    }

    /// The copy that was requested; `None` if none was.
    pub(crate) fn capture(&self) -> Option<DenseData> {
        let data = self.read();
        if self.wanted.swap(false, Ordering::AcqRel) {
            return Some(data.clone());
        }
        drop(data);
        self.captured.lock().take()
    }

    fn keep(&self, copy: DenseData) {
        *self.captured.lock() = Some(copy);
    }
}

/// Values that one thread updates before it is worth waking others.
const LONG: usize = 1 << 17;

/// Cores that this process may use.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Neighbouring blocks of a piece, with their values and state.
struct Stretch<'a> {
    blocks: &'a [Block],
    values: &'a mut [f32],
    state: &'a mut [f32],
}

impl Stretch<'_> {
    /// Applies gradients in several threads; the result is the same for any number of threads. A trainer's last push
    /// makes all services work, and the cores of waiting trainers are free; a new thread finds them.
    fn share(self, table: &Table, step: &UpdateStep, gradients: &[Held]) {
        let threads = (self.values.len() / LONG).clamp(1, cores());
        let (all, each) = (self.blocks, self.blocks.len().div_ceil(threads).max(1));
        if all.len() <= each {
            return self.apply_held(table, step, &[], gradients);
        }
        let mut parts = Vec::with_capacity(threads);
        let (mut rest, mut at) = (self, 0);
        while rest.blocks.len() > each {
            let (first, later) = rest.split(each, table.slots);
            parts.push((first, at));
            (rest, at) = (later, at + each);
        }
        parts.push((rest, at));
        let helpers = parts.len() - 1;
        let parts = Mutex::new(parts);
        let next = || parts.lock().pop();
        let work = || {
            while let Some((part, at)) = next() {
                part.apply_held(table, step, &all[..at], gradients);
            }
        };
        std::thread::scope(|scope| {
            // Without room for a thread in the system, this one does all the work.
            let spawn = |_| {
                std::thread::Builder::new()
                    .spawn_scoped(scope, work)
                    .is_ok()
            };
            let _ = (0..helpers).all(spawn);
            work();
        });
    }

    fn apply_held(self, table: &Table, step: &UpdateStep, before: &[Block], gradients: &[Held]) {
        let sources = gradients
            .iter()
            .map(|held| GradientSource::after(held, before));
        let mut sources: Vec<GradientSource<'_, Infallible>> = sources.collect();
        let Ok(()) = self.apply(table, step, &mut sources);
    }

    fn apply<E>(
        self,
        table: &Table,
        step: &UpdateStep,
        gradients: &mut [GradientSource<'_, E>],
    ) -> Result<(), E> {
        if gradients.is_empty() && table.rule.stays_without_push() {
            return Ok(());
        }
        let longest = self.blocks.iter().map(|block| block.len).max().unwrap_or(0);
        let (mut sum, mut scratch) = (vec![0.0; longest], Vec::new());
        let mut at = 0;
        for block in self.blocks {
            let sum = &mut sum[..block.len];
            let (mut filled, others) = match gradients {
                [] => (0, &mut [][..]),
                [only] => (only.begin(sum, &mut scratch)?, &mut [][..]),
                [first, second, others @ ..] => {
                    (first.begin_pair(second, sum, &mut scratch)?, others)
                }
            };
            for gradient in others {
                filled = gradient.add(sum, filled, &mut scratch)?;
            }
            let state = &mut self.state[at * table.slots..(at + block.len) * table.slots];
            let values = &mut self.values[at..at + block.len];
            table.rule.update(step, values, state, sum);
            at += block.len;
        }
        Ok(())
    }
}

impl<'a> Stretch<'a> {
    fn split(self, blocks: usize, slots: usize) -> (Stretch<'a>, Stretch<'a>) {
        let (one, other) = self.blocks.split_at(blocks);
        let len: usize = one.iter().map(|block| block.len).sum();
        let (values, later_values) = self.values.split_at_mut(len);
        let (state, later_state) = self.state.split_at_mut(len * slots);
        let first = Stretch {
            blocks: one,
            values,
            state,
        };
        let second = Stretch {
            blocks: other,
            values: later_values,
            state: later_state,
        };
        (first, second)
    }
}

/// Initial values are generated by row; blocks begin anywhere in a row, so the last row is kept.
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

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{ShardMap, TableSpec, Topology};

    /// A piece of a table that is long enough to be shared among threads, and two gradients for it.
    fn piece() -> (Table, DensePiece, [Vec<f32>; 2]) {
        let rule = optim::Rule {
            method: optim::Method::Adam {
                beta1: 0.9,
                beta2: 0.999,
                epsilon: 1e-8,
            },
            l2: 0.01,
            ..optim::Rule::sgd(0.05)
        };
        let initial = optim::Initial {
            distribution: optim::Distribution::Normal {
                mean: 0.0,
                std: 1.0,
            },
            seed: 3,
        };
        let spec = TableSpec {
            name: "w".to_owned(),
            rows: 9001,
            cols: 101,
            sparse: false,
            rule: serde_json::to_string(&rule).unwrap(),
            initial: serde_json::to_string(&initial).unwrap(),
            values: None,
        };
        let table = Table::new(&spec).unwrap();
        let topology = Topology {
            servers: 2,
            ports: 1,
            sparse_ports: 0,
        };
        let map = ShardMap::new(std::slice::from_ref(&spec), &topology, 2);
        let blocks: Vec<Block> = map.blocks(0, &spec, 1).collect();
        let len = blocks.iter().map(|block| block.len).sum::<usize>();
        assert!(len > 3 * LONG);
        let gradient = |by: usize| (0..len).map(|i| (i % by) as f32 - 3.0).collect();
        let piece = DensePiece::new(&table, blocks, BlockValues::Own(vec![0.0; len]));
        (table, piece, [gradient(7), gradient(11)])
    }

    #[test]
    fn threads_that_share_an_update_change_no_bit() {
        let (table, shared, [first, second]) = piece();
        let (_, alone, _) = piece();
        for samples in [5, 6] {
            let both = [Held::Whole(first.clone()), Held::Whole(second.clone())];
            shared.apply(&table, samples, &both);
            let mut rest = second.as_slice();
            let receive = Box::new(|block: &mut [f32]| {
                let (own, later) = rest.split_at(block.len());
                block.copy_from_slice(own);
                rest = later;
                Ok::<(), Infallible>(())
            });
            let Ok(()) = alone.apply_arriving(&table, samples, &both[..1], 1, receive);
        }
        let bits = |numbers: &[f32]| numbers.iter().map(|n| n.to_bits()).collect::<Vec<_>>();
        let (shared, alone) = (shared.read(), alone.read());
        assert!(bits(&shared.values) == bits(&alone.values));
        assert!(bits(&shared.state) == bits(&alone.state));
    }
}
