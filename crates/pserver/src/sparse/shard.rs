//! One logical shard of a sparse table: an open-addressing index from row id to slot, and a slab of rows.
//!
//! A row lies in one piece: its mark (the step of its last touch, as bits), its values, its optimizer state. Rows
//! keep their slots and slots are never reused, so a slot found by a pull is good for the push. The slab grows by a
//! tenth (large ones are moved by the system without a copy), the index by half, so memory stays near the size of
//! the rows.
//!
//! While a snapshot is being written, a row that changes is first copied aside ([`Shard::touch`]), so the writer
//! sees the rows as they were without stopping anybody.

use std::collections::HashMap;
use wire::prefetch;

const NOBODY: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Entry {
    id: u32,
    slot: u32,
}

const FREE: Entry = Entry {
    id: 0,
    slot: NOBODY,
};

/// A shard; the caller holds its lock.
#[derive(Debug, Default)]
pub struct Shard {
    index: Vec<Entry>,
    slab: Vec<f32>,
    rows: u32,
    capture: Option<Capture>,
}

/// The rows as they were when a snapshot was asked for.
#[derive(Debug)]
struct Capture {
    /// Rows that existed; later ones do not belong to the snapshot.
    rows: u32,
    saved: Vec<f32>,
    places: HashMap<u32, usize>,
}

impl Shard {
    /// Rows in the shard.
    pub fn count(&self) -> usize {
        self.rows as usize
    }

    /// Bytes held by index and slab.
    pub fn bytes(&self) -> usize {
        self.slab.capacity() * size_of::<f32>() + self.index.capacity() * size_of::<Entry>()
    }

    /// Asks the processor for the index line of a hash.
    #[inline(always)]
    pub fn prefetch_index(&self, hash: u64) {
        if let Some(entry) = self.index.get(place(hash, self.index.len())) {
            prefetch::address(entry);
        }
    }

    /// The slot of a row.
    #[inline(always)]
    pub fn find(&self, id: u32, hash: u64) -> Option<u32> {
        if self.index.is_empty() {
            return None;
        }
        let mut at = place(hash, self.index.len());
        loop {
            let entry = self.index[at];
            if entry.slot == NOBODY {
                return None;
            }
            if entry.id == id {
                return Some(entry.slot);
            }
            at += 1;
            if at == self.index.len() {
                at = 0;
            }
        }
    }

    /// Adds a row that is not there, all zero, and answers its slot. `hash_of` gives the hash of any id.
    pub fn insert(&mut self, id: u32, stride: usize, hash_of: impl Fn(u32) -> u64) -> u32 {
        if (self.rows as usize + 1) * 5 > self.index.len() * 4 {
            self.grow_index(&hash_of);
        }
        let slot = self.rows;
        self.rows += 1;
        self.grow_slab(stride);
        settle(&mut self.index, Entry { id, slot }, hash_of(id));
        slot
    }

    fn grow_index(&mut self, hash_of: &impl Fn(u32) -> u64) {
        let capacity = (self.index.len() * 3 / 2).max(4);
        let mut index = vec![FREE; capacity];
        for entry in self.index.iter().filter(|entry| entry.slot != NOBODY) {
            settle(&mut index, *entry, hash_of(entry.id));
        }
        self.index = index;
    }

    fn grow_slab(&mut self, stride: usize) {
        let wanted = self.rows as usize * stride;
        if wanted > self.slab.capacity() {
            let room = (self.slab.len() / 10).max(stride);
            self.slab
                .reserve_exact(wanted - self.slab.len() + room - room % stride);
        }
        self.slab.resize(wanted, 0.0);
    }

    /// A row: mark, values, state.
    #[inline(always)]
    pub fn row(&self, slot: u32, stride: usize) -> &[f32] {
        let at = slot as usize * stride;
        &self.slab[at..at + stride]
    }

    /// A row, to be changed.
    #[inline(always)]
    pub fn touch(&mut self, slot: u32, stride: usize) -> &mut [f32] {
        let at = slot as usize * stride;
        let row = &mut self.slab[at..at + stride];
        if let Some(capture) = &mut self.capture {
            capture.save(slot, row);
        }
        row
    }

    /// From now on the rows as they are belong to a snapshot, until [`Shard::release`].
    pub fn want(&mut self) {
        self.capture = Some(Capture {
            rows: self.rows,
            saved: Vec::new(),
            places: HashMap::new(),
        });
    }

    /// Gives every row as it is now, in ascending order of ids.
    pub fn dump(&self, stride: usize, ids: &mut Vec<u32>, rows: &mut Vec<f32>) {
        self.collect(stride, self.rows, |_| None, ids, rows);
    }

    /// Gives every row of the snapshot, in ascending order of ids, and ends it. False if none was asked for.
    pub fn release(&mut self, stride: usize, ids: &mut Vec<u32>, rows: &mut Vec<f32>) -> bool {
        let Some(capture) = self.capture.take() else {
            return false;
        };
        let saved = |slot: u32| {
            let at = *capture.places.get(&slot)?;
            Some(&capture.saved[at..at + stride])
        };
        self.collect(stride, capture.rows, saved, ids, rows);
        true
    }

    fn collect<'a>(
        &'a self,
        stride: usize,
        count: u32,
        saved: impl Fn(u32) -> Option<&'a [f32]>,
        ids: &mut Vec<u32>,
        rows: &mut Vec<f32>,
    ) {
        let filled = self.index.iter().copied();
        let mut entries: Vec<Entry> = filled
            .filter(|e| e.slot != NOBODY && e.slot < count)
            .collect();
        entries.sort_unstable_by_key(|entry| entry.id);
        ids.clear();
        rows.clear();
        rows.reserve(entries.len() * stride);
        for entry in entries {
            ids.push(entry.id);
            rows.extend_from_slice(
                saved(entry.slot).unwrap_or_else(|| self.row(entry.slot, stride)),
            );
        }
    }
}

impl Capture {
    fn save(&mut self, slot: u32, row: &[f32]) {
        if slot >= self.rows || self.places.contains_key(&slot) {
            return;
        }
        self.places.insert(slot, self.saved.len());
        self.saved.extend_from_slice(row);
    }
}

/// Where the search for a hash begins: 32 of its bits, below those that name the shard, scaled to the capacity.
#[inline(always)]
fn place(hash: u64, capacity: usize) -> usize {
    ((((hash >> 22) & 0xffff_ffff) * capacity as u64) >> 32) as usize
}

fn settle(index: &mut [Entry], entry: Entry, hash: u64) {
    let mut at = place(hash, index.len());
    while index[at].slot != NOBODY {
        at += 1;
        if at == index.len() {
            at = 0;
        }
    }
    index[at] = entry;
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
            let mut shard = Shard::default();
            for id in 0..count {
                let id = id * 7;
                assert_eq!(shard.find(id, hash(id)), None);
                let slot = shard.insert(id, 33, hash);
                shard.touch(slot, 33)[0] = id as f32;
            }
            for id in 0..count {
                let slot = shard.find(id * 7, hash(id * 7)).unwrap();
                assert_eq!(shard.row(slot, 33)[0], (id * 7) as f32);
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
        let mut shard = Shard::default();
        for id in [5_u32, 3, 9] {
            let slot = shard.insert(id, 2, hash);
            shard.touch(slot, 2).fill(id as f32);
        }
        shard.want();
        let slot = shard.find(3, hash(3)).unwrap();
        shard.touch(slot, 2).fill(100.0);
        shard.touch(slot, 2).fill(200.0);
        shard.insert(4, 2, hash);
        let (mut ids, mut rows) = (Vec::new(), Vec::new());
        assert!(shard.release(2, &mut ids, &mut rows));
        assert_eq!(ids, [3, 5, 9]);
        assert_eq!(rows, [3.0, 3.0, 5.0, 5.0, 9.0, 9.0]);
        assert!(!shard.release(2, &mut ids, &mut rows));
        assert_eq!(shard.row(slot, 2), [200.0, 200.0]);
    }
}
