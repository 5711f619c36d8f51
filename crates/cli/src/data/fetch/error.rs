//! What can go wrong while a file is fetched.

use std::io;
use std::path::{Path, PathBuf};

use crate::data::checksum::Checksum;

/// Why a file could not be fetched. What has arrived stays in `<file>.part`, and the next run goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A local file could not be read.
    #[error("read {path}")]
    Read {
        /// What was being read.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file could not be written.
    #[error("write {path}")]
    Write {
        /// What was being written.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The address has no file name in it.
    #[error("{url} does not end with a file name; say where to put it with --out FILE")]
    NoFileName {
        /// The address.
        url: String,
    },
    /// The server said no.
    #[error("{url}: the server answered {status}")]
    Status {
        /// The address.
        url: String,
        /// HTTP status.
        status: u16,
    },
    /// The address is wrong, or the server cannot be trusted.
    #[error("request {url}")]
    Request {
        /// The address.
        url: String,
        /// Why.
        #[source]
        source: Box<ureq::Error>,
    },
    /// The connection failed again and again.
    #[error(
        "{url}: gave up after {attempts} attempts with {bytes} bytes; run again to go on from there"
    )]
    GaveUp {
        /// The address.
        url: String,
        /// How often it was tried without progress.
        attempts: u32,
        /// Bytes that are there.
        bytes: u64,
        /// The last failure.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The content is not what it should be; it was removed.
    #[error(
        "{path} has checksum {got}, expected {want}; the file at the source is another one, or was damaged on the way"
    )]
    Checksum {
        /// The file.
        path: PathBuf,
        /// What it has.
        got: Checksum,
        /// What it should have.
        want: Checksum,
    },
    /// A file of that name is there with another content.
    #[error("{path} exists with checksum {got}, expected {want}; pass --force to fetch it again")]
    Exists {
        /// The file.
        path: PathBuf,
        /// What it has.
        got: Checksum,
        /// What it should have.
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
