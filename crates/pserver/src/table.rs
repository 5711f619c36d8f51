//! A table with its rules parsed: how a gradient changes its values, and its initial values.

use optim::{Initial, Rule};
use std::iter::Sum;
use wire::TableSpec;

/// What tables occupy on a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoredSize {
    /// Rows that exist; of a dense table, its values.
    pub rows: u64,
    /// Bytes of values and state.
    pub bytes: u64,
}

impl Sum for StoredSize {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), |sum, size| Self {
            rows: sum.rows + size.rows,
            bytes: sum.bytes + size.bytes,
        })
    }
}

/// A table of the job, with its rules parsed.
#[derive(Debug, Clone)]
pub struct Table {
    /// As trainer 0 sent it.
    pub spec: TableSpec,
    /// What a gradient does to the values.
    pub rule: Rule,
    /// The values before the first gradient.
    pub initial: Initial,
    /// State values per parameter value.
    pub slots: usize,
}

/// Why a table's description is not valid.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum TableError {
    /// The JSON of the rule does not parse.
    #[error("update rule of table {table} cannot be read")]
    Rule {
        table: String,
        #[source]
        source: serde_json::Error,
    },
    /// The JSON of the initial values does not parse.
    #[error("initial values of table {table} cannot be read")]
    Initial {
        table: String,
        #[source]
        source: serde_json::Error,
    },
}

impl Table {
    /// Parses a table's description.
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

    /// Values per row.
    pub fn cols(&self) -> usize {
        self.spec.cols as usize
    }
}
