//! Requests that wait for something to happen in a service, without a thread.
//!
//! The list has a lock of its own, because hundreds of requests would queue for the lock of the service's state. Waiters
//! are taken out under the lock and woken after it is released.

use std::time::{Duration, Instant};

use wire::Step;

/// A request that waits at a service.
pub(crate) trait Waiter: Send {
    /// Called when what the request waits for may have happened; it must check.
    fn wake(self: Box<Self>);
}

/// What a waiter waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// This number of steps has been applied to all tables.
    Steps(Step),
    /// Anything has changed since [changes](crate::service::Service::changes) returned this number.
    Change(u64),
}

/// A waiter, and since when it waits.
type Waiting = (Instant, Box<dyn Waiter>);

/// All requests that wait at a service.
#[derive(Default)]
pub(crate) struct Waiters {
    steps: Vec<Waiting>,
    changes: Vec<Waiting>,
}

impl Waiters {
    /// Adds a waiter; its time begins now.
    pub(crate) fn add(&mut self, awaited: Awaited, waiter: Box<dyn Waiter>) {
        let list = match awaited {
            Awaited::Steps(_) => &mut self.steps,
            Awaited::Change(_) => &mut self.changes,
        };
        list.push((Instant::now(), waiter));
    }

    /// Takes out those that wait for steps.
    pub(crate) fn take_steps(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.steps)
    }

    /// Takes out those that wait for a change.
    pub(crate) fn take_changes(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.changes)
    }

    /// Takes out those that have waited for at least `limit`.
    pub(crate) fn take_overdue(&mut self, limit: Duration) -> Vec<Waiting> {
        let overdue = |(since, _): &mut Waiting| since.elapsed() >= limit;
        let mut late: Vec<_> = self.steps.extract_if(.., overdue).collect();
        late.extend(self.changes.extract_if(.., overdue));
        late
    }
}

impl std::fmt::Debug for Waiters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = (self.steps.len(), self.changes.len());
        f.debug_tuple("Waiters").field(&counts).finish()
    }
}

/// Wakes waiters that were taken out.
pub(crate) fn wake_all(waiters: Vec<Waiting>) {
    waiters.into_iter().for_each(|(_, waiter)| waiter.wake());
}
