//! The part of a file that has arrived, and the note beside it that names its source and version.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Arrived, FetchError};

/// The source of the part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Origin {
    source: String,
    /// The server's name for this version of the file: an entity tag or a date.
    validator: Option<String>,
}

/// `<target>.part` and what is known about it.
pub(crate) struct Partial {
    path: PathBuf,
    origin_path: PathBuf,
    origin: Origin,
    file: File,
    length: u64,
}

impl Partial {
    /// Continues the part that an earlier run left of the same source, or starts empty.
    pub(crate) fn open(target: &Path, source: &str) -> Result<Self, FetchError> {
        let (path, origin_path) = (
            with_suffix(target, ".part"),
            with_suffix(target, ".part.json"),
        );
        let left: Option<Origin> = fs::read(&origin_path)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(FetchError::write(&path))?;
        let length = file.metadata().map_err(FetchError::read(&path))?.len();
        let mut partial = Self {
            path,
            origin_path,
            origin: Origin::default(),
            file,
            length,
        };
        match left {
            Some(origin) if origin.source == source => partial.origin = origin,
            _ => {
                partial.origin.source = source.to_owned();
                partial.restart(None)?;
            }
        }
        Ok(partial)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that have arrived.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The server's name for the version that the bytes belong to.
    pub(crate) fn validator(&self) -> Option<&str> {
        self.origin.validator.as_deref()
    }

    /// Deletes the bytes and begins a version called `validator`.
    pub(crate) fn restart(&mut self, validator: Option<String>) -> Result<(), FetchError> {
        self.file
            .set_len(0)
            .map_err(FetchError::write(&self.path))?;
        self.length = 0;
        self.origin.validator = validator;
        let text = serde_json::to_vec(&self.origin).expect("an origin has only plain values");
        fs::write(&self.origin_path, text).map_err(FetchError::write(&self.origin_path))
    }

    /// Adds bytes at the end.
    pub(crate) fn append(&mut self, piece: &[u8]) -> Result<(), FetchError> {
        let write = |file: &mut File| -> io::Result<()> {
            file.seek(SeekFrom::Start(self.length))?;
            file.write_all(piece)
        };
        write(&mut self.file).map_err(FetchError::write(&self.path))?;
        self.length += piece.len() as u64;
        Ok(())
    }

    /// Copies a local file.
    pub(crate) fn copy_from(
        &mut self,
        source: &Path,
        progress: &dyn Fn(Arrived),
    ) -> Result<(), FetchError> {
        let mut input = File::open(source).map_err(FetchError::read(source))?;
        let total = input.metadata().map_err(FetchError::read(source))?.len();
        self.restart(None)?;
        let mut piece = vec![0; 1 << 20];
        loop {
            match input.read(&mut piece).map_err(FetchError::read(source))? {
                0 => return Ok(()),
                read => self.append(&piece[..read])?,
            }
            progress(Arrived {
                bytes: self.length,
                total: Some(total),
            });
        }
    }

    pub(crate) fn sync(&self) -> Result<(), FetchError> {
        self.file.sync_all().map_err(FetchError::write(&self.path))
    }

    /// Renames the complete file to its name.
    pub(crate) fn publish(self, target: &Path) -> Result<(), FetchError> {
        fs::rename(&self.path, target).map_err(FetchError::write(target))?;
        self.forget_origin()
    }

    /// Deletes the bytes: the content is wrong.
    pub(crate) fn discard(self) -> Result<(), FetchError> {
        fs::remove_file(&self.path).map_err(FetchError::write(&self.path))?;
        self.forget_origin()
    }

    fn forget_origin(&self) -> Result<(), FetchError> {
        fs::remove_file(&self.origin_path).map_err(FetchError::write(&self.origin_path))
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
