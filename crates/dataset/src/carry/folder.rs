//! Receives files into a folder: each is written to `NAME.part` first, which a second attempt continues.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{CarryError, Item, Place};
use crate::checksum;

/// What to do with an existing file that has other contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It is replaced.
    Replace,
    /// It is replaced, unless it belongs to a model (a pass directory): then nothing is received.
    KeepModels,
}

impl Existing {
    /// Whether an existing file with other contents must stay.
    pub(super) fn keeps(self, item: &Item) -> bool {
        self == Self::KeepModels && item.name.starts_with("pass-")
    }
}

/// A folder that receives files.
pub(super) struct VolumeFolder<'a> {
    folder: &'a Path,
    existing: Existing,
}

impl<'a> VolumeFolder<'a> {
    pub(super) fn new(folder: &'a Path, existing: Existing) -> Self {
        Self { folder, existing }
    }
}

impl Place for VolumeFolder<'_> {
    /// For each file, all its bytes if it is complete with the right contents, otherwise the bytes of an earlier attempt.
    fn bytes_there(&self, items: &[Item]) -> Result<Vec<u64>, CarryError> {
        let there = items.iter().map(|item| {
            let path = self.folder.join(&item.name);
            if is_complete(&path, item)? {
                return Ok(item.size);
            }
            if self.existing.keeps(item) && path.exists() {
                return Err(CarryError::Other { path });
            }
            Ok(length(&part(&path)).min(item.size))
        });
        there.collect()
    }

    fn take(
        &mut self,
        item: &Item,
        there: u64,
        input: &mut dyn BufRead,
        tell: &dyn Fn(u64),
    ) -> Result<(), CarryError> {
        let path = self.folder.join(&item.name);
        if there < item.size || !path.exists() {
            receive_file(&path, item, there, input, tell)?;
        }
        Ok(())
    }

    fn complete(&mut self) -> Result<(), CarryError> {
        Ok(())
    }
}

fn part(path: &Path) -> PathBuf {
    path.with_added_extension("part")
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

/// Whether a file exists with the right contents.
fn is_complete(path: &Path, item: &Item) -> Result<bool, CarryError> {
    if !path.is_file() || length(path) != item.size {
        return Ok(false);
    }
    let sum = checksum::sha256(path).map_err(|source| CarryError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(sum.to_string() == item.sum)
}

fn receive_file(
    path: &Path,
    item: &Item,
    there: u64,
    input: &mut dyn BufRead,
    tell: &dyn Fn(u64),
) -> Result<(), CarryError> {
    let part = part(path);
    let failed = |source| CarryError::Write {
        path: part.clone(),
        source,
    };
    if let Some(parent) = path.parent() {
        if let Some(file) = parent.ancestors().find(|it| it.is_file()) {
            return Err(CarryError::InTheWay {
                path: file.to_owned(),
            });
        }
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&part)
        .map_err(failed)?;
    file.set_len(there).map_err(failed)?;
    file.seek(SeekFrom::End(0)).map_err(failed)?;
    let mut buffer = vec![0; 1 << 16];
    let mut left = item.size - there;
    while left > 0 {
        let most = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = input
            .read(&mut buffer[..most])
            .map_err(CarryError::Broken)?;
        if count == 0 {
            return Err(CarryError::Broken(io::ErrorKind::UnexpectedEof.into()));
        }
        file.write_all(&buffer[..count]).map_err(failed)?;
        left -= count as u64;
        tell(item.size - left);
    }
    file.sync_all().map_err(failed)?;
    if checksum::sha256(&part).map_err(failed)?.to_string() != item.sum {
        // A wrong part must not be continued.
        drop(fs::remove_file(&part));
        return Err(CarryError::Differs {
            path: path.to_owned(),
        });
    }
    fs::rename(&part, path).map_err(failed)
}
