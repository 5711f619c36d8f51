//! Memory for a sparse table: blocks of address space, which the system fills with small pages as they are touched.
//! Where most of a large page is in use, it becomes one large page, so tables of gigabytes cause few TLB misses,
//! while a table with few rows occupies no more memory than it needs.
//!
//! Memory is allocated in extents. The unused part of an extent is only address space. Freed memory returns to
//! the system as soon as it fills a large page, and the rest with the region.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::alloc::{Layout, handle_alloc_error};
use std::ops::Range;
use std::ptr::null_mut;
use words::lock::{Mutex, MutexGuard};

/// Limits in bytes for a new block of address space. Between them, it is as large as all blocks so far.
const LEAST: usize = 4 << 20;
const MOST: usize = 64 << 20;
/// Bytes of a large page.
const PAGE: usize = 2 << 20;
/// Alignment of extents: a cache line.
const LINE: usize = 64;

/// The memory of one piece of a table.
#[derive(Debug, Default)]
pub struct PieceRegion {
    blocks: Mutex<Vec<Block>>,
}

/// A range of memory that belongs to the code that allocated it, as long as the region exists.
#[derive(Debug)]
pub struct Extent {
    start: *mut u8,
    bytes: usize,
    block: usize,
}

// SAFETY: an extent is an address and a length; whoever reads or writes there says why that is right.
unsafe impl Send for Extent {}

impl Extent {
    /// Its first byte, aligned to a cache line.
    #[inline(always)]
    pub fn start(&self) -> *mut u8 {
        self.start
    }
}

impl PieceRegion {
    /// Allocates `bytes` bytes: all zero, and not in use until [`PieceRegion::fill`].
    pub fn take(&self, bytes: usize) -> Extent {
        let bytes = bytes.next_multiple_of(LINE);
        let mut blocks = self.lock();
        if blocks.last().is_none_or(|block| block.left() < bytes) {
            let mapped: usize = blocks.iter().map(|block| block.mapping.bytes).sum();
            blocks.push(Block::new(bytes.max(mapped.clamp(LEAST, MOST))));
        }
        let last = blocks.len() - 1;
        Extent {
            start: blocks[last].take(bytes),
            bytes,
            block: last,
        }
    }

    /// Marks a range of an extent as in use; call it before anything is written there.
    pub fn fill(&self, extent: &Extent, range: Range<usize>) {
        for (page, bytes) in self.lock()[extent.block].pages(extent, range) {
            page.used += bytes;
        }
    }

    /// Turns the pages under a range into large pages where at most `spare` bytes are not in use.
    pub fn join(&self, extent: &Extent, range: Range<usize>, spare: usize) {
        let pages: Vec<*mut u8> = self.lock()[extent.block]
            .pages(extent, range)
            .filter_map(|(page, _)| page.is_to_be_joined(spare).then_some(page.start))
            .collect();
        // The lock is not held while the system copies.
        pages.into_iter().for_each(join);
    }

    /// Frees an extent that was filled completely.
    pub fn give_back(&self, extent: Extent) {
        let mut blocks = self.lock();
        let whole = 0..extent.bytes;
        for (page, bytes) in blocks[extent.block].pages(&extent, whole) {
            page.used -= bytes;
            if page.used == 0 {
                page.joined = false;
                // Under the lock: code that allocates memory of this page calls `fill` before it writes there.
                release(page.start);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Block>> {
        self.blocks.lock()
    }
}

#[derive(Debug)]
struct Block {
    mapping: Mapping,
    /// Bytes allocated.
    taken: usize,
    pages: Vec<Page>,
}

impl Block {
    fn new(bytes: usize) -> Self {
        let mapping = Mapping::new(bytes.next_multiple_of(PAGE));
        let page = |number| Page {
            start: mapping.start.wrapping_add(number * PAGE),
            used: 0,
            joined: false,
        };
        Self {
            taken: 0,
            pages: (0..mapping.bytes / PAGE).map(page).collect(),
            mapping,
        }
    }

    fn left(&self) -> usize {
        self.mapping.bytes - self.taken
    }

    fn take(&mut self, bytes: usize) -> *mut u8 {
        let start = self.mapping.start.wrapping_add(self.taken);
        self.taken += bytes;
        start
    }

    /// The large pages under a range of an extent of this block, each with the number of bytes of the range in it.
    fn pages(
        &mut self,
        extent: &Extent,
        range: Range<usize>,
    ) -> impl Iterator<Item = (&mut Page, usize)> {
        let base = extent.start.addr() - self.mapping.start.addr();
        let (start, end) = (base + range.start, base + range.end);
        let numbers = start / PAGE..end.div_ceil(PAGE);
        let shared = move |number| end.min((number + 1) * PAGE) - start.max(number * PAGE);
        self.pages[numbers.clone()]
            .iter_mut()
            .zip(numbers.map(shared))
    }
}

/// What is known of the memory of a large page.
#[derive(Debug)]
struct Page {
    start: *mut u8,
    used: usize,
    joined: bool,
}

// SAFETY: the address is that of memory of the process; the region's mapping owns it.
unsafe impl Send for Page {}

impl Page {
    /// Returns true once, when at most `spare` bytes are not in use.
    fn is_to_be_joined(&mut self, spare: usize) -> bool {
        let join = !self.joined && self.used + spare >= PAGE;
        self.joined |= join;
        join
    }
}

/// Merges the small pages at an address into a large one. After a failure they stay small.
fn join(page: *mut u8) {
    #[cfg(target_os = "linux")]
    // SAFETY: the range lies inside of a mapping that lives as long as the region; its contents do not change.
    unsafe {
        if large_by_default() {
            let _ = madvise(page.cast(), PAGE, Advice::LinuxHugepage);
        }
        // rustix does not have this advice.
        libc::madvise(page.cast(), PAGE, libc::MADV_COLLAPSE);
    }
}

/// Returns the memory at an address to the system. After a failure it stays.
fn release(page: *mut u8) {
    // SAFETY: the range lies inside of a mapping that lives as long as the region. Its contents are lost; all that
    // was in use there was given back, and what is taken there later begins with zeros.
    let _ = unsafe { madvise(page.cast(), PAGE, Advice::LinuxDontNeed) };
}

/// Whether the system allocates a large page when its first byte is touched.
#[cfg(target_os = "linux")]
fn large_by_default() -> bool {
    static ALWAYS: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
            .is_ok_and(|text| text.contains("[always]"))
    });
    *ALWAYS
}

/// A range of the address space.
#[derive(Debug)]
struct Mapping {
    whole: *mut u8,
    /// The first large page.
    start: *mut u8,
    /// Length from `start`.
    bytes: usize,
}

// SAFETY: a mapping is plain memory of the process; only its owner unmaps it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `bytes`, zero, aligned to a large page, in small pages.
    fn new(bytes: usize) -> Self {
        let (access, kind) = (
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        );
        // SAFETY: a new private mapping at an address that the system chooses touches nothing that exists.
        let whole = unsafe { mmap_anonymous(null_mut(), bytes + PAGE, access, kind) };
        let Ok(whole) = whole else {
            let layout = Layout::from_size_align(bytes, PAGE);
            handle_alloc_error(layout.unwrap_or(Layout::new::<f32>()));
        };
        #[cfg(target_os = "linux")]
        if large_by_default() {
            // SAFETY: the range is the mapping. Failure only means that more memory is used.
            let _ = unsafe { madvise(whole, bytes + PAGE, Advice::LinuxNoHugepage) };
        }
        let whole: *mut u8 = whole.cast();
        Self {
            whole,
            start: whole.wrapping_add(whole.align_offset(PAGE)),
            bytes,
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; the owner says that nobody uses it any more.
        let _ = unsafe { munmap(self.whole.cast(), self.bytes + PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::mut_from_ref, reason = "an extent has one owner")]
    fn bytes(extent: &Extent) -> &mut [u8] {
        // SAFETY: the extent was handed out to the test alone, and is as long as it says.
        unsafe { std::slice::from_raw_parts_mut(extent.start, extent.bytes) }
    }

    #[test]
    fn extents_do_not_overlap_and_begin_with_zeros() {
        let region = PieceRegion::default();
        let sizes = [1, 64, 4000, LEAST - 12, 20, 2 * MOST + 1, 28];
        let extents = sizes.map(|size| region.take(size));
        for (at, extent) in extents.iter().enumerate() {
            assert!(extent.start.addr().is_multiple_of(LINE) && extent.bytes >= sizes[at]);
            let bytes = bytes(extent);
            assert_eq!((bytes[0], *bytes.last().unwrap()), (0, 0));
            bytes[0] = at as u8;
            *bytes.last_mut().unwrap() = at as u8;
        }
        for (at, extent) in extents.iter().enumerate() {
            let bytes = bytes(extent);
            assert_eq!((bytes[0], *bytes.last().unwrap()), (at as u8, at as u8));
        }
    }

    #[test]
    fn a_page_is_joined_once_when_little_of_it_is_spare() {
        let mut block = Block::new(LEAST);
        let extent = Extent {
            start: block.take(2 * PAGE).wrapping_add(LINE),
            bytes: 2 * PAGE - LINE,
            block: 0,
        };
        let mut fill = |range: Range<usize>| {
            let pages = block.pages(&extent, range).map(|(page, bytes)| {
                page.used += bytes;
                page.is_to_be_joined(PAGE / 4)
            });
            pages.collect::<Vec<_>>()
        };
        assert_eq!(fill(0..PAGE / 2), [false]);
        assert_eq!(fill(PAGE / 2..PAGE), [true, false]);
        assert_eq!(fill(PAGE..2 * PAGE - LINE), [true]);
    }

    #[test]
    fn joined_pages_keep_what_they_had() {
        let region = PieceRegion::default();
        let extent = region.take(3 * PAGE);
        let half = 3 * PAGE / 2;
        let content = |at: usize| if at < half { (at % 251) as u8 } else { 0 };
        for (at, byte) in bytes(&extent)[..half].iter_mut().enumerate() {
            *byte = content(at);
        }
        region.fill(&extent, 0..3 * PAGE);
        region.join(&extent, 0..3 * PAGE, 0);
        let mut kept = bytes(&extent).iter().enumerate();
        assert!(kept.all(|(at, byte)| *byte == content(at)));
    }

    #[test]
    fn what_is_given_back_goes_to_the_system_when_its_page_is_empty() {
        let region = PieceRegion::default();
        let extents = [PAGE / 2, PAGE / 2, PAGE].map(|size| region.take(size));
        for extent in &extents {
            region.fill(extent, 0..extent.bytes);
            bytes(extent).fill(7);
            region.join(extent, 0..extent.bytes, 0);
        }
        let [first, second, third] = extents;
        let at = first.start;
        region.give_back(first);
        assert!(bytes(&second).iter().all(|byte| *byte == 7));
        region.give_back(second);
        assert!(bytes(&third).iter().all(|byte| *byte == 7));
        // SAFETY: the region still maps the range, and nobody uses it.
        let gone = unsafe { std::slice::from_raw_parts(at, PAGE) };
        assert!(gone.iter().all(|byte| *byte == 0));
    }
}
