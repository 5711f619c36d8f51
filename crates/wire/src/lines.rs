//! Detects data connections that lose bytes. Pure: it compares the byte counts of both ends.
//!
//! Heartbeats have a connection of their own, so they pass while a firewall, a proxy or a full table of a router
//! swallows the bytes of a data connection; and a data connection may be silent for long, because a batch takes its
//! time. So both ends count bytes, the server puts its counts into its reports, and a trainer compares: bytes that one
//! end has sent, for which the other end waits, and that do not arrive, are lost.

use serde::{Deserialize, Serialize};

/// What one end of a connection has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Bytes handed to the system.
    pub sent: u64,
    /// Bytes read.
    pub received: u64,
    /// This end waits for bytes now.
    pub reading: bool,
}

/// Watches one connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LineWatch {
    /// What both ends had counted, and since when.
    last: Option<(Traffic, Traffic, u64)>,
}

/// Bytes that were sent and do not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LostBytes {
    /// How many.
    pub(crate) count: u64,
    /// For how many milliseconds nothing has moved.
    pub(crate) quiet: u64,
}

impl LineWatch {
    /// Takes the counts of both ends, at a time in milliseconds. Returns what is lost, once nothing has moved for at
    /// least `limit`.
    pub(crate) fn look(
        &mut self,
        own: Traffic,
        other: Traffic,
        now: u64,
        limit: u64,
    ) -> Option<LostBytes> {
        let since = match self.last {
            Some((a, b, since)) if (a, b) == (own, other) => since,
            _ => {
                self.last = Some((own, other, now));
                return None;
            }
        };
        let lost = |from: Traffic, to: Traffic| {
            let missing = from.sent.saturating_sub(to.received);
            if to.reading { missing } else { 0 }
        };
        let count = lost(own, other).max(lost(other, own));
        let quiet = now.saturating_sub(since);
        (count > 0 && quiet >= limit).then_some(LostBytes { count, quiet })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(sent: u64, received: u64, reading: bool) -> Traffic {
        Traffic {
            sent,
            received,
            reading,
        }
    }

    /// Looks at the same counts for ten seconds.
    fn ten_seconds(own: Traffic, other: Traffic) -> Option<LostBytes> {
        let mut watch = LineWatch::default();
        (0..=20).find_map(|beat| watch.look(own, other, beat * 500, 6000))
    }

    /// This many bytes, noticed at the limit.
    fn lost(count: u64) -> Option<LostBytes> {
        let quiet = 6000;
        Some(LostBytes { count, quiet })
    }

    #[test]
    fn bytes_that_somebody_waits_for_and_that_do_not_come_are_lost() {
        let pushed = ten_seconds(end(100, 7, true), end(7, 40, true));
        assert_eq!(pushed, lost(60), "to the server");
        let answered = ten_seconds(end(40, 7, true), end(90, 40, false));
        assert_eq!(answered, lost(83), "to the trainer");
    }

    #[test]
    fn long_silence_is_no_loss() {
        let computing = ten_seconds(end(40, 7, false), end(7, 40, true));
        assert_eq!(computing, None, "the trainer computes a batch");
        let barrier = ten_seconds(end(100, 7, true), end(7, 40, false));
        assert_eq!(
            barrier, None,
            "the server waits for others before it reads on"
        );
        let behind = ten_seconds(end(40, 7, false), end(90, 40, false));
        assert_eq!(behind, None, "the trainer has not come to read it");
    }

    #[test]
    fn any_movement_begins_the_wait_again() {
        let mut watch = LineWatch::default();
        for beat in 0..40 {
            let trickle = end(100, 7, true);
            assert_eq!(
                watch.look(trickle, end(7, beat, true), beat * 500, 6000),
                None
            );
        }
    }
}
