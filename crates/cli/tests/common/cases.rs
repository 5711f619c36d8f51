//! Runs the cases of a table side by side, and lists those that fail.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Cases that run at a time. More would end sooner, as most of a case is waiting, but jobs that start at the same moment may
/// choose the same free port.
const LANES: usize = 3;

/// Checks every case. Fails with the names of the cases that failed, and what the first of them said.
pub(crate) fn check_all<C: Sync>(
    cases: &[C],
    name: impl Fn(&C) -> String + Sync,
    check: impl Fn(&C) -> Result<(), String> + Sync,
) {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(what) = check(case) {
                        failures.lock().unwrap().push((name(case), what));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    let names: Vec<&str> = failures.iter().map(|(name, _)| name.as_str()).collect();
    let first = failures
        .first()
        .map(|(name, what)| format!("{name}: {what}"));
    assert!(
        failures.is_empty(),
        "{} of {} cases failed: {names:#?}\n{}",
        failures.len(),
        cases.len(),
        first.unwrap_or_default()
    );
}
