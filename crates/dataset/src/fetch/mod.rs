//! Fetches a file from a URL or a path, complete and checked.
//!
//! The file appears under its name only when it is complete and its checksum is right. Until then it is `<name>.part`, with
//! `<name>.part.json` next to it, which names the source and its version. After a broken connection, or in a new run, the
//! download continues from there if the server supports that (`Range`, `If-Range`), and otherwise starts again.
//!
//! - `http`: one attempt.
//! - `partial`: the bytes that have arrived so far.

mod error;
mod http;
mod partial;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use error::FetchError;

use super::checksum::{Checksum, sha256};
pub(crate) use partial::Partial;

/// What to fetch.
#[derive(Debug, Clone)]
pub struct FetchRequest<'a> {
    /// `http://…`, `https://…` or a path.
    pub source: &'a str,
    /// Path of the file to write.
    pub target: &'a Path,
    /// The checksum that it must have, if one is known.
    pub checksum: Option<Checksum>,
    /// Fetch again even if the file exists.
    pub force: bool,
    /// Most bytes that the file may have.
    pub largest: u64,
}

/// How long to try.
#[derive(Debug, Clone, Copy)]
pub struct FetchPatience {
    /// Attempts in a row without progress.
    pub attempts: u32,
    /// Wait before the second attempt; it doubles from one to the next.
    pub pause: Duration,
    /// The longest wait between attempts.
    pub longest_pause: Duration,
    /// A connection on which nothing arrives for this long counts as broken.
    pub silence: Duration,
}

impl Default for FetchPatience {
    fn default() -> Self {
        Self {
            attempts: 6,
            pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(30),
            silence: Duration::from_secs(60),
        }
    }
}

/// Progress of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Bytes that have arrived.
    pub bytes: u64,
    /// Bytes of the whole file, if the server says.
    pub total: Option<u64>,
}

/// The result of a fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Size.
    pub bytes: u64,
    /// SHA-256.
    pub checksum: Checksum,
    /// The file existed already.
    pub unchanged: bool,
    /// Bytes that an earlier run had fetched.
    pub resumed_from: u64,
}

/// Whether `source` is an address and not a path.
pub fn is_url(source: &str) -> bool {
    source.starts_with("http://") || source.starts_with("https://")
}

/// The file for `source`: `out` itself, or in `out` if that is a directory or ends with a slash, under the source's own name.
pub fn target(source: &str, out: Option<&Path>) -> Result<PathBuf, FetchError> {
    let no_name = || FetchError::NoFileName {
        url: source.to_owned(),
    };
    let name = if is_url(source) {
        let path = source.split(['?', '#']).next().unwrap_or_default();
        let after_scheme = path.split_once("://").map_or(path, |(_, rest)| rest);
        after_scheme
            .split_once('/')
            .and_then(|(_, path)| path.rsplit('/').next())
            .map(PathBuf::from)
    } else {
        Path::new(source).file_name().map(PathBuf::from)
    };
    let name = name.filter(|name| !matches!(name.to_str(), None | Some("" | "." | "..")));
    match out {
        None => name.ok_or_else(no_name),
        Some(out) if out.is_dir() || out.as_os_str().to_string_lossy().ends_with('/') => {
            Ok(out.join(name.ok_or_else(no_name)?))
        }
        Some(out) => Ok(out.to_owned()),
    }
}

/// Refuses sources of unsupported kinds before anything is written.
fn check_source(source: &str) -> Result<(), FetchError> {
    if is_url(source) {
        return Ok(());
    }
    if let Some((scheme, _)) = source.split_once("://") {
        let hint = match scheme {
            "s3" => "it has the form s3://BUCKET/KEY",
            "gs" => "copy it with `gcloud storage cp`, or give the https:// address of the object",
            "file" => "give the path alone",
            _ => "give an http:// or https:// address, or a path",
        };
        return Err(FetchError::Scheme {
            url: source.to_owned(),
            hint,
        });
    }
    let path = Path::new(source);
    let failed = |source| FetchError::Read {
        path: path.to_owned(),
        source,
    };
    let found = fs::metadata(path).map_err(failed)?;
    if found.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    Ok(())
}

/// Fetches a file; see the module.
pub fn fetch(
    request: &FetchRequest<'_>,
    patience: FetchPatience,
    progress: &dyn Fn(Arrived),
) -> Result<Fetched, FetchError> {
    check_source(request.source)?;
    if let Some(fetched) = already_there(request, patience)? {
        return Ok(fetched);
    }
    if let Some(parent) = request
        .target
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        fs::create_dir_all(parent).map_err(FetchError::write(parent))?;
    }
    let mut partial = Partial::open(request.target, request.source)?;
    let resumed_from = if is_url(request.source) {
        let downloaded = http::download(
            request.source,
            request.largest,
            &mut partial,
            request.checksum.is_some(),
            patience,
            progress,
        );
        match downloaded {
            Ok(resumed_from) => resumed_from,
            Err(error) => {
                // No bytes have arrived from which another run could continue.
                if partial.length() == 0 {
                    partial.discard()?;
                }
                return Err(error);
            }
        }
    } else {
        partial.copy_from(Path::new(request.source), progress)?;
        0
    };
    partial.sync()?;
    if let Some(want) = request.checksum {
        let got = want
            .of_same_kind(partial.path())
            .map_err(FetchError::read(partial.path()))?;
        if got != want {
            partial.discard()?;
            return Err(FetchError::Checksum {
                path: request.target.to_owned(),
                got,
                want,
            });
        }
    }
    partial.publish(request.target)?;
    describe(request.target, false, resumed_from)
}

/// A file of the right name counts as fetched if nothing contradicts it.
fn already_there(
    request: &FetchRequest<'_>,
    patience: FetchPatience,
) -> Result<Option<Fetched>, FetchError> {
    let path = request.target;
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FetchError::read(path)(error)),
        Ok(_) if request.force => return Ok(None),
        Ok(_) if request.checksum.is_none() && !same_as_source(request, patience)? => {
            return Err(FetchError::Differs {
                path: path.to_owned(),
                source_name: request.source.to_owned(),
            });
        }
        Ok(_) => {}
    }
    if let Some(want) = request.checksum {
        let got = want.of_same_kind(path).map_err(FetchError::read(path))?;
        if got != want {
            return Err(FetchError::Exists {
                path: path.to_owned(),
                got,
                want,
            });
        }
    }
    describe(path, true, 0).map(Some)
}

/// Whether a file may be a copy of the source: a path is compared byte for byte, an address by the size that its server
/// reports, if it can be reached.
fn same_as_source(request: &FetchRequest<'_>, patience: FetchPatience) -> Result<bool, FetchError> {
    let length = |path: &Path| {
        let found = fs::metadata(path).map_err(FetchError::read(path));
        found.map(|found| found.len())
    };
    let own = length(request.target)?;
    if is_url(request.source) {
        return Ok(http::size(request.source, patience).is_none_or(|size| size == own));
    }
    let source = Path::new(request.source);
    let sum = |path: &Path| sha256(path).map_err(FetchError::read(path));
    Ok(length(source)? == own && sum(source)? == sum(request.target)?)
}

fn describe(path: &Path, unchanged: bool, resumed_from: u64) -> Result<Fetched, FetchError> {
    let bytes = fs::metadata(path).map_err(FetchError::read(path))?.len();
    let checksum = sha256(path).map_err(FetchError::read(path))?;
    Ok(Fetched {
        bytes,
        checksum,
        unchanged,
        resumed_from,
    })
}

#[cfg(test)]
mod tests;
