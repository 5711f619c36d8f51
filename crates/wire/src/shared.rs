//! Memory that a server and a trainer on one host share, so that dense values need not go through a socket.
//!
//! A server keeps the values of a service in such memory, and gives every trainer on its host an outbox of the same
//! layout. The trainer writes its gradients to the outbox and copies new values out. Frames on their unix socket still
//! say what is ready, and thereby who may access what: the writer does not touch memory that it has announced in a
//! frame until the receiver's next frame. A peer that breaks this rule causes wrong values in its own job, nothing
//! else: memory is only ever copied, and sealed so that it cannot shrink under a reader.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// The beginning of a table is rounded up to this many values: a cache line.
const ALIGNED: usize = 16;

/// Where parts are in a region, in values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionLayout {
    /// The offset of each part.
    pub starts: Vec<usize>,
    /// The length of the region.
    pub len: usize,
}

/// The layout of parts of these lengths. Both sides compute it.
pub fn layout(lens: impl Iterator<Item = usize>) -> RegionLayout {
    let mut end = 0;
    let starts = lens.map(|len| {
        let start = end;
        end += len.next_multiple_of(ALIGNED);
        start
    });
    RegionLayout {
        starts: starts.collect(),
        len: end,
    }
}

/// Memory that was divided by [`SharedRegion::divide`].
#[derive(Debug)]
pub struct DividedRegion {
    /// The descriptor with which another process maps the memory, for reading only.
    pub descriptor: OwnedFd,
    /// Its parts, which this process writes.
    pub parts: Vec<PublishedValues>,
}

/// What this process may do with a region that another one created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionAccess {
    /// Copy out of it.
    Read,
    /// Copy into it, too.
    Write,
}

/// Pages of this process that map shared memory.
#[derive(Debug)]
struct Mapping {
    start: NonNull<f32>,
    bytes: usize,
}

// SAFETY: a mapping is plain memory that belongs to no thread; it goes away when its one owner does.
unsafe impl Send for Mapping {}
// SAFETY: see above; what may be done through a shared reference is said at the methods that do it.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(descriptor: BorrowedFd<'_>, bytes: usize, access: RegionAccess) -> io::Result<Self> {
        let protection = match access {
            RegionAccess::Read => ProtFlags::READ,
            RegionAccess::Write => ProtFlags::READ | ProtFlags::WRITE,
        };
        // SAFETY: a new mapping at a place of the kernel's choice touches nothing that exists.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                MapFlags::SHARED,
                descriptor,
                0,
            )?
        };
        let start = NonNull::new(start.cast())
            .ok_or_else(|| io::Error::other("memory was mapped at address zero"))?;
        Ok(Self { start, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own, and nobody can hold a reference into it: parts keep it alive.
        // Failure would leave it mapped, which is harmless.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Shared values that both sides copy from and to.
#[derive(Debug)]
pub struct SharedRegion {
    mapping: Mapping,
    len: usize,
    access: RegionAccess,
    descriptor: OwnedFd,
}

impl SharedRegion {
    /// New memory of `len` zeros.
    pub fn create(len: usize) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let descriptor = rustix::fs::memfd_create("canoe", flags)?;
        let bytes = Self::bytes(len)?;
        rustix::fs::ftruncate(&descriptor, bytes as u64)?;
        rustix::fs::fcntl_add_seals(&descriptor, SealFlags::SHRINK | SealFlags::GROW)?;
        let mapping = Mapping::new(descriptor.as_fd(), bytes, RegionAccess::Write)?;
        Ok(Self {
            mapping,
            len,
            access: RegionAccess::Write,
            descriptor,
        })
    }

    /// Memory that another process created; refused if it is too small or could shrink.
    pub fn open(descriptor: OwnedFd, len: usize, access: RegionAccess) -> io::Result<Self> {
        let bytes = Self::bytes(len)?;
        let size = rustix::fs::fstat(&descriptor)?.st_size;
        let seals = rustix::fs::fcntl_get_seals(&descriptor)?;
        if u64::try_from(size).is_ok_and(|size| size < bytes as u64)
            || !seals.contains(SealFlags::SHRINK)
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "shared memory is too small or not sealed",
            ));
        }
        let mapping = Mapping::new(descriptor.as_fd(), bytes, access)?;
        Ok(Self {
            mapping,
            len,
            access,
            descriptor,
        })
    }

    fn bytes(len: usize) -> io::Result<usize> {
        let bytes = len.max(1).checked_mul(size_of::<f32>());
        bytes.ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// Length in `f32` values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The descriptor with which another process maps the memory.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Copies values out, from offset `at` on. They must be inside.
    pub fn read(&self, at: usize, out: &mut [f32]) {
        assert!(at <= self.len && out.len() <= self.len - at);
        // SAFETY: the range is inside the mapping, which cannot shrink, and `out` is other memory. The numbers are
        // copied as bits; if the other side breaks the protocol and writes meanwhile, they are wrong, not invalid.
        unsafe {
            let from = self.mapping.start.as_ptr().add(at);
            std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len());
        }
    }

    /// Copies values in, from offset `at` on. They must fit, and this process must have [`RegionAccess::Write`].
    pub fn write(&self, at: usize, from: &[f32]) {
        assert!(self.access == RegionAccess::Write);
        assert!(at <= self.len && from.len() <= self.len - at);
        // SAFETY: as above, and the mapping can be written.
        unsafe {
            let to = self.mapping.start.as_ptr().add(at);
            std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
        }
    }

    /// Divides memory that was just created into parts of these lengths (see [`layout`]), which alone can be written
    /// from now on.
    pub fn divide(self, lens: &[usize]) -> io::Result<DividedRegion> {
        let layout = layout(lens.iter().copied());
        if layout.len > self.len {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        rustix::fs::fcntl_add_seals(&self.descriptor, SealFlags::FUTURE_WRITE)?;
        let mapping = Arc::new(self.mapping);
        let parts = layout.starts.into_iter().zip(lens).map(|(start, len)| {
            // SAFETY: inside the mapping, as checked above.
            let start = unsafe { mapping.start.add(start) };
            PublishedValues {
                start,
                len: *len,
                _mapping: mapping.clone(),
            }
        });
        Ok(DividedRegion {
            descriptor: self.descriptor,
            parts: parts.collect(),
        })
    }
}

/// Values of this process that others may copy while they do not change.
#[derive(Debug)]
pub struct PublishedValues {
    start: NonNull<f32>,
    len: usize,
    _mapping: Arc<Mapping>,
}

// SAFETY: a part is the only way to its numbers in this process, like a boxed slice.
unsafe impl Send for PublishedValues {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for PublishedValues {}

impl std::ops::Deref for PublishedValues {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: the part lies inside a mapping that it keeps alive; parts do not overlap, and no other process
        // can map the memory for writing.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl std::ops::DerefMut for PublishedValues {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above, and this is the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_begin_on_cache_lines() {
        let layout = layout([3, 0, 16, 1].into_iter());
        assert_eq!((layout.starts, layout.len), (vec![0, 16, 16, 32], 48));
    }

    #[test]
    fn another_mapping_sees_what_is_written_but_cannot_write() {
        let region = SharedRegion::create(48).unwrap().divide(&[3, 20]).unwrap();
        let (descriptor, mut parts) = (region.descriptor, region.parts);
        parts[1][19] = 7.5;
        let copy = descriptor.try_clone().unwrap();
        let there = SharedRegion::open(descriptor, 48, RegionAccess::Read).unwrap();
        let mut seen = [0.0; 2];
        there.read(34, &mut seen);
        assert_eq!(seen, [0.0, 7.5]);
        assert!(SharedRegion::open(copy, 48, RegionAccess::Write).is_err());
    }

    #[test]
    fn memory_that_is_too_small_or_could_shrink_is_refused() {
        let region = SharedRegion::create(16).unwrap();
        let copy = || region.descriptor().try_clone_to_owned().unwrap();
        assert!(SharedRegion::open(copy(), 16, RegionAccess::Write).is_ok());
        assert!(SharedRegion::open(copy(), 1 << 20, RegionAccess::Write).is_err());
        assert!(SharedRegion::open(copy(), usize::MAX, RegionAccess::Write).is_err());
        let open = rustix::fs::memfd_create("open", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&open, 4096).unwrap();
        assert!(SharedRegion::open(open, 16, RegionAccess::Read).is_err());
    }

    #[test]
    #[should_panic(expected = "assertion")]
    fn nothing_is_read_outside() {
        SharedRegion::create(16).unwrap().read(15, &mut [0.0; 2]);
    }
}
