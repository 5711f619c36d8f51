//! The rows of a sparse table that one service holds.
//!
//! Requests come sorted by shard and, inside a shard, by id, so that a request takes each shard's lock once, and
//! pushes of several trainers are merged like sorted lists: every row gets one update with the sum in trainer
//! order. A pull remembers the slots it found for the push that follows it.
//!
//! - `request`: the rows of a request, and their gradients.
//! - [`shard`]: one shard, its index and its rows.
//! - [`index`]: from the id of a row to its slot.
//! - [`rows`]: how the rows of a shard are stored.
//! - [`region`]: the memory of both.
//! - `merge`: several trainers' rows of one shard.

pub(crate) mod index;
mod merge;
pub(crate) mod region;
mod request;
pub mod rows;
pub mod shard;

use crate::snapshot::manifest::PartKind;
use crate::snapshot::plan::RowScope;
use crate::table::{StoredSize, Table};
use merge::RowSource;
use optim::{ParameterProgress, Scattered, UpdateStep};
use request::IdRun;
pub use request::{FoundRows, RowGradients, RowPush};
use shard::{Shard, ShardMemory};
use std::sync::atomic::{AtomicU64, Ordering};
use wire::View;
use wire::shard::{SHARDS, row_hash, service_of, shard_of_hash};
use words::lock::{Mutex, MutexGuard, RwLock};

/// One service's part of a sparse table.
#[derive(Debug)]
pub struct SparsePiece {
    table_hash: u64,
    rows: u64,
    service: u32,
    services: u32,
    /// Shards of this service: shard `s` at index `s / services`.
    shards: Vec<Mutex<Shard>>,
    /// Values per row: parameter values and state.
    numbers: usize,
    heat: Vec<AtomicU64>,
    progress: RwLock<ParameterProgress>,
    generation: AtomicU64,
}

impl SparsePiece {
    /// An empty piece: rows are created when they are first pulled or pushed.
    pub fn new(table: &Table, service: u32, services: u32) -> Self {
        let count = (0..SHARDS)
            .filter(|s| service_of(*s, services) == service)
            .count();
        let numbers = table.cols() * (1 + table.slots);
        let memory = ShardMemory::default();
        let shard = |_| Mutex::new(Shard::new(&memory, numbers));
        Self {
            table_hash: table.spec.hash(),
            rows: table.spec.rows,
            service,
            services,
            shards: (0..count).map(shard).collect(),
            numbers,
            heat: (0..count).map(|_| AtomicU64::new(0)).collect(),
            progress: RwLock::default(),
            generation: AtomicU64::new(1),
        }
    }

    /// Length of a stored row in `f32` values: mark, values, state.
    pub fn stride(&self) -> usize {
        1 + self.numbers
    }

    /// The existing rows.
    pub fn size(&self) -> StoredSize {
        let sizes = self.shards.iter().map(|shard| {
            let shard = lock(shard);
            StoredSize {
                rows: u64::from(shard.rows().count()),
                bytes: shard.bytes() as u64,
            }
        });
        sizes.sum()
    }

    /// Rows pulled and pushed per logical shard since the start: (shard, count).
    pub fn heat(&self) -> impl Iterator<Item = (u32, u64)> {
        let number = |at: usize| at as u32 * self.services + self.service;
        self.heat
            .iter()
            .enumerate()
            .map(move |(at, count)| (number(at), count.load(Ordering::Relaxed)))
    }

    /// The scalars of the table.
    pub fn progress(&self) -> ParameterProgress {
        self.progress.read().clone()
    }

    /// Changes the scalars, at a new pass or a restore.
    pub(crate) fn change_progress(&self, with: impl FnOnce(&mut ParameterProgress)) {
        with(&mut self.progress.write());
    }

    /// Checks the ids of a request and cuts them into runs. They must belong to this service and be sorted by
    /// shard, then ascending.
    pub fn group(&self, found: &mut FoundRows) -> Result<(), String> {
        found.runs.clear();
        found.hashes.clear();
        found.slots.clear();
        found.generation = 0;
        found
            .hashes
            .extend(found.ids.iter().map(|id| row_hash(self.table_hash, *id)));
        let mut last = None;
        for (at, (id, hash)) in found.ids.iter().zip(&found.hashes).enumerate() {
            let shard = shard_of_hash(*hash);
            let key = (shard, *id);
            if last.is_some_and(|last| last >= key) {
                return Err(format!("row {id} is out of order"));
            }
            if last.is_none_or(|(before, _)| before != shard) {
                self.begin_run(found.ids[at], shard, at, &mut found.runs)?;
            }
            if u64::from(*id) >= self.rows {
                return Err(format!(
                    "row {id} is outside of the table's {} rows",
                    self.rows
                ));
            }
            last = Some(key);
        }
        if let Some(run) = found.runs.last_mut() {
            run.end = found.ids.len();
        }
        Ok(())
    }

    fn begin_run(
        &self,
        id: u32,
        shard: u32,
        start: usize,
        runs: &mut Vec<IdRun>,
    ) -> Result<(), String> {
        if service_of(shard, self.services) != self.service {
            return Err(format!("row {id} belongs to another port"));
        }
        if let Some(run) = runs.last_mut() {
            run.end = start;
        }
        runs.push(IdRun {
            shard: (shard / self.services) as usize,
            start,
            end: start,
        });
        Ok(())
    }

    /// Finds the rows, creates those that are missing, and passes their values, brought up to date, to `send`, in
    /// pieces of about `piece` values; `out` is a buffer. No lock is held during `send`.
    pub fn pull<E>(
        &self,
        table: &Table,
        found: &mut FoundRows,
        out: &mut Vec<f32>,
        piece: usize,
        mut send: impl FnMut(&[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let cols = table.cols();
        out.clear();
        found.slots.clear();
        found.generation = self.generation.load(Ordering::Acquire);
        let progress = self.progress();
        // Rows that do not change while they are not used need not be read twice, nor written.
        let still = table.rule.is_still();
        for run in &found.runs {
            let mut shard = self.enter(run);
            shard.prefetch(&found.hashes[run.start..run.end]);
            out.reserve((run.end - run.start) * cols);
            for at in run.start..run.end {
                let slot = self.locate(table, &mut shard, found.ids[at], found.hashes[at]);
                found.slots.push(slot);
            }
            let slots = &found.slots[run.start..run.end];
            shard.rows().prefetch(slots, cols, !still);
            for slot in slots {
                if still {
                    append(out, &shard.rows().row(*slot).numbers[..cols]);
                    continue;
                }
                let (mark, row) = shard.touch(*slot);
                table.rule.catch_up(&progress, row, mark);
                append(out, &row[..cols]);
            }
            drop(shard);
            if out.len() >= piece {
                send(out)?;
                out.clear();
            }
        }
        if out.is_empty() { Ok(()) } else { send(out) }
    }

    /// Writes values for testing or saving; creates and changes no rows.
    pub fn peek(&self, table: &Table, found: &FoundRows, view: View, out: &mut Vec<f32>) {
        let cols = table.cols();
        out.clear();
        out.reserve(found.ids.len() * cols);
        let progress = self.progress.read();
        let mut copy = vec![0.0; self.numbers];
        for run in &found.runs {
            let shard = self.enter(run);
            for at in run.start..run.end {
                let mut last = 0;
                match shard.find(found.ids[at], found.hashes[at]) {
                    Some(slot) => {
                        let row = shard.rows().row(slot);
                        copy.copy_from_slice(row.numbers);
                        last = row.mark;
                    }
                    None => {
                        copy.fill(0.0);
                        table
                            .initial
                            .fill(u64::from(found.ids[at]), &mut copy[..cols]);
                    }
                }
                table.rule.catch_up(&progress, &mut copy, &mut last);
                if view == View::Averaged {
                    let start = out.len();
                    out.resize(start + cols, 0.0);
                    table
                        .rule
                        .averaged(&progress, &copy[..cols], &copy[cols..], &mut out[start..]);
                } else {
                    out.extend_from_slice(&copy[..cols]);
                }
            }
        }
    }

    /// Finds the slots of a push that did not follow a pull, or whose pull is no longer valid.
    pub fn find(&self, table: &Table, found: &mut FoundRows) {
        let generation = self.generation.load(Ordering::Acquire);
        if found.generation == generation {
            return;
        }
        found.slots.clear();
        found.generation = generation;
        for run in &found.runs {
            let mut shard = self.enter(run);
            shard.prefetch(&found.hashes[run.start..run.end]);
            for at in run.start..run.end {
                let slot = self.locate(table, &mut shard, found.ids[at], found.hashes[at]);
                found.slots.push(slot);
            }
        }
    }

    /// The slot of a row, which is created if it does not exist.
    #[inline(always)]
    fn locate(&self, table: &Table, shard: &mut Shard, id: u32, hash: u64) -> u32 {
        match shard.find(id, hash) {
            Some(slot) => slot,
            None => self.make(table, shard, id),
        }
    }

    fn make(&self, table: &Table, shard: &mut Shard, id: u32) -> u32 {
        let slot = shard.insert(id, |id| row_hash(self.table_hash, id));
        let (_, row) = shard.touch(slot);
        table.initial.fill(u64::from(id), &mut row[..table.cols()]);
        slot
    }

    /// Applies the pushes of one step, in the order given; a row in several pushes gets one update with the sum.
    pub fn apply(&self, table: &Table, samples: u64, pushes: &[RowPush]) {
        let step = {
            let mut progress = self.progress.write();
            table.rule.begin(&mut progress, samples)
        };
        let mut next = vec![0_usize; pushes.len()];
        let mut parts = Vec::with_capacity(pushes.len());
        let mut buffers = Buffers {
            copies: vec![Vec::new(); pushes.len()],
            sum: vec![0.0; table.cols()],
        };
        loop {
            let heads = pushes
                .iter()
                .zip(&next)
                .filter_map(|(push, at)| push.found.runs.get(*at));
            let Some(lowest) = heads.map(|run| run.shard).min() else {
                return;
            };
            let mut shard = lock(&self.shards[lowest]);
            let generation = self.generation.load(Ordering::Acquire);
            parts.clear();
            for (push, at) in pushes.iter().zip(&mut next) {
                if let Some(run) = push.found.runs.get(*at).filter(|run| run.shard == lowest) {
                    *at += 1;
                    // The rows were replaced by a load after the pull, so this gradient no longer belongs to them.
                    if push.found.generation == generation {
                        parts.push((push, *run));
                    }
                }
            }
            self.apply_shard(table, &step, &mut shard, &parts, &mut buffers);
        }
    }

    fn apply_shard(
        &self,
        table: &Table,
        step: &UpdateStep,
        shard: &mut Shard,
        parts: &[(&RowPush, IdRun)],
        buffers: &mut Buffers,
    ) {
        let cols = table.cols();
        for (push, run) in parts {
            let slots = &push.found.slots[run.start..run.end];
            shard.rows().prefetch(slots, self.numbers, true);
        }
        let parts = parts.iter().zip(&mut buffers.copies);
        let sources = parts.map(|((push, run), copy)| RowSource {
            ids: &push.found.ids[run.start..run.end],
            slots: &push.found.slots[run.start..run.end],
            gradients: push.gradients.get(run.start * cols..run.end * cols, copy),
        });
        let rows = Merged {
            shard,
            sources: &mut sources.collect::<Vec<_>>(),
            sum: &mut buffers.sum,
        };
        table.rule.update_scattered(step, rows);
    }

    fn enter(&self, run: &IdRun) -> MutexGuard<'_, Shard> {
        self.heat[run.shard].fetch_add((run.end - run.start) as u64, Ordering::Relaxed);
        lock(&self.shards[run.shard])
    }

    /// Requests a snapshot of the rows as they are now; [`SparsePiece::capture`] must follow.
    pub fn want(&self, scope: RowScope) {
        self.shards.iter().for_each(|shard| lock(shard).want(scope));
    }

    /// Passes on the rows of the snapshot, shard by shard: `each(shard, ids, rows)`.
    pub(crate) fn capture<E>(
        &self,
        mut each: impl FnMut(u32, &[u32], &[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut ids, mut rows) = (Vec::new(), Vec::new());
        let mut outcome = Ok(());
        for (at, shard) in self.shards.iter().enumerate() {
            // After an error the rest is still released, or rows would be copied aside forever.
            let wanted = lock(shard).release(&mut ids, &mut rows);
            if wanted && !ids.is_empty() && outcome.is_ok() {
                outcome = each(at as u32 * self.services + self.service, &ids, &rows);
            }
        }
        outcome
    }

    /// Passes on the rows as they are now, shard by shard: `each(shard, ids, rows)`.
    pub fn dump<E>(
        &self,
        mut each: impl FnMut(u32, &[u32], &[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut ids, mut rows) = (Vec::new(), Vec::new());
        for (at, shard) in self.shards.iter().enumerate() {
            lock(shard).dump(&mut ids, &mut rows);
            if !ids.is_empty() {
                each(at as u32 * self.services + self.service, &ids, &rows)?;
            }
        }
        Ok(())
    }

    /// Removes all rows; slots of earlier pulls become invalid.
    pub fn clear(&self) {
        let mut shards: Vec<_> = self.shards.iter().map(lock).collect();
        self.generation.fetch_add(1, Ordering::AcqRel);
        // The memory is freed with the last of the shards that use it.
        let memory = ShardMemory::default();
        for shard in &mut shards {
            **shard = Shard::new(&memory, self.numbers);
        }
    }

    /// Whether this service holds the logical shard.
    pub fn holds(&self, shard: u32) -> bool {
        service_of(shard, self.services) == self.service
    }

    /// Sets rows to these values, without state. Ids as in a request; see [`SparsePiece::group`].
    pub(crate) fn set_values(
        &self,
        table: &Table,
        ids: &[u32],
        values: &[f32],
    ) -> Result<(), String> {
        let mut found = FoundRows::default();
        found.ids.extend_from_slice(ids);
        self.group(&mut found)?;
        let cols = table.cols();
        for run in &found.runs {
            let mut shard = lock(&self.shards[run.shard]);
            for at in run.start..run.end {
                let slot = self.locate(table, &mut shard, found.ids[at], found.hashes[at]);
                let (mark, row) = shard.touch(slot);
                *mark = 0;
                row.fill(0.0);
                row[..cols].copy_from_slice(&values[at * cols..(at + 1) * cols]);
            }
        }
        Ok(())
    }

    /// Inserts saved rows into a shard of this service. Rejects ids that do not belong there or occur twice. Of a base,
    /// rows that have changed since are already there and stay.
    pub fn restore(
        &self,
        kind: PartKind,
        shard: u32,
        ids: &[u32],
        rows: &[f32],
    ) -> Result<(), String> {
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(format!("row {} comes twice or out of order", pair[1]));
        }
        let mut target = lock(&self.shards[(shard / self.services) as usize]);
        for (id, row) in ids.iter().zip(rows.chunks_exact(self.stride())) {
            let hash = row_hash(self.table_hash, *id);
            if shard_of_hash(hash) != shard || u64::from(*id) >= self.rows {
                return Err(format!("row {id} does not belong to shard {shard}"));
            }
            match kind {
                PartKind::Own if target.find(*id, hash).is_some() => {
                    return Err(format!("row {id} comes twice"));
                }
                PartKind::Base if target.find(*id, hash).is_some() => continue,
                PartKind::Own | PartKind::Base => {}
            }
            let slot = target.insert(*id, |id| row_hash(self.table_hash, id));
            let (mark, numbers) = target.touch(slot);
            *mark = row[0].to_bits();
            numbers.copy_from_slice(&row[1..]);
        }
        Ok(())
    }
}

/// Memory that the shards of a step use one after another.
struct Buffers {
    /// Gradients copied from row buffers, one per push.
    copies: Vec<Vec<f32>>,
    /// The summed gradient of one row.
    sum: Vec<f32>,
}

/// The rows of one shard that a step touches, with the sums of their gradients.
struct Merged<'a, 'b> {
    shard: &'a mut Shard,
    sources: &'a mut [RowSource<'b>],
    sum: &'a mut [f32],
}

impl Scattered for Merged<'_, '_> {
    #[inline(always)]
    fn each(self, mut f: impl FnMut(&mut u32, &mut [f32], &[f32])) {
        let shard = self.shard;
        let mut update = |slot: u32, gradient: &[f32]| {
            let (mark, row) = shard.touch(slot);
            f(mark, row, gradient);
        };
        merge::each(self.sources, self.sum, &mut update);
    }
}

/// Appends a row, one cache line at a time: a call per row would cost more than the copy.
#[inline(always)]
fn append(out: &mut Vec<f32>, row: &[f32]) {
    let (lines, rest) = row.as_chunks::<16>();
    lines.iter().for_each(|line| out.extend_from_slice(line));
    if !rest.is_empty() {
        out.extend_from_slice(rest);
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock()
}
