//! Copies folders from and to object stores: many files at once, resumed after an interruption, each checked.
//!
//! Fetched files are recorded in `.s3.jsonl` in the folder, a line per file with the version (ETag) of its object: a
//! second run fetches nothing, and an object that has changed since is an error instead of being mixed with the others.
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
    /// The store refused a request or could not be reached.
    #[error(transparent)]
    Store(#[from] S3Error),
    /// No object has this key or this prefix.
    #[error("{prefix}: there are no such objects")]
    Nothing { prefix: Location },
    /// A key that cannot be a file in a folder.
    #[error("{location}: {name:?} is not the name of a file in a folder")]
    Name {
        location: Location,
        /// The name that the file would have.
        name: String,
    },
    /// The object was replaced since it was fetched.
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
    /// A file of that name exists and was not fetched from this object.
    #[error("{path} exists and is not {location}; pass --force to replace it")]
    Exists { location: Location, path: PathBuf },
    /// A model of another run has the name of one that is to be copied.
    #[error(
        "{location} exists and differs from the model to be copied; choose another prefix, or replace it with --force"
    )]
    OtherModel { location: Location },
    /// An object that is to be compared cannot be read.
    #[error("read {location}")]
    Unread {
        location: Location,
        #[source]
        source: io::Error,
    },
    /// The received bytes differ from those in the store.
    #[error(
        "{location} arrived damaged: its MD5 is {got}, according to the store it should be {want}; run the command again"
    )]
    Damaged {
        location: Location,
        /// MD5 of the received bytes.
        got: String,
        /// MD5 according to the store.
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
    /// A file on this machine cannot be read or written.
    #[error("{action} {path}")]
    File {
        /// The operation that failed, as a verb.
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A partial file on this machine cannot be read or written.
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
