//! The state of a process at one moment.
//!
//! One type for every reader: it is what `/status` serves, what a process writes to its state file once a second, and
//! what the terminal, the page, probes and `canoe job status` show. Every field may be missing and unknown fields are
//! allowed: a server has no cost, a trainer that still evaluates its configuration has no batch.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::process::Role;

/// What a server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Waiting for trainers to join and for trainer 0 to open a generation.
    Lobby,
    /// Serving a generation.
    Running,
    /// The job cannot continue.
    Failed,
    /// All trainers have left.
    Finished,
}

/// The state of a trainer or server. Numbers are those of the process itself, not of the job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// When this status was taken, in seconds since 1970.
    pub t: f64,
    /// The run of the job that the process belongs to.
    pub run: String,
    /// `None` only if the process has not reported a status yet.
    pub role: Option<Role>,
    /// The node, counted from 0.
    pub node: u32,
    /// The process id.
    pub pid: u32,
    /// Number of this state file's writer. Each new writer takes the next one, and the file belongs to the largest.
    pub writer: u64,
    /// The machine.
    pub host: String,
    /// Where `/metrics` is served on loopback.
    pub status_port: Option<u16>,
    /// Current pass, from 0.
    pub pass: Option<u64>,
    /// Batches of the pass that are done.
    pub batch: Option<u64>,
    /// Batches in a pass, once one has ended.
    pub pass_batches: Option<u64>,
    /// Steps that a server has applied.
    pub step: Option<u64>,
    /// Samples since the process began.
    pub samples: u64,
    /// Samples per second over the last seconds.
    pub samples_per_second: Option<f64>,
    /// Cost per sample since the start of the pass.
    pub cost: Option<f64>,
    /// Evaluators by name, since the start of the pass.
    pub evaluators: BTreeMap<String, f64>,
    /// Payload bytes per second that a server received, over the last seconds.
    pub received_bytes_per_second: Option<f64>,
    /// Payload bytes per second that a server sent.
    pub sent_bytes_per_second: Option<f64>,
    /// Share of its time that a trainer waited for servers and others; mean number of requests waiting in a server.
    pub waiting: Option<f64>,
    /// Resident memory.
    pub memory_bytes: u64,
    /// What a server is doing.
    pub phase: Option<Phase>,
    /// The processes or the work that it waits for, as a sentence; empty while it computes.
    pub waits_for: String,
    /// The trainers that a server's present step waits for.
    pub waits_on: Vec<u32>,
    /// A server has received all that its present step needs, and only has to compute. If this lasts, the server hangs.
    pub busy: bool,
    /// Work besides steps for which other processes wait. If it makes no progress for long, the process hangs.
    pub task: Option<Task>,
    /// The newest complete snapshot of a server.
    pub snapshot_step: Option<u64>,
    /// A server that is about to end wants the snapshot of this step, or a later one, on all servers.
    pub snapshot_wanted: Option<u64>,
    /// The newest snapshot that all servers have, as far as this server knows.
    pub snapshot_on_all: Option<u64>,
    /// Steps since that snapshot: what a loss would cost now.
    pub snapshot_age: Option<u64>,
    /// The busiest shards of a server's sparse tables.
    pub hot_shards: Vec<HotShard>,
}

/// Work of a process that is no step: a test, a save, a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Task {
    /// What it is, as the object of a sentence: "the test".
    pub name: String,
    /// Grows with every part of the work that is finished.
    pub done: u64,
}

/// A shard of a sparse table that is used more than others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HotShard {
    /// The table.
    pub table: String,
    /// Number of the shard.
    pub shard: u32,
    /// Rows pulled and pushed in it.
    pub touched: u64,
    /// Mean of that over this server's shards of the table.
    pub mean: f64,
}

impl Status {
    /// Whether readers should learn of the change from `before` immediately instead of at the next regular write.
    pub fn is_news(&self, before: &Status) -> bool {
        let key = |status: &Status| {
            (
                status.phase,
                status.pass,
                status.snapshot_wanted,
                status.snapshot_on_all,
                status.waits_for.is_empty(),
            )
        };
        key(self) != key(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_may_be_missing_and_unknown_ones_are_skipped() {
        let text =
            r#"{"role":"trainer","node":1,"pass":2,"evaluators":{"error":0.25},"colour":"red"}"#;
        let status: Status = serde_json::from_str(text).unwrap();
        assert_eq!(
            (status.role, status.node, status.pass, status.batch),
            (Some(Role::Trainer), 1, Some(2), None)
        );
        assert_eq!(status.evaluators["error"], 0.25);
        assert!(serde_json::from_str::<Status>(r#"{"pass":-1}"#).is_err());
    }

    #[test]
    fn a_phase_is_news_and_another_batch_is_not() {
        let before = Status::default();
        let running = Status {
            phase: Some(Phase::Running),
            ..Status::default()
        };
        let batch = Status {
            batch: Some(3),
            samples: 96,
            ..Status::default()
        };
        assert!(running.is_news(&before));
        assert!(!batch.is_news(&before));
    }
}
