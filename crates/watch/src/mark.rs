//! What is worth a mark on the curves, and who told it.

use crate::record::Role;

/// Who wrote a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The runner of all nodes.
    Runner,
    /// The runner of one node of a cluster.
    Node(u32),
    /// A trainer or server of a node.
    Process(u32, Role),
}

/// Something worth a mark on the curves.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Number among all points and marks, in the order of arrival.
    pub order: u64,
    /// Seconds since 1970.
    pub t: f64,
    /// What.
    pub kind: MarkKind,
    /// The node it happened to.
    pub node: Option<u32>,
    /// In words.
    pub text: String,
    pub(crate) source: Source,
}

/// What a mark stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// A snapshot was taken.
    Snapshot,
    /// A model was saved.
    Saved,
    /// A process died.
    Died,
    /// A process was started again.
    Restarted,
    /// Training went back.
    RolledBack,
    /// Servers began another life of the job.
    Recovery,
    /// Something to know.
    Note,
    /// The job ended.
    End,
}
