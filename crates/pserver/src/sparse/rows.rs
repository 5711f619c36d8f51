//! The rows of one shard, one after another.
//!
//! A row has a slot, its index in the shard, and keeps it. Values and state of a row are contiguous (whole cache
//! lines, if their number is a multiple of 16); after each group of 16 rows come their 16 marks. Memory is allocated
//! in segments, each as large as all before it, so the rows of a shard are on few large pages, and a request, which
//! goes through shard after shard, causes few TLB misses.

use super::region::{Extent, PieceRegion};
use std::sync::Arc;

/// Rows whose marks share a cache line.
const GROUP: u32 = 16;
/// `f32` values in a cache line.
const LINE: usize = 16;
/// The fraction (1/8) of a shard that may be memory without rows, and limits in bytes: the rest of a large page.
const SPARE: usize = 8;
const LEAST_SPARE: usize = 256 << 10;
const MOST_SPARE: usize = 2 << 20;

/// A row and its mark, for reading.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The step at which the row was last brought up to date; see [`optim`].
    pub mark: u32,
    /// Values, then state.
    pub numbers: &'a [f32],
}

/// Rows, by slot from 0.
#[derive(Debug)]
pub struct StoredRows {
    region: Arc<PieceRegion>,
    /// Values per row: parameter values and state.
    numbers: usize,
    /// The first has [`GROUP`] rows, each further one as many as all before it.
    segments: Vec<Extent>,
    count: u32,
}

impl StoredRows {
    /// No rows; memory is allocated from `region`.
    pub fn new(region: Arc<PieceRegion>, numbers: usize) -> Self {
        Self {
            region,
            numbers,
            segments: Vec::new(),
            count: 0,
        }
    }

    /// Number of rows.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Values per row: parameter values and state.
    pub fn numbers(&self) -> usize {
        self.numbers
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.count.div_ceil(GROUP) as usize * self.group_len() * size_of::<f32>()
    }

    /// Adds a row, all zero, and returns its slot.
    pub fn push(&mut self) -> u32 {
        let slot = self.count;
        let place = RowAddress::of(slot);
        if place.lane == 0 {
            self.begin_group(&place);
        }
        self.count += 1;
        slot
    }

    fn begin_group(&mut self, place: &RowAddress) {
        let bytes = self.group_len() * size_of::<f32>();
        if place.segment == self.segments.len() {
            let groups = RowAddress::groups(place.segment);
            self.segments.push(self.region.take(groups * bytes));
        }
        let segment = &self.segments[place.segment];
        let range = place.group * bytes..(place.group + 1) * bytes;
        self.region.fill(segment, range.clone());
        let spare = (self.bytes() / SPARE).clamp(LEAST_SPARE, MOST_SPARE);
        self.region.join(segment, range, spare);
    }

    /// `f32` values in a group: rows and marks.
    #[inline(always)]
    fn group_len(&self) -> usize {
        GROUP as usize * (self.numbers + 1)
    }

    /// The addresses of the row and the mark of a slot.
    #[inline(always)]
    fn address(&self, slot: u32) -> (*mut f32, *mut u32) {
        let place = RowAddress::of(slot);
        let segment: *mut f32 = self.segments[place.segment].start().cast();
        let group = segment.wrapping_add(place.group * self.group_len());
        let marks: *mut u32 = group.wrapping_add(GROUP as usize * self.numbers).cast();
        (
            group.wrapping_add(place.lane * self.numbers),
            marks.wrapping_add(place.lane),
        )
    }

    /// A row; panics if there is none in the slot.
    #[inline(always)]
    pub fn row(&self, slot: u32) -> Row<'_> {
        assert!(slot < self.count, "no row in slot {slot}");
        let (numbers, mark) = self.address(slot);
        // SAFETY: rows below `count` lie in segments that were taken for this shard alone and live as long as its
        // region; `self` is borrowed, so nobody changes them meanwhile.
        unsafe {
            Row {
                mark: *mark,
                numbers: std::slice::from_raw_parts(numbers, self.numbers),
            }
        }
    }

    /// Mark and values of a row, to be changed; panics if there is none in the slot.
    #[inline(always)]
    pub fn row_mut(&mut self, slot: u32) -> (&mut u32, &mut [f32]) {
        assert!(slot < self.count, "no row in slot {slot}");
        let (numbers, mark) = self.address(slot);
        // SAFETY: as in `row`; `self` is borrowed alone, and a mark is no part of a row.
        unsafe {
            (
                &mut *mark,
                std::slice::from_raw_parts_mut(numbers, self.numbers),
            )
        }
    }

    /// Prefetches the first `numbers` values of some rows, and their marks. A loop of its own, with no branch
    /// to be mispredicted, keeps as many TLB misses in flight as the processor allows.
    #[inline(always)]
    pub fn prefetch(&self, slots: &[u32], numbers: usize, marks: bool) {
        // The last value may be on one more cache line, unless rows are whole lines.
        let odd = !self.numbers.is_multiple_of(LINE);
        for slot in slots {
            let (row, mark) = self.address(*slot);
            let mut at = 0;
            while at < numbers {
                wire::prefetch::address(row.wrapping_add(at));
                at += LINE;
            }
            if odd {
                wire::prefetch::address(row.wrapping_add(numbers - 1));
            }
            if marks {
                wire::prefetch::address(mark);
            }
        }
    }
}

/// The location of a slot: which segment, which group of it, which row of that.
struct RowAddress {
    segment: usize,
    group: usize,
    lane: usize,
}

impl RowAddress {
    #[inline(always)]
    fn of(slot: u32) -> Self {
        let top = (slot | (GROUP - 1)).ilog2();
        // The first slot of the segment: 0, 16, 32, 64 …
        let first = (1 << top) & !(GROUP - 1);
        Self {
            segment: (top + 1 - GROUP.ilog2()) as usize,
            group: ((slot - first) / GROUP) as usize,
            lane: (slot % GROUP) as usize,
        }
    }

    /// Groups of a segment.
    fn groups(segment: usize) -> usize {
        1 << segment.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_fill_segment_after_segment() {
        let mut expected = (0, 0, 0);
        for slot in 0..100_000 {
            let place = RowAddress::of(slot);
            assert_eq!((place.segment, place.group, place.lane), expected);
            expected.2 += 1;
            if expected.2 == GROUP as usize {
                expected = (expected.0, expected.1 + 1, 0);
            }
            if expected.1 == RowAddress::groups(expected.0) {
                expected = (expected.0 + 1, 0, 0);
            }
        }
    }

    #[test]
    fn rows_of_several_shards_keep_what_they_are_given() {
        for numbers in [1_usize, 3, 48, 300_000] {
            let region = Arc::new(PieceRegion::default());
            let mut shards: Vec<StoredRows> = (0..3)
                .map(|_| StoredRows::new(region.clone(), numbers))
                .collect();
            for slot in 0..100_u32 {
                for (shard, rows) in shards.iter_mut().enumerate() {
                    assert_eq!(rows.push(), slot);
                    let (mark, row) = rows.row_mut(slot);
                    assert_eq!((*mark, row[0], row[numbers - 1]), (0, 0.0, 0.0));
                    *mark = slot + 1;
                    row[0] = shard as f32;
                    row[numbers - 1] = (1000 * shard) as f32 + slot as f32;
                }
            }
            for slot in 0..100_u32 {
                for (shard, rows) in shards.iter().enumerate() {
                    let row = rows.row(slot);
                    assert_eq!(row.mark, slot + 1);
                    let last = (1000 * shard) as f32 + slot as f32;
                    assert_eq!(row.numbers[numbers - 1], last);
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "no row in slot 1")]
    fn a_slot_without_a_row_is_refused() {
        let mut rows = StoredRows::new(Arc::default(), 4);
        rows.push();
        rows.row(1);
    }
}
