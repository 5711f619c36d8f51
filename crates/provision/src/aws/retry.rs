//! Whether a failed request is tried again, and when: by status and code, with growing pauses and a
//! budget.
//!
//! The rules are those of the SDKs' standard mode. A pause is a random part of a bound that doubles, so
//! that clients which failed together do not come back together. The budget is shared by all requests of
//! a client: when a service is down for good, the first few requests spend it and the others fail at once.

use std::sync::Mutex;
use std::time::Duration;

use crate::cloud::CloudError;

/// Tries of one request.
const TRIES: u32 = 6;
/// Tries when not even a connection comes about: a wrong region or address stays wrong.
const CONNECT_TRIES: u32 = 3;
/// Bound of the first pause.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Bound of every pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// What the budget holds, what a try costs, what a success brings back.
const BUDGET: u32 = 500;
const COST: u32 = 5;
const REWARD: u32 = 1;

/// What is left for tries.
pub(super) struct Budget(Mutex<u32>);

impl Budget {
    pub(super) fn full() -> Self {
        Self(Mutex::new(BUDGET))
    }

    /// Takes the cost of a try; `false` when there is not enough left.
    pub(super) fn spend(&self) -> bool {
        self.change(|left| left.checked_sub(COST))
    }

    pub(super) fn reward(&self) {
        self.change(|left| Some((left + REWARD).min(BUDGET)));
    }

    fn change(&self, change: impl FnOnce(u32) -> Option<u32>) -> bool {
        let mut left = match self.0.lock() {
            Ok(left) => left,
            Err(poisoned) => poisoned.into_inner(),
        };
        match change(*left) {
            Some(new) => {
                *left = new;
                true
            }
            None => false,
        }
    }
}

/// Whether the request may be tried again after `made` tries.
pub(super) fn may_try(error: &CloudError, made: u32) -> bool {
    let tries = match error {
        CloudError::Unreachable {
            connecting: true, ..
        } => CONNECT_TRIES,
        _ => TRIES,
    };
    error.is_temporary() && made < tries
}

/// The pause after `made` tries; `random` is from 0 to 1.
pub(super) fn pause(made: u32, random: f64) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(made.saturating_sub(1)));
    doubled.min(LONGEST_PAUSE).mul_f64(random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: &str) -> CloudError {
        CloudError::Refused {
            action: "a".to_owned(),
            status,
            code: code.to_owned(),
            message: String::new(),
        }
    }

    #[test]
    fn a_server_error_with_a_code_of_its_own_is_tried_again() {
        for (status, code) in [
            (500, "ServerException"),
            (503, "Unavailable"),
            (500, "InternalServiceException"),
            (503, "ServiceUnavailableException"),
            (502, "HTTP 502"),
            (400, "ThrottlingException"),
            (503, "SlowDown"),
            (400, "RequestLimitExceeded"),
            (429, "TooManyRequestsException"),
            (400, "EC2ThrottledException"),
            (400, "RequestTimeout"),
        ] {
            assert!(may_try(&refused(status, code), 1), "{status} {code}");
            assert!(!may_try(&refused(status, code), TRIES), "{status} {code}");
        }
        for (status, code) in [
            (400, "ValidationError"),
            (403, "AccessDenied"),
            (501, "NotImplemented"),
            (409, "LimitExceeded"),
            (404, "NotFound"),
        ] {
            assert!(!may_try(&refused(status, code), 1), "{status} {code}");
        }
    }

    #[test]
    fn pauses_double_up_to_a_bound() {
        let bounds: Vec<u128> = (1..=8).map(|made| pause(made, 1.0).as_millis()).collect();
        assert_eq!(
            bounds,
            [500, 1000, 2000, 4000, 8000, 16_000, 20_000, 20_000]
        );
        assert_eq!(pause(3, 0.25), Duration::from_millis(500));
        assert_eq!(pause(u32::MAX, 7.0), LONGEST_PAUSE);
    }

    #[test]
    fn the_budget_ends_and_comes_back() {
        let budget = Budget::full();
        let tries = (0..1000).filter(|_| budget.spend()).count();
        assert_eq!(tries, 100);
        (0..COST).for_each(|_| budget.reward());
        assert!(budget.spend() && !budget.spend());
    }
}
