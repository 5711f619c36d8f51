//! What can go wrong while data is split.

use std::io;
use std::path::{Path, PathBuf};

/// Why data could not be split.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum SplitError {
    /// A read error.
    #[error("read {path}")]
    Read {
        /// What was being read.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A write error; nothing half-done is left in the shards.
    #[error("write {path}")]
    Write {
        /// What was being written.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Zero shards were requested.
    #[error("the number of shards must be at least 1")]
    NoShards,
    /// A shard would stay empty.
    #[error("{path} has {lines} lines, too few for {shards} shards; use fewer shards")]
    TooFewLines {
        /// The file to split.
        path: PathBuf,
        lines: u64,
        /// Shards requested.
        shards: u32,
    },
    /// There are fewer files than shards, and one of them is not text.
    #[error(
        "{path} is not text, so it cannot be cut at line ends, and {} for {shards} shards; make at least {shards} files, or use {}",
        match .files { 1 => "it is the only file".to_owned(), n => format!("there are only {n} files") },
        match .files { 1 => "one shard".to_owned(), n => format!("{n} shards") }
    )]
    NotText {
        /// A file that is not text.
        path: PathBuf,
        /// Number of files.
        files: usize,
        /// Shards requested.
        shards: u32,
    },
    /// Cutting by bytes leaves a shard without a line.
    #[error(
        "cutting {path} by bytes leaves shard {shard} empty, because lines are too long; use --by lines"
    )]
    EmptyShard {
        /// The file to split.
        path: PathBuf,
        /// The shard without lines.
        shard: u32,
    },
    /// A line is too long for shuffling, which holds it in memory.
    #[error(
        "line {line} of {path} is longer than {limit} bytes; lines that long can only be split without --shuffle"
    )]
    LineTooLong {
        /// The file to split.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// Limit in bytes.
        limit: u64,
    },
    /// The job directory has no list of the files to split.
    #[error(
        "{directory} has no train.list (looked in data/ and in the directory itself); give the file to split instead"
    )]
    NoTrainList {
        /// The job directory.
        directory: PathBuf,
    },
    /// A list names a file that does not exist.
    #[error("line {line} of {list} names {name}, which does not exist under {}", shown(.directory))]
    ListedFileMissing {
        /// The list file.
        list: PathBuf,
        /// From 1.
        line: usize,
        /// What the line says.
        name: String,
        /// Where it was searched for.
        directory: PathBuf,
    },
    /// A list names a file outside the data directory, for whose shards there is no path.
    #[error("line {line} of {list} names {name}, which is outside {directory}; move it there")]
    ListedFileOutside {
        /// The list file.
        list: PathBuf,
        /// From 1.
        line: usize,
        /// What the line says.
        name: String,
        /// The data directory.
        directory: PathBuf,
    },
    /// A list without files.
    #[error("{list} names no file")]
    EmptyList {
        /// The list file.
        list: PathBuf,
    },
    /// A shard directory exists that no earlier split created.
    #[error(
        "{path} exists and was not created by an earlier split; remove it or pass --force to replace it"
    )]
    ForeignShard {
        /// The directory that would be replaced.
        path: PathBuf,
    },
    /// Another split of the same data is running.
    #[error("another split is writing to {directory}")]
    Busy {
        /// The directory of the shards.
        directory: PathBuf,
    },
    /// The manifest of an earlier split does not parse.
    #[error(
        "{path} is not a split manifest that this version understands; remove it to split again"
    )]
    Manifest {
        /// The manifest.
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    /// The shards do not contain what the source contains.
    #[error(
        "{path} has {want_lines} lines but its shards have {got_lines} (or their content differs); did the file change while it was split?"
    )]
    Mismatch {
        /// The file that was split.
        path: PathBuf,
        /// Lines of the file.
        want_lines: u64,
        /// Lines of the shards together.
        got_lines: u64,
    },
}

impl SplitError {
    /// A failed read of `path`.
    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Read { path, source }
    }

    /// A failed write of `path`.
    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Write { path, source }
    }
}

/// An empty path is the folder that a command runs in.
fn shown(directory: &Path) -> String {
    match directory.display().to_string().as_str() {
        "" => "this folder".to_owned(),
        path => path.to_owned(),
    }
}
