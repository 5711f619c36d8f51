//! Parts of snapshots ([`wire::part`]) with the scalars that servers keep of a table.

use optim::ParameterProgress;
pub use wire::part::{FormatError, PartWriter, Section};

/// What a part says about itself.
pub(crate) type SnapshotHeader = wire::part::PartHeader<ParameterProgress>;
/// A table of the job.
pub(crate) type SnapshotTableHeader = wire::part::TableHeader<ParameterProgress>;
/// Reads a part.
pub type SnapshotPartReader<R> = wire::part::PartReader<R, ParameterProgress>;
