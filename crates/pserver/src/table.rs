//! A table's rules: what a gradient does to it, and what its values are before the first one.

use optim::{Initial, Rule};
use wire::TableSpec;

/// A table of the job, understood.
#[derive(Debug, Clone)]
pub struct Table {
    /// As it was sent.
    pub spec: TableSpec,
    /// What a gradient does.
    pub rule: Rule,
    /// First values.
    pub initial: Initial,
    /// State numbers a value.
    pub slots: usize,
}

/// Why a table cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The rule is not one of ours.
    #[error("update rule of table {table} cannot be read")]
    Rule {
        /// The table.
        table: String,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The initial values are not described as they should.
    #[error("initial values of table {table} cannot be read")]
    Initial {
        /// The table.
        table: String,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
}

impl Table {
    /// Reads a table's description.
    pub fn new(spec: &TableSpec) -> Result<Self, TableError> {
        let table = || spec.name.clone();
        let rule: Rule = serde_json::from_str(&spec.rule).map_err(|source| TableError::Rule {
            table: table(),
            source,
        })?;
        let initial =
            serde_json::from_str(&spec.initial).map_err(|source| TableError::Initial {
                table: table(),
                source,
            })?;
        Ok(Self {
            slots: rule.slots(),
            rule,
            initial,
            spec: spec.clone(),
        })
    }

    /// Values in a row.
    pub fn cols(&self) -> usize {
        self.spec.cols as usize
    }
}
