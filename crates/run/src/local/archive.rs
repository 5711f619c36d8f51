//! Moves the results of an earlier run aside before a new one starts. Nothing is deleted or overwritten.
//!
//! The folder gets the first free name `NAME-1`, `NAME-2`, … beside it. A link to the folder stays, so the results of
//! the new run go to the same disk. A folder that cannot be renamed, because a volume is mounted there or the folder
//! above may not be written, stays, and what is in it moves into a folder `NAME-1` inside.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::claim::ClaimError;
use super::run_file::RUN_FILE;

/// Moves what is in a folder aside; returns where it is now, or `None` if there was nothing.
pub fn archive(output: &Path) -> Result<Option<PathBuf>, ClaimError> {
    let failed = |source| ClaimError::File {
        action: "move aside",
        path: output.to_owned(),
        source,
    };
    let folder = match fs::canonicalize(output) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        folder => folder.map_err(failed)?,
    };
    let name = folder.file_name().unwrap_or_default().to_os_string();
    let beside = free(&folder);
    match fs::rename(&folder, &beside) {
        Ok(()) if fs::symlink_metadata(output).is_ok() => {
            fs::create_dir(&folder).map_err(failed)?;
            Ok(Some(beside))
        }
        Ok(()) => Ok(Some(beside)),
        Err(error) if stays(&error) => {
            let inside = free(&folder.join(&name));
            move_contents(&folder, &inside).map_err(failed)?;
            Ok(Some(inside))
        }
        Err(error) => Err(failed(error)),
    }
}

/// Whether this folder cannot be renamed although the files in it can.
fn stays(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(
        error.kind(),
        ResourceBusy | CrossesDevices | PermissionDenied | ReadOnlyFilesystem
    )
}

/// The first free name of `NAME-1`, `NAME-2`, …; a broken link also takes a name.
fn free(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut names = (1..).map(|number: u64| path.with_file_name(format!("{name}-{number}")));
    let is_free = |path: &PathBuf| fs::symlink_metadata(path).is_err();
    names.find(is_free).unwrap_or_else(|| path.to_owned())
}

/// Moves the contents of a folder into a new folder inside it, except folders that an earlier call made. The file that
/// names the run is moved last, so that after an interruption the rest is still recognised as results of that run.
fn move_contents(folder: &Path, inside: &Path) -> io::Result<()> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!("{name}-");
    let is_earlier = |entry: &str| {
        let number = entry.strip_prefix(&prefix);
        number.is_some_and(|number| number.parse::<u64>().is_ok())
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?.file_name();
        if !is_earlier(&entry.to_string_lossy()) {
            names.push(entry);
        }
    }
    names.sort_by_key(|name| name == RUN_FILE);
    fs::create_dir(inside)?;
    for name in names {
        fs::rename(folder.join(&name), inside.join(&name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn results(folder: &Path) {
        fs::create_dir_all(folder.join("pass-00000")).unwrap();
        fs::write(folder.join(RUN_FILE), "{}").unwrap();
    }

    #[test]
    fn what_is_moved_aside_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        assert_eq!(archive(&output).unwrap(), None);
        let root = fs::canonicalize(folder.path()).unwrap();
        for number in 1..3 {
            results(&output);
            let moved = archive(&output).unwrap().unwrap();
            assert_eq!(moved, root.join(format!("output-{number}")));
            assert!(moved.join(RUN_FILE).exists() && !output.exists());
        }
    }

    #[test]
    fn a_name_that_a_file_or_a_link_to_nowhere_has_is_not_free() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        results(&output);
        fs::write(folder.path().join("output-1"), "mine").unwrap();
        symlink("nowhere", folder.path().join("output-2")).unwrap();
        let moved = archive(&output).unwrap().unwrap();
        assert!(moved.ends_with("output-3"), "{moved:?}");
        assert!(moved.join(RUN_FILE).exists());
    }

    #[test]
    fn a_link_stays_and_new_results_go_to_the_same_disk() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        results(&disk.join("results"));
        let output = folder.path().join("output");
        symlink(disk.join("results"), &output).unwrap();
        let moved = archive(&output).unwrap().unwrap();
        assert_eq!(moved, fs::canonicalize(disk.join("results-1")).unwrap());
        assert!(moved.join(RUN_FILE).exists());
        assert!(fs::symlink_metadata(&output).unwrap().is_symlink());
        assert_eq!(fs::read_dir(&output).unwrap().count(), 0);
    }

    #[test]
    fn of_a_folder_that_cannot_be_renamed_the_contents_move() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        for number in 1..3 {
            results(&output);
            let inside = free(&output.join("output"));
            assert_eq!(inside, output.join(format!("output-{number}")));
            move_contents(&output, &inside).unwrap();
            assert!(inside.join("pass-00000").exists() && inside.join(RUN_FILE).exists());
            assert!(!output.join("pass-00000").exists());
        }
        assert!(!output.join("output-2/output-1").exists());
        for kind in [
            io::ErrorKind::ResourceBusy,
            io::ErrorKind::CrossesDevices,
            io::ErrorKind::PermissionDenied,
        ] {
            assert!(stays(&kind.into()));
        }
        assert!(!stays(&io::ErrorKind::StorageFull.into()));
    }
}
