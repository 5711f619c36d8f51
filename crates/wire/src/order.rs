//! Decides which trainer orders a snapshot, and when. Pure.
//!
//! A server whose process is about to end wants a snapshot on all servers, but servers do not know each other. It
//! says so in its reports. A trainer that reads this puts the order into the message that ends its batch, which
//! goes to every service: so all take the snapshot at the same step, or, after a loss, none does.

use crate::ids::{Step, TrainerId};
use crate::recovery::{ServerReport, held, stable};

/// Trainer 0 orders immediately. It may have no more data in this pass, so another one orders after this time.
const TURN: u64 = 1_000;

/// A snapshot that is not there after this time (another one was still being written) is ordered again.
const AGAIN: u64 = 2_000;

/// The step at or after which a server wants a snapshot on all servers that hold tables, the first `holders`; `None` once
/// there is one.
pub fn wanted(reports: &[ServerReport], holders: u32) -> Option<Step> {
    let wanted = reports.iter().filter_map(|report| report.wanted).max()?;
    (stable(held(reports, holders)) < Some(wanted)).then_some(wanted)
}

/// Decides when one trainer orders a snapshot. Times are milliseconds of any monotonic clock.
#[derive(Debug, Clone, Default)]
pub struct Orders {
    wanted: Option<Step>,
    next: u64,
}

impl Orders {
    /// Whether the batch that `trainer` ends now carries an order.
    pub fn due(&mut self, trainer: TrainerId, wanted: Option<Step>, now: u64) -> bool {
        if self.wanted != wanted {
            self.wanted = wanted;
            self.next = if trainer == TrainerId(0) {
                now
            } else {
                now + TURN
            };
        }
        let due = wanted.is_some() && now >= self.next;
        if due {
            self.next = now + AGAIN;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Generation;
    use crate::status::PeerStatus;
    use words::status::Phase;

    fn report(wanted: Option<u64>, snapshots: &[u64]) -> ServerReport {
        ServerReport {
            epoch: Generation(1),
            phase: Phase::Running,
            reason: String::new(),
            waiting: Vec::new(),
            missing: Vec::new(),
            boundary: None,
            snapshots: snapshots.iter().map(|step| Step(*step)).collect(),
            settled: None,
            disk: crate::recovery::Disk::default(),
            wanted: wanted.map(Step),
            lines: Vec::new(),
            status: PeerStatus::default(),
        }
    }

    #[test]
    fn a_wanted_step_stands_until_all_servers_have_the_snapshot() {
        assert_eq!(wanted(&[report(None, &[]), report(None, &[3])], 2), None);
        let asked = [report(Some(5), &[3]), report(None, &[3])];
        assert_eq!(wanted(&asked, 2), Some(Step(5)));
        let one_has_it = [report(Some(5), &[3, 6]), report(Some(4), &[3])];
        assert_eq!(wanted(&one_has_it, 2), Some(Step(5)));
        let all_have_it = [report(Some(5), &[3, 6]), report(Some(4), &[6])];
        assert_eq!(wanted(&all_have_it, 2), None);
        let holder_has_it = [report(Some(5), &[6]), report(Some(4), &[])];
        assert_eq!(wanted(&holder_has_it, 1), None);
    }

    #[test]
    fn trainer_0_orders_at_once_the_others_if_nothing_comes_of_it() {
        let (mut first, mut other) = (Orders::default(), Orders::default());
        let wanted = Some(Step(5));
        assert!(!first.due(TrainerId(0), None, 0));
        assert!(first.due(TrainerId(0), wanted, 10));
        assert!(!first.due(TrainerId(0), wanted, 11), "once");
        assert!(first.due(TrainerId(0), wanted, 10 + AGAIN), "and again");
        assert!(!other.due(TrainerId(1), wanted, 10));
        assert!(other.due(TrainerId(1), wanted, 10 + TURN));
        assert!(!other.due(TrainerId(1), None, 10 + 2 * AGAIN));
        assert!(first.due(TrainerId(0), Some(Step(9)), 12), "another wanted");
    }
}
