//! The interface between each kind of data source and the thread that makes batches.

use super::error::DataError;
use super::order::OrderPlan;
use super::stop::Stop;
use super::table::{SampleTable, SlotType};

/// A stream of samples that can be started again.
pub(crate) trait SampleStream: Send {
    /// The slots, in the order of the network's inputs.
    fn slots(&self) -> &[SlotType];

    /// Pool, cache and batch options, which decide the order.
    fn plan(&self) -> &OrderPlan;

    /// Number of files in the list.
    fn files(&self) -> usize;

    /// Begins a pass over `groups`, whose files are read in turn. An unfinished pass is abandoned.
    fn start(&mut self, pass: u64, groups: Vec<Vec<u32>>) -> Result<(), DataError>;

    /// Appends the next block of samples.
    fn next(&mut self, table: &mut SampleTable, stop: &Stop) -> Result<Next, DataError>;

    /// All samples are in memory: frees files and processes.
    fn release(&mut self);
}

/// The result of a request for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A block was appended.
    More,
    /// The pass has no more samples.
    End,
    /// The owner asked to stop.
    Stopped,
}
