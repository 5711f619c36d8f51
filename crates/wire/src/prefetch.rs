//! Asks the processor to fetch memory that will be needed soon. No effect on processors without such an instruction.

/// Floats in a cache line.
const LINE: usize = 16;

/// Fetches the cache lines of a slice.
#[inline(always)]
pub fn slice(values: &[f32]) {
    let mut at = 0;
    while at < values.len() {
        address(&raw const values[at]);
        at += LINE;
    }
    if let Some(last) = values.last() {
        address(&raw const *last);
    }
}

/// Fetches the cache line of an address.
#[inline(always)]
pub fn address<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program sees and faults on no address; SSE is part of x86_64.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
