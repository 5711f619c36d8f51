//! What every kind of data source is to the thread that makes batches.

use super::error::DataError;
use super::order::Plan;
use super::stop::Stop;
use super::table::{SlotType, Table};

/// A stream of samples that can be started again.
pub(crate) trait Origin: Send {
    /// The slots, in the order of the network's inputs.
    fn slots(&self) -> &[SlotType];

    /// What decides the order.
    fn plan(&self) -> &Plan;

    /// Number of files.
    fn files(&self) -> usize;

    /// Begins a pass: `groups` of files that take turns. An unfinished pass is given up.
    fn start(&mut self, pass: u64, groups: Vec<Vec<u32>>) -> Result<(), DataError>;

    /// Appends the next block of samples.
    fn next(&mut self, table: &mut Table, stop: &Stop) -> Result<Next, DataError>;

    /// The samples are all in memory: let go of what made them.
    fn release(&mut self);
}

/// What became of asking for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It was appended.
    More,
    /// The pass has no more.
    End,
    /// Somebody asked to stop.
    Stopped,
}
