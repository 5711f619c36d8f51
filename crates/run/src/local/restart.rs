//! Decides how often, and after which pause, a crashed process is restarted. Pure.

use std::time::Duration;

use crate::event::ProcessExit;

/// How often and how fast a crashed process is restarted.
#[derive(Debug, Clone, PartialEq)]
pub struct RestartPolicy {
    /// Most restarts of one process within `window`.
    pub limit: usize,
    /// Crashes longer ago than this do not count.
    pub window: Duration,
    /// Most crashes in a row before the process was ready: a fault that occurs so early would occur at every start.
    pub before_ready: usize,
    /// Pause before the first restart; doubles with each one in the window.
    pub first_pause: Duration,
    /// The pause doubles up to this.
    pub longest_pause: Duration,
    /// Exit codes that mean that a restart cannot help, such as wrong usage.
    pub hopeless: Vec<i32>,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            limit: 8,
            before_ready: 3,
            window: Duration::from_secs(300),
            first_pause: Duration::from_millis(50),
            longest_pause: Duration::from_secs(10),
            hopeless: vec![2, 64, 78],
        }
    }
}

/// The earlier crashes of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CrashHistory<'a> {
    /// When it crashed, this time not included.
    pub deaths: &'a [Duration],
    /// How often in a row it crashed before it was ready, this time included.
    pub before_ready: usize,
}

impl RestartPolicy {
    /// The pause before a restart, or why there is none.
    pub(crate) fn pause_after(
        &self,
        history: &CrashHistory<'_>,
        exit: ProcessExit,
        now: Duration,
    ) -> Result<Duration, String> {
        if let ProcessExit::Code(code) = exit
            && self.hopeless.contains(&code)
        {
            return Err(format!("{exit}, which a restart cannot fix"));
        }
        if history.before_ready >= self.before_ready {
            return Err(format!(
                "{exit} before it was ready, {} times in a row",
                history.before_ready
            ));
        }
        let recent = history
            .deaths
            .iter()
            .filter(|death| **death + self.window > now)
            .count();
        if recent >= self.limit {
            return Err(format!(
                "{exit} and has crashed {} times within {} s",
                recent + 1,
                self.window.as_secs()
            ));
        }
        let doubling = u32::try_from(recent).unwrap_or(u32::MAX).min(30);
        Ok(self
            .first_pause
            .saturating_mul(1 << doubling)
            .min(self.longest_pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_deaths_are_forgotten() {
        let policy = RestartPolicy::default();
        let at = Duration::from_millis;
        let history = CrashHistory {
            deaths: &[at(0); 8],
            before_ready: 0,
        };
        assert!(
            policy
                .pause_after(&history, ProcessExit::Signal(9), at(299_999))
                .is_err()
        );
        assert_eq!(
            policy.pause_after(&history, ProcessExit::Signal(9), at(300_000)),
            Ok(at(50))
        );
    }

    #[test]
    fn what_never_gets_ready_is_given_up_soon() {
        let policy = RestartPolicy::default();
        let history = |before_ready| CrashHistory {
            deaths: &[],
            before_ready,
        };
        assert!(
            policy
                .pause_after(&history(2), ProcessExit::Code(1), Duration::ZERO)
                .is_ok()
        );
        let error = policy
            .pause_after(&history(3), ProcessExit::Code(1), Duration::ZERO)
            .unwrap_err();
        assert_eq!(
            error,
            "exited with code 1 before it was ready, 3 times in a row"
        );
    }
}
