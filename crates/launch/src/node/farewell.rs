//! When a node that was asked to end goes: at once, or after the next snapshot if that comes soon. Pure.
//!
//! A snapshot is taken by all servers at the same step, so one node alone cannot order one. But it has
//! seen when the last ones came. If the next is due within the time that the pod is given, it is worth the
//! wait: the successor then goes on where this node stopped, and nothing is computed again.

use std::time::Duration;

/// What a node has seen and been asked. Times count from its start.
#[derive(Debug, Clone, Default)]
pub struct Farewell {
    last: Option<Duration>,
    interval: Option<Duration>,
    asked: Option<Duration>,
}

impl Farewell {
    /// A snapshot of this node's server is complete.
    pub fn snapshot(&mut self, now: Duration) {
        self.interval = self.last.map(|last| now.saturating_sub(last));
        self.last = Some(now);
    }

    /// Whether to go now. `requests`: how often the node was asked; `limit`: how long it may stay after the first time.
    pub fn may_go(&mut self, requests: u32, now: Duration, limit: Duration) -> bool {
        if requests == 0 {
            return false;
        }
        let asked = *self.asked.get_or_insert(now);
        let (Some(last), Some(interval), 1) = (self.last, self.interval, requests) else {
            return true;
        };
        // Twice the usual interval without a snapshot: the job stands still.
        let is_late = now > last + 2 * interval;
        last >= asked || is_late || now >= asked + limit || last + interval > asked + limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Snapshots at 10 s and 20 s.
    fn seen() -> Farewell {
        let mut farewell = Farewell::default();
        farewell.snapshot(at(10));
        farewell.snapshot(at(20));
        farewell
    }

    #[test]
    fn a_snapshot_that_is_due_soon_is_waited_for() {
        let mut farewell = seen();
        assert!(!farewell.may_go(0, at(24), at(25)));
        assert!(!farewell.may_go(1, at(25), at(25)));
        assert!(!farewell.may_go(1, at(30), at(25)));
        farewell.snapshot(at(31));
        assert!(farewell.may_go(1, at(31), at(25)));
    }

    #[test]
    fn one_that_does_not_come_is_not_waited_for() {
        assert!(seen().may_go(1, at(25), at(4)), "due after the limit");
        let mut late = seen();
        assert!(!late.may_go(1, at(21), at(60)));
        assert!(late.may_go(1, at(41), at(60)), "the job stands still");
        assert!(seen().may_go(2, at(21), at(60)), "asked twice");
        assert!(
            Farewell::default().may_go(1, at(3), at(60)),
            "never seen one"
        );
        let mut limit = seen();
        assert!(!limit.may_go(1, at(22), at(10)));
        assert!(limit.may_go(1, at(32), at(10)), "the limit is over");
    }
}
