//! Waiting for many sockets in one thread, which another thread can wake.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// What wakes a thread that waits for sockets.
#[derive(Debug)]
pub struct Bell {
    rings: UnixStream,
    rung: UnixStream,
}

impl Bell {
    /// A bell that has not been rung.
    pub fn new() -> io::Result<Self> {
        let (rings, rung) = UnixStream::pair()?;
        rings.set_nonblocking(true)?;
        rung.set_nonblocking(true)?;
        Ok(Self { rings, rung })
    }

    /// Ends the present or the next [`Bell::wait`].
    pub fn ring(&self) {
        // If there is no room for another byte, it has been rung.
        let _ = (&self.rings).write(&[0]);
    }

    /// Waits until a socket can be read or has ended, the bell is rung or the time is over. Returns for each socket
    /// whether it can be read or has ended.
    pub fn wait<'a>(
        &self,
        sockets: impl Iterator<Item = BorrowedFd<'a>>,
        limit: Duration,
    ) -> Vec<bool> {
        let mut all = vec![PollFd::from_borrowed_fd(self.rung.as_fd(), PollFlags::IN)];
        all.extend(sockets.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
        let limit = Timespec::try_from(limit).ok();
        // A signal ends the wait early; then nothing is ready.
        let _ = poll(&mut all, limit.as_ref());
        while (&self.rung).read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
        all[1..]
            .iter()
            .map(|one| !one.revents().is_empty())
            .collect()
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
        drop(other);
        let long = Duration::from_secs(600);
        bell.ring();
        bell.ring();
        assert_eq!(bell.wait([quiet.as_fd()].into_iter(), long), [false]);
        let both = [quiet.as_fd(), ended.as_fd()];
        assert_eq!(bell.wait(both.into_iter(), long), [false, true]);
        assert_eq!(
            bell.wait([quiet.as_fd()].into_iter(), Duration::ZERO),
            [false]
        );
    }
}
