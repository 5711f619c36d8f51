//! Waits for a condition, with a time limit, and reports what it waits for.

use std::time::{Duration, Instant};

use crate::local::Shutdown;

/// Why a wait ended although its condition does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GaveUp {
    /// The limit was reached.
    #[error("waited {} s for {what}: {reason}", .waited.as_secs())]
    Timeout {
        /// What was waited for, as in "waiting for …".
        what: String,
        /// The last reason why the condition did not hold.
        reason: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The condition can no longer come true.
    #[error("{what}: {reason}")]
    Hopeless {
        /// What was waited for, as in "waiting for …".
        what: String,
        /// Why.
        reason: String,
    },
    /// The pod is to end.
    #[error("asked to end while waiting for {what}")]
    Ended {
        /// What was waited for, as in "waiting for …".
        what: String,
    },
}

/// Why a condition does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotYet {
    /// It may come true later.
    Later(String),
    /// It can never come true.
    Never(String),
}

/// How to wait.
#[derive(Debug, Clone)]
pub(crate) struct WaitLimits {
    /// How long at most.
    pub limit: Duration,
    /// First pause between two tries; it doubles up to `longest_pause`.
    pub first_pause: Duration,
    pub longest_pause: Duration,
}

impl WaitLimits {
    /// Limits for a wait of at most `limit`, with tries up to half a second apart.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            first_pause: Duration::from_millis(20),
            longest_pause: Duration::from_millis(500),
        }
    }

    /// Tries until the condition holds. `tell` is called once with each new reason why it does not.
    pub(crate) fn wait<T>(
        &self,
        what: &str,
        shutdown: &Shutdown,
        tell: &mut dyn FnMut(String),
        mut condition: impl FnMut() -> Result<T, NotYet>,
    ) -> Result<T, GaveUp> {
        let begun = Instant::now();
        let mut pause = self.first_pause;
        let mut last_reason = String::new();
        loop {
            let reason = match condition() {
                Ok(value) => return Ok(value),
                Err(NotYet::Never(reason)) => {
                    return Err(GaveUp::Hopeless {
                        what: what.to_owned(),
                        reason,
                    });
                }
                Err(NotYet::Later(reason)) => reason,
            };
            if reason != last_reason {
                tell(format!("waiting for {what}: {reason}"));
                last_reason = reason;
            }
            let waited = begun.elapsed();
            if waited >= self.limit {
                return Err(GaveUp::Timeout {
                    what: what.to_owned(),
                    reason: last_reason,
                    waited,
                });
            }
            if !pause_unless(shutdown, pause.min(self.limit - waited)) {
                return Err(GaveUp::Ended {
                    what: what.to_owned(),
                });
            }
            pause = (pause * 2).min(self.longest_pause);
        }
    }
}

/// Pauses; `false` as soon as the pod is to end.
fn pause_unless(shutdown: &Shutdown, pause: Duration) -> bool {
    let end = Instant::now() + pause;
    while shutdown.requests() == 0 {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_told_once() {
        let mut told = Vec::new();
        let mut reasons = ["none", "none", "one", "one"].into_iter();
        let patience = WaitLimits::new(Duration::from_secs(100));
        let result = patience.wait(
            "peers",
            &Shutdown::new(),
            &mut |text| told.push(text),
            || {
                let reason = reasons.next();
                reason.map_or(Ok(()), |reason| Err(NotYet::Later(reason.to_owned())))
            },
        );
        assert_eq!(result, Ok(()));
        assert_eq!(told, ["waiting for peers: none", "waiting for peers: one"]);
    }

    #[test]
    fn a_wait_that_takes_too_long_ends_with_its_last_reason() {
        let none = WaitLimits::new(Duration::ZERO);
        let result = none.wait("peers", &Shutdown::new(), &mut |_| {}, || {
            Err::<(), _>(NotYet::Later("one".to_owned()))
        });
        assert!(matches!(result, Err(GaveUp::Timeout { reason, .. }) if reason == "one"));
    }

    #[test]
    fn a_condition_that_holds_ends_the_wait_and_a_hopeless_one_too() {
        let mut tries = 0;
        let patience = WaitLimits::new(Duration::from_secs(100));
        let result = patience.wait("x", &Shutdown::new(), &mut |_| {}, || {
            tries += 1;
            if tries == 3 {
                Ok(tries)
            } else {
                Err(NotYet::Later(String::new()))
            }
        });
        assert_eq!(result, Ok(3));
        let result = patience.wait("rights", &Shutdown::new(), &mut |_| {}, || {
            Err::<(), _>(NotYet::Never("403".into()))
        });
        assert_eq!(result.unwrap_err().to_string(), "rights: 403");
    }

    #[test]
    fn a_pod_that_is_to_end_does_not_wait_on() {
        let shutdown = Shutdown::new();
        shutdown.request();
        let result =
            WaitLimits::new(Duration::from_secs(100)).wait("x", &shutdown, &mut |_| {}, || {
                Err::<(), _>(NotYet::Later(String::new()))
            });
        assert!(matches!(result, Err(GaveUp::Ended { .. })));
    }
}
