//! Limits the processor time of a thread that serves strangers, so that a crowd of them costs a job a known share of a
//! core and not more. Pure: it is told what was used, and returns how long the thread must rest.

use std::time::Duration;

/// An allowance of processor time that grows with the clock, up to a burst: a few clients never wait for it.
#[derive(Debug, Clone)]
pub struct CpuBudget {
    burst: f64,
    /// Seconds that may be used; below zero: debt, which time pays.
    left: f64,
}

impl CpuBudget {
    /// An allowance that has its whole burst at the start.
    pub fn new(burst: Duration) -> Self {
        let burst = burst.as_secs_f64();
        Self { burst, left: burst }
    }

    /// `elapsed` has passed since the last call, in which the thread `used` so much processor time; it may use `share` of
    /// a core. Returns how long it must rest before it serves again, which is zero while there is some allowance left.
    pub fn spend(&mut self, used: Duration, elapsed: Duration, share: f64) -> Duration {
        let earned = elapsed.as_secs_f64() * share;
        self.left = (self.left + earned - used.as_secs_f64()).min(self.burst);
        Duration::from_secs_f64((-self.left / share).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_busy_thread_gets_its_share_and_not_more() {
        let mut budget = CpuBudget::new(10 * MS);
        let (mut clock, mut used) = (Duration::ZERO, Duration::ZERO);
        let mut rest = Duration::ZERO;
        while clock < Duration::from_secs(100) {
            let elapsed = rest + 2 * MS;
            clock += elapsed;
            used += 2 * MS;
            rest = budget.spend(2 * MS, elapsed, 0.05);
        }
        let share = used.as_secs_f64() / clock.as_secs_f64();
        assert!((0.049..0.051).contains(&share), "{share}");
    }

    #[test]
    fn who_has_been_idle_may_work_a_burst_without_a_rest() {
        let mut budget = CpuBudget::new(10 * MS);
        assert_eq!(
            budget.spend(Duration::ZERO, 3600 * 1000 * MS, 0.05),
            Duration::ZERO
        );
        assert_eq!(budget.spend(9 * MS, 9 * MS, 0.05), Duration::ZERO);
        let rest = budget.spend(9 * MS, 9 * MS, 0.05);
        assert!(rest > 100 * MS && rest < 200 * MS, "{rest:?}");
        // A larger share pays the debt sooner.
        assert!(budget.spend(Duration::ZERO, Duration::ZERO, 0.5) < rest / 9);
    }
}
