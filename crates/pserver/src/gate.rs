//! Who is let in: one thread accepts the connections of all ports and hears every stranger out, up to its hello.
//!
//! A stranger costs a descriptor and some kilobytes, never a thread: only who knows the job token gets one. There is
//! room for [`room`] strangers; when it is full, the one that has been here longest is sent away, so that a trainer,
//! which says hello at once, always gets in. A stranger that has not said hello after [`hello_time`] is sent away too,
//! however busily it sends. Complaints about strangers are counted, and few of them reach the log ([`Complaints`]).

use crate::connection;
use crate::host::{Host, chain};
use crate::server::Level;
use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wire::stranger::{Stranger, StrangerError};

/// How long a stranger may take until its hello is complete: less than a trainer waits for the challenge, so that one
/// that speaks no TLS to a server with TLS is still there to be told.
fn hello_time(silence: Duration) -> Duration {
    (silence * 2 / 3).clamp(Duration::from_secs(2), Duration::from_secs(5))
}

/// Most strangers at a time, if there are descriptors for them.
const STRANGERS: usize = 1024;

/// How long the thread waits when nothing happens.
const TICK: Duration = Duration::from_millis(50);

/// Connections that are accepted before strangers are heard again.
const ACCEPTED: usize = 64;

/// While strangers crowd the gate, it rests this many times as long as it works, to leave the cores to training.
const REST: u32 = 5;

/// A listening socket, and the port index that it belongs to.
pub(crate) struct Door {
    pub(crate) port: usize,
    pub(crate) listener: Listener,
}

/// A listening socket.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => listener.set_nonblocking(true),
            Self::Unix(listener) => listener.set_nonblocking(true),
        }
    }

    fn descriptor(&self) -> i32 {
        match self {
            Self::Tcp(listener) => listener.as_fd().as_raw_fd(),
            Self::Unix(listener) => listener.as_fd().as_raw_fd(),
        }
    }
}

struct Visitor {
    port: usize,
    since: Instant,
    stranger: Stranger,
}

/// How many strangers there is room for with so many descriptors: a quarter of them.
fn room(descriptors: u64) -> usize {
    (descriptors / 4).clamp(16, STRANGERS as u64) as usize
}

/// The descriptors that this process may have.
fn descriptors() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for writes during the call.
    let asked = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if asked == 0 { limit.rlim_cur } else { 1024 }
}

/// Serves all doors until the server ends.
pub(crate) fn serve(host: &Arc<Host>, doors: &[Door]) {
    let mut gate = Gate {
        host,
        doors,
        room: room(descriptors()),
        visitors: VecDeque::new(),
        complaints: Complaints::default(),
        crowded: false,
        hello: hello_time(host.config.silence),
    };
    for door in doors {
        if let Err(cause) = door.listener.set_nonblocking() {
            host.say(Level::Error, &format!("a port cannot be served: {cause}"));
            return;
        }
    }
    while !host.stopping.load(Ordering::Acquire) {
        host.gate.store(host.now(), Ordering::Release);
        let ready = gate.wait();
        let begun = Instant::now();
        gate.turn(&ready);
        if gate.crowded {
            std::thread::sleep((begun.elapsed() * REST).min(TICK));
        }
        if let Some(text) = gate.complaints.due(host.now()) {
            host.say(Level::Warning, &text);
        }
    }
}

struct Gate<'a> {
    host: &'a Arc<Host>,
    doors: &'a [Door],
    room: usize,
    /// Who is here longest comes first.
    visitors: VecDeque<Visitor>,
    complaints: Complaints,
    crowded: bool,
    /// How long a stranger may take.
    hello: Duration,
}

impl Gate<'_> {
    /// Waits until something can be done. Returns, for doors and then visitors, whether it can be with this one.
    fn wait(&self) -> Vec<bool> {
        let doors = self.doors.iter().map(|door| libc::pollfd {
            fd: door.listener.descriptor(),
            events: libc::POLLIN,
            revents: 0,
        });
        let visitors = self.visitors.iter().map(|visitor| libc::pollfd {
            fd: visitor.stranger.descriptor().as_raw_fd(),
            events: if visitor.stranger.wants_to_write() {
                libc::POLLIN | libc::POLLOUT
            } else {
                libc::POLLIN
            },
            revents: 0,
        });
        let mut all: Vec<libc::pollfd> = doors.chain(visitors).collect();
        // SAFETY: the pointer and the count describe `all`, which lives until the call returns.
        let count = unsafe {
            libc::poll(
                all.as_mut_ptr(),
                all.len() as libc::nfds_t,
                TICK.as_millis() as libc::c_int,
            )
        };
        all.iter()
            .map(|one| count > 0 && one.revents != 0)
            .collect()
    }

    fn turn(&mut self, ready: &[bool]) {
        let (doors, visitors) = ready.split_at(self.doors.len());
        let now = Instant::now();
        let mut left = VecDeque::with_capacity(self.visitors.len());
        for (at, visitor) in std::mem::take(&mut self.visitors).into_iter().enumerate() {
            let late = now.duration_since(visitor.since) > self.hello;
            if late {
                self.expire(visitor);
            } else if visitors.get(at).copied().unwrap_or(false) {
                left.extend(self.hear(visitor));
            } else {
                left.push_back(visitor);
            }
        }
        self.visitors = left;
        self.crowded = false;
        for (door, ready) in self.doors.iter().zip(doors) {
            if *ready {
                self.accept(door);
            }
        }
    }

    fn accept(&mut self, door: &Door) {
        for _ in 0..ACCEPTED {
            let tls = self.host.config.tls.as_ref();
            let accepted = match &door.listener {
                Listener::Tcp(listener) => {
                    listener.accept().map(|(tcp, _)| Stranger::tcp(tcp, tls))
                }
                Listener::Unix(listener) => listener.accept().map(|(unix, _)| Stranger::unix(unix)),
            };
            let stranger = match accepted {
                Ok(Ok(stranger)) => stranger,
                Ok(Err(cause)) => {
                    self.complain("this host", &format!("refused: {cause}"));
                    continue;
                }
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return,
                // Gone before it was accepted.
                Err(cause) if cause.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(cause) => {
                    // Out of descriptors: those of strangers are the first to be given up.
                    self.crowded = true;
                    self.complain("a stranger", &format!("cannot be accepted: {cause}"));
                    if let Some(oldest) = self.visitors.pop_front() {
                        self.expire(oldest);
                    }
                    return;
                }
            };
            if self.visitors.len() >= self.room {
                self.crowded = true;
                if let Some(oldest) = self.visitors.pop_front() {
                    let peer = oldest.stranger.peer().to_owned();
                    self.complain(&peer, "sent away: too many connections without a hello");
                }
            }
            let visitor = Visitor {
                port: door.port,
                since: Instant::now(),
                stranger,
            };
            // The challenge goes out now.
            let still_here = self.hear(visitor);
            self.visitors.extend(still_here);
        }
    }

    fn expire(&mut self, mut visitor: Visitor) {
        visitor.stranger.expire();
        let peer = visitor.stranger.peer().to_owned();
        self.complain(
            &peer,
            &format!("sent no hello within {:.1} s", self.hello.as_secs_f64()),
        );
    }

    /// Hears a stranger. Returns it if it has more to say.
    fn hear(&mut self, mut visitor: Visitor) -> Option<Visitor> {
        match visitor.stranger.proceed(&self.host.config.token) {
            Ok(None) => return Some(visitor),
            Ok(Some(hello)) => self.admit(visitor, hello),
            Err(StrangerError::Left) => {}
            Err(error) => {
                let peer = visitor.stranger.peer().to_owned();
                self.complain(&peer, &chain(&error));
            }
        }
        None
    }

    fn admit(&mut self, visitor: Visitor, hello: wire::message::Hello) {
        let name = format!("trainer {}", hello.trainer);
        let port = visitor.port;
        let member = match visitor.stranger.into_member(hello) {
            Ok(member) => member,
            Err(cause) => return self.complain(&name, &cause.to_string()),
        };
        let host = self.host.clone();
        let spawned = std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || connection::serve(&host, port, member));
        if let Err(cause) = spawned {
            // The trainer sees its connection close, and tries again.
            self.complain(&name, &format!("no thread can be started for it: {cause}"));
        }
    }

    fn complain(&mut self, peer: &str, what: &str) {
        self.host.metrics.refused.add(1);
        let text = format!("{peer}: {what}");
        if let Some(line) = self.complaints.take(text, self.host.now()) {
            self.host.say(Level::Warning, &line);
        }
    }
}

/// Keeps strangers from filling the log: in each period the first few complaints are told, of the others their number
/// and the last one. Pure.
#[derive(Debug, Default)]
struct Complaints {
    /// When the period began, in milliseconds.
    since: u64,
    told: u32,
    held: u64,
    last: String,
}

impl Complaints {
    const PERIOD: u64 = 10_000;
    const TOLD: u32 = 5;

    /// Takes a complaint; returns it if it may be told now.
    fn take(&mut self, text: String, now: u64) -> Option<String> {
        if self.held == 0 && now.saturating_sub(self.since) >= Self::PERIOD {
            (self.since, self.told) = (now, 0);
        }
        if self.told < Self::TOLD {
            self.told += 1;
            return Some(text);
        }
        self.held += 1;
        self.last = text;
        None
    }

    /// The line for what was held back, once the period is over.
    fn due(&mut self, now: u64) -> Option<String> {
        if self.held == 0 || now.saturating_sub(self.since) < Self::PERIOD {
            return None;
        }
        let (held, last) = (self.held, std::mem::take(&mut self.last));
        *self = Self {
            since: now,
            ..Self::default()
        };
        Some(format!(
            "{held} more connections were refused, the last one: {last}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_strangers_is_a_few_lines() {
        let mut complaints = Complaints::default();
        let mut lines = Vec::new();
        for number in 0..10_000_u64 {
            let now = number * 3;
            lines.extend(complaints.take(format!("peer {number}"), now));
            lines.extend(complaints.due(now));
        }
        assert!(lines.len() < 25, "{} lines", lines.len());
        assert!(
            lines[5].contains("more connections were refused"),
            "{lines:?}"
        );
        assert!(complaints.due(10_000_000).unwrap().ends_with("peer 9999"));
        assert_eq!(complaints.due(20_000_000), None);
        assert!(complaints.take("later".to_owned(), 30_000_000).is_some());
    }

    #[test]
    fn strangers_get_a_part_of_the_descriptors() {
        assert_eq!(room(256), 64);
        assert_eq!(room(1 << 20), STRANGERS);
        assert_eq!(room(20), 16);
    }
}
