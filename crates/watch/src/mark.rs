//! Events that are drawn as marks on the curves, and the processes that wrote them.

use words::process::Role;

/// The writer of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordSource {
    /// The runner of all nodes.
    Runner,
    /// The runner of one node of a cluster.
    Node(u32),
    /// A trainer or server of a node.
    Process(u32, Role),
}

/// An event drawn on the curves.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Sequence number among all points and marks, in the order of arrival.
    pub order: u64,
    /// Seconds since 1970.
    pub t: f64,
    /// What happened.
    pub kind: MarkKind,
    /// The node it happened to.
    pub node: Option<u32>,
    /// A sentence for people.
    pub text: String,
    pub(crate) source: RecordSource,
}

/// What a mark means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// A snapshot was taken.
    Snapshot,
    /// A model was saved.
    Saved,
    /// A process crashed.
    Died,
    /// A process was restarted.
    Restarted,
    /// Training rolled back.
    RolledBack,
    /// Servers began another generation of the job.
    Recovery,
    /// A message for people.
    Note,
    /// The job ended.
    End,
}
