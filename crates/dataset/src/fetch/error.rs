//! What can go wrong while a file is fetched.

use std::io;
use std::path::{Path, PathBuf};

use crate::checksum::Checksum;

/// Why a file could not be fetched. Received bytes stay in `<file>.part`, and the next run continues from there.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum FetchError {
    /// A local file could not be read.
    #[error("read {path}")]
    Read {
        /// What was being read.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The file could not be written.
    #[error("write {path}")]
    Write {
        /// What was being written.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Addresses of this kind are not fetched.
    #[error("{url} is not an address that canoe can fetch; {hint}")]
    Scheme {
        /// The address.
        url: String,
        /// What to do instead.
        hint: &'static str,
    },
    /// The URL has no file name in it.
    #[error("{url} does not end with a file name; choose one with --to FILE")]
    NoFileName {
        /// The address.
        url: String,
    },
    /// The server replied with an error.
    #[error("{url}: the server replied with {status}")]
    Status {
        /// The address.
        url: String,
        /// HTTP status.
        status: u16,
    },
    /// The URL is wrong, or the server cannot be trusted.
    #[error("request {url}")]
    Request {
        /// The address.
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    /// The file is larger than was allowed.
    #[error(
        "the file has {bytes} bytes or more, {limit} are allowed; raise --max-bytes if that is right"
    )]
    TooLarge {
        /// Bytes that the server announced or sent.
        bytes: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The connection failed several times in a row.
    #[error(
        "{url}: gave up after {attempts} attempts with {bytes} bytes received; run the command again to resume"
    )]
    GaveUp {
        /// The address.
        url: String,
        /// Attempts without progress.
        attempts: u32,
        /// Bytes received so far.
        bytes: u64,
        /// The last failure.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The content has the wrong checksum; it was deleted.
    #[error(
        "{path} has checksum {got}, expected {want}; the file at the source has changed, or was damaged during the transfer"
    )]
    Checksum {
        path: PathBuf,
        /// The checksum that it has.
        got: Checksum,
        /// The checksum that it should have.
        want: Checksum,
    },
    /// A file of that name exists, and the source has something else.
    #[error(
        "{path} exists, but it differs from {source_name} as it is now; pass --force to replace it, or --to to choose another name"
    )]
    Differs {
        path: PathBuf,
        /// Address or path of the source.
        source_name: String,
    },
    /// A file of that name exists with another content.
    #[error("{path} exists with checksum {got}, expected {want}; pass --force to fetch it again")]
    Exists {
        path: PathBuf,
        /// The checksum that it has.
        got: Checksum,
        /// The checksum that it should have.
        want: Checksum,
    },
}

impl FetchError {
    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Read { path, source }
    }

    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Write { path, source }
    }
}
