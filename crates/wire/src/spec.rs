//! What trainer 0 sends to the servers about the job: tables, update rules, mode. Servers know nothing else about it.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::shard::table_hash;

/// Everything that must be equal in all trainers for their gradients to belong together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Name of this run of the job. Snapshots of another run are not restored.
    pub job: String,
    /// How gradients of several trainers are combined.
    pub mode: Mode,
    /// A snapshot is taken every time this many steps are complete; 0: never.
    pub snapshot_every: u64,
    /// Passes that were finished before this run: it starts with the pass of this number.
    pub first_pass: u64,
    /// What the job starts from, if not from initial values.
    pub origin: Option<Origin>,
    /// The tables; a [`crate::TableId`] is a position in this list.
    pub tables: Vec<TableSpec>,
}

/// What a job starts from: a directory that the servers see, written by another job with any number of servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Everything: values, optimizer state, steps and passes. The job continues exactly where the other ended.
    State(String),
    /// The values of sparse tables.
    Rows(String),
}

/// How gradients of several trainers are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One update per step with the sum over all trainers, added in the order of their ids.
    Sync,
    /// Each gradient is applied when it arrives.
    Async {
        /// A trainer that is this many batches ahead of the slowest one waits.
        staleness: u32,
    },
}

/// A table of the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    /// Name of the parameter.
    pub name: String,
    /// Rows; for a dense table only `rows * cols` matters.
    pub rows: u64,
    /// Values per row.
    pub cols: u32,
    /// Pulled and pushed by row; each row is created on first use.
    pub sparse: bool,
    /// `optim::Rule` as JSON: what a pushed gradient does to the values. Trainers that optimise locally and synchronise
    /// every few batches push differences with the rule `Add` (v1's `average` and `elastic_average`).
    pub rule: String,
    /// `optim::init::Initial` as JSON: the values of rows that were never set.
    pub initial: String,
    /// Values that trainer 0 sends (a loaded model); not part of the message.
    #[serde(skip)]
    pub values: Option<Arc<[f32]>>,
}

impl TableSpec {
    /// Number of values.
    pub fn len(&self) -> u64 {
        self.rows * u64::from(self.cols)
    }

    /// True for a table without values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hash of the name, for the shard map.
    pub fn hash(&self) -> u64 {
        table_hash(&self.name)
    }
}

impl JobSpec {
    /// A hash of the whole job: differs when any part of the job does.
    pub fn fingerprint(&self) -> u64 {
        let text = serde_json::to_string(self).expect("a job spec serialises");
        table_hash(&text)
    }

    /// A hash of the tables' names and shapes alone: a snapshot with another hash belongs to another model.
    pub fn shapes(&self) -> u64 {
        let shapes: Vec<_> = self
            .tables
            .iter()
            .map(|t| (&t.name, t.rows, t.cols, t.sparse))
            .collect();
        table_hash(&serde_json::to_string(&shapes).expect("shapes serialise"))
    }

    /// Rejects what no server could hold.
    pub fn check(&self) -> Result<(), String> {
        if self.tables.len() > 100_000 {
            return Err(format!("{} tables are more than 100000", self.tables.len()));
        }
        for (at, table) in self.tables.iter().enumerate() {
            let name = &table.name;
            if table
                .rows
                .checked_mul(u64::from(table.cols))
                .is_none_or(|n| n > 1 << 48)
            {
                return Err(format!(
                    "table {name} is too large: {} x {}",
                    table.rows, table.cols
                ));
            }
            if table.cols == 0 {
                return Err(format!("table {name} has no columns"));
            }
            if table.sparse && table.rows > u64::from(u32::MAX) {
                return Err(format!(
                    "sparse table {name} has {} rows, at most 4294967295 are possible",
                    table.rows
                ));
            }
            if self.tables[..at].iter().any(|other| other.name == *name) {
                return Err(format!("two tables are named {name}"));
            }
        }
        Ok(())
    }
}
