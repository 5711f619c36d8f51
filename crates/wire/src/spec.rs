//! What trainer 0 tells the servers about the job: tables, update rules, mode. Servers know nothing else of it.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::shard::table_hash;

/// Everything that must be equal in all trainers for their gradients to belong together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Name of this run of the job; snapshots of another run are not restored.
    pub job: String,
    /// How gradients of several trainers meet.
    pub mode: Mode,
    /// A snapshot is taken each time that many steps are complete; 0: never.
    pub snapshot_every: u64,
    /// Passes that were done before this job: it starts with the pass of this number.
    pub first_pass: u64,
    /// What the job starts from, if not from initial values.
    pub origin: Option<Origin>,
    /// The tables; a [`crate::TableId`] is a position in this list.
    pub tables: Vec<TableSpec>,
}

/// What a job starts from: a directory that the servers see, written by another one, on whatever number of servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Everything: values, optimizer state, steps and passes. The job goes on exactly.
    State(String),
    /// The values of sparse tables.
    Rows(String),
}

/// How gradients of several trainers meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One update a step with the sum over all trainers, taken in their order.
    Sync,
    /// Each gradient is applied when it comes.
    Async {
        /// A trainer that has finished this many batches more than the slowest one waits.
        staleness: u32,
    },
}

/// A table of the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    /// Name of the parameter.
    pub name: String,
    /// Rows; of a dense table only `rows * cols` matters.
    pub rows: u64,
    /// Values in a row.
    pub cols: u32,
    /// Pulled and pushed by row, created row by row on first touch.
    pub sparse: bool,
    /// `optim::Rule` as JSON: what a pushed gradient does to the values. Trainers that optimise locally and meet
    /// every few batches push differences with the rule `Add` (v1's `average` and `elastic_average`).
    pub rule: String,
    /// `optim::init::Initial` as JSON: the values of rows that nobody has set.
    pub initial: String,
    /// Values that trainer 0 brings (a loaded model); not part of the message.
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

    /// Number derived from the name, for the shard map.
    pub fn hash(&self) -> u64 {
        table_hash(&self.name)
    }
}

impl JobSpec {
    /// A number that differs when any part of the job does.
    pub fn fingerprint(&self) -> u64 {
        let text = serde_json::to_string(self).expect("a job spec serialises");
        table_hash(&text)
    }

    /// A number for the shapes alone: a snapshot with another one is of another model.
    pub fn shapes(&self) -> u64 {
        let shapes: Vec<_> = self
            .tables
            .iter()
            .map(|t| (&t.name, t.rows, t.cols, t.sparse))
            .collect();
        table_hash(&serde_json::to_string(&shapes).expect("shapes serialise"))
    }

    /// Refuses what no server could hold.
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
