//! From the id of a row to its slot: a hash table in buckets of one cache line each.
//!
//! A search compares all eight entries of a bucket in parallel, so nearly every row is found with one memory access
//! and no branch that depends on its position in the bucket. An entry that does not fit into its bucket goes to the
//! next.

use super::region::{Extent, PieceRegion};
use std::sync::Arc;

/// Entries per bucket.
const LANES: usize = 8;
/// The slot of an entry that is free. Entries are filled from the first, so a free last one means that there is room.
const FREE: u32 = u32::MAX;
/// Bytes of a large page that may be unused when small pages are joined into it.
const SPARE: usize = 256 << 10;

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    ids: [u32; LANES],
    slots: [u32; LANES],
}

const EMPTY: Bucket = Bucket {
    ids: [0; LANES],
    slots: [FREE; LANES],
};

/// The index of one shard.
#[derive(Debug)]
pub(crate) struct Index {
    region: Arc<PieceRegion>,
    /// Holds `len` buckets.
    memory: Option<Extent>,
    len: usize,
    entries: usize,
}

impl Index {
    /// An empty index; memory is allocated from `region`.
    pub(crate) fn new(region: Arc<PieceRegion>) -> Self {
        Self {
            region,
            memory: None,
            len: 0,
            entries: 0,
        }
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.len * size_of::<Bucket>()
    }

    #[inline(always)]
    fn buckets(&self) -> &[Bucket] {
        match &self.memory {
            // SAFETY: the extent is this index's own, aligned to a line and `len` buckets long, all of them written
            // when it was taken; `self` is borrowed.
            Some(memory) => unsafe { std::slice::from_raw_parts(memory.start().cast(), self.len) },
            None => &[],
        }
    }

    fn buckets_mut(&mut self) -> &mut [Bucket] {
        match &self.memory {
            // SAFETY: as in `buckets`; `self` is borrowed alone.
            Some(memory) => unsafe {
                std::slice::from_raw_parts_mut(memory.start().cast(), self.len)
            },
            None => &mut [],
        }
    }

    /// Replaces the memory by `len` empty buckets; the old memory is freed after `move_over` has copied from it.
    fn resize(&mut self, len: usize, move_over: impl FnOnce(&[Bucket], &mut [Bucket])) {
        let bytes = len * size_of::<Bucket>();
        let memory = self.region.take(bytes);
        self.region.fill(&memory, 0..bytes);
        let start: *mut Bucket = memory.start().cast();
        // SAFETY: the extent was just taken for this index alone, zero, aligned to a line and long enough; every bit
        // pattern is a bucket.
        let buckets = unsafe { std::slice::from_raw_parts_mut(start, len) };
        buckets.fill(EMPTY);
        self.region.join(&memory, 0..bytes, SPARE);
        move_over(self.buckets(), buckets);
        self.len = len;
        if let Some(before) = self.memory.replace(memory) {
            self.region.give_back(before);
        }
    }

    /// Prefetches the buckets of some hashes.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hashes: &[u64]) {
        let buckets = self.buckets();
        for hash in hashes {
            let at = place(*hash, buckets.len());
            wire::prefetch::address(buckets.as_ptr().wrapping_add(at));
        }
    }

    /// The slot of a row.
    #[inline(always)]
    pub(crate) fn find(&self, id: u32, hash: u64) -> Option<u32> {
        let buckets = self.buckets();
        let mut at = place(hash, buckets.len());
        loop {
            let bucket = buckets.get(at)?;
            if let Some(slot) = bucket.find(id) {
                return Some(slot);
            }
            if bucket.has_room() {
                return None;
            }
            at = next(at, buckets.len());
        }
    }

    /// Adds a row that is not in the index. `hash_of` returns the hash of any id.
    pub(crate) fn insert(&mut self, id: u32, slot: u32, hash_of: impl Fn(u32) -> u64) {
        // Four fifths full at most.
        if (self.entries + 1) * 5 > self.len * LANES * 4 {
            self.grow(&hash_of);
        }
        self.entries += 1;
        settle(self.buckets_mut(), (id, slot), hash_of(id));
    }

    fn grow(&mut self, hash_of: &impl Fn(u32) -> u64) {
        let len = (self.len * 3).div_ceil(2).max(1);
        self.resize(len, |from, to| {
            entries(from).for_each(|(id, slot)| settle(to, (id, slot), hash_of(id)));
        });
    }

    /// Every id with its slot, in no particular order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u32, u32)> {
        entries(self.buckets())
    }
}

fn entries(buckets: &[Bucket]) -> impl Iterator<Item = (u32, u32)> {
    let of = |bucket: &Bucket| bucket.ids.into_iter().zip(bucket.slots);
    buckets
        .iter()
        .flat_map(of)
        .filter(|(_, slot)| *slot != FREE)
}

impl Bucket {
    #[inline(always)]
    fn find(&self, id: u32) -> Option<u32> {
        let mut lanes = 0_u32;
        for (lane, other) in self.ids.iter().enumerate() {
            lanes |= u32::from(*other == id) << lane;
        }
        // A free entry looks like one of id 0, but comes after the real one.
        let slot = *self.slots.get(lanes.trailing_zeros() as usize)?;
        (slot != FREE).then_some(slot)
    }

    #[inline(always)]
    fn has_room(&self) -> bool {
        self.slots[LANES - 1] == FREE
    }
}

/// The bucket at which the search for a hash begins: 32 of its bits, below those of the shard, scaled to the capacity.
#[inline(always)]
fn place(hash: u64, buckets: usize) -> usize {
    ((((hash >> 22) & 0xffff_ffff) * buckets as u64) >> 32) as usize
}

#[inline(always)]
fn next(at: usize, buckets: usize) -> usize {
    if at + 1 == buckets { 0 } else { at + 1 }
}

fn settle(buckets: &mut [Bucket], (id, slot): (u32, u32), hash: u64) {
    let mut at = place(hash, buckets.len());
    while !buckets[at].has_room() {
        at = next(at, buckets.len());
    }
    let bucket = &mut buckets[at];
    let lane = bucket.slots.iter().position(|slot| *slot == FREE);
    let lane = lane.expect("the bucket has room");
    bucket.ids[lane] = id;
    bucket.slots[lane] = slot;
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::shard::row_hash;

    fn hash(id: u32) -> u64 {
        row_hash(3, id)
    }

    #[test]
    fn all_that_was_added_is_found_and_nothing_else() {
        let mut index = Index::new(Arc::default());
        assert_eq!(index.find(0, hash(0)), None);
        for slot in 0..20_000 {
            let id = slot * 7;
            assert_eq!(index.find(id, hash(id)), None);
            index.insert(id, slot, hash);
            assert_eq!(index.find(id, hash(id)), Some(slot));
        }
        for slot in 0..20_000 {
            assert_eq!(index.find(slot * 7, hash(slot * 7)), Some(slot));
            assert_eq!(index.find(slot * 7 + 1, hash(slot * 7 + 1)), None);
        }
        let mut all: Vec<_> = index.entries().collect();
        all.sort_unstable();
        assert!(all.into_iter().eq((0..20_000).map(|slot| (slot * 7, slot))));
    }

    #[test]
    fn ids_of_one_hash_go_round_the_end() {
        let mut index = Index::new(Arc::default());
        let last = |_| u64::MAX;
        for id in 0..50 {
            index.insert(id, 100 + id, last);
        }
        for id in 0..50 {
            assert_eq!(index.find(id, u64::MAX), Some(100 + id));
        }
        assert_eq!(index.find(50, u64::MAX), None);
    }
}
