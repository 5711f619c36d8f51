//! Copies errors of a server from its log to its record, so that people who do not read logs see them.

use std::collections::BTreeSet;
use words::lock::Mutex;

/// Most texts that are kept: a fault that repeats with every step adds nothing new.
const LIMIT: usize = 32;

/// Texts that are not yet recorded. Each is recorded once.
#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<NoteQueue>);

#[derive(Debug, Default)]
struct NoteQueue {
    seen: BTreeSet<String>,
    new: Vec<String>,
}

impl Notes {
    /// Adds a text that is not there yet.
    pub(crate) fn add(&self, text: &str) {
        let mut queue = self.0.lock();
        if queue.seen.len() < LIMIT && queue.seen.insert(text.to_owned()) {
            queue.new.push(text.to_owned());
        }
    }

    /// Takes what is new.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut queue = self.0.lock();
        std::mem::take(&mut queue.new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_taken_once_and_a_flood_is_cut() {
        let notes = Notes::default();
        for _ in 0..3 {
            notes.add("the disk is full");
        }
        assert_eq!(notes.take(), ["the disk is full"]);
        notes.add("the disk is full");
        assert!(notes.take().is_empty());
        for number in 0..100 {
            notes.add(&format!("snapshot of step {number}"));
        }
        assert_eq!(notes.take().len(), LIMIT - 1);
    }
}
