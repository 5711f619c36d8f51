//! Runs numbered tasks on a few threads and returns the results in order.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Most threads: more of them do not make a disk faster.
const MOST_THREADS: usize = 8;

/// Runs `work(0)`, …, `work(count - 1)`. After a failure no further task is begun, and the failure with the lowest number
/// is returned.
pub(crate) fn for_each<T: Send, E: Send>(
    count: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let threads = thread::available_parallelism()
        .map_or(1, NonZero::get)
        .min(MOST_THREADS)
        .min(count);
    if threads <= 1 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return done;
            }
            let result = work(index);
            if result.is_err() {
                next.store(count, Ordering::Relaxed);
            }
            done.push((index, result));
        }
    };
    let mut results: Vec<(usize, Result<T, E>)> = thread::scope(|scope| {
        // If threads cannot be started, the others do their work: this thread works too.
        let workers: Vec<_> = (1..threads)
            .map_while(|_| thread::Builder::new().spawn_scoped(scope, run).ok())
            .collect();
        let own = run();
        let others = workers.into_iter().flat_map(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        own.into_iter().chain(others).collect()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order() {
        assert_eq!(
            for_each::<_, ()>(100, Ok).unwrap(),
            (0..100).collect::<Vec<_>>()
        );
        assert_eq!(for_each::<_, ()>(0, Ok).unwrap(), Vec::<usize>::new());
    }

    #[test]
    fn a_failure_is_reported() {
        let error = for_each(
            50,
            |index| if index == 7 { Err("seven") } else { Ok(index) },
        )
        .unwrap_err();
        assert_eq!(error, "seven");
    }
}
