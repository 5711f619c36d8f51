//! Memory for the rows of a sparse table: chunks of address space that the system fills when they are touched, in
//! large pages, so that finding a row among millions costs one cache miss and no walk through page tables.
//!
//! A row has a slot. Its values and state lie in one piece (whole cache lines, where their number is a multiple of
//! 16), its mark in an array behind the rows of the chunk. Slots are handed out in extents, never moved, never
//! reused. Who may touch a slot is the business of the shards: each slot belongs to one of them, and its lock.

use std::alloc::{Layout, handle_alloc_error};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Address space of a chunk.
const CHUNK: usize = 32 << 20;
/// Chunks of a region: with [`CHUNK`], more than a machine has memory.
const CHUNKS: u64 = 1 << 20;
/// Bytes of a large page.
const PAGE: usize = 2 << 20;

/// The memory of one piece of a table.
#[derive(Debug)]
pub struct Region {
    /// Numbers in a row: values and state.
    numbers: usize,
    /// Slots of a chunk, as a power of two.
    shift: u32,
    /// Where each chunk begins; null until it is needed.
    chunks: Box<[AtomicPtr<f32>]>,
    next: AtomicU64,
    mappings: Mutex<Vec<Mapping>>,
}

/// A row and its mark, for reading.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// When the row was last touched; see [`optim`].
    pub mark: u32,
    /// Values, then state.
    pub numbers: &'a [f32],
}

impl Region {
    /// A region for up to `rows` rows, handed out in extents of at most a tenth more.
    pub fn new(rows: u64, numbers: usize) -> Self {
        let fit = (CHUNK / ((numbers + 1) * size_of::<f32>())).max(1);
        let shift = fit.ilog2();
        let slots = rows.saturating_add(rows / 8).saturating_add(1 << 16);
        let chunks = ((slots >> shift) + 1).min(CHUNKS);
        Self {
            numbers,
            shift,
            chunks: (0..chunks).map(|_| AtomicPtr::new(null_mut())).collect(),
            next: AtomicU64::new(0),
            mappings: Mutex::default(),
        }
    }

    /// Numbers in a row.
    pub fn numbers(&self) -> usize {
        self.numbers
    }

    /// Bytes of a row with its mark.
    pub fn row_bytes(&self) -> usize {
        (self.numbers + 1) * size_of::<f32>()
    }

    /// Neighbouring slots that belong to the caller from now on; all zero. At most as many as asked for.
    pub fn extent(&self, wanted: u32) -> Range<u32> {
        let size = 1_u64 << self.shift;
        let take = |next: u64| Some(next + u64::from(wanted).min(size - next % size));
        let taken = self
            .next
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        let start = taken.unwrap_or_else(|next| next);
        let end = take(start).unwrap_or(start);
        let chunk = (start >> self.shift) as usize;
        if end > u64::from(u32::MAX) || chunk >= self.chunks.len() {
            handle_alloc_error(Layout::new::<f32>());
        }
        self.provide(chunk);
        start as u32..end as u32
    }

    fn provide(&self, chunk: usize) {
        if !self.chunks[chunk].load(Ordering::Acquire).is_null() {
            return;
        }
        let mut mappings = self.mappings.lock().unwrap_or_else(PoisonError::into_inner);
        if self.chunks[chunk].load(Ordering::Acquire).is_null() {
            // The first rows of a table come in small pages: most tables are small.
            let small = if chunk == 0 { PAGE } else { 0 };
            let mapping = Mapping::new(self.row_bytes() << self.shift, small);
            self.chunks[chunk].store(mapping.start, Ordering::Release);
            mappings.push(mapping);
        }
    }

    #[inline(always)]
    fn address(&self, slot: u32) -> (*mut f32, *mut u32) {
        let chunk = self.chunks[(slot >> self.shift) as usize].load(Ordering::Acquire);
        let at = (slot as usize) & ((1 << self.shift) - 1);
        // A chunk has `numbers` floats and one mark for each of its `1 << shift` slots.
        let marks = chunk.wrapping_add(self.numbers << self.shift).cast::<u32>();
        (
            chunk.wrapping_add(at * self.numbers),
            marks.wrapping_add(at),
        )
    }

    /// A row.
    ///
    /// # Safety
    ///
    /// The slot was handed out since the last [`Region::reset`], and nobody changes the row meanwhile.
    #[inline(always)]
    pub unsafe fn row(&self, slot: u32) -> Row<'_> {
        let (numbers, mark) = self.address(slot);
        // SAFETY: a slot that was handed out lies inside of a chunk that has memory until the next reset; the caller
        // excludes writers.
        unsafe {
            Row {
                mark: *mark,
                numbers: std::slice::from_raw_parts(numbers, self.numbers),
            }
        }
    }

    /// A row, to be changed.
    ///
    /// # Safety
    ///
    /// The slot was handed out since the last [`Region::reset`], and nobody else looks at the row meanwhile.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "every slot has one owner")]
    pub unsafe fn row_mut(&self, slot: u32) -> (&mut u32, &mut [f32]) {
        let (numbers, mark) = self.address(slot);
        // SAFETY: a slot that was handed out lies inside of a chunk that has memory until the next reset; the caller
        // excludes everybody else.
        unsafe {
            (
                &mut *mark,
                std::slice::from_raw_parts_mut(numbers, self.numbers),
            )
        }
    }

    /// Asks the processor for the mark of a row.
    #[inline(always)]
    pub fn prefetch_mark(&self, slot: u32) {
        wire::prefetch::address(self.address(slot).1);
    }

    /// Asks the processor for the first `numbers` of a row.
    #[inline(always)]
    pub fn prefetch(&self, slot: u32, numbers: usize) {
        let (row, _) = self.address(slot);
        let mut at = 0;
        while at < numbers {
            wire::prefetch::address(row.wrapping_add(at));
            at += 16;
        }
        // The last number may lie on one more line, unless rows are whole lines.
        if !self.numbers.is_multiple_of(16) {
            wire::prefetch::address(row.wrapping_add(numbers - 1));
        }
    }

    /// Gives all memory back.
    ///
    /// # Safety
    ///
    /// Nobody uses a row, or a slot from before, from now on.
    pub unsafe fn reset(&self) {
        let mut mappings = self.mappings.lock().unwrap_or_else(PoisonError::into_inner);
        for chunk in &self.chunks {
            chunk.store(null_mut(), Ordering::Release);
        }
        self.next.store(0, Ordering::Release);
        mappings.clear();
    }
}

/// A range of the address space.
#[derive(Debug)]
struct Mapping {
    whole: *mut libc::c_void,
    length: usize,
    start: *mut f32,
}

// SAFETY: a mapping is plain memory of the process; only its owner unmaps it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `bytes`, zero, aligned to a large page; the first `small` bytes keep small pages.
    fn new(bytes: usize, small: usize) -> Self {
        let length = bytes + PAGE;
        // SAFETY: a new private mapping at an address that the system chooses touches nothing that exists.
        let whole = unsafe {
            libc::mmap(
                null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if whole == libc::MAP_FAILED {
            let layout = Layout::from_size_align(bytes, PAGE);
            handle_alloc_error(layout.unwrap_or(Layout::new::<f32>()));
        }
        let skip = whole.align_offset(PAGE);
        let start = whole.wrapping_byte_add(skip);
        #[cfg(target_os = "linux")]
        if bytes > small {
            // SAFETY: the range lies inside of the mapping. Failure only means small pages.
            unsafe { libc::madvise(start.byte_add(small), bytes - small, libc::MADV_HUGEPAGE) };
        }
        Self {
            whole,
            length,
            start: start.cast(),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; the owner says that nobody uses it any more.
        unsafe { libc::munmap(self.whole, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_do_not_overlap_and_rows_keep_what_they_are_given() {
        // Rows so long that chunks hold few of them, and short ones.
        for numbers in [3_usize, 48, 3_000_000] {
            let region = Region::new(40, numbers);
            let mut slots = Vec::new();
            while slots.len() < 20 {
                let extent = region.extent(7);
                assert!(!extent.is_empty() && extent.len() <= 7);
                slots.extend(extent);
            }
            assert!(slots.is_sorted_by(|a, b| a < b), "{slots:?}");
            for slot in &slots {
                // SAFETY: the slots were just handed out to this test alone.
                let (mark, row) = unsafe { region.row_mut(*slot) };
                assert_eq!((*mark, row[0], row[numbers - 1]), (0, 0.0, 0.0));
                *mark = slot + 1;
                row[0] = *slot as f32;
                row[numbers - 1] = *slot as f32;
            }
            for slot in &slots {
                // SAFETY: as above.
                let row = unsafe { region.row(*slot) };
                assert_eq!(row.mark, slot + 1);
                assert_eq!(row.numbers[numbers - 1], *slot as f32);
            }
        }
    }
}
