//! Who is let in: one thread accepts the connections of all ports and hears every stranger out, up to its hello.
//!
//! A stranger costs a descriptor and some kilobytes, never a thread: only who knows the job token gets one. There is
//! room for [`room`] strangers; when it is full, the one that has been here longest is sent away, so that a trainer,
//! which says hello at once, always gets in. A stranger that has not said hello after [`hello_time`] is sent away too,
//! however busily it sends. The thread may use a [`share`] of a core, which is small while all trainers are connected:
//! then nobody can join, and what strangers use is taken from training. Complaints about strangers are counted, and few
//! of them reach the log ([`Complaints`]).

use crate::connection;
use crate::host::Host;
use crate::server::Level;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wire::stranger::{Stranger, StrangerError};
use words::budget::CpuBudget;
use words::causes::chain;

/// How long a stranger may take until its hello is complete: less than a trainer waits for the challenge, so that one
/// that speaks no TLS to a server with TLS is still there to be told.
fn hello_time(silence: Duration) -> Duration {
    (silence * 2 / 3).clamp(Duration::from_secs(2), Duration::from_secs(5))
}

/// Most strangers at a time, if there are descriptors for them.
const STRANGERS: usize = 1024;

/// How long the thread waits when nothing happens, and rests at a time.
const TICK: Duration = Duration::from_millis(50);

/// How long it rests between two turns in a crowd: some dozen strangers have come then, and a peer that says hello at
/// once has been heard after two turns.
const PAUSE: Duration = Duration::from_millis(25);

/// Processor time after which a turn ends, for strangers that are heard and for each door: a rest is in proportion to
/// it, and whoever comes next waits for the rest.
const TURN: Duration = Duration::from_millis(1);

/// Processor time that the thread may use at once after it was idle: a job of some hundred trainers joins within it.
const BURST: Duration = Duration::from_millis(250);

/// The part of a core that the thread may use for long.
fn share(complete: bool) -> f64 {
    if complete { 0.04 } else { 0.5 }
}

/// How long the thread rests before it looks again at `held` strangers, of which there is room for `room`. When it is
/// half full, they are a crowd, and others come all the time: to wake for each of them interrupts the trainers more often
/// than it helps a peer.
fn pause(complete: bool, held: usize, room: usize) -> Duration {
    if complete && 2 * held >= room {
        PAUSE
    } else {
        Duration::ZERO
    }
}

/// Processor time of this thread.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

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

    fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
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
pub(crate) fn descriptors() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.unwrap_or(u64::MAX)
}

/// Serves all doors until the server ends.
pub(crate) fn serve(host: &Arc<Host>, doors: &[Door]) {
    let mut gate = Gate {
        host,
        doors,
        room: room(descriptors()),
        visitors: BTreeMap::new(),
        came: 0,
        heard: 0,
        complaints: Complaints::default(),
        hello: hello_time(host.config.silence),
    };
    for door in doors {
        if let Err(cause) = door.listener.set_nonblocking() {
            host.say(Level::Error, &format!("a port cannot be served: {cause}"));
            return;
        }
    }
    let mut budget = CpuBudget::new(BURST);
    let (mut clock, mut before) = (Instant::now(), used());
    let mut rested = false;
    while !host.stopping.load(Ordering::Acquire) {
        host.gate.store(host.now(), Ordering::Release);
        let (now, after) = (Instant::now(), used());
        let complete = host.members().is_complete();
        let debt = budget.spend(after - before, now - clock, share(complete));
        (clock, before) = (now, after);
        let pause = pause(complete, gate.visitors.len(), gate.room);
        let rest = if rested { debt } else { debt.max(pause) };
        rested = !rest.is_zero();
        if rested {
            std::thread::sleep(rest.min(TICK));
            continue;
        }
        let ready = gate.wait();
        gate.turn(ready);
        if let Some(text) = gate.complaints.due(host.now()) {
            host.say(Level::Warning, &text);
        }
    }
}

/// With whom something can be done.
struct Ready {
    /// For each door, whether somebody waits there.
    doors: Vec<bool>,
    /// Numbers of visitors, ascending.
    visitors: Vec<u64>,
}

struct Gate<'a> {
    host: &'a Arc<Host>,
    doors: &'a [Door],
    room: usize,
    /// By number: who is here longest comes first.
    visitors: BTreeMap<u64, Visitor>,
    /// Visitors so far; the number of the last one.
    came: u64,
    /// The number of the last one that was heard.
    heard: u64,
    complaints: Complaints,
    /// How long a stranger may take.
    hello: Duration,
}

impl Gate<'_> {
    /// Waits until something can be done.
    fn wait(&self) -> Ready {
        let doors = self.doors.iter().map(|door| {
            let descriptor = door.listener.descriptor();
            PollFd::from_borrowed_fd(descriptor, PollFlags::IN)
        });
        let visitors = self.visitors.values().map(|visitor| {
            let events = if visitor.stranger.wants_to_write() {
                PollFlags::IN | PollFlags::OUT
            } else {
                PollFlags::IN
            };
            PollFd::from_borrowed_fd(visitor.stranger.descriptor(), events)
        });
        let mut all: Vec<PollFd<'_>> = doors.chain(visitors).collect();
        let limit = Timespec {
            tv_sec: 0,
            tv_nsec: TICK.as_nanos() as _,
        };
        // An interrupted wait is one in which nothing happened.
        let count = poll(&mut all, Some(&limit)).unwrap_or(0);
        let is_ready = |one: &PollFd<'_>| count > 0 && !one.revents().is_empty();
        let (doors, visitors) = all.split_at(self.doors.len());
        let numbers = self.visitors.keys().zip(visitors);
        Ready {
            doors: doors.iter().map(is_ready).collect(),
            visitors: numbers
                .filter(|(_, one)| is_ready(one))
                .map(|(number, _)| *number)
                .collect(),
        }
    }

    fn turn(&mut self, ready: Ready) {
        while let Some(oldest) = self.visitors.first_entry() {
            if oldest.get().since.elapsed() <= self.hello {
                break;
            }
            let oldest = oldest.remove();
            self.expire(oldest);
        }
        self.hear_all(ready.visitors);
        for (door, ready) in self.doors.iter().zip(ready.doors) {
            if ready {
                self.accept(door);
            }
        }
    }

    /// Hears the visitors that have something to say, in turn, as many as the time allows.
    fn hear_all(&mut self, mut speaking: Vec<u64>) {
        let next = speaking.partition_point(|number| *number <= self.heard);
        speaking.rotate_left(next);
        let end = used() + TURN;
        for number in speaking {
            if used() > end {
                return;
            }
            self.heard = number;
            if let Some(visitor) = self.visitors.remove(&number) {
                self.hear(number, visitor);
            }
        }
    }

    fn accept(&mut self, door: &Door) {
        let end = used() + TURN;
        while used() < end {
            let tls = self.host.config.tls.as_ref();
            let accepted = match &door.listener {
                Listener::Tcp(listener) => Stranger::accept(listener, tls).map(Ok),
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
                    self.complain("a stranger", &format!("cannot be accepted: {cause}"));
                    match self.visitors.pop_first() {
                        Some((_, oldest)) => self.expire(oldest),
                        None => std::thread::sleep(TICK),
                    }
                    return;
                }
            };
            if self.visitors.len() >= self.room
                && let Some((_, oldest)) = self.visitors.pop_first()
            {
                let what = "sent away: too many connections without a hello";
                self.complain(oldest.stranger.peer(), what);
                oldest.stranger.dismiss();
            }
            let visitor = Visitor {
                port: door.port,
                since: Instant::now(),
                stranger,
            };
            self.came += 1;
            // The challenge goes out now.
            self.hear(self.came, visitor);
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

    /// Hears a stranger, which stays if it has more to say.
    fn hear(&mut self, number: u64, mut visitor: Visitor) {
        match visitor.stranger.proceed(&self.host.config.token) {
            Ok(None) => drop(self.visitors.insert(number, visitor)),
            Ok(Some(hello)) => self.admit(visitor, hello),
            Err(StrangerError::Left) => {}
            Err(error) => {
                let peer = visitor.stranger.peer().to_owned();
                self.complain(&peer, &chain(&error));
            }
        }
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

/// Keeps strangers from filling the log: in each period the first few complaints are logged, of the others their number
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

    /// Takes a complaint; returns it if it may be logged now.
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
    fn only_a_crowd_that_nobody_can_join_from_waits_for_the_next_look() {
        assert_eq!(pause(true, 256, 256), PAUSE);
        assert_eq!(pause(true, 5, 256), Duration::ZERO);
        assert_eq!(pause(false, 256, 256), Duration::ZERO);
    }

    #[test]
    fn strangers_get_a_part_of_the_descriptors() {
        assert_eq!(room(256), 64);
        assert_eq!(room(1 << 20), STRANGERS);
        assert_eq!(room(20), 16);
    }
}
