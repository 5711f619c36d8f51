//! One thing that happened in a job, as a line of JSON.
//!
//! Lines are for other programs too: every field has a name, times are seconds since 1970, and a reader may leave out
//! kinds and fields that it does not know.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::process::Role;
use crate::result::{Best, Stopped};
use crate::statistics::ParameterStatistics;

/// An event and when it happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventLine {
    /// Seconds since 1970.
    pub t: f64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// Evaluators by name; those that are not finite are left out.
pub type EvaluatorValues = BTreeMap<String, f64>;

/// Something that happened. The kinds and fields are a documented format: docs/reference/record.md.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    /// A process starts. If its `run` is a different one, the lines before it belong to an earlier run.
    Start(Box<ProcessStart>),
    /// The runner starts a job.
    Run(Run),
    /// A trainer starts a pass, or continues it at this batch.
    PassStarted {
        /// From 0.
        pass: u64,
        /// Batches of the pass that were finished before.
        batch: u64,
    },
    /// A trainer has finished some batches since the last such line.
    Batch(Figures),
    /// A trainer has tested the model; `samples` counts the training samples so far.
    Tested(Figures),
    /// A trainer has finished a pass.
    PassFinished {
        /// The pass as a whole.
        #[serde(flatten)]
        figures: Figures,
        /// Duration of the pass in seconds.
        seconds: f64,
        /// Seconds of it that the trainer waited for servers and other trainers.
        waited: f64,
    },
    /// Statistics of the parameters at the end of a pass.
    Parameters {
        /// From 0.
        pass: u64,
        /// One entry per parameter.
        parameters: Vec<ParameterStatistics>,
    },
    /// A pass directory is complete.
    Saved {
        /// From 0.
        pass: u64,
        /// Path of the pass directory.
        path: String,
    },
    /// The best pass so far, after a test at the end of a pass.
    Best(Best),
    /// Training ends before its last pass, because its test results no longer improve.
    Stopped(Stopped),
    /// Training rolled back to this position.
    RolledBack {
        /// From 0.
        pass: u64,
        /// Finished batches of the pass that need not be repeated.
        batch: u64,
    },
    /// A server has written a snapshot.
    Snapshot {
        /// Steps applied in it, counted from the start of the job.
        step: u64,
    },
    /// A server starts a generation after the first: a process was lost.
    Recovery {
        /// Number of the generation.
        epoch: u64,
        /// The step it continues from.
        step: u64,
        /// Whether a snapshot was restored, so that steps are repeated.
        #[serde(default)]
        restored: bool,
    },
    /// Sizes of a server's sparse tables.
    Tables {
        /// One entry per table.
        tables: Vec<TableSize>,
    },
    /// The runner saw something happen to a process.
    Process {
        /// Its role.
        role: Role,
        /// Its node.
        node: u32,
        /// What happened.
        what: ProcessChange,
        /// How often it was restarted.
        #[serde(default)]
        restarts: u32,
        /// Details for people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
    },
    /// A message for people.
    Note {
        /// The message.
        text: String,
    },
    /// A trainer or server ends.
    End {
        /// Why, if it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The whole job ends.
    JobEnd {
        /// How the job ended.
        outcome: JobOutcome,
        /// The reason; missing if there is none.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
    },
    /// A kind that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Facts about a process that starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessStart {
    /// Trainer or server.
    pub role: Role,
    /// The node, counted from 0.
    pub node: u32,
    /// Which run of the job this belongs to.
    #[serde(default)]
    pub run: String,
    /// Process id.
    #[serde(default)]
    pub pid: u32,
    /// Host name.
    #[serde(default)]
    pub host: String,
    /// Version of the program.
    #[serde(default)]
    pub version: String,
    /// The command line, without secrets.
    #[serde(default)]
    pub command: Vec<String>,
    /// The configuration file.
    #[serde(default)]
    pub config: String,
    /// Trainers of the job.
    #[serde(default)]
    pub trainers: u32,
    /// Number of passes, those of earlier runs included.
    #[serde(default)]
    pub passes: Option<u64>,
    /// The first pass of this run, if it continues after passes of an earlier run; the lines about those stay valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_pass: Option<u64>,
    /// Passes without improvement after which training ends; missing if it does not end early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<u32>,
    /// Loopback port of `/metrics`.
    #[serde(default)]
    pub status_port: Option<u16>,
    /// Number of values of the model; only trainer 0 writes it.
    #[serde(default)]
    pub parameters: Option<u64>,
}

/// A job as its runner sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its name; processes name it when they start.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub run: String,
    /// Nodes.
    pub nodes: u32,
    /// Number of passes, if it was given.
    #[serde(default)]
    pub passes: Option<u64>,
    /// Its first pass, if it continues after passes of the run before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_pass: Option<u64>,
    /// The configuration file.
    #[serde(default)]
    pub config: String,
    /// Version of the program.
    #[serde(default)]
    pub version: String,
}

/// Figures of some batches, of a test or of a pass.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// From 0.
    pub pass: u64,
    /// Finished batches of the pass.
    pub batch: u64,
    /// Samples since the process started or continued the pass.
    pub samples: u64,
    /// Cost per sample since the last such line; missing if it is not finite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Evaluators since the last such line, if they were computed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub evaluators: EvaluatorValues,
}

/// What happened to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessChange {
    /// The runner has started the process.
    Started,
    /// It accepts connections.
    Ready,
    /// It crashed or exited too early.
    Died,
    /// It is about to be restarted.
    Restarting,
    /// It ended as expected.
    Ended,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobOutcome {
    /// All passes are finished.
    Finished,
    /// It could not continue; the event has the reason.
    Failed,
    /// A user or a signal ended it.
    Interrupted,
}

/// The size of a table on one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSize {
    /// The parameter.
    pub name: String,
    /// Rows that exist.
    pub rows: u64,
    /// Bytes held for them.
    pub bytes: u64,
}

impl EventLine {
    /// The line as JSON, with its line break.
    pub fn to_text(&self) -> String {
        // Plain data always serialises; numbers that are not finite become null.
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Parses a line of the record; `None` if it is not an event.
    pub fn parse(text: &[u8]) -> Option<EventLine> {
        serde_json::from_slice(text).ok()
    }
}

/// Leaves out values that are not finite.
pub fn finite(values: &[(String, f64)]) -> EvaluatorValues {
    let finite = values.iter().filter(|(_, value)| value.is_finite());
    finite.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_and_when() {
        let line = EventLine {
            t: 12.5,
            event: Event::PassFinished {
                figures: Figures {
                    pass: 1,
                    batch: 20,
                    samples: 640,
                    cost: Some(0.5),
                    evaluators: finite(&[("e".into(), 0.25), ("n".into(), f64::NAN)]),
                },
                seconds: 2.0,
                waited: 0.5,
            },
        };
        let text = line.to_text();
        assert_eq!(
            text,
            "{\"t\":12.5,\"kind\":\"pass_finished\",\"pass\":1,\"batch\":20,\"samples\":640,\"cost\":0.5,\
             \"evaluators\":{\"e\":0.25},\"seconds\":2.0,\"waited\":0.5}\n"
        );
        assert_eq!(EventLine::parse(text.as_bytes()), Some(line));
    }

    #[test]
    fn other_versions_and_torn_lines_do_no_harm() {
        let newer =
            br#"{"t":1,"kind":"batch","pass":0,"batch":1,"samples":2,"cost":1.0,"colour":"red"}"#;
        assert!(matches!(
            EventLine::parse(newer).unwrap().event,
            Event::Batch(_)
        ));
        let unknown = br#"{"t":1,"kind":"weather","rain":true}"#;
        assert_eq!(EventLine::parse(unknown).unwrap().event, Event::Unknown);
        assert_eq!(
            EventLine::parse(br#"{"t":1,"kind":"batch","pass":0,"ba"#),
            None
        );
        assert_eq!(EventLine::parse(b"\xff\x00"), None);
    }
}
