//! Parts of snapshots ([`wire::part`]) with the scalars that servers keep of a table.

use optim::Progress;
pub use wire::part::{FormatError, PartWriter, Section};

/// What a part says about itself.
pub type Header = wire::part::Header<Progress>;
/// A table of the job.
pub type TableHeader = wire::part::TableHeader<Progress>;
/// Reads a part.
pub type PartReader<R> = wire::part::PartReader<R, Progress>;
