//! The list of data files: one per line, as v1 reads it.

use std::path::{Path, PathBuf};

use config::DataConfig;

use super::error::DataError;

/// The files of a data source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileList {
    /// Path of the list itself; absent if the configuration or the user names the files one by one.
    pub path: Option<PathBuf>,
    /// Its lines: names of data files, unchanged.
    pub files: Vec<String>,
}

impl FileList {
    /// The files of a data source: those that the configuration names, or those of its list, which is relative to
    /// `directory`.
    pub(super) fn of(directory: &Path, config: &DataConfig) -> Result<Self, DataError> {
        let Some(files) = config.own_files() else {
            return Self::read(directory, config.files());
        };
        if files.is_empty() {
            let path = PathBuf::from("in the configuration");
            return Err(DataError::EmptyList { path });
        }
        Ok(Self { path: None, files })
    }

    /// Reads the list `name`, which is relative to `directory`.
    fn read(directory: &Path, name: &str) -> Result<Self, DataError> {
        if name.is_empty() {
            return Err(DataError::NoList);
        }
        let path = directory.join(name);
        let bytes = std::fs::read(&path).map_err(|source| DataError::List {
            path: path.clone(),
            source,
        })?;
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let mut files: Vec<String> = lines.map(str::to_owned).collect();
        if files.is_empty() {
            // v1's benchmarks write a space, for providers that make their data themselves.
            let blank = text.lines().filter(|line| !line.is_empty());
            files.extend(blank.map(str::to_owned));
        }
        if files.is_empty() {
            return Err(DataError::EmptyList { path });
        }
        Ok(Self {
            path: Some(path),
            files,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lines_and_skips_blank_ones() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(
            directory.path().join("train.list"),
            "data/a.txt\r\n\n  data/b.txt \n",
        )
        .unwrap();
        let list = FileList::read(directory.path(), "train.list").unwrap();
        assert_eq!(list.files, ["data/a.txt", "data/b.txt"]);
    }

    #[test]
    fn a_space_is_a_name_if_there_is_no_other() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("train.list"), " \n").unwrap();
        let list = FileList::read(directory.path(), "train.list").unwrap();
        assert_eq!(list.files, [" "]);
    }

    #[test]
    fn missing_and_empty_lists_say_so() {
        let directory = tempfile::tempdir().unwrap();
        let missing = FileList::read(directory.path(), "no.list").unwrap_err();
        assert!(missing.to_string().ends_with("no.list"), "{missing}");
        assert!(matches!(missing, DataError::List { .. }));
        std::fs::write(directory.path().join("empty.list"), "\n\n").unwrap();
        let empty = FileList::read(directory.path(), "empty.list").unwrap_err();
        assert!(
            empty
                .to_string()
                .ends_with("empty.list is empty; write one data file per line")
        );
        assert!(matches!(
            FileList::read(directory.path(), ""),
            Err(DataError::NoList)
        ));
    }
}
