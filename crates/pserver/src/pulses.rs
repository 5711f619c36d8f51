//! Receives the heartbeats of trainers: one thread for all of them except trainer 0, whose heartbeats make a server write
//! notes to its disk, which may take long.

use crate::connection;
use crate::host::Host;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::TrainerId;
use wire::bell::Bell;
use wire::channel::{Channel, ChannelError};
use words::lock::{Mutex, MutexGuard};

/// How long the rest of a heartbeat may take to arrive: the heartbeats of other trainers wait for it.
const BEGUN: Duration = Duration::from_secs(1);

/// How long the thread waits when nothing happens.
const TICK: Duration = Duration::from_millis(50);

/// A trainer's pulse connection.
pub(crate) struct PulseConnection {
    pub(crate) trainer: TrainerId,
    /// The number of the connection.
    pub(crate) number: u64,
    pub(crate) channel: Channel,
}

/// Hands pulse connections over to the thread that serves them.
pub(crate) struct PulseQueue {
    /// `None`: the thread has ended.
    new: Mutex<Option<Vec<PulseConnection>>>,
    bell: Bell,
}

impl PulseQueue {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            new: Mutex::new(Some(Vec::new())),
            bell: Bell::new()?,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<PulseConnection>>> {
        self.new.lock()
    }

    /// Adds a connection to those that are served. Returns it if the thread has already ended.
    pub(crate) fn add(&self, pulse: PulseConnection) -> Option<PulseConnection> {
        let timed = pulse.channel.stream().set_read_timeout(Some(BEGUN));
        match self.lock().as_mut() {
            Some(new) if timed.is_ok() => new.push(pulse),
            _ => return Some(pulse),
        }
        self.bell.ring();
        None
    }
}

/// Serves the pulse connections until the server ends.
pub(crate) fn serve(host: &Host) {
    let bell = &host.pulses.bell;
    let mut pulses: HashMap<u64, PulseConnection> = HashMap::new();
    loop {
        let mut new = host.pulses.lock();
        let added = std::mem::take(new.get_or_insert_default());
        if host.stopping.load(Ordering::Acquire) && pulses.is_empty() && added.is_empty() {
            *new = None;
            return;
        }
        drop(new);
        for pulse in added {
            match bell.watch(pulse.channel.stream(), pulse.number) {
                Ok(()) => drop(pulses.insert(pulse.number, pulse)),
                // The kernel has no room for it; the trainer tries again.
                Err(_) => end(host, &pulse, Ok(())),
            }
        }
        for number in bell.wait(TICK) {
            let Some(pulse) = pulses.get_mut(&number) else {
                continue;
            };
            let heard = connection::beat(host, pulse.trainer, pulse.number, &mut pulse.channel);
            if matches!(heard, Ok(true)) {
                continue;
            }
            bell.forget(pulse.channel.stream());
            end(host, pulse, heard.map(|_| ()));
            pulses.remove(&number);
        }
    }
}

fn end(host: &Host, pulse: &PulseConnection, done: Result<(), ChannelError>) {
    connection::end_pulse(host, pulse.trainer, pulse.number);
    connection::ended(host, pulse.number, pulse.channel.peer(), done);
}
