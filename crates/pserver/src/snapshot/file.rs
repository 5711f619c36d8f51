//! Files of snapshots: written under a temporary name, flushed and renamed; read with every byte checked.

use super::format::{FormatError, PartWriter, SnapshotHeader, SnapshotPartReader};
use super::manifest::PartKind;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::Step;

/// Why a snapshot could not be written or read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum StoreError {
    /// A file or directory cannot be created, read, written, flushed, renamed or listed; the source says why.
    #[error("{action} {path}")]
    Disk {
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file is damaged or of another format.
    #[error("snapshot file {path} cannot be used")]
    Format {
        path: PathBuf,
        #[source]
        source: FormatError,
    },
    /// A file is not the one that belongs there: of another step, server or run, or written at another time.
    #[error("snapshot file {path} is not the one that belongs there: {reason}")]
    Unfit { path: PathBuf, reason: String },
    /// The snapshot is of another run: of an earlier one in the same folder, as a rule.
    #[error("the snapshot of {path} is of another run: run '{run}' wrote it")]
    OtherRun {
        /// The manifest.
        path: PathBuf,
        /// The name of that run.
        run: String,
    },
    /// The snapshot is of another model.
    #[error("the snapshot of {path} is of another model: {reason}")]
    Foreign {
        /// The manifest.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// There is no such snapshot.
    #[error("no complete snapshot of step {step} in {path}")]
    Absent { step: Step, path: PathBuf },
}

impl StoreError {
    /// The file or directory.
    pub fn path(&self) -> &Path {
        match self {
            Self::Disk { path, .. }
            | Self::Format { path, .. }
            | Self::Unfit { path, .. }
            | Self::OtherRun { path, .. }
            | Self::Foreign { path, .. }
            | Self::Absent { path, .. } => path,
        }
    }
}

/// A part that is being read.
pub(crate) type OpenPart = SnapshotPartReader<BufReader<File>>;

/// Receives the sections of a part.
pub(crate) type Take<'a> = dyn FnMut(PartKind, &mut OpenPart) -> Result<(), FormatError> + 'a;

/// Makes a file or a directory durable. The system's fsync, unless a test puts a slow or a failing disk in its place.
#[derive(Clone)]
pub struct Flush(pub(super) Arc<Fsync>, pub(super) Arc<MayWrite>);

pub(super) type Fsync = dyn Fn(&File) -> io::Result<()> + Send + Sync;
pub(super) type MayWrite = dyn Fn() -> io::Result<()> + Send + Sync;

impl Flush {
    /// Calls `flush` instead of fsync.
    pub fn new(flush: impl Fn(&File) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(flush), Arc::new(|| Ok(())))
    }

    /// The system's fsync, and nothing is written, and no file appears, after `may_write` has failed.
    pub fn guarded(may_write: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Self {
        let may_write = Arc::new(may_write);
        let before = may_write.clone();
        let flush = move |file: &File| {
            before()?;
            file.sync_all()
        };
        Self(Arc::new(flush), may_write)
    }
}

impl Default for Flush {
    fn default() -> Self {
        Self::new(File::sync_all)
    }
}

impl std::fmt::Debug for Flush {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Flush")
    }
}

/// What identifies a part that was written.
pub(crate) struct WrittenPart {
    pub(crate) bytes: u64,
    pub(crate) fingerprint: u32,
}

/// Writes a part under a temporary name and renames it; on failure nothing is left.
pub(crate) fn write_file(
    path: &Path,
    flush: &Flush,
    header: &SnapshotHeader,
    fill: impl FnOnce(&mut PartWriter<BufWriter<File>>) -> io::Result<()>,
) -> Result<WrittenPart, StoreError> {
    let mut fingerprint = 0;
    let write = |file: &mut File| {
        let copy = file.try_clone()?;
        let mut writer = PartWriter::new(BufWriter::with_capacity(1 << 20, copy), header)?;
        fill(&mut writer)?;
        let (buffer, written) = writer.finish()?;
        buffer
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        fingerprint = written;
        Ok(())
    };
    replace(path, flush, write).map_err(disk("write", path))?;
    let bytes = fs::metadata(path).map_err(disk("look at", path))?.len();
    Ok(WrittenPart { bytes, fingerprint })
}

/// Opens a part and reads its header.
pub(crate) fn open_file(path: &Path) -> Result<OpenPart, StoreError> {
    let file = File::open(path).map_err(disk("open", path))?;
    let length = file.metadata().map_err(disk("look at", path))?.len();
    SnapshotPartReader::new(BufReader::with_capacity(1 << 20, file), length).map_err(format(path))
}

/// Reads a part to its end.
pub(crate) fn read_file(
    path: &Path,
    take: &mut dyn FnMut(&mut OpenPart) -> Result<(), FormatError>,
) -> Result<(), StoreError> {
    take(&mut open_file(path)?).map_err(format(path))
}

pub(super) fn replace(
    path: &Path,
    flush: &Flush,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let attempt = || {
        let mut file = File::create(&temporary)?;
        write(&mut file)?;
        (flush.0)(&file)?;
        fs::rename(&temporary, path)
    };
    attempt().inspect_err(|_| {
        // The first error is the cause; later ones follow from it.
        let _ = fs::remove_file(&temporary);
    })
}

pub(super) fn disk(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Disk {
        action,
        path,
        source,
    }
}

pub(super) fn format(path: &Path) -> impl FnOnce(FormatError) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Format { path, source }
}
