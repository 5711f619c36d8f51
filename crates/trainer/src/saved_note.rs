//! The note `canoe.saved.json` next to the pass directories of a job with servers: which passes this run has saved.
//!
//! Pass directories of two runs look alike. So trainer 0 notes which of them this run has saved, each with the checksum
//! of its `canoe.sums`, which has those of all other files. A job that has lost its snapshots, or whose last snapshot
//! is older, continues from the newest noted pass. A directory that is not in the note, but has the name of a pass, is
//! not used, and is renamed when its name is needed.
//!
//! A directory is noted before it appears, as the one that is being written, so a process may crash at any moment, and
//! again when it has appeared: one that is then missing was removed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wire::Step;
use wire::client::{SavedPass, SavedPasses};

use crate::checksums::{self, SUMS};
use crate::pass_directory::{self, SERVERS};

/// The file.
pub(crate) const NOTE: &str = "canoe.saved.json";

/// How many bytes of saved files are compared with their checksums when a run is resumed.
const COMPARED: u64 = 512 << 20;

/// What is in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    run: String,
    /// The last pass that was saved at its end. Notes about later ones are from before a roll-back.
    last: Option<u32>,
    /// Checksums of `canoe.sums`, by the name of the directory.
    passes: BTreeMap<String, String>,
    /// The directory that is being written.
    writing: Option<Writing>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Writing {
    name: String,
    sum: String,
}

/// The note of a run.
#[derive(Debug, Clone)]
pub(crate) struct SavedNote {
    save_dir: PathBuf,
    content: Content,
    /// Why the existing note was not read, if so.
    pub(crate) unread: Option<String>,
}

/// The checksum that identifies a directory: that of its `canoe.sums`; `None` if it has none.
fn sum_of(directory: &Path) -> Option<String> {
    let sum = checksums::sum(&directory.join(SUMS)).ok()?;
    Some(format!("{sum:032x}"))
}

/// The number of the pass in `pass-00003`; `None` for a save inside a pass.
fn whole(name: &str) -> Option<u32> {
    name.strip_prefix("pass-")?.parse().ok()
}

/// The number of the pass in `pass-00003` or `pass-00003-002`.
fn pass_of(name: &str) -> Option<u32> {
    name.strip_prefix("pass-")?.split('-').next()?.parse().ok()
}

impl SavedNote {
    /// Reads what earlier processes of the run have noted.
    pub(crate) fn open(save_dir: &Path, run: &str) -> Self {
        let path = save_dir.join(NOTE);
        let mut content = Content {
            run: run.to_owned(),
            last: None,
            passes: BTreeMap::new(),
            writing: None,
        };
        let mut unread = None;
        match fs::read(&path).map(|text| serde_json::from_slice::<Content>(&text)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => unread = Some(format!("{} cannot be read: {error}", path.display())),
            Ok(Err(_)) => unread = Some(format!("{} is damaged", path.display())),
            Ok(Ok(found)) if found.run == run => content = found,
            // An earlier run has ended, and this one has not saved a pass.
            Ok(Ok(_)) => {}
        }
        let mut note = Self {
            save_dir: save_dir.to_owned(),
            content,
            unread,
        };
        note.settle();
        note
    }

    /// Finds out whether the directory that was being written has appeared.
    fn settle(&mut self) {
        if let Some(Writing { name, sum }) = self.content.writing.clone()
            && sum_of(&self.save_dir.join(&name)).as_ref() == Some(&sum)
        {
            self.content.passes.insert(name, sum);
            self.content.writing = None;
        }
    }

    /// Whether this run has saved the directory of this name, and nothing was added to it.
    pub(crate) fn wrote(&self, name: &str) -> bool {
        let directory = self.save_dir.join(name);
        self.is_own(name, &directory) && !pass_directory::has_added(&directory)
    }

    fn is_own(&self, name: &str, directory: &Path) -> bool {
        let Some(sum) = sum_of(directory) else {
            return false;
        };
        let writing = self.content.writing.as_ref();
        let is_writing = |writing: &Writing| writing.name == name && writing.sum == sum;
        self.content.passes.get(name) == Some(&sum) || writing.is_some_and(is_writing)
    }

    /// Makes durable that a directory, written as `draft`, is about to appear under its name.
    pub(crate) fn begin(&mut self, name: &str, draft: &Path) -> io::Result<()> {
        self.settle();
        let save_dir = &self.save_dir;
        self.content
            .passes
            .retain(|name, _| save_dir.join(name).exists());
        self.content.last = whole(name).or(self.content.last);
        self.content.writing = sum_of(draft).map(|sum| Writing {
            name: name.to_owned(),
            sum,
        });
        self.write()
    }

    /// Makes durable that the directory has appeared under its name.
    pub(crate) fn appeared(&mut self) -> io::Result<()> {
        self.settle();
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let hidden = self.save_dir.join(format!(".{NOTE}.part"));
        let mut file = File::create(&hidden)?;
        file.write_all(&serde_json::to_vec(&self.content)?)?;
        file.sync_all()?;
        drop(file);
        fs::rename(&hidden, self.save_dir.join(NOTE))
    }

    /// The noted passes except the last one, whose test result may not be known yet.
    pub(crate) fn tested_passes(&self) -> impl Iterator<Item = u32> {
        let passes: Vec<u32> = self.passes().collect();
        let tested = passes.len().saturating_sub(1);
        passes.into_iter().take(tested)
    }

    fn passes(&self) -> impl DoubleEndedIterator<Item = u32> {
        let names = self.content.passes.keys().filter_map(|name| whole(name));
        let last = self.content.last;
        names.filter(move |pass| Some(*pass) <= last)
    }

    /// How many passes this run has saved, and the newest one with a usable state of the servers.
    pub(crate) fn find(&self, usable: &dyn Fn(&str) -> bool) -> SavedPasses {
        let state = |pass: u32| {
            let found = pass_directory::complete_now(&self.save_dir, pass)?;
            let is_own = self.is_own(&pass_directory::name(pass, None), &found);
            if !is_own || !matches!(checksums::wrong_state(&found), Ok(None)) {
                return None;
            }
            let directory = found.join(SERVERS);
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
            count: self.passes().count() as u64,
            newest: self.passes().rev().find_map(state),
        }
    }

    /// What is wrong with the noted directories, as sentences. `kept`: false for passes that were removed on purpose.
    pub(crate) fn problems(&self, kept: impl Fn(u32) -> bool) -> Vec<String> {
        let mut problems: Vec<String> = self.unread.iter().cloned().collect();
        let mut left = COMPARED;
        for name in self.content.passes.keys() {
            let directory = self.save_dir.join(name);
            let shown = directory.display();
            if !directory.exists() {
                if pass_of(name).is_none_or(&kept) {
                    problems.push(format!("{shown}, which this run saved, is missing"));
                }
            } else if !self.is_own(name, &directory) {
                problems.push(format!(
                    "{shown} is not the one that this run saved; it is not used"
                ));
            } else {
                let wrong = wrong_file(&directory, &mut left);
                problems.extend(wrong.map(|text| format!("{shown} is damaged: {text}")));
            }
        }
        problems
    }
}

/// The newest pass that a run has saved and whose directory servers can restore.
pub fn newest_restorable(save_dir: &Path, run: &str) -> Option<u64> {
    let saved = SavedNote::open(save_dir, run).find(&|_| true);
    saved.newest.map(|saved| saved.pass - 1)
}

/// The first file of a directory that is missing or has changed since it was saved. Files that exceed the `left` bytes to
/// compare only have to exist.
fn wrong_file(directory: &Path, left: &mut u64) -> Option<String> {
    let sums = checksums::read(directory).ok()??;
    sums.iter().find_map(|file| {
        let path = directory.join(&file.name);
        let length = match fs::metadata(&path) {
            Ok(found) => found.len(),
            Err(error) => return Some(format!("{}: {error}", file.name)),
        };
        if length > *left {
            return None;
        }
        *left -= length;
        match checksums::sum(&path) {
            Ok(sum) if sum == file.sum => None,
            Ok(_) => Some(format!("{} has changed since it was saved", file.name)),
            Err(error) => Some(format!("{}: {error}", file.name)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: fn(&str) -> bool = |_| true;

    fn name(pass: u32) -> String {
        pass_directory::name(pass, None)
    }

    /// Writes a directory as a save does, after the note.
    fn save(note: &mut SavedNote, pass: u32, step: u64) {
        let draft = note.save_dir.join("draft");
        let state = draft.join(SERVERS).join(format!("step-{step:012}"));
        fs::create_dir_all(&state).unwrap();
        fs::write(state.join("server-0000.json"), format!("{step}")).unwrap();
        fs::write(draft.join("done"), "").unwrap();
        fs::write(draft.join("w"), format!("{pass}")).unwrap();
        fs::write(draft.join(SUMS), checksums::of_directory(&draft).unwrap()).unwrap();
        note.begin(&name(pass), &draft).unwrap();
        fs::rename(&draft, note.save_dir.join(name(pass))).unwrap();
    }

    fn found(dir: &Path, run: &str) -> Option<(u64, u64)> {
        let newest = SavedNote::open(dir, run).find(&ALL).newest;
        newest.map(|saved| (saved.step.0, saved.pass))
    }

    fn problems(dir: &Path) -> String {
        SavedNote::open(dir, "r1").problems(|_| true).join("; ")
    }

    #[test]
    fn only_passes_of_this_run_count_and_the_newest_that_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let mut other = SavedNote::open(dir, "r0");
        (0..2).for_each(|pass| save(&mut other, pass, u64::from(pass + 1) * 10));
        assert_eq!(found(dir, "r1"), None, "they are of another run");
        let mut note = SavedNote::open(dir, "r1");
        assert_eq!(note.unread, None);
        (2..4).for_each(|pass| save(&mut note, pass, u64::from(pass + 1) * 10));
        assert_eq!(found(dir, "r1"), Some((40, 4)));
        let older = SavedNote::open(dir, "r1").find(&|path| !path.contains("pass-00003"));
        assert_eq!(older.newest.map(|saved| saved.pass), Some(3));
        assert_eq!(found(dir, "r2"), None);
        assert_eq!(problems(dir), "");
        fs::remove_file(dir.join("pass-00003/done")).unwrap();
        assert_eq!(found(dir, "r1"), Some((30, 3)));
        fs::remove_dir_all(dir.join("pass-00002")).unwrap();
        assert_eq!(found(dir, "r1"), None, "earlier ones are not of this run");
        let note = SavedNote::open(dir, "r1");
        assert_eq!(note.find(&ALL).count, 2, "they were there once");
        let told = problems(dir);
        assert!(told.contains("pass-00002, which this run saved, is missing"));
        assert!(told.contains("pass-00003 is damaged: done"), "{told}");
        assert_eq!(
            note.problems(|pass| pass != 2).len(),
            1,
            "removed on purpose"
        );
    }

    #[test]
    fn the_newest_pass_is_missed_like_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let mut note = SavedNote::open(dir, "r1");
        (0..2).for_each(|pass| save(&mut note, pass, u64::from(pass + 1) * 10));
        note.appeared().unwrap();
        let newest = dir.join("pass-00001");
        fs::remove_file(newest.join(SUMS)).unwrap();
        assert!(problems(dir).contains("pass-00001 is not the one that this run saved"));
        fs::remove_dir_all(&newest).unwrap();
        assert!(problems(dir).contains("pass-00001, which this run saved, is missing"));
        fs::create_dir(&newest).unwrap();
        assert!(problems(dir).contains("pass-00001 is not the one that this run saved"));
        assert_eq!(found(dir, "r1"), Some((10, 1)));
        assert_eq!(newest_restorable(dir, "r1"), Some(0));
        assert_eq!(newest_restorable(dir, "r2"), None);
    }

    #[test]
    fn what_this_run_did_not_save_is_named_and_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let mut note = SavedNote::open(dir, "r1");
        (0..3).for_each(|pass| save(&mut note, pass, u64::from(pass + 1) * 10));
        let note = SavedNote::open(dir, "r1");
        assert!((0..3).all(|pass| note.wrote(&name(pass))));
        // The state of another run.
        let manifest = "canoe.servers/step-000000000030/server-0000.json";
        fs::write(dir.join("pass-00002").join(manifest), "31").unwrap();
        assert_eq!(found(dir, "r1"), Some((20, 2)));
        assert!(problems(dir).contains("pass-00002 is damaged: canoe.servers"));
        // A directory of another run.
        let foreign = tempfile::tempdir().unwrap();
        let mut other = SavedNote::open(foreign.path(), "r2");
        save(&mut other, 1, 21);
        fs::rename(dir.join("pass-00001"), dir.join("mine")).unwrap();
        fs::rename(foreign.path().join("pass-00001"), dir.join("pass-00001")).unwrap();
        assert_eq!(found(dir, "r1"), Some((10, 1)));
        assert!(problems(dir).contains("pass-00001 is not the one that this run saved"));
        assert!(!note.wrote(&name(1)));
        fs::write(dir.join("pass-00000/notes.txt"), "mine").unwrap();
        assert!(!note.wrote(&name(0)), "something was added");
        assert_eq!(found(dir, "r1"), Some((10, 1)), "which does no harm");
        assert!(!note.wrote(&name(7)));
    }

    #[test]
    fn a_crash_between_note_and_directory_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let mut note = SavedNote::open(dir, "r1");
        save(&mut note, 0, 10);
        let draft = dir.join("draft");
        fs::create_dir(&draft).unwrap();
        fs::write(draft.join(SUMS), "").unwrap();
        for pass in [0, 1] {
            SavedNote::open(dir, "r1")
                .begin(&name(pass), &draft)
                .unwrap();
            let note = SavedNote::open(dir, "r1");
            assert_eq!(note.find(&ALL).count, 1, "pass {pass}");
            assert_eq!(found(dir, "r1"), Some((10, 1)));
            assert!(note.wrote(&name(0)), "and may be written over");
            assert_eq!(problems(dir), "");
        }
    }

    #[test]
    fn after_a_roll_back_the_later_passes_are_own_and_not_continued_from() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let mut note = SavedNote::open(dir, "r1");
        (0..4).for_each(|pass| save(&mut note, pass, u64::from(pass + 1) * 10));
        fs::remove_dir_all(dir.join("pass-00001")).unwrap();
        save(&mut note, 1, 21);
        assert_eq!(found(dir, "r1"), Some((21, 2)));
        let note = SavedNote::open(dir, "r1");
        assert!(note.wrote(&name(3)), "and may be written over");
    }

    #[test]
    fn a_part_of_a_pass_that_was_removed_on_purpose_is_not_missed() {
        assert_eq!(
            (pass_of("pass-00003-001"), whole("pass-00003-001")),
            (Some(3), None)
        );
        assert_eq!(
            (pass_of("pass-00003"), whole("pass-00003")),
            (Some(3), Some(3))
        );
    }

    #[test]
    fn a_damaged_note_is_named() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(problems(dir.path()), "");
        fs::write(dir.path().join(NOTE), "{\"run\":\"").unwrap();
        assert!(problems(dir.path()).contains("canoe.saved.json is damaged"));
    }
}
