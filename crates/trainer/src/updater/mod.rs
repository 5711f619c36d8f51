//! What turns gradients into new values: in this process, or on parameter servers.
//!
//! The pass loop sees only this trait. Both kinds call the same rules of [`optim`], and sums over trainers are taken
//! in trainer order, so a cluster and one process that plays its trainers give the same bytes.

pub mod center;
pub mod local;
pub mod remote;
pub mod sum;

use std::path::Path;

use nn::{Gradients, ParameterIndex, Parameters};

use crate::state_file::SavedState;

/// Where training stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// The pass, from 0.
    pub pass: u32,
    /// Batches of the pass that are done.
    pub batch: u64,
}

/// Why an update could not be made.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// Servers went back to a snapshot: training goes on from this position.
    #[error("the job went back to pass {} batch {}: {reason}", to.pass, to.batch)]
    RolledBack {
        /// Where to go on.
        to: Position,
        /// What was lost.
        reason: String,
    },
    /// The servers cannot go on.
    #[error("train with parameter servers")]
    Remote(#[source] wire::Error),
}

/// Keeps parameters up to date.
pub trait Updater {
    /// A pass begins, or goes on after a roll-back.
    fn start_pass(&mut self, pass: u32, parameters: &mut Parameters) -> Result<(), UpdateError>;

    /// Whether to be told the rows that a batch reads of this parameter, which is looked up by row but learns as a whole:
    /// an updater that knows them need not bring the others.
    fn wants_rows(&self, parameter: ParameterIndex) -> bool {
        let _ = parameter;
        false
    }

    /// A batch of `samples` comes: brings the rows that it reads (`needed`: parameter, sorted ids) up to date.
    fn prepare(
        &mut self,
        needed: &[(ParameterIndex, Vec<u32>)],
        samples: u64,
        parameters: &mut Parameters,
    ) -> Result<(), UpdateError>;

    /// One parameter's gradient is complete while the others are still being computed.
    fn gradient_ready(&mut self, parameter: ParameterIndex, gradients: &Gradients);

    /// The batch is done: applies its gradients, which `samples` samples made.
    fn finish_batch(
        &mut self,
        gradients: &Gradients,
        samples: u64,
        cost: f64,
        parameters: &mut Parameters,
    ) -> Result<(), UpdateError>;

    /// The pass is over for this trainer; returns when it is over for all, with fresh values.
    fn finish_pass(&mut self, parameters: &mut Parameters) -> Result<(), UpdateError>;

    /// Brings up to date what [`Updater::prepare`] leaves out.
    fn refresh(&mut self, parameters: &mut Parameters) -> Result<(), UpdateError> {
        let _ = parameters;
        Ok(())
    }

    /// The values to test with and to save, where they differ from those that training uses:
    /// averaged, caught up, or complete where training holds only some rows.
    fn readable(&mut self, parameters: &Parameters) -> Result<Option<Parameters>, UpdateError>;

    /// What training needs to go on exactly, to save beside the parameters, if it lives in this process.
    fn state<'a>(&'a self, parameters: &'a Parameters) -> Option<SavedState<'a>>;

    /// Has the parameter servers, if there are any, write all that is needed to go on into `directory`.
    fn save_state(&mut self, directory: &Path) -> Result<(), UpdateError> {
        let _ = directory;
        Ok(())
    }

    /// Has the parameter servers write the tables that no trainer holds into `directory`.
    fn save_rows(&mut self, directory: &Path) -> Result<(), UpdateError> {
        let _ = directory;
        Ok(())
    }

    /// All passes are done; returns when they are for all trainers. A loss until then can still roll back.
    fn finish(&mut self) -> Result<(), UpdateError>;
}
