//! Decides when a node that drains may end: after a snapshot that all servers have, or as soon as none is possible. Pure.
//!
//! A snapshot is taken by all servers at the same step. The node's own server requests one in its reports, a trainer
//! orders it, and the server's status says when every server has it. The pod that replaces this one then continues from
//! there, and no step is computed twice.

use std::time::Duration;

use words::status::{Phase, Status};

/// The state of a node that may have to drain. Times count from its start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Farewell {
    server: Option<Server>,
    asked: Option<Duration>,
    is_ordered: bool,
}

/// The last status of the node's server.
#[derive(Debug, Clone, Copy)]
struct Server {
    is_running: bool,
    wanted: Option<u64>,
    on_all: Option<u64>,
}

impl Farewell {
    /// The server has reported its status.
    pub(crate) fn server(&mut self, status: &Status) {
        self.server = Some(Server {
            is_running: status.phase == Some(Phase::Running),
            wanted: status.snapshot_wanted,
            on_all: status.snapshot_on_all,
        });
    }

    /// The server has crashed, so its request is gone.
    pub(crate) fn server_died(&mut self) {
        self.server = None;
    }

    /// Whether to notify the server now that it is about to end. True once, after the node was asked to end.
    pub(crate) fn orders(&mut self, requests: u32) -> bool {
        let is_running = self.server.is_some_and(|server| server.is_running);
        requests > 0 && is_running && !std::mem::replace(&mut self.is_ordered, true)
    }

    /// Whether to end now. `requests`: how often the node was asked to end; `limit`: how long it may stay after the first
    /// request.
    pub(crate) fn may_go(&mut self, requests: u32, now: Duration, limit: Duration) -> bool {
        if requests == 0 {
            return false;
        }
        let asked = *self.asked.get_or_insert(now);
        let Some(server) = self.server.filter(|server| server.is_running) else {
            // No step has been applied, so there is nothing to save.
            return true;
        };
        let has_come = server.wanted.is_some() && server.on_all >= server.wanted;
        has_come || requests > 1 || now >= asked + limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn page(phase: Phase, wanted: Option<u64>, on_all: Option<u64>) -> Status {
        Status {
            phase: Some(phase),
            snapshot_wanted: wanted,
            snapshot_on_all: on_all,
            ..Status::default()
        }
    }

    #[test]
    fn a_snapshot_is_ordered_once_and_waited_for() {
        let mut farewell = Farewell::default();
        farewell.server(&page(Phase::Running, None, Some(7)));
        assert!(!farewell.orders(0) && !farewell.may_go(0, at(1), at(15)));
        assert!(farewell.orders(1));
        assert!(!farewell.orders(1));
        assert!(!farewell.may_go(1, at(2), at(15)), "not heard yet");
        farewell.server(&page(Phase::Running, Some(12), Some(7)));
        assert!(!farewell.may_go(1, at(3), at(15)), "an older one");
        farewell.server(&page(Phase::Running, Some(12), Some(13)));
        assert!(farewell.may_go(1, at(4), at(15)));
    }

    #[test]
    fn one_that_does_not_come_is_not_waited_for() {
        let mut nothing_runs = Farewell::default();
        assert!(!nothing_runs.orders(1) && nothing_runs.may_go(1, at(3), at(60)));
        nothing_runs.server(&page(Phase::Lobby, None, None));
        assert!(!nothing_runs.orders(1) && nothing_runs.may_go(1, at(3), at(60)));
        let mut farewell = Farewell::default();
        farewell.server(&page(Phase::Running, None, None));
        assert!(farewell.orders(1) && !farewell.may_go(1, at(3), at(10)));
        assert!(farewell.clone().may_go(2, at(4), at(10)), "asked twice");
        assert!(farewell.clone().may_go(1, at(13), at(10)), "the limit");
        farewell.server_died();
        assert!(farewell.may_go(1, at(4), at(10)));
    }
}
