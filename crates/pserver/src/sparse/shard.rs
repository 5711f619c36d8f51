//! One logical shard of a sparse table: its [`StoredRows`], and their [`Index`]. Rows keep their slots, so a slot found by
//! a pull is valid for the push.
//!
//! While a snapshot is being written, a row that changes is first copied aside ([`Shard::touch`]), so the writer
//! sees the rows as they were without blocking anybody. Rows that change are noted, so that a snapshot can hold these
//! only.

use super::index::Index;
use super::region::PieceRegion;
use super::rows::{Row, StoredRows};
use crate::snapshot::plan::RowScope;
use std::sync::Arc;

/// The memory of the shards of a piece: rows stay where they are, indexes are reallocated as they grow.
#[derive(Debug, Clone, Default)]
pub struct ShardMemory {
    rows: Arc<PieceRegion>,
    indexes: Arc<PieceRegion>,
}

/// A shard; the caller holds its lock.
#[derive(Debug)]
pub struct Shard {
    index: Index,
    rows: StoredRows,
    /// Rows that were changed or created since the last snapshot of all rows.
    changed: SlotSet,
    capture: Option<Capture>,
}

/// A bit for each slot.
#[derive(Debug, Clone, Default)]
struct SlotSet(Vec<u64>);

impl SlotSet {
    /// Makes room for a slot.
    fn reach(&mut self, slot: u32) {
        let words = slot as usize / 64 + 1;
        if self.0.len() < words {
            self.0.resize(words, 0);
        }
    }

    /// Adds a slot for which there is room.
    #[inline(always)]
    fn insert(&mut self, slot: u32) {
        self.0[slot as usize / 64] |= 1 << (slot % 64);
    }

    #[inline(always)]
    fn has(&self, slot: u32) -> bool {
        let word = self.0.get(slot as usize / 64);
        word.is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }
}

/// The rows as they were when a snapshot was requested.
#[derive(Debug)]
struct Capture {
    /// Slots below it existed; later ones do not belong to the snapshot.
    end: u32,
    /// The rows that belong to it, if not all do.
    only: Option<SlotSet>,
    saved: Vec<f32>,
    /// For each slot, which of the saved rows it is, from 1; 0: none. Empty until a row is saved.
    places: Vec<u32>,
}

impl Shard {
    /// An empty shard with rows of `numbers` values.
    pub fn new(memory: &ShardMemory, numbers: usize) -> Self {
        Self {
            index: Index::new(memory.indexes.clone()),
            rows: StoredRows::new(memory.rows.clone(), numbers),
            changed: SlotSet::default(),
            capture: None,
        }
    }

    /// The rows.
    #[inline(always)]
    pub fn rows(&self) -> &StoredRows {
        &self.rows
    }

    /// Bytes held by index and rows.
    pub fn bytes(&self) -> usize {
        self.rows.bytes() + self.index.bytes()
    }

    /// Prefetches what [`Shard::find`] will read.
    #[inline(always)]
    pub fn prefetch(&self, hashes: &[u64]) {
        self.index.prefetch(hashes);
    }

    /// The slot of a row.
    #[inline(always)]
    pub fn find(&self, id: u32, hash: u64) -> Option<u32> {
        self.index.find(id, hash)
    }

    /// Adds a row that does not exist, all zero, and returns its slot. `hash_of` returns the hash of any id.
    pub fn insert(&mut self, id: u32, hash_of: impl Fn(u32) -> u64) -> u32 {
        let slot = self.rows.push();
        self.changed.reach(slot);
        self.changed.insert(slot);
        self.index.insert(id, slot, hash_of);
        slot
    }

    /// Mark and values of a row of this shard, to be changed; the slot comes from [`Shard::find`] or
    /// [`Shard::insert`].
    #[inline(always)]
    pub fn touch(&mut self, slot: u32) -> (&mut u32, &mut [f32]) {
        let (mark, row) = self.rows.row_mut(slot);
        if let Some(capture) = &mut self.capture {
            capture.save(slot, *mark, row);
        }
        self.changed.insert(slot);
        (mark, row)
    }

    /// Requests a snapshot of the rows as they are now; [`Shard::release`] must follow.
    pub fn want(&mut self, scope: RowScope) {
        let only = match scope {
            RowScope::Changed => Some(self.changed.clone()),
            RowScope::All => {
                self.changed.0.fill(0);
                None
            }
        };
        self.capture = Some(Capture {
            end: self.rows.count(),
            only,
            saved: Vec::new(),
            places: Vec::new(),
        });
    }

    /// Appends every row as it is now, in ascending order of ids: mark (as bits), values, state.
    pub fn dump(&self, ids: &mut Vec<u32>, rows: &mut Vec<f32>) {
        self.collect(|_| true, |_| None, ids, rows);
    }

    /// Appends every row of the snapshot, in ascending order of ids, and ends it. False if none was requested.
    pub fn release(&mut self, ids: &mut Vec<u32>, rows: &mut Vec<f32>) -> bool {
        let Some(capture) = self.capture.take() else {
            return false;
        };
        let stride = 1 + self.rows.numbers();
        let saved = |slot: u32| {
            let place = *capture.places.get(slot as usize)? as usize;
            (place > 0).then(|| &capture.saved[(place - 1) * stride..place * stride])
        };
        self.collect(|slot| capture.holds(slot), saved, ids, rows);
        true
    }

    fn collect<'a>(
        &'a self,
        holds: impl Fn(u32) -> bool,
        saved: impl Fn(u32) -> Option<&'a [f32]>,
        ids: &mut Vec<u32>,
        rows: &mut Vec<f32>,
    ) {
        // Id and slot in one number, which sorts faster than a pair.
        let entries = self.index.entries().filter(|(_, slot)| holds(*slot));
        let joined = |(id, slot): (u32, u32)| u64::from(id) << 32 | u64::from(slot);
        let mut entries: Vec<u64> = entries.map(joined).collect();
        entries.sort_unstable();
        ids.clear();
        rows.clear();
        rows.reserve(entries.len() * (1 + self.rows.numbers()));
        for entry in entries {
            let (id, slot) = ((entry >> 32) as u32, entry as u32);
            ids.push(id);
            match saved(slot) {
                Some(row) => rows.extend_from_slice(row),
                None => append(self.rows.row(slot), rows),
            }
        }
    }
}

fn append(row: Row<'_>, rows: &mut Vec<f32>) {
    rows.push(f32::from_bits(row.mark));
    rows.extend_from_slice(row.numbers);
}

impl Capture {
    #[inline(always)]
    fn holds(&self, slot: u32) -> bool {
        slot < self.end && self.only.as_ref().is_none_or(|only| only.has(slot))
    }

    fn save(&mut self, slot: u32, mark: u32, numbers: &[f32]) {
        if !self.holds(slot) {
            return;
        }
        if self.places.is_empty() {
            self.places = vec![0; self.end as usize];
        }
        let place = &mut self.places[slot as usize];
        if *place == 0 {
            append(Row { mark, numbers }, &mut self.saved);
            *place = (self.saved.len() / (1 + numbers.len())) as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::shard::row_hash;

    fn hash(id: u32) -> u64 {
        row_hash(3, id)
    }

    #[test]
    fn rows_are_found_again_and_memory_stays_near_their_size() {
        for count in [1_u32, 5, 64, 65, 1000, 10_000] {
            let mut shard = Shard::new(&ShardMemory::default(), 32);
            for id in 0..count {
                let id = id * 7;
                assert_eq!(shard.find(id, hash(id)), None);
                let slot = shard.insert(id, hash);
                shard.touch(slot).1[0] = id as f32;
            }
            for id in 0..count {
                let slot = shard.find(id * 7, hash(id * 7)).unwrap();
                assert_eq!(shard.rows().row(slot).numbers[0], (id * 7) as f32);
            }
            assert_eq!(shard.find(1, hash(1)), None);
            let per_row = shard.bytes() as f64 / f64::from(count);
            assert!(
                count < 1000 || per_row <= 1.25 * 128.0,
                "{count} rows take {per_row} bytes each"
            );
        }
    }

    #[test]
    fn a_snapshot_sees_the_rows_as_they_were() {
        let mut shard = Shard::new(&ShardMemory::default(), 1);
        for id in [5_u32, 3, 9] {
            let slot = shard.insert(id, hash);
            let (mark, row) = shard.touch(slot);
            *mark = (id as f32).to_bits();
            row.fill(id as f32);
        }
        shard.want(RowScope::All);
        let slot = shard.find(3, hash(3)).unwrap();
        shard.touch(slot).1.fill(100.0);
        shard.touch(slot).1.fill(200.0);
        shard.insert(4, hash);
        let (mut ids, mut rows) = (Vec::new(), Vec::new());
        assert!(shard.release(&mut ids, &mut rows));
        assert_eq!(ids, [3, 5, 9]);
        assert_eq!(rows, [3.0, 3.0, 5.0, 5.0, 9.0, 9.0]);
        assert!(!shard.release(&mut ids, &mut rows));
        assert_eq!(shard.rows().row(slot).numbers, [200.0]);
        // Since then, row 3 was changed and row 4 was made; row 5 changes too late.
        shard.want(RowScope::Changed);
        shard.touch(slot).1.fill(300.0);
        let other = shard.find(5, hash(5)).unwrap();
        shard.touch(other).1.fill(400.0);
        assert!(shard.release(&mut ids, &mut rows));
        assert_eq!(
            (&ids[..], &rows[..]),
            (&[3, 4][..], &[3.0, 200.0, 0.0, 0.0][..])
        );
        shard.want(RowScope::Changed);
        assert!(shard.release(&mut ids, &mut rows));
        assert_eq!(ids, [3, 4, 5]);
        shard.want(RowScope::All);
        assert!(shard.release(&mut ids, &mut rows));
        assert_eq!(ids, [3, 4, 5, 9]);
        shard.want(RowScope::Changed);
        assert!(shard.release(&mut ids, &mut rows));
        assert!(ids.is_empty());
    }
}
