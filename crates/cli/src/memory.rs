//! Large pages for large allocations: weights, gradients and tables are read from end to end, and with small
//! pages much of that time is spent on TLB misses.

#[cfg(target_os = "linux")]
use rustix::mm::{Advice, madvise};
use std::alloc::{GlobalAlloc, Layout, System};

/// Bytes of a large page.
const PAGE: usize = 2 << 20;
/// Smaller allocations keep small pages.
const LARGE: usize = 2 * PAGE;

/// The system's allocator, which also advises the kernel to use large pages for large allocations.
pub(crate) struct LargePages;

/// Requests large pages inside an allocation.
fn advise(start: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    if bytes >= LARGE && !start.is_null() {
        let skip = start.align_offset(PAGE);
        let inside = (bytes - skip) / PAGE * PAGE;
        // SAFETY: the range lies inside of memory that was just allocated, and the call changes none of its contents.
        // Failure only means small pages.
        let _ = unsafe { madvise(start.add(skip).cast(), inside, Advice::LinuxHugepage) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes);
}

// SAFETY: every call is passed on to the system's allocator; the advice does not touch the memory.
unsafe impl GlobalAlloc for LargePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the system's.
        let start = unsafe { System.alloc(layout) };
        advise(start, layout.size());
        start
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the system's.
        let start = unsafe { System.alloc_zeroed(layout) };
        advise(start, layout.size());
        start
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the system's.
        unsafe { System.dealloc(start, layout) };
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is the system's.
        let start = unsafe { System.realloc(start, layout, size) };
        advise(start, size);
        start
    }
}
