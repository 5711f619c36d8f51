//! Events on the sockets of a server, each delivered to one of its threads (epoll, edge-triggered).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};

/// Events that a thread takes at a time.
const MOST: usize = 64;

/// The sockets, and a bell that wakes all threads.
pub(crate) struct Events {
    epoll: OwnedFd,
    bell: OwnedFd,
}

/// Keys of the listening socket and of the bell; all other keys belong to connections.
pub(crate) const LISTENER: usize = usize::MAX;
const BELL: usize = usize::MAX - 1;

/// Something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketEvent {
    /// The key that the socket was added with.
    pub key: usize,
    /// The other side may have closed.
    pub closing: bool,
}

fn news() -> EventFlags {
    EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET
}

impl Events {
    /// No sockets yet.
    pub(crate) fn new() -> io::Result<Self> {
        let events = Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        };
        let data = EventData::new_u64(BELL as u64);
        epoll::add(&events.epoll, &events.bell, data, EventFlags::IN)?;
        Ok(events)
    }

    /// Adds a socket; its present state is the first event.
    pub(crate) fn add(&self, socket: impl AsFd, key: usize) -> io::Result<()> {
        let data = EventData::new_u64(key as u64);
        Ok(epoll::add(&self.epoll, socket, data, news())?)
    }

    /// Requests a new event with a socket's present state.
    pub(crate) fn again(&self, socket: impl AsFd, key: usize) -> io::Result<()> {
        let data = EventData::new_u64(key as u64);
        Ok(epoll::modify(&self.epoll, socket, data, news())?)
    }

    /// Removes a socket.
    pub(crate) fn remove(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, socket)?)
    }

    /// Wakes all threads, now and whenever they wait.
    pub(crate) fn ring(&self) {
        // It fails only if the pipe is full, and then the bell already rings.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Waits until something happens, and lists it; nothing if the bell rings.
    pub(crate) fn wait(
        &self,
        raw: &mut Vec<Event>,
        found: &mut Vec<SocketEvent>,
    ) -> io::Result<()> {
        found.clear();
        raw.clear();
        raw.reserve(MOST);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(raw), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let gone = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        found.extend(raw.iter().map(|event| {
            // The structure is packed.
            let (data, flags) = (event.data, event.flags);
            SocketEvent {
                key: data.u64() as usize,
                closing: flags.intersects(gone),
            }
        }));
        found.retain(|event| event.key != BELL);
        Ok(())
    }
}
