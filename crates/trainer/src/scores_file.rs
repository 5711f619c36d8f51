//! `scores.json` in the save directory: the test results of all passes, and `best`, a link to the best model.
//!
//! Both are replaced by renames, so a reader sees the old one or the new one, also on NFS.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::best::Scores;

/// The file.
pub const SCORES: &str = "scores.json";

/// The link to the best model.
pub const BEST: &str = "best";

/// The results could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ScoresFileError {
    /// The disk failed.
    #[error("{action} {path}")]
    Disk {
        /// The operation that failed, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The file exists and cannot be parsed. Without it, another model would be the best, and training would end at
    /// another pass.
    #[error(
        "{path}, which has the test results of all passes, is damaged; bring it back, or delete it to choose the best model among the passes from now on"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with its text.
        #[source]
        source: serde_json::Error,
    },
}

/// Reads the results of earlier processes and runs; empty if there is no file.
pub fn read(save_dir: &Path) -> Result<Scores, ScoresFileError> {
    let path = save_dir.join(SCORES);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Scores::default()),
        Err(source) => {
            let action = "read";
            return Err(ScoresFileError::Disk {
                action,
                path,
                source,
            });
        }
        Ok(text) => text,
    };
    serde_json::from_slice(&text).map_err(|source| ScoresFileError::Damaged { path, source })
}

/// Makes the results durable.
pub fn write(save_dir: &Path, scores: &Scores) -> Result<(), ScoresFileError> {
    let path = save_dir.join(SCORES);
    let hidden = save_dir.join(format!(".{SCORES}.part"));
    let failed = |source| ScoresFileError::Disk {
        action: "write",
        path: path.clone(),
        source,
    };
    let text = serde_json::to_vec_pretty(scores).map_err(|error| failed(error.into()))?;
    fs::create_dir_all(save_dir).map_err(failed)?;
    let written = File::create(&hidden).and_then(|mut file| {
        file.write_all(&text)?;
        file.sync_all()
    });
    written.map_err(failed)?;
    fs::rename(&hidden, &path).map_err(failed)?;
    File::open(save_dir)
        .and_then(|folder| folder.sync_all())
        .map_err(failed)
}

/// Whether `best` exists and is not a link, so that it belongs to the user.
pub(crate) fn is_taken(save_dir: &Path) -> bool {
    fs::symlink_metadata(save_dir.join(BEST)).is_ok_and(|found| !found.is_symlink())
}

/// Links `best` to a directory of the save directory; `None` removes the link. A file or folder of the user with that
/// name stays.
pub fn link(save_dir: &Path, directory: Option<&str>) -> Result<(), ScoresFileError> {
    let path = save_dir.join(BEST);
    let failed = |source| ScoresFileError::Disk {
        action: "link",
        path: path.clone(),
        source,
    };
    let directory = directory.filter(|directory| save_dir.join(directory).is_dir());
    let is_right = || fs::read_link(&path).is_ok_and(|to| Some(&*to) == directory.map(Path::new));
    if is_taken(save_dir) || is_right() {
        return Ok(());
    }
    let Some(directory) = directory else {
        return match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(()),
        };
    };
    let hidden = save_dir.join(format!(".{BEST}.part"));
    if fs::symlink_metadata(&hidden).is_ok() {
        fs::remove_file(&hidden).map_err(failed)?;
    }
    symlink(directory, &hidden).map_err(failed)?;
    fs::rename(&hidden, &path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_outlive_the_process_and_damage_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let mut scores = Scores::default();
        scores.add(0, Some(0.5), true);
        scores.add(1, Some(f64::INFINITY), false);
        write(dir.path(), &scores).unwrap();
        assert_eq!(read(dir.path()).unwrap(), scores);
        for text in ["{\"measure\":", ""] {
            fs::write(dir.path().join(SCORES), text).unwrap();
            let error = read(dir.path()).unwrap_err().to_string();
            assert!(error.contains("scores.json"), "{error}");
            assert!(error.contains("bring it back"), "{error}");
        }
        fs::remove_file(dir.path().join(SCORES)).unwrap();
        assert_eq!(read(dir.path()).unwrap(), Scores::default());
    }

    #[test]
    fn the_link_follows_the_best_and_leaves_a_users_folder_alone() {
        let dir = tempfile::tempdir().unwrap();
        let best = dir.path().join(BEST);
        for name in ["pass-00001", "pass-00004"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            link(dir.path(), Some(name)).unwrap();
            assert_eq!(fs::read_link(&best).unwrap(), Path::new(name));
        }
        link(dir.path(), Some("pass-00007")).unwrap();
        assert!(
            fs::symlink_metadata(&best).is_err(),
            "no link to what is not there"
        );
        link(dir.path(), None).unwrap();
        assert!(fs::symlink_metadata(&best).is_err());
        fs::create_dir(&best).unwrap();
        link(dir.path(), Some("pass-00001")).unwrap();
        assert!(best.is_dir() && !best.is_symlink());
    }
}
