//! Replaces a directory by a new one with plain renames only: NFS cannot exchange two names atomically.
//!
//! ```text
//! .pass-00007.part   is being written
//! .pass-00007.old    was pass-00007 until a moment ago; whole
//! .pass-00007.gone   to be deleted
//! ```
//!
//! `pass-00007` → `.pass-00007.old`, `.pass-00007.part` → `pass-00007`, then the old one is deleted. If a process
//! crashes at any moment, the old directory or the new one exists as a whole; if only under the name `.old`,
//! [`recover`] renames it back at the next start. Deleting begins with a rename to `.gone`, so a partly deleted
//! directory never has a name that counts. On NFS a deleted file that a process has open stays as `.nfs…` and keeps its
//! directory: that is deleted later.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a hidden name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Part,
    Old,
    Gone,
}

/// `.pass-00007.part` next to `pass-00007`.
pub(super) fn part(target: &Path) -> PathBuf {
    hidden(target, "part")
}

/// `.pass-00007.old` next to `pass-00007`.
pub(super) fn old(target: &Path) -> PathBuf {
    hidden(target, "old")
}

fn hidden(target: &Path, suffix: &str) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.{suffix}"))
}

/// Renames `part` to `target`; the old `target` is deleted afterwards.
pub(super) fn publish(part: &Path, target: &Path) -> io::Result<()> {
    let old = old(target);
    if !target.exists() {
        return fs::rename(part, target);
    }
    if old.exists() {
        retire(&old, target)?;
    }
    fs::rename(target, &old)?;
    fs::rename(part, target).inspect_err(|_| {
        // The error that matters is the first one; the next start tries again.
        let _ = fs::rename(&old, target);
    })?;
    retire(&old, target)
}

/// Renames a directory of `target` to `.gone` and deletes it, or as much of it as can be deleted now.
pub(super) fn retire(path: &Path, target: &Path) -> io::Result<()> {
    let mut number = 0;
    let gone = loop {
        let gone = match number {
            0 => hidden(target, "gone"),
            n => hidden(target, &format!("gone{n}")),
        };
        match fs::rename(path, &gone) {
            Ok(()) => break gone,
            // Left by an earlier process that could not delete it either.
            Err(_) if gone.exists() => number += 1,
            Err(error) => return Err(error),
        }
    };
    delete(&gone);
    Ok(())
}

/// Repairs the pass directories after a crash: complete ones get their name back, the rest is deleted.
pub fn recover(save_dir: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(save_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some((target, state)) = meaning(&name) else {
            continue;
        };
        let target = save_dir.join(target);
        match state {
            State::Old if !target.exists() => fs::rename(&path, &target)?,
            State::Old | State::Part => retire(&path, &target)?,
            State::Gone => delete(&path),
        }
    }
    Ok(())
}

/// What cannot be deleted now only costs disk space, and is tried again at the next start.
fn delete(gone: &Path) {
    let _ = fs::remove_dir_all(gone);
}

/// The pass directory to which a hidden name belongs, and its state.
fn meaning(name: &str) -> Option<(&str, State)> {
    let (target, suffix) = name.strip_prefix('.')?.rsplit_once('.')?;
    let numbers = target.strip_prefix("pass-")?;
    let pass = !numbers.is_empty() && numbers.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    let state = match suffix {
        "part" => State::Part,
        "old" => State::Old,
        _ if suffix.starts_with("gone") => State::Gone,
        _ => return None,
    };
    pass.then_some((target, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(save_dir: &Path, name: &str, text: &str) {
        fs::create_dir_all(save_dir.join(name)).unwrap();
        fs::write(save_dir.join(name).join("done"), text).unwrap();
    }

    fn names(save_dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(save_dir).unwrap();
        let mut names: Vec<_> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Each moment at which a process may crash, by the names that it leaves, and which text must exist afterwards.
    #[test]
    fn a_crash_at_any_moment_leaves_the_old_or_the_new() {
        let moments: [(&[&str], &str); 6] = [
            (&["pass-00003", ".pass-00003.part"], "pass-00003"),
            (&[".pass-00003.old", ".pass-00003.part"], ".pass-00003.old"),
            (&["pass-00003", ".pass-00003.old"], "pass-00003"),
            (&["pass-00003", ".pass-00003.gone"], "pass-00003"),
            (
                &["pass-00003", ".pass-00003.gone", ".pass-00003.gone1"],
                "pass-00003",
            ),
            (&[".pass-00003.old", ".pass-00003.gone"], ".pass-00003.old"),
        ];
        for (left, counts) in moments {
            let dir = tempfile::tempdir().unwrap();
            left.iter().for_each(|name| make(dir.path(), name, name));
            recover(dir.path()).unwrap();
            assert_eq!(names(dir.path()), ["pass-00003"], "{left:?}");
            let text = fs::read_to_string(dir.path().join("pass-00003/done")).unwrap();
            assert_eq!(text, counts, "{left:?}");
        }
    }

    #[test]
    fn a_first_pass_that_was_not_finished_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), ".pass-00000-002.part", "half");
        recover(dir.path()).unwrap();
        assert_eq!(names(dir.path()), Vec::<String>::new());
        recover(&dir.path().join("absent")).unwrap();
    }

    #[test]
    fn what_is_not_ours_stays() {
        let dir = tempfile::tempdir().unwrap();
        let others = [".cache", ".passing.old", ".pass-x.gone", "pass-00001.old"];
        others.iter().for_each(|name| make(dir.path(), name, ""));
        recover(dir.path()).unwrap();
        assert_eq!(names(dir.path()).len(), others.len());
    }

    #[test]
    fn a_replacement_goes_through_whatever_lies_in_its_way() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["pass-00003", ".pass-00003.old", ".pass-00003.gone"] {
            make(dir.path(), name, "old");
        }
        make(dir.path(), ".pass-00003.part", "new");
        let target = dir.path().join("pass-00003");
        publish(&part(&target), &target).unwrap();
        assert_eq!(fs::read_to_string(target.join("done")).unwrap(), "new");
        recover(dir.path()).unwrap();
        assert_eq!(names(dir.path()), ["pass-00003"]);
    }

    #[test]
    fn a_place_that_cannot_be_taken_keeps_what_it_had() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), "pass-00003", "old");
        let target = dir.path().join("pass-00003");
        assert!(
            publish(&part(&target), &target).is_err(),
            "nothing is written"
        );
        assert_eq!(fs::read_to_string(target.join("done")).unwrap(), "old");
        assert_eq!(names(dir.path()), ["pass-00003"]);
    }
}
