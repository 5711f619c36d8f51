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

/// The results could not be written.
#[derive(Debug, thiserror::Error)]
#[error("write {path}")]
pub struct ScoresFileError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// What an earlier process of the job, or an earlier job, wrote. What cannot be read counts as nothing: it would only
/// have said which models are the best and which can be removed.
pub fn read(save_dir: &Path) -> Scores {
    let text = fs::read(save_dir.join(SCORES)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Makes the results durable.
pub fn write(save_dir: &Path, scores: &Scores) -> Result<(), ScoresFileError> {
    let path = save_dir.join(SCORES);
    let hidden = save_dir.join(format!(".{SCORES}.part"));
    let failed = |source| ScoresFileError {
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

/// Lets `best` point to a directory of the save directory, or removes it. What a user has put there under that name
/// stays.
pub fn link(save_dir: &Path, directory: Option<&str>) -> Result<(), ScoresFileError> {
    let path = save_dir.join(BEST);
    let failed = |source| ScoresFileError {
        path: path.clone(),
        source,
    };
    match fs::symlink_metadata(&path) {
        Ok(found) if !found.is_symlink() => return Ok(()),
        Ok(_) if fs::read_link(&path).ok().as_deref() == directory.map(Path::new) => return Ok(()),
        _ => {}
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
    fn results_outlive_the_process_and_damage_counts_as_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut scores = Scores::default();
        scores.add(0, Some(0.5), true);
        scores.add(1, Some(f64::INFINITY), false);
        write(dir.path(), &scores).unwrap();
        assert_eq!(read(dir.path()), scores);
        fs::write(dir.path().join(SCORES), "{\"measure\":").unwrap();
        assert_eq!(read(dir.path()), Scores::default());
    }

    #[test]
    fn the_link_follows_the_best_and_leaves_a_users_folder_alone() {
        let dir = tempfile::tempdir().unwrap();
        let best = dir.path().join(BEST);
        for name in ["pass-00001", "pass-00004"] {
            link(dir.path(), Some(name)).unwrap();
            assert_eq!(fs::read_link(&best).unwrap(), Path::new(name));
        }
        link(dir.path(), None).unwrap();
        link(dir.path(), None).unwrap();
        assert!(fs::symlink_metadata(&best).is_err());
        fs::create_dir(&best).unwrap();
        link(dir.path(), Some("pass-00001")).unwrap();
        assert!(best.is_dir() && !best.is_symlink());
    }
}
