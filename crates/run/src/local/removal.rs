//! Deletes folders on volumes where files in them may still be open elsewhere.
//!
//! On NFS a file that a process has open outlives its deletion (`.nfs…`) and keeps its folder. Such a folder is
//! renamed to a hidden name, and the next deletion next to it tries again.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Removes a folder; one that does not exist is no error.
pub(super) fn remove_folder(path: &Path) -> io::Result<()> {
    for left in left_overs(path) {
        // A process may still have it open.
        let _ = fs::remove_dir_all(left);
    }
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DirectoryNotEmpty | ErrorKind::ResourceBusy
            ) =>
        {
            fs::rename(path, free_name(path))
        }
        done => done,
    }
}

fn prefix(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!(".{name}.gone")
}

fn left_overs(path: &Path) -> Vec<PathBuf> {
    let prefix = prefix(path);
    let entries = path.parent().map(fs::read_dir).into_iter().flatten();
    let names = entries.flatten().flatten();
    names
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect()
}

fn free_name(path: &Path) -> PathBuf {
    let name = |number: u32| path.with_file_name(format!("{}{number}", prefix(path)));
    (0..)
        .map(name)
        .find(|name| !name.exists())
        .unwrap_or_else(|| name(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_what_was_left_of_it_before() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("snapshots");
        for name in ["snapshots/step", ".snapshots.gone0", ".snapshots.gone7"] {
            fs::create_dir_all(root.path().join(name)).unwrap();
        }
        fs::create_dir_all(root.path().join(".other.gone0")).unwrap();
        assert_eq!(free_name(&folder), root.path().join(".snapshots.gone1"));
        remove_folder(&folder).unwrap();
        let names: Vec<_> = fs::read_dir(root.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, [".other.gone0"]);
        remove_folder(&folder).unwrap();
    }
}
