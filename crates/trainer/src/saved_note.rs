//! Which passes this run has saved: the note `canoe.saved.json` next to the pass directories of a job with servers.
//!
//! Pass directories of two runs look alike, and their files are the same bytes if the runs are equal. So trainer 0
//! notes which ones are of this run. A job that has lost its snapshots, or whose last snapshot is older, continues from
//! the newest of them instead of an older snapshot or the start.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};
use wire::Step;
use wire::client::{SavedPass, SavedPasses};

use crate::pass_directory::{self, SERVERS};

/// The file.
pub(crate) const NOTE: &str = "canoe.saved.json";

/// Which passes a run has saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    run: String,
    first: u32,
    last: u32,
}

/// The passes that this run noted, all but the last: its test result may not be known yet.
pub(crate) fn tested_passes(save_dir: &Path, run: &str) -> Range<u32> {
    read(save_dir, run).map_or(0..0, |note| note.first..note.last)
}

fn read(save_dir: &Path, run: &str) -> Option<Note> {
    let text = fs::read(save_dir.join(NOTE)).ok()?;
    let note: Note = serde_json::from_slice(&text).ok()?;
    (note.run == run).then_some(note)
}

/// Notes that a pass of this run is saved.
pub(crate) fn write(save_dir: &Path, run: &str, pass: u32) -> io::Result<()> {
    let before = read(save_dir, run);
    let first = before.map_or(pass, |note| note.first.min(pass));
    let note = Note {
        run: run.to_owned(),
        first,
        last: pass,
    };
    let hidden = save_dir.join(format!(".{NOTE}.part"));
    let mut file = File::create(&hidden)?;
    file.write_all(&serde_json::to_vec(&note)?)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&hidden, save_dir.join(NOTE))
}

/// How many passes this run has saved, and the newest whose servers' state is there and usable.
pub(crate) fn find(save_dir: &Path, run: &str, usable: &dyn Fn(&str) -> bool) -> SavedPasses {
    let Some(note) = read(save_dir, run) else {
        return SavedPasses::default();
    };
    let state = |pass: u32| {
        let directory = pass_directory::complete_now(save_dir, pass)?.join(SERVERS);
        let steps = fs::read_dir(&directory).ok()?;
        let number = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            name.strip_prefix("step-")?.parse().ok()
        };
        let step = steps.flatten().filter_map(number).max()?;
        let directory = directory.to_string_lossy().into_owned();
        usable(&directory).then_some(SavedPass {
            step: Step(step),
            pass: u64::from(pass) + 1,
            directory,
        })
    };
    SavedPasses {
        count: u64::from(note.last.saturating_sub(note.first)) + 1,
        newest: (note.first..=note.last).rev().find_map(state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn save(save_dir: &Path, pass: u32, step: u64) {
        let path = save_dir.join(pass_directory::name(pass, None));
        fs::create_dir_all(path.join(SERVERS).join(format!("step-{step:012}"))).unwrap();
        fs::write(path.join("done"), "").unwrap();
    }

    #[test]
    fn only_passes_of_this_run_count_and_the_newest_that_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let found = |run| {
            let saved = find(dir.path(), run, &|_| true).newest;
            saved.map(|saved| (saved.step.0, saved.pass))
        };
        assert_eq!(found("r1"), None);
        for pass in 0..5 {
            save(dir.path(), pass, u64::from(pass + 1) * 10);
        }
        assert_eq!(found("r1"), None, "they may be anybody's");
        write(dir.path(), "r1", 2).unwrap();
        write(dir.path(), "r1", 3).unwrap();
        assert_eq!(found("r1"), Some((40, 4)));
        let older = find(dir.path(), "r1", &|path| !path.contains("pass-00003")).newest;
        assert_eq!(older.map(|saved| saved.pass), Some(3));
        assert_eq!(found("r2"), None);
        fs::remove_file(dir.path().join("pass-00003/done")).unwrap();
        assert_eq!(found("r1"), Some((30, 3)));
        fs::remove_dir_all(dir.path().join("pass-00002")).unwrap();
        assert_eq!(found("r1"), None, "earlier ones are not of this run");
        assert_eq!(
            find(dir.path(), "r1", &|_| true).count,
            2,
            "they were there once"
        );
        assert_eq!(find(dir.path(), "r2", &|_| true), SavedPasses::default());
    }
}
