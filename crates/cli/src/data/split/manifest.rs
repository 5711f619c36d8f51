//! `split.json`: what was split, how, and what each shard got.

use serde::{Deserialize, Serialize};

use super::Options;
use super::tally::Tally;

/// The file's name, beside the shards.
pub const MANIFEST: &str = "split.json";

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Format of this file.
    pub version: u32,
    /// False while shards are being moved into place: the listed shards may be a mixture.
    pub complete: bool,
    /// How it was split.
    pub options: Options,
    /// The files that were cut.
    pub files: Vec<SplitFile>,
    /// The files that every shard has, by name.
    pub shared: Vec<(String, Version)>,
}

/// A file that was cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitFile {
    /// Path inside each shard.
    pub name: String,
    /// The source as it was.
    pub version: Version,
    /// What each shard got, in order.
    pub parts: Vec<Part>,
}

/// One shard's part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Lines.
    pub lines: u64,
    /// Bytes.
    pub bytes: u64,
    /// See [`Tally::checksum`].
    pub checksum: u64,
}

impl From<Tally> for Part {
    fn from(tally: Tally) -> Self {
        Self {
            lines: tally.lines,
            bytes: tally.bytes,
            checksum: tally.checksum,
        }
    }
}

/// Tells whether a source has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// Size.
    pub bytes: u64,
    /// Time of the last change, nanoseconds since 1970.
    pub modified_ns: u64,
}

impl Manifest {
    /// The format written by this version.
    pub const VERSION: u32 = 1;

    /// The manifest of a finished split.
    pub fn new(options: Options, files: Vec<SplitFile>, shared: Vec<(String, Version)>) -> Self {
        Self {
            version: Self::VERSION,
            complete: true,
            options,
            files,
            shared,
        }
    }

    /// Lines of all shards together.
    pub fn lines(&self) -> u64 {
        self.files
            .iter()
            .flat_map(|file| &file.parts)
            .map(|part| part.lines)
            .sum()
    }
}
