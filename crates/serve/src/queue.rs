//! The queue between connections and computing, with a limit in samples. The thread that adds a request also computes
//! it if a runner is free. So without load a request stays on one thread, and under load waiting requests are computed
//! together.

use std::collections::VecDeque;
use words::lock::{Mutex, MutexGuard};

/// A waiting item, with its number of samples.
#[derive(Debug)]
struct Entry<T> {
    samples: usize,
    item: T,
}

/// A bounded queue of items, and the runners that are free to compute them.
#[derive(Debug)]
pub(crate) struct RequestQueue<T, R> {
    state: Mutex<QueueState<T, R>>,
    capacity: usize,
}

#[derive(Debug)]
struct QueueState<T, R> {
    entries: VecDeque<Entry<T>>,
    samples: usize,
    runners: Vec<R>,
}

impl<T, R> RequestQueue<T, R> {
    /// A queue for `capacity` samples. A single request may have more if the queue is empty.
    pub(crate) fn new(capacity: usize, runners: Vec<R>) -> Self {
        Self {
            state: Mutex::new(QueueState {
                entries: VecDeque::new(),
                samples: 0,
                runners,
            }),
            capacity,
        }
    }

    fn state(&self) -> MutexGuard<'_, QueueState<T, R>> {
        self.state.lock()
    }

    /// Adds an item of `samples` samples, or returns it if there is no room.
    pub(crate) fn push(&self, samples: usize, item: T) -> Result<(), T> {
        let mut state = self.state();
        if state.samples > 0 && state.samples + samples > self.capacity {
            return Err(item);
        }
        state.samples += samples;
        state.entries.push_back(Entry { samples, item });
        Ok(())
    }

    /// Takes waiting items, up to `most` samples, with a runner for them; `None` if nothing waits or no runner is free:
    /// then a thread that has a runner will take them.
    pub(crate) fn begin(&self, most: usize, taken: &mut Vec<T>) -> Option<R> {
        let mut state = self.state();
        if state.entries.is_empty() {
            return None;
        }
        let runner = state.runners.pop()?;
        state.take(most, taken);
        Some(runner)
    }

    /// Takes waiting items for a runner that has finished; if there are none, the runner becomes free.
    pub(crate) fn next(&self, runner: R, most: usize, taken: &mut Vec<T>) -> Option<R> {
        let mut state = self.state();
        if state.entries.is_empty() {
            state.runners.push(runner);
            return None;
        }
        state.take(most, taken);
        Some(runner)
    }

    /// Samples that wait.
    pub(crate) fn len(&self) -> usize {
        self.state().samples
    }
}

impl<T, R> QueueState<T, R> {
    /// Takes the first item, and as many of the following ones as fit.
    fn take(&mut self, most: usize, taken: &mut Vec<T>) {
        let mut samples = 0;
        while let Some(next) = self.entries.front() {
            if samples > 0 && samples + next.samples > most {
                break;
            }
            samples += next.samples;
            taken.extend(self.entries.pop_front().map(|entry| entry.item));
        }
        self.samples -= samples;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_taken_together_and_in_order() {
        let queue = RequestQueue::new(10, vec!['r']);
        for number in 0..4 {
            queue.push(2, number).unwrap();
        }
        let mut taken = Vec::new();
        let runner = queue.begin(5, &mut taken).unwrap();
        assert_eq!(taken, [0, 1]);
        assert_eq!(queue.begin(5, &mut taken), None, "the runner is not free");
        taken.clear();
        let runner = queue.next(runner, 1, &mut taken).unwrap();
        assert_eq!(taken, [2], "one is always taken");
        assert_eq!(queue.len(), 2);
        taken.clear();
        let runner = queue.next(runner, 9, &mut taken).unwrap();
        assert_eq!(taken, [3]);
        assert_eq!(queue.next(runner, 9, &mut taken), None);
        assert_eq!(queue.begin(9, &mut taken), None, "nothing waits");
        queue.push(1, 4).unwrap();
        assert_eq!(queue.begin(9, &mut taken), Some('r'), "it was given back");
    }

    #[test]
    fn a_full_queue_refuses_and_recovers() {
        let queue = RequestQueue::new(3, vec![()]);
        queue.push(2, 'a').unwrap();
        assert_eq!(queue.push(2, 'b'), Err('b'));
        queue.push(1, 'c').unwrap();
        let mut taken = Vec::new();
        queue.begin(9, &mut taken).unwrap();
        assert_eq!(taken, ['a', 'c']);
        queue.push(99, 'd').unwrap();
        assert_eq!(queue.push(1, 'e'), Err('e'));
    }
}
