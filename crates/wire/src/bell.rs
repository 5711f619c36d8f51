//! Lets one thread wait for many sockets, and another thread wake it. The kernel keeps the list of sockets (epoll), so
//! the cost of a wait grows with the number of sockets that are ready, not with the number of sockets.

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The key of the bell itself; [`Bell::watch`] gives sockets other keys.
const OWN: u64 = u64::MAX;

/// Most sockets that one wait returns; the others follow with the next.
const EVENTS: usize = 64;

/// What wakes a thread that waits for sockets.
#[derive(Debug)]
pub struct Bell {
    kernel: OwnedFd,
    rings: UnixStream,
    rung: UnixStream,
}

impl Bell {
    /// A bell that has not been rung.
    pub fn new() -> io::Result<Self> {
        let (rings, rung) = UnixStream::pair()?;
        rings.set_nonblocking(true)?;
        rung.set_nonblocking(true)?;
        let kernel = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&kernel, &rung, EventData::new_u64(OWN), EventFlags::IN)?;
        Ok(Self {
            kernel,
            rings,
            rung,
        })
    }

    /// From now on, [`Bell::wait`] also waits for this socket, and returns `key` for it.
    pub fn watch(&self, socket: impl AsFd, key: u64) -> io::Result<()> {
        epoll::add(
            &self.kernel,
            socket,
            EventData::new_u64(key),
            EventFlags::IN,
        )?;
        Ok(())
    }

    /// Stops watching this socket. Call it before the socket is closed: another handle may keep the socket open.
    pub fn forget(&self, socket: impl AsFd) {
        // It fails only for a socket that is not watched.
        let _ = epoll::delete(&self.kernel, socket);
    }

    /// Ends the present or the next [`Bell::wait`].
    pub fn ring(&self) {
        // If there is no room for another byte, the bell has already been rung.
        let _ = (&self.rings).write(&[0]);
    }

    /// Waits until a socket can be read or has ended, the bell is rung or the time is over. Returns the keys of sockets that
    /// can be read or have ended.
    pub fn wait(&self, limit: Duration) -> Vec<u64> {
        let mut events = Vec::with_capacity(EVENTS);
        let limit = Timespec::try_from(limit).ok();
        // A signal ends the wait early; then nothing is ready.
        let space = rustix::buffer::spare_capacity(&mut events);
        let _ = epoll::wait(&self.kernel, space, limit.as_ref());
        let mut keys: Vec<u64> = events.iter().map(|event| event.data.u64()).collect();
        keys.retain(|key| {
            if *key == OWN {
                while (&self.rung).read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
            }
            *key != OWN
        });
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_ends_one_wait_and_sockets_are_told_apart() {
        let bell = Bell::new().unwrap();
        let (quiet, _open) = UnixStream::pair().unwrap();
        let (ended, other) = UnixStream::pair().unwrap();
        // A second handle, as of whoever ends a stream from another thread.
        let _handle = ended.try_clone().unwrap();
        drop(other);
        let long = Duration::from_secs(600);
        bell.watch(&quiet, 3).unwrap();
        bell.ring();
        bell.ring();
        assert!(bell.wait(long).is_empty());
        assert!(bell.wait(Duration::ZERO).is_empty());
        bell.watch(&ended, 5).unwrap();
        assert_eq!(bell.wait(long), [5]);
        assert_eq!(bell.wait(long), [5]);
        bell.forget(&ended);
        assert!(bell.wait(Duration::ZERO).is_empty());
    }

    #[test]
    fn more_sockets_than_one_wait_returns_all_come() {
        let bell = Bell::new().unwrap();
        let pairs: Vec<_> = (0..3 * EVENTS)
            .map(|_| UnixStream::pair().unwrap())
            .collect();
        for (key, (own, other)) in (0..).zip(&pairs) {
            bell.watch(own, key).unwrap();
            (&*other).write_all(&[1]).unwrap();
        }
        let mut seen = std::collections::BTreeSet::new();
        while seen.len() < pairs.len() {
            for key in bell.wait(Duration::from_secs(600)) {
                (&pairs[key as usize].0).read_exact(&mut [0]).unwrap();
                assert!(seen.insert(key), "{key} came twice");
            }
        }
    }
}
