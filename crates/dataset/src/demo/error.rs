//! What can go wrong while a demo is written.

use std::io;
use std::path::{Path, PathBuf};

use super::movies::generator::Impossible;
use super::movies::records::BadLine;

/// Why a demo could not be written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum DemoError {
    /// A file or directory could not be written.
    #[error("write {path}")]
    Write {
        /// What was being written.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file could not be read.
    #[error("read {path}")]
    Read {
        /// What was being read.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file or folder that would be replaced exists.
    #[error("{path} already exists; choose another directory or pass --force to replace it")]
    Exists {
        /// The file or folder in the way.
        path: PathBuf,
    },
    /// The smaller class does not have as many distinct reviews as requested.
    #[error(
        "only {available} distinct reviews in the smaller class, {wanted} requested (at least 10 are needed)"
    )]
    TooFewReviews {
        /// Distinct reviews in the smaller class.
        available: usize,
        /// Reviews of each class wanted for training and testing.
        wanted: usize,
    },
    /// A line of the review file has the wrong form.
    #[error(
        "line {line} of {path} is not a review (a JSON object with \"overall\" and \"reviewText\")"
    )]
    BadReview {
        path: PathBuf,
        /// From 1.
        line: u64,
        #[source]
        source: serde_json::Error,
    },
    /// A line of a MovieLens file has the wrong form.
    #[error(transparent)]
    BadRecord(BadLine),
    /// One of the MovieLens files is missing.
    #[error("{path} has no file {name}; expected MovieLens' users.dat, movies.dat and ratings.dat")]
    MissingFile {
        /// The zip or folder.
        path: PathBuf,
        /// Name of the missing file.
        name: &'static str,
    },
    /// Nothing would be left for testing.
    #[error("too few ratings ({ratings}): no user has ten, so none is left for testing")]
    TooFewRatings { ratings: usize },
    /// The generated data cannot have the requested size.
    #[error(transparent)]
    Impossible(#[from] Impossible),
}

impl DemoError {
    /// A failed write of `path`.
    pub fn write(path: &Path, source: io::Error) -> Self {
        Self::Write {
            path: path.to_owned(),
            source,
        }
    }

    /// A failed read of `path`.
    pub fn read(path: &Path, source: io::Error) -> Self {
        Self::Read {
            path: path.to_owned(),
            source,
        }
    }
}
