//! The queue between connections and the threads that compute: bounded in samples, closed at the end.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

/// Something that waits, with the number of samples in it.
#[derive(Debug)]
struct Entry<T> {
    samples: usize,
    item: T,
}

/// A bounded queue.
#[derive(Debug)]
pub struct RequestQueue<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
    capacity: usize,
}

#[derive(Debug)]
struct State<T> {
    entries: VecDeque<Entry<T>>,
    samples: usize,
    closed: bool,
}

/// Why something was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// There are too many samples in the queue.
    Full,
    /// The server is about to end.
    Closed,
}

impl<T> RequestQueue<T> {
    /// A queue for so many samples. One request may have more than that if the queue is empty.
    pub fn new(capacity: usize) -> Self {
        Self {
            state: Mutex::new(State {
                entries: VecDeque::new(),
                samples: 0,
                closed: false,
            }),
            arrived: Condvar::new(),
            capacity,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item of so many samples.
    pub fn push(&self, samples: usize, item: T) -> Result<(), Refused> {
        let mut state = self.state();
        if state.closed {
            return Err(Refused::Closed);
        }
        if state.samples > 0 && state.samples + samples > self.capacity {
            return Err(Refused::Full);
        }
        state.samples += samples;
        state.entries.push_back(Entry { samples, item });
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits for an item and takes it, with as many of those behind it as fit into `most` samples. `None` when the queue
    /// is closed and empty.
    pub fn take(&self, most: usize) -> Option<Vec<T>> {
        let mut state = self.state();
        loop {
            if let Some(first) = state.entries.pop_front() {
                let mut samples = first.samples;
                let mut taken = vec![first.item];
                while let Some(next) = state.entries.front() {
                    if samples + next.samples > most {
                        break;
                    }
                    samples += next.samples;
                    taken.extend(state.entries.pop_front().map(|entry| entry.item));
                }
                state.samples -= samples;
                return Some(taken);
            }
            if state.closed {
                return None;
            }
            state = self
                .arrived
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Accepts nothing more; what waits is still computed.
    pub fn close(&self) {
        self.state().closed = true;
        self.arrived.notify_all();
    }

    /// Samples that wait.
    pub fn len(&self) -> usize {
        self.state().samples
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_taken_together_and_in_order() {
        let queue = RequestQueue::new(10);
        for number in 0..4 {
            queue.push(2, number).unwrap();
        }
        assert_eq!(queue.take(5), Some(vec![0, 1]));
        assert_eq!(queue.take(1), Some(vec![2]), "one is always taken");
        assert_eq!(queue.len(), 2);
    }

    #[test]
    fn a_full_queue_refuses_and_recovers() {
        let queue = RequestQueue::new(3);
        queue.push(2, 'a').unwrap();
        assert_eq!(queue.push(2, 'b'), Err(Refused::Full));
        queue.push(1, 'c').unwrap();
        queue.take(9);
        queue.push(99, 'd').unwrap();
        assert_eq!(queue.push(1, 'e'), Err(Refused::Full));
    }

    #[test]
    fn a_closed_queue_is_emptied_and_then_ends() {
        let queue = RequestQueue::new(3);
        queue.push(1, 'a').unwrap();
        queue.close();
        assert_eq!(queue.push(1, 'b'), Err(Refused::Closed));
        assert_eq!(queue.take(9), Some(vec!['a']));
        assert_eq!(queue.take(9), None);
    }
}
