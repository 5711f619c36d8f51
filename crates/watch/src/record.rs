//! One thing that happened in a job, as a line of JSON.
//!
//! Lines are for other programs too: every field has a name, times are seconds since 1970, and a reader may leave out
//! kinds and fields that it does not know.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a process does in its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads data and computes gradients.
    Trainer,
    /// Holds a part of the model.
    Pserver,
}

impl Role {
    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Trainer => "trainer",
            Role::Pserver => "server",
        }
    }
}

/// A record and when it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Seconds since 1970.
    pub t: f64,
    /// What happened.
    #[serde(flatten)]
    pub record: Record,
}

/// Evaluators by name; those that are not finite are left out.
pub type Evaluators = BTreeMap<String, f64>;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// A process begins. A new run makes what a file told of earlier runs void.
    Start(Box<Start>),
    /// The runner begins a job.
    Run(Run),
    /// A trainer begins a pass, or goes on with it at this batch.
    PassStarted {
        /// From 0.
        pass: u64,
        /// Batches that were done before.
        batch: u64,
    },
    /// A trainer has done some batches.
    Batch(Figures),
    /// A trainer has tested; samples are those of the training that came before.
    Tested(Figures),
    /// A trainer has finished a pass.
    PassFinished {
        /// The pass as a whole.
        #[serde(flatten)]
        figures: Figures,
        /// How long it took.
        seconds: f64,
        /// How long of that the trainer waited for servers and other trainers.
        waited: f64,
    },
    /// Statistics of the parameters at the end of a pass.
    Parameters {
        /// The pass.
        pass: u64,
        /// One a parameter.
        parameters: Vec<ParameterStatistics>,
    },
    /// A pass directory is complete.
    Saved {
        /// The pass.
        pass: u64,
        /// Where it is.
        path: String,
    },
    /// Training went back to this place.
    RolledBack {
        /// The pass.
        pass: u64,
        /// Batches of it that count.
        batch: u64,
    },
    /// A server has a snapshot of this step.
    Snapshot {
        /// The step.
        step: u64,
    },
    /// A server begins a life of the job after the first: somebody was lost.
    Recovery {
        /// The life.
        epoch: u64,
        /// The step it goes on from.
        step: u64,
    },
    /// Sizes of a server's sparse tables.
    Tables {
        /// One a table.
        tables: Vec<TableSize>,
    },
    /// The runner saw something happen to a process.
    Process {
        /// Its role.
        role: Role,
        /// Its node.
        node: u32,
        /// What happened.
        what: Life,
        /// How often it has been started again.
        #[serde(default)]
        restarts: u32,
        /// More, in words.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
    },
    /// Something that people should know.
    Note {
        /// What.
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
        /// How.
        outcome: Outcome,
        /// Why, if it is worth a sentence.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
    },
    /// A kind that this version does not know.
    #[serde(other)]
    Unknown,
}

/// What begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Trainer or server.
    pub role: Role,
    /// The node.
    pub node: u32,
    /// Which run of the job this belongs to.
    #[serde(default)]
    pub run: String,
    /// System id.
    #[serde(default)]
    pub pid: u32,
    /// The machine.
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
    /// The last pass, counted from 1.
    #[serde(default)]
    pub passes: Option<u64>,
    /// Where `/metrics` is served on loopback.
    #[serde(default)]
    pub status_port: Option<u16>,
    /// Parameters of the model as numbers; of trainer 0.
    #[serde(default)]
    pub parameters: Option<u64>,
}

/// A job as its runner sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Nodes.
    pub nodes: u32,
    /// Passes, if told.
    #[serde(default)]
    pub passes: Option<u64>,
    /// The configuration file.
    #[serde(default)]
    pub config: String,
    /// Version of the program.
    #[serde(default)]
    pub version: String,
}

/// Figures of a stretch of batches, of a test or of a pass.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// From 0.
    pub pass: u64,
    /// Batches of the pass that are done.
    pub batch: u64,
    /// Samples since the process began or went on with the pass.
    pub samples: u64,
    /// Cost a sample over the stretch; missing if it is not finite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Evaluators over the stretch, where they were computed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub evaluators: Evaluators,
}

/// What happened to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    /// It runs.
    Started,
    /// It can be talked to.
    Ready,
    /// It ended when it should not have.
    Died,
    /// It will be started again.
    Restarting,
    /// It ended as it should.
    Ended,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All passes are done.
    Finished,
    /// It could not go on.
    Failed,
    /// Somebody ended it.
    Interrupted,
}

/// How the values of a parameter are spread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParameterStatistics {
    /// Its name.
    pub name: String,
    /// How many values there are.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub std: f64,
    /// Share of values that are 0.
    pub zeros: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Sum of squares.
    pub squares: f64,
    /// Counts in equal steps from `min` to `max`.
    pub histogram: Vec<u64>,
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

impl Line {
    /// The line's text, with its end.
    pub fn to_text(&self) -> String {
        // Plain data always serialises; numbers that are not finite become null.
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Reads a line; `None` if it is not one of ours.
    pub fn parse(text: &[u8]) -> Option<Line> {
        serde_json::from_slice(text).ok()
    }
}

/// Leaves out what is not finite.
pub fn finite(values: &[(String, f64)]) -> Evaluators {
    let finite = values.iter().filter(|(_, value)| value.is_finite());
    finite.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_and_when() {
        let line = Line {
            t: 12.5,
            record: Record::PassFinished {
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
        assert_eq!(Line::parse(text.as_bytes()), Some(line));
    }

    #[test]
    fn other_versions_and_torn_lines_do_no_harm() {
        let newer =
            br#"{"t":1,"kind":"batch","pass":0,"batch":1,"samples":2,"cost":1.0,"colour":"red"}"#;
        assert!(matches!(
            Line::parse(newer).unwrap().record,
            Record::Batch(_)
        ));
        let unknown = br#"{"t":1,"kind":"weather","rain":true}"#;
        assert_eq!(Line::parse(unknown).unwrap().record, Record::Unknown);
        assert_eq!(Line::parse(br#"{"t":1,"kind":"batch","pass":0,"ba"#), None);
        assert_eq!(Line::parse(b"\xff\x00"), None);
    }
}
