//! `split.json`: which files were split, with which options, and the contents of each shard.

use serde::{Deserialize, Serialize};

use super::SplitOptions;
use super::tally::LineTally;

/// The file's name, next to the shards.
pub(crate) const MANIFEST: &str = "split.json";

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitManifest {
    /// Format version of this file.
    pub version: u32,
    /// False while shards are being renamed: the listed shards may be a mixture.
    pub complete: bool,
    /// How it was split.
    pub options: SplitOptions,
    /// The files that were cut.
    pub files: Vec<SplitFile>,
    /// The files that every shard has, by name.
    pub shared: Vec<(String, SourceVersion)>,
}

/// A file that was cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitFile {
    /// Path inside each shard.
    pub name: String,
    /// Size and time of the source when it was split.
    pub version: SourceVersion,
    /// The part of each shard, in order.
    pub parts: Vec<FilePart>,
    /// The only shard that has the file, whole, if it was not cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<usize>,
}

impl SplitFile {
    /// The parts that are files, with the numbers of their shards.
    pub fn present_parts(&self) -> impl Iterator<Item = (usize, &FilePart)> {
        let parts = self.parts.iter().enumerate();
        parts.filter(|(id, _)| self.whole.is_none_or(|whole| whole == *id))
    }
}

/// One shard's part of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilePart {
    /// Number of lines.
    pub lines: u64,
    /// Length of the part.
    pub bytes: u64,
    /// See [`LineTally::checksum`].
    pub checksum: u64,
}

impl From<LineTally> for FilePart {
    fn from(tally: LineTally) -> Self {
        Self {
            lines: tally.lines,
            bytes: tally.bytes,
            checksum: tally.checksum,
        }
    }
}

/// Shows whether a source has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceVersion {
    /// Size.
    pub bytes: u64,
    /// Time of the last change, nanoseconds since 1970.
    pub modified_ns: u64,
}

impl SplitManifest {
    /// The format that this version writes. Version 1 did not count headers in the sizes of parts.
    pub const VERSION: u32 = 2;

    /// The manifest of a finished split.
    pub fn new(
        options: SplitOptions,
        files: Vec<SplitFile>,
        shared: Vec<(String, SourceVersion)>,
    ) -> Self {
        Self {
            version: Self::VERSION,
            complete: true,
            options,
            files,
            shared,
        }
    }

    /// Whether it has the format of this version.
    pub(super) fn is_current(&self) -> bool {
        self.version == Self::VERSION || !self.options.header
    }

    /// Whether files were dealt out whole.
    pub fn is_whole(&self) -> bool {
        self.files.iter().any(|file| file.whole.is_some())
    }

    /// Lines of all shards together, in files that were cut.
    pub fn lines(&self) -> u64 {
        self.files
            .iter()
            .filter(|file| file.whole.is_none())
            .flat_map(|file| &file.parts)
            .map(|part| part.lines)
            .sum()
    }
}
