//! One logical shard of a sparse table: an open-addressing index from row id to slot, and the slots it owns in the
//! table's [`Region`].
//!
//! Rows keep their slots, so a slot found by a pull is good for the push. A shard takes slots in extents of a tenth
//! of what it has, the index grows by half, so memory stays near the size of the rows.
//!
//! While a snapshot is being written, a row that changes is first copied aside ([`Shard::touch`]), so the writer
//! sees the rows as they were without stopping anybody.

use super::region::{Region, Row};
use std::collections::HashMap;
use std::ops::Range;
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

/// A shard; the caller holds its lock. All its calls get the same region.
#[derive(Debug, Default)]
pub struct Shard {
    index: Vec<Entry>,
    rows: u32,
    /// Slots of all extents.
    slots: u32,
    /// Slots that are not used yet; those before it are smaller than it.
    free: Range<u32>,
    capture: Option<Capture>,
}

/// The rows as they were when a snapshot was asked for.
#[derive(Debug)]
struct Capture {
    /// Slots below existed; later ones do not belong to the snapshot.
    end: u32,
    saved: Vec<f32>,
    places: HashMap<u32, usize>,
}

impl Shard {
    /// Rows in the shard.
    pub fn count(&self) -> usize {
        self.rows as usize
    }

    /// Bytes held by index and rows.
    pub fn bytes(&self, region: &Region) -> usize {
        self.slots as usize * region.row_bytes() + self.index.capacity() * size_of::<Entry>()
    }

    /// Asks the processor for the index lines of some hashes.
    #[inline(always)]
    pub fn prefetch_all(&self, hashes: &[u64]) {
        for hash in hashes {
            if let Some(entry) = self.index.get(place(*hash, self.index.len())) {
                prefetch::address(entry);
            }
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
    pub fn insert(&mut self, id: u32, region: &Region, hash_of: impl Fn(u32) -> u64) -> u32 {
        if (self.rows as usize + 1) * 5 > self.index.len() * 4 {
            self.grow_index(&hash_of);
        }
        if self.free.is_empty() {
            self.free = region.extent((self.rows / 10).max(1));
            self.slots += self.free.len() as u32;
        }
        let slot = self.free.start;
        self.free.start += 1;
        self.rows += 1;
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

    /// A row of this shard; the slot comes from [`Shard::find`] or [`Shard::insert`].
    #[inline(always)]
    pub fn row<'a>(&'a self, slot: u32, region: &'a Region) -> Row<'a> {
        // SAFETY: slots of a shard are its own, and the caller holds its lock.
        unsafe { region.row(slot) }
    }

    /// A row of this shard, mark and numbers, to be changed.
    #[inline(always)]
    pub fn touch<'a>(&'a mut self, slot: u32, region: &'a Region) -> (&'a mut u32, &'a mut [f32]) {
        // SAFETY: slots of a shard are its own, and the caller holds its lock.
        let (mark, row) = unsafe { region.row_mut(slot) };
        if let Some(capture) = &mut self.capture {
            capture.save(slot, *mark, row);
        }
        (mark, row)
    }

    /// From now on the rows as they are belong to a snapshot, until [`Shard::release`].
    pub fn want(&mut self) {
        self.capture = Some(Capture {
            end: self.free.start,
            saved: Vec::new(),
            places: HashMap::new(),
        });
    }

    /// Gives every row as it is now, in ascending order of ids: mark (as bits), values, state.
    pub fn dump(&self, region: &Region, ids: &mut Vec<u32>, rows: &mut Vec<f32>) {
        self.collect(region, NOBODY, |_| None, ids, rows);
    }

    /// Gives every row of the snapshot, in ascending order of ids, and ends it. False if none was asked for.
    pub fn release(&mut self, region: &Region, ids: &mut Vec<u32>, rows: &mut Vec<f32>) -> bool {
        let Some(capture) = self.capture.take() else {
            return false;
        };
        let saved = |slot: u32| {
            let at = *capture.places.get(&slot)?;
            Some(&capture.saved[at..at + 1 + region.numbers()])
        };
        self.collect(region, capture.end, saved, ids, rows);
        true
    }

    fn collect<'a>(
        &'a self,
        region: &Region,
        end: u32,
        saved: impl Fn(u32) -> Option<&'a [f32]>,
        ids: &mut Vec<u32>,
        rows: &mut Vec<f32>,
    ) {
        let filled = self.index.iter().copied();
        let mut entries: Vec<Entry> = filled
            .filter(|e| e.slot != NOBODY && e.slot < end)
            .collect();
        entries.sort_unstable_by_key(|entry| entry.id);
        ids.clear();
        rows.clear();
        rows.reserve(entries.len() * (1 + region.numbers()));
        for entry in entries {
            ids.push(entry.id);
            match saved(entry.slot) {
                Some(row) => rows.extend_from_slice(row),
                None => append(self.row(entry.slot, region), rows),
            }
        }
    }
}

fn append(row: Row<'_>, rows: &mut Vec<f32>) {
    rows.push(f32::from_bits(row.mark));
    rows.extend_from_slice(row.numbers);
}

impl Capture {
    fn save(&mut self, slot: u32, mark: u32, numbers: &[f32]) {
        if slot >= self.end || self.places.contains_key(&slot) {
            return;
        }
        self.places.insert(slot, self.saved.len());
        append(Row { mark, numbers }, &mut self.saved);
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
            let (region, mut shard) = (Region::new(70_000, 32), Shard::default());
            for id in 0..count {
                let id = id * 7;
                assert_eq!(shard.find(id, hash(id)), None);
                let slot = shard.insert(id, &region, hash);
                shard.touch(slot, &region).1[0] = id as f32;
            }
            for id in 0..count {
                let slot = shard.find(id * 7, hash(id * 7)).unwrap();
                assert_eq!(shard.row(slot, &region).numbers[0], (id * 7) as f32);
            }
            assert_eq!(shard.find(1, hash(1)), None);
            let per_row = shard.bytes(&region) as f64 / f64::from(count);
            assert!(
                count < 1000 || per_row <= 1.25 * 128.0,
                "{count} rows take {per_row} bytes each"
            );
        }
    }

    #[test]
    fn a_snapshot_sees_the_rows_as_they_were() {
        let (region, mut shard) = (Region::new(100, 1), Shard::default());
        for id in [5_u32, 3, 9] {
            let slot = shard.insert(id, &region, hash);
            let (mark, row) = shard.touch(slot, &region);
            *mark = (id as f32).to_bits();
            row.fill(id as f32);
        }
        shard.want();
        let slot = shard.find(3, hash(3)).unwrap();
        shard.touch(slot, &region).1.fill(100.0);
        shard.touch(slot, &region).1.fill(200.0);
        shard.insert(4, &region, hash);
        let (mut ids, mut rows) = (Vec::new(), Vec::new());
        assert!(shard.release(&region, &mut ids, &mut rows));
        assert_eq!(ids, [3, 5, 9]);
        assert_eq!(rows, [3.0, 3.0, 5.0, 5.0, 9.0, 9.0]);
        assert!(!shard.release(&region, &mut ids, &mut rows));
        assert_eq!(shard.row(slot, &region).numbers, [200.0]);
    }
}
