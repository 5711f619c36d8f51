//! What a trainer tells while it runs: log lines for people, events for displays, dashboards and files.

use serde::Serialize;

use crate::log::Log;
use crate::parameter_statistics::ParameterStatistics;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// A pass begins at this batch.
    PassStarted {
        /// The pass, from 0.
        pass: u32,
        /// Batches that are skipped because they were done before.
        batch: u64,
    },
    /// A batch is done.
    Batch(Progress),
    /// A test is done.
    Tested(Progress),
    /// A pass is done.
    PassFinished(Progress),
    /// A pass directory is complete.
    Saved {
        /// The pass.
        pass: u32,
        /// Where it is.
        path: String,
    },
    /// How the parameters' values are spread at the end of a pass; told by trainer 0.
    Parameters {
        /// The pass.
        pass: u32,
        /// One for each parameter that is held as a whole.
        statistics: Vec<ParameterStatistics>,
    },
    /// The job went back to a snapshot.
    RolledBack {
        /// To this pass.
        pass: u32,
        /// And this batch.
        batch: u64,
    },
}

/// Figures of a pass so far, or of a test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Progress {
    /// The pass.
    pub pass: u32,
    /// Batches of the pass that are done.
    pub batch: u64,
    /// Samples of the pass that are done.
    pub samples: u64,
    /// Cost a sample since the pass began.
    pub cost: f64,
    /// Cost a sample since the last line.
    pub current_cost: f64,
    /// Seconds of the pass in which this trainer waited for servers and other trainers.
    pub waited: f64,
    /// Evaluators by name; present when the figures were worth computing (progress lines, tests, pass ends).
    pub evaluators: Vec<(String, f64)>,
}

/// Where a trainer's lines and events go.
pub trait Report: Log {
    /// Something happened.
    fn event(&mut self, event: &Event);

    /// From now on `ask` answers whom this trainer waits for, as a sentence; empty while it works.
    fn waits_for(&mut self, ask: Box<dyn Fn() -> String + Send>) {
        drop(ask);
    }
}

impl Report for Vec<String> {
    fn event(&mut self, _event: &Event) {}
}
