//! Copies folders from and to object stores: many files at once, resumed after an interruption, each checked.
//!
//! What has been fetched is written down in `.s3.jsonl` in the folder, a line per file with the version (ETag) of its object: a second run
//! fetches nothing, and an object that has changed since is named instead of mixed with the others.
//!
//! - [`fetch`](mod@fetch): downloads.
//! - [`push`](mod@push): uploads.

pub mod fetch;
pub mod push;

use std::io;
use std::path::{Path, PathBuf};

use s3::client::WriteError;
use s3::{Location, S3Error};

pub use fetch::{Fetched, fetch};
pub(crate) use push::is_mark;
pub use push::{Pushed, push, push_files};

/// Why a folder was not copied. What has arrived stays, and the next run continues from there.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum BucketError {
    /// The store.
    #[error(transparent)]
    Store(#[from] S3Error),
    /// Nothing begins with this.
    #[error("{prefix}: nothing is there")]
    Nothing { prefix: Location },
    /// A key that cannot be a file in a folder.
    #[error("{location}: {name:?} is not the name of a file in a folder")]
    Name {
        location: Location,
        /// What would be its name.
        name: String,
    },
    /// The object is another one than that which was fetched.
    #[error(
        "{location} has changed since it was fetched to {path} (version {then}, now {now}); pass --force to fetch it again"
    )]
    ChangedSince {
        location: Location,
        path: PathBuf,
        /// Its version when it was fetched.
        then: String,
        /// Its version now.
        now: String,
    },
    /// A file of that name is there and was not fetched from here.
    #[error("{path} exists and is not {location}; pass --force to replace it")]
    Exists { location: Location, path: PathBuf },
    /// A model of another run is in the place of one that comes.
    #[error(
        "{location} exists and is not the one that comes; choose another prefix, or replace it with --force"
    )]
    OtherModel { location: Location },
    /// An object that is to be compared cannot be read.
    #[error("read {location}")]
    Unread {
        location: Location,
        #[source]
        source: io::Error,
    },
    /// What arrived is not what the store has.
    #[error(
        "{location} arrived damaged: its MD5 is {got}, the store says {want}; run the command again"
    )]
    Damaged {
        location: Location,
        /// What arrived.
        got: String,
        /// What should have.
        want: String,
    },
    /// The connection broke several times in a row.
    #[error(
        "{location}: gave up after {attempts} attempts with {bytes} bytes received; run the command again to resume"
    )]
    GaveUp {
        location: Location,
        /// Attempts without progress.
        attempts: u32,
        /// Bytes received so far.
        bytes: u64,
        /// The last failure.
        #[source]
        source: io::Error,
    },
    /// A file here.
    #[error("{action} {path}")]
    File {
        /// What was done with it.
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A part of a file here.
    #[error(transparent)]
    Partial(#[from] crate::fetch::FetchError),
}

impl BucketError {
    fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }

    fn write(error: WriteError, path: &Path) -> Self {
        match error {
            WriteError::Store(error) => Self::Store(error),
            WriteError::Content(source) => Self::file("read", path)(source),
        }
    }
}
