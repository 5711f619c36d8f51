//! The threads that serve data connections: few, however many trainers there are.
//!
//! A connection that waits for its trainer is in the kernel's list (epoll). One that waits for other trainers is kept by
//! its service until what it waits for has happened ([`crate::waiters::Waiter`]). A thread takes one that can continue, and
//! works on it with plain blocking reads and writes, which move large gradients without a copy.
//!
//! There is a thread for each core. One that begins with something large, which takes long and may wait for its peer, has
//! another one started in its place, up to [`LARGE`]; so few trainers with large tables have a thread each. When threads
//! are stuck, because peers stop in the middle of a frame or do not read, and nothing moves for a while, one more is
//! started, up to one for each connection: such a peer keeps a thread, and nothing else. A thread without work ends.

use crate::connection;
use crate::data::{Line, LineTurn};
use crate::host::Host;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use words::lock::{Mutex, MutexGuard};

/// Threads that may work on something large at a time, without being stuck.
const LARGE: usize = 16;

/// With more trainers than this, values are sent when all tables of a step are applied: to wait for each table takes a
/// thread for each trainer.
pub(crate) const FEW: usize = LARGE;

/// How long a thread without work waits before it looks whether the server ends.
const IDLE: Duration = Duration::from_millis(200);

/// Events that are taken from the kernel at a time.
const EVENTS: usize = 16;

/// The number of the bell among those of connections.
const BELL: u64 = 0;

/// The data connections of a server and the threads that serve them.
pub(crate) struct LinePool {
    kernel: OwnedFd,
    bell: IdleBell,
    /// Those that wait for their trainer, by number.
    reading: Mutex<HashMap<u64, Box<Line>>>,
    /// Those that can continue.
    ready: Mutex<VecDeque<Box<Line>>>,
    connections: AtomicUsize,
    threads: AtomicUsize,
    idle: AtomicUsize,
    /// Times that a thread has ended its work on a connection.
    turns: AtomicU64,
    /// What had moved when it was last looked whether threads are stuck.
    moved: AtomicU64,
    cores: usize,
}

/// Wakes a thread without work. Whoever has heard it looks for work afterwards.
struct IdleBell {
    file: OwnedFd,
    /// It has been rung, and nobody has come yet.
    rung: AtomicBool,
}

impl IdleBell {
    fn new() -> io::Result<Self> {
        let file = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let rung = AtomicBool::new(false);
        Ok(Self { file, rung })
    }

    fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // It can only be full of rings that nobody has heard yet.
            let _ = rustix::io::write(&self.file, &1_u64.to_ne_bytes());
        }
    }

    /// `meanwhile` is what others do between the two steps. The file first: a ring in between writes nothing, but the work that it is about can be seen already. In the other
    /// order it would be read away while the bell counts as rung, and nobody could ring it any more.
    fn heard(&self, meanwhile: impl FnOnce()) {
        let _ = rustix::io::read(&self.file, &mut [0_u8; 8]);
        meanwhile();
        self.rung.store(false, Ordering::Release);
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock()
}

impl LinePool {
    pub(crate) fn new() -> io::Result<Self> {
        let kernel = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = IdleBell::new()?;
        epoll::add(
            &kernel,
            &bell.file,
            EventData::new_u64(BELL),
            EventFlags::IN,
        )?;
        Ok(Self {
            kernel,
            bell,
            reading: Mutex::default(),
            ready: Mutex::default(),
            connections: AtomicUsize::new(0),
            threads: AtomicUsize::new(0),
            idle: AtomicUsize::new(0),
            turns: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            cores: std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2)),
        })
    }

    /// Serves a connection from now on. An error means that it cannot be served.
    pub(crate) fn add(&self, host: &Arc<Host>, line: Box<Line>) -> io::Result<()> {
        let socket = line.channel().stream();
        let number = EventData::new_u64(line.number());
        epoll::add(&self.kernel, socket, number, EventFlags::ONESHOT)?;
        self.connections.fetch_add(1, Ordering::AcqRel);
        self.more_threads(host, self.cores);
        self.read(host, line);
        Ok(())
    }

    /// A connection can continue.
    pub(crate) fn wake(&self, line: Box<Line>) {
        lock(&self.ready).push_back(line);
        self.ring();
    }

    /// Wakes a thread, if one rests.
    fn ring(&self) {
        if self.idle.load(Ordering::Acquire) > 0 {
            self.bell.ring();
        }
    }

    /// Starts a thread if all are busy and there are fewer than so many.
    fn more_threads(&self, host: &Arc<Host>, most: usize) {
        let most = most.min(self.connections.load(Ordering::Acquire));
        if self.idle.load(Ordering::Acquire) == 0 && self.threads.load(Ordering::Acquire) < most {
            self.start_thread(host);
        }
    }

    /// The thread that calls this is about to do something that takes long, or waits: somebody has to listen meanwhile.
    pub(crate) fn occupied(&self, host: &Arc<Host>) {
        self.more_threads(host, LARGE.max(self.cores));
    }

    fn start_thread(&self, host: &Arc<Host>) {
        self.threads.fetch_add(1, Ordering::AcqRel);
        let own = host.clone();
        let started = std::thread::Builder::new()
            .name("lines".to_owned())
            .spawn(move || own.lines.serve(&own));
        if started.is_err() {
            // The system has no room for it now: the next connection or the next look tries again.
            self.threads.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Called now and then: starts a thread if there is none, or all of them are stuck.
    pub(crate) fn tick(&self, host: &Arc<Host>) {
        let moved = self
            .turns
            .load(Ordering::Acquire)
            .wrapping_add(host.moved());
        let stuck = self.moved.swap(moved, Ordering::AcqRel) == moved;
        if stuck {
            self.more_threads(host, usize::MAX);
        }
    }

    fn serve(&self, host: &Arc<Host>) {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            while let Some(line) = self.next() {
                self.more_threads(host, self.cores);
                self.work(host, line);
            }
            let came = self.wait(&mut events);
            let ends = host.stopping.load(Ordering::Acquire)
                && self.connections.load(Ordering::Acquire) == 0;
            let spare = !came && self.threads.load(Ordering::Acquire) > self.cores;
            if ends || spare {
                self.threads.fetch_sub(1, Ordering::AcqRel);
                return;
            }
        }
    }

    /// The next connection that can continue. Has others help if there are more.
    fn next(&self) -> Option<Box<Line>> {
        let mut ready = lock(&self.ready);
        let line = ready.pop_front();
        let more = !ready.is_empty();
        drop(ready);
        if more {
            self.ring();
        }
        line
    }

    /// Waits until a connection can continue; false if none can.
    fn wait(&self, events: &mut Vec<epoll::Event>) -> bool {
        let limit = Timespec {
            tv_sec: 0,
            tv_nsec: IDLE.as_nanos() as _,
        };
        self.idle.fetch_add(1, Ordering::AcqRel);
        events.clear();
        // What became ready before this thread counted as idle rang for nobody.
        if lock(&self.ready).is_empty() {
            // An interrupted wait is one in which nothing happened.
            let _ = epoll::wait(
                &self.kernel,
                rustix::buffer::spare_capacity(events),
                Some(&limit),
            );
        }
        self.idle.fetch_sub(1, Ordering::AcqRel);
        let mut came = Vec::with_capacity(events.len());
        let mut reading = lock(&self.reading);
        for event in events.iter() {
            match event.data.u64() {
                BELL => self.bell.heard(|| ()),
                number => came.extend(reading.remove(&number)),
            }
        }
        drop(reading);
        for line in &came {
            line.channel().stream().meter().set_reading(false);
        }
        let mut ready = lock(&self.ready);
        ready.extend(came);
        !ready.is_empty()
    }

    fn work(&self, host: &Arc<Host>, mut line: Box<Line>) {
        // A panic must not take the thread, and with it other trainers' connections, along.
        let turn = catch_unwind(AssertUnwindSafe(|| line.turn()));
        self.turns.fetch_add(1, Ordering::AcqRel);
        match turn.unwrap_or(LineTurn::Ends(Ok(()))) {
            LineTurn::Waits => line.park(),
            LineTurn::Reads => self.read(host, line),
            LineTurn::Ends(done) => self.end(host, line, done),
        }
    }

    /// Waits for the trainer.
    fn read(&self, host: &Arc<Host>, line: Box<Line>) {
        let number = line.number();
        let data = EventData::new_u64(number);
        line.channel().stream().meter().set_reading(true);
        let mut reading = lock(&self.reading);
        let line = reading.entry(number).or_insert(line);
        let armed = epoll::modify(
            &self.kernel,
            line.channel().stream().as_fd(),
            data,
            EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT,
        );
        if armed.is_err() {
            let line = reading.remove(&number);
            drop(reading);
            line.into_iter()
                .for_each(|line| self.end(host, line, Ok(())));
        }
    }

    fn end(
        &self,
        host: &Arc<Host>,
        line: Box<Line>,
        done: Result<(), wire::channel::ChannelError>,
    ) {
        // Another handle keeps the socket open for a moment, so that the kernel would not forget it by itself.
        let _ = epoll::delete(&self.kernel, line.channel().stream());
        let (number, peer) = (line.number(), line.channel().peer().to_owned());
        drop(line);
        self.connections.fetch_sub(1, Ordering::AcqRel);
        connection::ended(host, number, &peer, done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    #[test]
    fn a_bell_can_be_rung_whatever_was_heard_meanwhile() {
        let bell = IdleBell::new().unwrap();
        bell.ring();
        bell.heard(|| bell.ring());
        bell.ring();
        let mut files = [PollFd::new(&bell.file, PollFlags::IN)];
        assert_eq!(poll(&mut files, Some(&Timespec::default())), Ok(1));
    }
}
