//! Decides which files are split and which ones every shard gets as a whole.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::SplitError;
use super::manifest::MANIFEST;

/// The list of training files in a data directory.
pub(super) const TRAIN_LIST: &str = "train.list";

/// A file and its path inside every shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Path of the source file.
    pub path: PathBuf,
    /// Relative path in the shard, with `/`.
    pub name: String,
    /// What the list calls a file that is split.
    pub listed: String,
}

/// Everything that goes into shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources {
    /// The directory next to which or in which shards are created.
    pub root: PathBuf,
    /// The job directory, if this is one.
    pub job: Option<PathBuf>,
    /// Files to cut.
    pub split: Vec<SourceFile>,
    /// Files that every shard gets as a whole.
    pub shared: Vec<SourceFile>,
}

impl Sources {
    /// One file, whose shards are created in `out` or next to it.
    pub fn file(path: &Path, out: Option<&Path>) -> Result<Self, SplitError> {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        fs::metadata(path).map_err(SplitError::read(path))?;
        let beside = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let split = vec![SourceFile {
            path: path.to_owned(),
            listed: name.clone(),
            name,
        }];
        Ok(Self {
            root: out.unwrap_or(beside).to_owned(),
            job: None,
            split,
            shared: Vec::new(),
        })
    }

    /// The flat `data/` of a job directory (or a data directory itself): the files that `train.list` names are cut, all
    /// others are shared. Shards go into the same directory, or to `out`.
    pub fn job(directory: &Path, out: Option<&Path>) -> Result<Self, SplitError> {
        let nested = directory.join("data");
        let data = if nested.join(TRAIN_LIST).is_file() {
            nested
        } else {
            directory.to_owned()
        };
        let job = if data == directory {
            data.parent().unwrap_or(&data).to_owned()
        } else {
            directory.to_owned()
        };
        let list = data.join(TRAIN_LIST);
        let text = match fs::read_to_string(&list) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && directory.is_dir() => {
                return Err(SplitError::NoTrainList {
                    directory: directory.to_owned(),
                });
            }
            Err(error) => return Err(SplitError::read(&list)(error)),
        };
        let mut split: Vec<SourceFile> = Vec::new();
        for (index, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
        {
            let source = listed_file(&job, &data, &list, index + 1, line.trim())?;
            if !split.iter().any(|known| known.name == source.name) {
                split.push(source);
            }
        }
        if split.is_empty() {
            return Err(SplitError::EmptyList { list });
        }
        let mut shared = Vec::new();
        collect_shared(&data, "", &split, &mut shared)?;
        let root = out.map_or_else(|| data.clone(), Path::to_owned);
        let job = if out.is_some() { root.clone() } else { job };
        Ok(Self {
            root,
            job: Some(job),
            split,
            shared,
        })
    }

    /// Bytes to cut, for progress.
    pub fn split_bytes(&self) -> u64 {
        self.split
            .iter()
            .filter_map(|source| fs::metadata(&source.path).ok())
            .map(|metadata| metadata.len())
            .sum()
    }
}

/// Finds the file that a line of the list names: relative to the job directory, or to the data directory.
fn listed_file(
    job: &Path,
    data: &Path,
    list: &Path,
    line: usize,
    name: &str,
) -> Result<SourceFile, SplitError> {
    let found = [job.join(name), data.join(name)]
        .into_iter()
        .find(|path| path.is_file());
    let Some(path) = found else {
        return Err(SplitError::ListedFileMissing {
            list: list.to_owned(),
            line,
            name: name.to_owned(),
            directory: job.to_owned(),
        });
    };
    let inside = plain(&path)
        .strip_prefix(plain(data))
        .ok()
        .map(|inside| inside.to_string_lossy().into_owned());
    match inside {
        Some(inside) if !inside.contains("..") => Ok(SourceFile {
            path,
            name: inside,
            listed: name.to_owned(),
        }),
        _ => Err(SplitError::ListedFileOutside {
            list: list.to_owned(),
            line,
            name: name.to_owned(),
            directory: data.to_owned(),
        }),
    }
}

/// The path without `.` components.
fn plain(path: &Path) -> PathBuf {
    path.components()
        .filter(|component| *component != Component::CurDir)
        .collect()
}

/// All files below `directory` that are neither split, nor shards, nor written by canoe, nor hidden, in the order of
/// their names.
fn collect_shared(
    directory: &Path,
    prefix: &str,
    split: &[SourceFile],
    shared: &mut Vec<SourceFile>,
) -> Result<(), SplitError> {
    let mut entries: Vec<_> = fs::read_dir(directory)
        .and_then(|entries| entries.collect::<io::Result<_>>())
        .map_err(SplitError::read(directory))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let file_name = entry.file_name().to_string_lossy().into_owned();
        let name = format!("{prefix}{file_name}");
        let path = entry.path();
        let is_shard = prefix.is_empty() && file_name.bytes().all(|byte| byte.is_ascii_digit());
        if file_name.starts_with('.')
            || name == MANIFEST
            || split.iter().any(|source| source.name == name)
        {
            continue;
        }
        if !path.is_dir() {
            let listed = name.clone();
            shared.push(SourceFile { path, name, listed });
        } else if !is_shard {
            collect_shared(&path, &format!("{name}/"), split, shared)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job_with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let job = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = job.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        job
    }

    fn names(sources: &[SourceFile]) -> Vec<&str> {
        sources.iter().map(|source| source.name.as_str()).collect()
    }

    #[test]
    fn listed_files_are_split_and_the_rest_is_shared() {
        let job = job_with(&[
            (
                "data/train.list",
                "./data/a.txt\n\nparts/b.txt\ndata/a.txt\n",
            ),
            ("data/a.txt", "1\n"),
            ("data/parts/b.txt", "1\n"),
            ("data/parts/notes", "n"),
            ("data/dict.txt", "d"),
            ("data/0/a.txt", "old shard"),
            ("data/split.json", "{}"),
            ("data/.hidden", ""),
            ("quick_start/config.py", ""),
        ]);
        for start in [job.path().to_owned(), job.path().join("data")] {
            let sources = Sources::job(&start, None).unwrap();
            assert_eq!(names(&sources.split), ["a.txt", "parts/b.txt"]);
            assert_eq!(
                names(&sources.shared),
                ["dict.txt", "parts/notes", "train.list"]
            );
            assert_eq!(sources.root, job.path().join("data"));
            assert_eq!(sources.job.as_deref(), Some(job.path()));
        }
    }

    #[test]
    fn what_cannot_be_split_is_named() {
        let empty = job_with(&[("data/other", "")]);
        assert!(matches!(
            Sources::job(empty.path(), None),
            Err(SplitError::NoTrainList { .. })
        ));
        let missing = job_with(&[("data/train.list", "data/a.txt\n")]);
        let error = Sources::job(missing.path(), None).unwrap_err();
        assert!(
            matches!(&error, SplitError::ListedFileMissing { line: 1, name, .. } if name == "data/a.txt"),
            "{error}"
        );
        let outside = job_with(&[("data/train.list", "a.txt\n"), ("a.txt", "1\n")]);
        assert!(matches!(
            Sources::job(outside.path(), None),
            Err(SplitError::ListedFileOutside { .. })
        ));
        let blank = job_with(&[("data/train.list", "\n")]);
        assert!(matches!(
            Sources::job(blank.path(), None),
            Err(SplitError::EmptyList { .. })
        ));
    }
}
