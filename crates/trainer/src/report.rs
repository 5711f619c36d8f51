//! What a trainer reports while it runs: log lines for users, events for displays, dashboards and files.

use serde::Serialize;

use crate::log::{Level, Log, Topic};
use words::result::{Best, Stopped};
use words::statistics::ParameterStatistics;
use words::status::Task;

/// Something that happened in a trainer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum TrainerEvent {
    /// A pass begins at this batch.
    PassStarted {
        /// The pass, from 0.
        pass: u32,
        /// Number of batches that are skipped because they were done before.
        batch: u64,
    },
    /// A batch is done.
    Batch(PassProgress),
    /// A test is done.
    Tested(PassProgress),
    /// A pass is done.
    PassFinished(PassProgress),
    /// A pass directory is complete.
    Saved {
        /// The pass, from 0.
        pass: u32,
        /// Path of the directory.
        path: String,
    },
    /// Distribution of the parameters' values at the end of a pass; reported by trainer 0 only.
    Parameters {
        /// The pass, from 0.
        pass: u32,
        /// One entry per parameter that this process holds as a whole.
        statistics: Vec<ParameterStatistics>,
    },
    /// The best pass so far; reported by trainer 0 after a test at the end of a pass.
    Best(Best),
    /// Training ends early.
    Stopped(Stopped),
    /// A warning that concerns the job as a whole, for people who do not read logs.
    Note {
        /// The warning.
        text: String,
    },
    /// The job rolled back to a snapshot.
    RolledBack {
        /// The pass at which training continues.
        pass: u32,
        /// The number of batches of that pass that are done.
        batch: u64,
    },
}

/// Figures of a pass so far, or of a test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PassProgress {
    /// The pass, from 0.
    pub pass: u32,
    /// Batches of the pass that are done.
    pub batch: u64,
    /// Samples of the pass that are done.
    pub samples: u64,
    /// Cost per sample since the start of the pass.
    pub cost: f64,
    /// Cost per sample since the last line.
    pub current_cost: f64,
    /// Seconds of the pass in which this trainer waited for servers and other trainers.
    pub waited: f64,
    /// Evaluators by name; empty except at progress lines, tests and pass ends.
    pub evaluators: Vec<(String, f64)>,
}

/// Where a trainer's lines and events go.
pub trait Reporter: Log {
    /// Reports an event; called on the training thread.
    fn event(&mut self, event: &TrainerEvent);

    /// Logs a warning and reports it as an event.
    fn warn(&mut self, topic: Topic, text: String) {
        self.line(Level::Warning, topic, &text);
        self.event(&TrainerEvent::Note { text });
    }

    /// Reports the progress of work besides batches; `None` when it is over. The next event also ends it.
    fn task(&mut self, task: Option<Task>) {
        let _ = task;
    }

    /// Sets the function that returns which processes this trainer waits for, as a sentence; empty while it computes.
    fn waits_for(&mut self, ask: Box<dyn Fn() -> String + Send>) {
        drop(ask);
    }
}

impl Reporter for Vec<String> {
    fn event(&mut self, _event: &TrainerEvent) {}
}
