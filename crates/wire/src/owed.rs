//! What trainer 0 has to do at its position: the tests and saves that are due after a batch and at the end of a pass.
//!
//! Depends only on the position and the periods, so a replacement of trainer 0 has to do the same as its predecessor. A
//! pass has ended when its model is durable: servers stay inside the pass until trainer 0 has finished this work, so
//! none of it can be skipped.

use crate::spec::Mode;

/// How often the job tests and saves; 0 for never, but a saving period of 0 counts as 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Periods {
    /// Passes between saves: a pass is saved if its number is a multiple, or if it is the last.
    pub saving: u64,
    /// Batches between saves inside a pass.
    pub saving_by_batches: u64,
    /// Batches between tests. If 0, the model is tested at the end of every pass.
    pub test: u64,
    /// Batches between tests of averaged values.
    pub average_test: u64,
}

/// A directory to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Save {
    /// The directory of the pass.
    Pass,
    /// One inside the pass, with its number.
    Part(u64),
}

/// What must be done before training continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Owed {
    /// Run over the test data.
    pub test: bool,
    /// Save, after the test.
    pub save: Option<Save>,
}

impl Periods {
    /// What is due after `batch` batches of a pass, whether they were computed just now or before a recovery.
    pub fn inside(&self, batch: u64) -> Owed {
        let due = |period: u64| batch > 0 && period > 0 && batch.is_multiple_of(period);
        let part = || Save::Part(batch / self.saving_by_batches);
        Owed {
            test: due(self.test) || due(self.average_test),
            save: due(self.saving_by_batches).then(part),
        }
    }

    /// What is due at the end of a pass, when no trainer has more data. The last pass of a job is saved in any case: a job
    /// whose last passes are lost could not be continued.
    pub fn at_end(&self, pass: u64, is_last: bool) -> Owed {
        let saves = is_last || pass.is_multiple_of(self.saving.max(1));
        Owed {
            test: self.test == 0,
            save: saves.then_some(Save::Pass),
        }
    }
}

/// Whether the work that was due after the last batch of `trainer` was already done before it joined again. `batches`:
/// how many each trainer has finished. If another trainer is further, this one had no more data; it reports that only
/// after the due work, and the values have changed since. Asynchronous trainers are ahead of each other at any time, and
/// save the values of the moment.
pub fn passed(mode: Mode, batches: &[u64], trainer: usize) -> bool {
    let own = batches.get(trainer).copied().unwrap_or(0);
    mode == Mode::Sync && batches.iter().any(|other| *other > own)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Periods = Periods {
        saving: 1,
        saving_by_batches: 0,
        test: 0,
        average_test: 0,
    };

    #[test]
    fn the_end_of_a_pass_is_tested_and_saved() {
        let owed = |periods: Periods, pass| periods.at_end(pass, false);
        let both = Owed {
            test: true,
            save: Some(Save::Pass),
        };
        assert_eq!(owed(PLAIN, 3), both);
        let seldom = Periods { saving: 2, ..PLAIN };
        assert_eq!(owed(seldom, 4), both);
        assert_eq!(owed(seldom, 3).save, None);
        assert_eq!(seldom.at_end(3, true), both, "the last one");
        let inside = Periods { test: 5, ..PLAIN };
        assert!(!owed(inside, 3).test, "it is tested inside instead");
        assert_eq!(owed(Periods { saving: 0, ..PLAIN }, 3), both);
    }

    #[test]
    fn batches_are_counted_from_the_beginning_of_the_pass() {
        let periods = Periods {
            saving_by_batches: 4,
            test: 6,
            average_test: 9,
            ..PLAIN
        };
        let cases = [
            (0, false, None),
            (1, false, None),
            (4, false, Some(Save::Part(1))),
            (6, true, None),
            (9, true, None),
            (12, true, Some(Save::Part(3))),
        ];
        for (batch, test, save) in cases {
            assert_eq!(periods.inside(batch), Owed { test, save }, "batch {batch}");
        }
        assert_eq!(PLAIN.inside(12), Owed::default());
    }

    #[test]
    fn a_trainer_without_data_owes_nothing_when_others_have_trained_on() {
        assert!(!passed(Mode::Sync, &[4, 4], 0));
        assert!(!passed(Mode::Sync, &[4, 2], 0));
        assert!(passed(Mode::Sync, &[4, 5], 0));
        assert!(!passed(Mode::Async { staleness: 3 }, &[4, 5], 0));
    }
}
