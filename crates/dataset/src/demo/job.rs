//! Publishes a job directory: a folder with the configuration and a folder with the data.
//!
//! Everything is prepared under a temporary name inside the target and renamed at the end, so an interrupted
//! command leaves nothing that looks complete.

use std::fs;
use std::path::{Path, PathBuf};

use super::DemoError;

/// A job directory being prepared.
pub(crate) struct Staging {
    directory: PathBuf,
    stage: tempfile::TempDir,
    force: bool,
}

impl Staging {
    /// Starts preparing `directory`, which may exist; its entries are only replaced with `force`.
    pub(crate) fn new(directory: &Path, force: bool) -> Result<Self, DemoError> {
        fs::create_dir_all(directory).map_err(|source| DemoError::write(directory, source))?;
        let stage = tempfile::Builder::new()
            .prefix(".demo-")
            .tempdir_in(directory)
            .map_err(|source| DemoError::write(directory, source))?;
        Ok(Self {
            directory: directory.to_owned(),
            stage,
            force,
        })
    }

    /// Fails early if an entry with one of these names exists.
    pub(crate) fn check_free(&self, names: &[&str]) -> Result<(), DemoError> {
        for name in names {
            let path = self.directory.join(name);
            if !self.force && path.symlink_metadata().is_ok() {
                return Err(DemoError::Exists { path });
            }
        }
        Ok(())
    }

    /// A new folder `name` to write into.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, DemoError> {
        let path = self.stage.path().join(name);
        fs::create_dir_all(&path).map_err(|source| DemoError::write(&path, source))?;
        Ok(path)
    }

    /// Writes files with the given content into the folder `name`.
    pub(crate) fn files(&self, name: &str, files: &[(&str, &str)]) -> Result<(), DemoError> {
        let folder = self.folder(name)?;
        for (file, content) in files {
            let path = folder.join(file);
            fs::write(&path, content).map_err(|source| DemoError::write(&path, source))?;
        }
        Ok(())
    }

    /// Moves everything prepared into the job directory.
    pub(crate) fn publish(self) -> Result<(), DemoError> {
        let prepared = self.stage.path();
        let mut names: Vec<_> = fs::read_dir(prepared)
            .and_then(|entries| {
                entries
                    .map(|entry| entry.map(|entry| entry.file_name()))
                    .collect()
            })
            .map_err(|source| DemoError::read(prepared, source))?;
        names.sort_unstable();
        for name in names {
            let target = self.directory.join(&name);
            self.make_room(&target)?;
            fs::rename(prepared.join(&name), &target)
                .map_err(|source| DemoError::write(&target, source))?;
        }
        Ok(())
    }

    fn make_room(&self, target: &Path) -> Result<(), DemoError> {
        let Ok(metadata) = target.symlink_metadata() else {
            return Ok(());
        };
        if !self.force {
            return Err(DemoError::Exists {
                path: target.to_owned(),
            });
        }
        let removed = if metadata.is_dir() {
            fs::remove_dir_all(target)
        } else {
            fs::remove_file(target)
        };
        removed.map_err(|source| DemoError::write(target, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_replaced_without_force() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("data")).unwrap();
        fs::write(directory.path().join("data/mine"), "mine").unwrap();
        let staging = Staging::new(directory.path(), false).unwrap();
        assert!(matches!(
            staging.check_free(&["data"]),
            Err(DemoError::Exists { .. })
        ));
        staging.files("data", &[("train.txt", "new")]).unwrap();
        assert!(matches!(staging.publish(), Err(DemoError::Exists { .. })));
        assert!(directory.path().join("data/mine").exists());
        assert_eq!(
            fs::read_dir(directory.path()).unwrap().count(),
            1,
            "the stage is gone"
        );

        let staging = Staging::new(directory.path(), true).unwrap();
        staging.check_free(&["data"]).unwrap();
        staging.files("data", &[("train.txt", "new")]).unwrap();
        staging.publish().unwrap();
        assert!(!directory.path().join("data/mine").exists());
        assert_eq!(
            fs::read_to_string(directory.path().join("data/train.txt")).unwrap(),
            "new"
        );
    }
}
