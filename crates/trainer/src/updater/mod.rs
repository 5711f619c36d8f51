//! Turns gradients into new values: in this process, or on parameter servers.
//!
//! The pass loop sees only this trait. Both kinds call the same rules of [`optim`], and sums over trainers are taken
//! in trainer order, so a cluster and one process that plays its trainers yield the same bytes.

pub(crate) mod center;
pub(crate) mod local;
pub(crate) mod remote;
pub(crate) mod sum;

use std::path::Path;

use nn::{Gradients, ParameterIndex, Parameters};

use crate::state_file::SavedState;

/// Where training is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// The pass, from 0.
    pub pass: u32,
    /// Number of batches of the pass that are done.
    pub batch: u64,
    /// Tests and saves that were due after them are done as well.
    pub passed: bool,
}

/// Why an update failed.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// Servers rolled back to a snapshot: training continues at this position.
    #[error("the job rolled back to pass {} batch {}: {reason}", to.pass, to.batch)]
    RolledBack {
        /// Where training continues.
        to: Position,
        /// The loss that caused it, as a sentence.
        reason: String,
    },
    /// The servers cannot continue, or cannot be reached.
    #[error("train with parameter servers")]
    Remote(#[source] wire::Error),
}

/// Keeps parameters up to date.
pub trait Updater {
    /// A pass begins, or continues after a roll-back, at `start`. Returns how many of its batches are done: fewer than
    /// `start` says, if the pass had no more.
    fn start_pass(
        &mut self,
        start: Position,
        parameters: &mut Parameters,
    ) -> Result<u64, UpdateError>;

    /// Whether [`Updater::prepare`] should get the rows that a batch reads of this parameter, which is looked up by row
    /// but learns as a whole: the updater then need not fetch the other rows.
    fn wants_rows(&self, parameter: ParameterIndex) -> bool {
        let _ = parameter;
        false
    }

    /// A batch of `samples` samples begins: brings the rows that it reads (`needed`: parameter, sorted ids) up to date.
    fn prepare(
        &mut self,
        needed: &[(ParameterIndex, Vec<u32>)],
        samples: u64,
        parameters: &mut Parameters,
    ) -> Result<(), UpdateError>;

    /// The rows that the next batch reads, as for [`Updater::prepare`], if that batch is there before this one is finished: an
    /// updater can fetch them together with the values that follow from this one.
    fn announce(&mut self, needed: &[(ParameterIndex, Vec<u32>)]) {
        let _ = needed;
    }

    /// One parameter's gradient is complete while the others are still being computed.
    fn gradient_ready(&mut self, parameter: ParameterIndex, gradients: &Gradients);

    /// The batch is done: applies its gradients, which are sums over `samples` samples.
    fn finish_batch(
        &mut self,
        gradients: &Gradients,
        samples: u64,
        cost: f64,
        parameters: &mut Parameters,
    ) -> Result<(), UpdateError>;

    /// This trainer has no more data in the pass; returns when no trainer has, with fresh values.
    fn finish_pass(&mut self, parameters: &mut Parameters) -> Result<(), UpdateError>;

    /// The tests and saves at the end of the pass are done; returns when the next pass may begin. Until then a loss
    /// brings all trainers back to the end of this pass.
    fn end_pass(&mut self) -> Result<(), UpdateError> {
        Ok(())
    }

    /// Returns to all trainers, at the same point of training, the value that trainer 0 passed; values of others are
    /// ignored.
    fn agree(&mut self, said: bool) -> Result<bool, UpdateError> {
        Ok(said)
    }

    /// Brings all values up to date, those included that [`Updater::prepare`] left out.
    fn refresh(&mut self, parameters: &mut Parameters) -> Result<(), UpdateError> {
        let _ = parameters;
        Ok(())
    }

    /// The values to test with and to save, where they differ from those that training uses:
    /// averaged, caught up, or complete where training holds only some rows.
    fn readable(&mut self, parameters: &Parameters) -> Result<Option<Parameters>, UpdateError>;

    /// The state that training needs to resume exactly, to save next to the parameters; `None` if the servers hold it.
    fn state<'a>(&'a self, parameters: &'a Parameters) -> Option<SavedState<'a>>;

    /// Makes the parameter servers, if there are any, write everything that is needed to resume into `directory`.
    fn save_state(&mut self, directory: &Path) -> Result<(), UpdateError> {
        let _ = directory;
        Ok(())
    }

    /// Makes the parameter servers write the tables that no trainer holds into `directory`.
    fn save_rows(&mut self, directory: &Path) -> Result<(), UpdateError> {
        let _ = directory;
        Ok(())
    }

    /// All passes are done; returns when all trainers have finished. A loss before that can still roll back.
    fn finish(&mut self) -> Result<(), UpdateError>;
}
