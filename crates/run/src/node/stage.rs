//! Copies a folder from the volume to local disk: verified, resumable, with progress.
//!
//! A trainer reads its shard again in every pass; a shared file system would be read N times per pass.
//! Each file is copied to a temporary name, read back and compared by checksum, then renamed. A
//! file whose size and time of change are those of the source is complete from an earlier attempt
//! and is not copied again; half a file from an earlier attempt is continued.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Why a folder is not on local disk.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The source cannot be read.
    #[error("read {path} on the volume")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The copy cannot be written.
    #[error("write {path}{}", hint(.source))]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The copy is not what was read.
    #[error(
        "{path} differs from what was read from the volume; the local disk or the memory of this machine is faulty"
    )]
    Differs {
        /// The copy.
        path: PathBuf,
    },
    /// The source changed while it was copied.
    #[error("{path} on the volume changed while it was copied; is the data job still running?")]
    Changed {
        /// The source.
        path: PathBuf,
    },
}

fn hint(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::StorageFull {
        "; the local disk is full: raise `resources.disk` in job.yaml"
    } else {
        ""
    }
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CopyProgress {
    /// Bytes that are there, those of earlier attempts included.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Copies the files below `from` to `to`. Links are followed.
pub(crate) fn copy_folder(
    from: &Path,
    to: &Path,
    tell: &mut dyn FnMut(CopyProgress),
) -> Result<(), StageError> {
    let mut files = Vec::new();
    list(from, Path::new(""), &mut files)?;
    let total = files.iter().map(|file| file.size).sum();
    let mut done = 0;
    fs::create_dir_all(to).map_err(|source| StageError::Write {
        path: to.to_owned(),
        source,
    })?;
    for file in &files {
        let (source, copy) = (from.join(&file.path), to.join(&file.path));
        if let Some(folder) = copy.parent() {
            fs::create_dir_all(folder).map_err(|source| StageError::Write {
                path: folder.to_owned(),
                source,
            })?;
        }
        if !is_complete(&copy, file) {
            copy_file(&source, &copy, file, &mut |copied| {
                tell(CopyProgress {
                    done: done + copied,
                    total,
                })
            })?;
        }
        done += file.size;
        tell(CopyProgress { done, total });
    }
    Ok(())
}

struct Entry {
    path: PathBuf,
    size: u64,
    modified: std::time::SystemTime,
}

fn list(root: &Path, below: &Path, files: &mut Vec<Entry>) -> Result<(), StageError> {
    let folder = if below.as_os_str().is_empty() {
        root.to_owned()
    } else {
        root.join(below)
    };
    let failed = |path: &Path, source| StageError::Read {
        path: path.to_owned(),
        source,
    };
    let mut entries = fs::read_dir(&folder)
        .and_then(Iterator::collect::<io::Result<Vec<_>>>)
        .map_err(|error| failed(&folder, error))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        // Kubernetes keeps the versions of a mounted ConfigMap in hidden folders.
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let metadata = fs::metadata(&path).map_err(|error| failed(&path, error))?;
        let below = below.join(entry.file_name());
        if metadata.is_dir() {
            list(root, &below, files)?;
        } else if metadata.is_file() {
            let modified = metadata.modified().map_err(|error| failed(&path, error))?;
            files.push(Entry {
                path: below,
                size: metadata.len(),
                modified,
            });
        }
    }
    Ok(())
}

fn is_complete(copy: &Path, file: &Entry) -> bool {
    fs::metadata(copy)
        .is_ok_and(|meta| meta.len() == file.size && meta.modified().ok() == Some(file.modified))
}

fn copy_file(
    source: &Path,
    copy: &Path,
    file: &Entry,
    tell: &mut dyn FnMut(u64),
) -> Result<(), StageError> {
    let read = |error| StageError::Read {
        path: source.to_owned(),
        source: error,
    };
    let part = copy.with_added_extension("part");
    let write = |error| StageError::Write {
        path: part.clone(),
        source: error,
    };
    let mut input = File::open(source).map_err(read)?;
    let mut output = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&part)
        .map_err(write)?;
    let already = output.metadata().map_err(write)?.len().min(file.size);
    output.set_len(already).map_err(write)?;
    let mut sum = Checksum::default();
    let mut copied = 0;
    let mut buffer = vec![0; 1 << 20];
    output.seek(SeekFrom::Start(already)).map_err(write)?;
    loop {
        let count = input.read(&mut buffer).map_err(read)?;
        if count == 0 {
            break;
        }
        sum.update(&buffer[..count]);
        let start = already.saturating_sub(copied).min(count as u64);
        output
            .write_all(&buffer[usize::try_from(start).unwrap_or(count)..count])
            .map_err(write)?;
        copied += count as u64;
        tell(copied.min(file.size));
    }
    if copied != file.size {
        return Err(StageError::Changed {
            path: source.to_owned(),
        });
    }
    output.sync_all().map_err(write)?;
    if checksum(&mut output).map_err(write)? != sum.value() {
        // The first half may be of another version of the file: the next attempt copies it from the beginning.
        drop(fs::remove_file(&part));
        return Err(StageError::Differs { path: part });
    }
    output
        .set_times(FileTimes::new().set_modified(file.modified))
        .map_err(write)?;
    fs::rename(&part, copy).map_err(write)
}

/// CRC-32 and length of the bytes so far.
#[derive(Default)]
struct Checksum {
    crc: crc32fast::Hasher,
    bytes: u64,
}

impl Checksum {
    fn update(&mut self, bytes: &[u8]) {
        self.crc.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    fn value(self) -> ContentSum {
        ContentSum {
            crc: self.crc.finalize(),
            bytes: self.bytes,
        }
    }
}

/// A checksum and a length, by which the contents of two files are compared.
#[derive(PartialEq)]
struct ContentSum {
    crc: u32,
    bytes: u64,
}

fn checksum(file: &mut File) -> io::Result<ContentSum> {
    file.rewind()?;
    let mut sum = Checksum::default();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(sum.value()),
            count => sum.update(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, content: &[u8]) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    #[test]
    fn a_folder_arrives_and_is_not_copied_twice() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        write(&from, "train.txt", &vec![7; 3_000_000]);
        write(&from, "lists/train.list", b"data/train.txt");
        write(&from, "..2026/hidden", b"x");
        let mut last = None;
        copy_folder(&from, &to, &mut |progress| last = Some(progress)).unwrap();
        assert_eq!(
            last,
            Some(CopyProgress {
                done: 3_000_014,
                total: 3_000_014
            })
        );
        assert_eq!(fs::read(to.join("train.txt")).unwrap(), vec![7; 3_000_000]);
        assert!(!to.join("..2026").exists());
        // A copy of the right size and time is taken as it is: change it behind our back and it stays.
        let time = fs::metadata(to.join("lists/train.list"))
            .unwrap()
            .modified()
            .unwrap();
        fs::write(to.join("lists/train.list"), b"DATA/train.txt").unwrap();
        File::options()
            .write(true)
            .open(to.join("lists/train.list"))
            .unwrap()
            .set_modified(time)
            .unwrap();
        copy_folder(&from, &to, &mut |_| {}).unwrap();
        assert_eq!(
            fs::read(to.join("lists/train.list")).unwrap(),
            b"DATA/train.txt"
        );
    }

    #[test]
    fn half_a_file_is_continued_and_a_wrong_half_is_found_out() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        let content: Vec<u8> = (0..2_500_000u32).map(|index| index as u8).collect();
        write(&from, "a", &content);
        write(&to, "a.part", &content[..1_700_000]);
        copy_folder(&from, &to, &mut |_| {}).unwrap();
        assert_eq!(fs::read(to.join("a")).unwrap(), content);

        fs::remove_file(to.join("a")).unwrap();
        write(&to, "a.part", b"something else");
        let error = copy_folder(&from, &to, &mut |_| {}).unwrap_err();
        assert!(matches!(error, StageError::Differs { .. }), "{error}");
        copy_folder(&from, &to, &mut |_| {}).unwrap();
        assert_eq!(fs::read(to.join("a")).unwrap(), content);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let error = copy_folder(Path::new("/nowhere"), Path::new("/tmp"), &mut |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "read /nowhere on the volume");
        let full = StageError::Write {
            path: "/scratch/x".into(),
            source: io::ErrorKind::StorageFull.into(),
        };
        assert!(full.to_string().contains("resources.disk"));
    }
}
