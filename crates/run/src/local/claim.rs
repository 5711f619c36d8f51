//! Decides how a run begins in a folder: it is new, resumes or continues the run that is there, or moves its results aside
//! or is refused. Pure: it is told what [`super::run_file`] says and what [`super::found`] has found. [`super::lease`]
//! names the process that runs now.

use std::io;
use std::path::PathBuf;

use super::found::{FoundWork, SAVED_NOTE};
use super::holder::{Holder, LiveProcess};
use super::run_file::{RUN_FILE, RunFile, RunSettings, start_pass};

/// How a run begins in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beginning {
    /// Start a new run in an empty folder.
    New,
    /// Move the results in the folder aside, then start a new run. If more passes were requested, the text says why they
    /// cannot continue after the finished ones; otherwise it is empty.
    Archive(String),
    /// Continue this run.
    Resume(String),
    /// Passes are finished, and more are requested: a new run continues after them.
    More(FinishedPasses),
    /// The unfinished run in the folder had other settings; the text says which.
    Differs(String),
    /// There are snapshots or models, and it is not known which run they belong to.
    Nameless(NameFault),
}

/// The finished passes that a new run continues after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinishedPasses {
    /// How many.
    pub count: u64,
    /// The last pass that the earlier run had finished, if it must be repeated because servers cannot restore its model.
    pub lost: Option<u64>,
}

/// The file that should name the run of the results in a folder, and what is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameFault {
    /// The file that says it.
    pub file: &'static str,
    /// What is wrong with it.
    pub fault: &'static str,
}

impl std::fmt::Display for NameFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, fault } = self;
        write!(f, "{file}, which says which run they belong to, {fault}")
    }
}

/// The options of the user for the beginning of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StartOptions {
    /// `--fresh`: a new run, whatever the folder has.
    pub fresh: bool,
    /// A run that continues after results in this folder, which therefore stay where they are.
    pub in_place: bool,
}

/// Decides how a run begins. An unfinished run without a snapshot or a model has nothing to resume and nothing to lose.
pub fn decide(
    found: Option<&RunFile>,
    settings: &RunSettings,
    wanted: StartOptions,
    work: &FoundWork,
) -> Beginning {
    let has_work = work.any();
    let archive = || Beginning::Archive(String::new());
    let Some(found) = found else {
        return match has_work {
            true if wanted.fresh => archive(),
            true if wanted.in_place => Beginning::New,
            true if work.snapshots => Beginning::Nameless(NameFault {
                file: RUN_FILE,
                fault: "is missing",
            }),
            // `canoe train`, without a runner, saved these models.
            true => archive(),
            false => Beginning::New,
        };
    };
    if !has_work && !found.finished {
        return Beginning::New;
    }
    if wanted.fresh {
        return archive();
    }
    if found.finished {
        return match more(found, settings, work) {
            _ if wanted.in_place => Beginning::New,
            Some(Ok(done)) => Beginning::More(done),
            Some(Err(why)) => Beginning::Archive(why),
            None => archive(),
        };
    }
    let mut differences = differences(&found.settings, settings);
    differences.extend(too_few(found, settings, work));
    // Without snapshots, only the note tells the models of this run from others. If the run was interrupted before it
    // saved its first pass, there are none.
    let unknown = match work.last_pass > Some(found.first_pass()) && !work.snapshots {
        true => work.noted.fault(&found.run),
        false => None,
    };
    match (differences.is_empty(), unknown) {
        (true, None) => Beginning::Resume(found.run.clone()),
        // A user who gives --start_pass decides which passes are repeated.
        _ if wanted.in_place => Beginning::New,
        (false, _) => Beginning::Differs(differences.join(", ")),
        (true, Some(fault)) => Beginning::Nameless(NameFault {
            file: SAVED_NOTE,
            fault,
        }),
    }
}

/// For a finished run of which more passes are requested: the number of finished passes to continue after, or why that is
/// not possible.
fn more(
    found: &RunFile,
    settings: &RunSettings,
    work: &FoundWork,
) -> Option<Result<FinishedPasses, String>> {
    let asked = found.settings.passes;
    let done = found.done.or(asked)?;
    settings
        .passes
        .filter(|passes| *passes > asked.unwrap_or(done))?;
    let mut why = differences(&found.settings, settings);
    let last = done.checked_sub(1)?;
    let after = match work.restorable {
        Some(newest) if newest < last => FinishedPasses {
            count: newest + 1,
            lost: Some(last),
        },
        _ => FinishedPasses {
            count: done,
            lost: None,
        },
    };
    if after.lost.is_none() && !work.whole.contains(&last) {
        why.push(format!(
            "the model of its last pass, {last}, is missing, and no earlier one of it can be continued"
        ));
    }
    Some(match why.is_empty() {
        true => Ok(after),
        false => Err(why.join(", ")),
    })
}

/// An unfinished run cannot end after fewer passes than it has finished.
fn too_few(found: &RunFile, settings: &RunSettings, work: &FoundWork) -> Option<String> {
    let asked = found.settings.passes.unwrap_or(u64::MAX);
    let passes = settings.passes.filter(|passes| *passes < asked)?;
    let done = work.whole.last()? + 1;
    let ends_before = start_pass(&settings.trainer_flags) == 0 && passes < done;
    ends_before
        .then(|| format!("--passes {passes} is less than the {done} passes that it has finished"))
}

fn differences(old: &RunSettings, new: &RunSettings) -> Vec<String> {
    let mut list = Vec::new();
    if old.config != new.config {
        list.push(format!("--config was {}", old.config));
    } else if let (Some(before), Some(now)) = (&old.config_files, &new.config_files) {
        // The run has not read files that did not exist when it began.
        list.extend(before.iter().filter_map(|(name, sum)| match now.get(name) {
            None => Some(format!("{name} is gone")),
            Some(same) if same == sum => None,
            Some(_) => Some(format!("{name} has changed")),
        }));
    }
    // Another number of nodes reads other shards, which is no change of the data.
    if let (Some(before), Some(now)) = (old.data_checksum, new.data_checksum)
        && before != now
        && old.nodes == new.nodes
    {
        list.push("the data files have changed".to_owned());
    }
    if old.nodes != new.nodes {
        list.push(format!(
            "--nodes was {} (the data would be split differently, and the result would be another; --servers may differ)",
            old.nodes
        ));
    }
    if old.trainer_flags != new.trainer_flags {
        list.push(format!(
            "the trainer flags were `{}`",
            old.trainer_flags.join(" ")
        ));
    }
    list
}

/// Why a folder could not be claimed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum ClaimError {
    /// A running process owns the folder.
    #[error(
        "{folder} is in use by process {pid} on {host}{}",
        match stopped {
            true => format!(
                ", which is stopped; kill -CONT {pid} lets it continue, kill -KILL {pid} ends it"
            ),
            false => "; wait until it has ended, stop it, or copy the job folder".to_owned(),
        }
    )]
    Owned {
        /// The output folder.
        folder: PathBuf,
        /// The owner's process id.
        pid: u32,
        /// The owner's machine.
        host: String,
        /// The process was stopped, and does not end by itself.
        stopped: bool,
    },
    /// The folder has an unfinished run with other settings.
    #[error(
        "{folder} holds an unfinished run with other settings: {differences}; start it as before to resume it, or use --fresh to move it aside and start again"
    )]
    Differs {
        /// The output folder.
        folder: PathBuf,
        /// What differs.
        differences: String,
    },
    /// The folder has snapshots or models, and it is not known which run they belong to.
    #[error(
        "{folder} holds results of an unfinished run, but the file {fault}; bring it back to resume that run, continue after a saved pass with --start-pass, or use --fresh to move everything aside and start again"
    )]
    Nameless {
        /// The output folder.
        folder: PathBuf,
        /// The file that should say it.
        fault: NameFault,
    },
    /// `run.json` exists and cannot be parsed.
    #[error(
        "{path} is damaged, so it is not known which run the results beside it belong to; bring it back to resume that run, or use --fresh to move everything aside and start again"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with its text.
        #[source]
        source: serde_json::Error,
    },
    /// A file of the claim could not be read or written.
    #[error("{action} {path}")]
    File {
        action: &'static str,
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

impl ClaimError {
    /// The error for a folder that `holder` owns; `None` if the owner has not written its name yet. `seen`: the process
    /// that keeps it in use, if it is visible.
    pub(super) fn owned(
        folder: PathBuf,
        holder: Option<Holder>,
        seen: Option<LiveProcess>,
    ) -> Self {
        let (host, pid) = holder.map_or(("an unknown machine".to_owned(), 0), |h| (h.host, h.pid));
        Self::Owned {
            folder,
            pid: seen.map_or(pid, |seen| seen.pid),
            host,
            stopped: seen.is_some_and(|seen| seen.stopped),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::super::found::{Noted, find_work};
    use super::*;

    fn settings(nodes: u32) -> RunSettings {
        RunSettings {
            config: "a.py".to_owned(),
            config_files: Some(BTreeMap::from([
                ("a.py".to_owned(), 7),
                ("b.txt".to_owned(), 8),
            ])),
            nodes,
            trainer_flags: Vec::new(),
            data_checksum: Some(3),
            passes: Some(4),
        }
    }

    fn both() -> FoundWork {
        FoundWork {
            last_pass: Some(3),
            whole: (0..4).collect(),
            restorable: Some(3),
            snapshots: true,
            noted: own(),
        }
    }

    fn own() -> Noted {
        Noted::Run("r1".to_owned())
    }

    fn all(count: u64) -> Beginning {
        Beginning::More(FinishedPasses { count, lost: None })
    }

    fn nameless(file: &'static str, fault: &'static str) -> Beginning {
        Beginning::Nameless(NameFault { file, fault })
    }

    #[test]
    fn models_that_may_be_of_another_run_are_not_written_over() {
        let beginning = |last_pass, snapshots, noted| {
            let work = FoundWork {
                last_pass: Some(last_pass),
                whole: (0..=last_pass).collect(),
                restorable: None,
                snapshots,
                noted,
            };
            let wanted = StartOptions::default();
            decide(Some(&run(false)), &settings(2), wanted, &work)
        };
        let other = || Noted::Run("r2".to_owned());
        for (noted, fault) in [
            (Noted::Nothing, "is missing"),
            (Noted::Damaged, "is damaged"),
            (other(), "is of another run"),
        ] {
            assert_eq!(beginning(1, false, noted), nameless(SAVED_NOTE, fault));
        }
        for (snapshots, noted) in [(true, Noted::Damaged), (false, own()), (true, other())] {
            let resumed = Beginning::Resume("r1".to_owned());
            assert_eq!(beginning(1, snapshots, noted), resumed);
        }
    }

    #[test]
    fn a_run_all_of_whose_passes_are_gone_is_not_begun_again_silently() {
        let gone = FoundWork {
            noted: own(),
            ..FoundWork::default()
        };
        let beginning = |nodes| {
            let wanted = StartOptions::default();
            decide(Some(&run(false)), &settings(nodes), wanted, &gone)
        };
        // Trainer 0 refuses it, with what is missing.
        assert_eq!(beginning(2), Beginning::Resume("r1".to_owned()));
        assert!(matches!(beginning(3), Beginning::Differs(_)));
    }

    #[test]
    fn a_run_that_began_in_place_is_resumed_and_other_flags_begin_again_in_place() {
        let flags = |start: u64| RunSettings {
            trainer_flags: vec![format!("--start_pass={start}")],
            ..settings(2)
        };
        let open = RunFile {
            settings: flags(2),
            ..run(false)
        };
        let wanted = StartOptions {
            in_place: true,
            ..StartOptions::default()
        };
        let after = |found: &RunFile, start, work: &FoundWork| {
            decide(Some(found), &flags(start), wanted, work)
        };
        assert_eq!(after(&open, 2, &both()), Beginning::Resume("r1".to_owned()));
        assert_eq!(after(&open, 3, &both()), Beginning::New);
        assert_eq!(after(&run(false), 2, &both()), Beginning::New);
        let mut finished = open.clone();
        finished.finished = true;
        assert_eq!(after(&finished, 2, &both()), Beginning::New);
        // It was interrupted before its first save: what is there is of the run before.
        let earlier = FoundWork {
            last_pass: Some(2),
            snapshots: false,
            noted: Noted::Run("r0".to_owned()),
            ..both()
        };
        assert_eq!(
            after(&open, 2, &earlier),
            Beginning::Resume("r1".to_owned())
        );
    }

    #[test]
    fn more_passes_continue_after_those_that_are_done_however_many_were_asked_for() {
        let after = |asked, done, wanted, whole: u64| {
            let mut found = run(true);
            (found.settings.passes, found.done) = (asked, done);
            let work = FoundWork {
                whole: (0..whole).collect(),
                restorable: None,
                ..both()
            };
            let settings = RunSettings {
                passes: wanted,
                ..settings(2)
            };
            decide(Some(&found), &settings, StartOptions::default(), &work)
        };
        // It ended by itself after pass 8.
        assert_eq!(after(None, Some(9), Some(12), 9), all(9));
        assert_eq!(after(Some(20), Some(9), Some(30), 9), all(9));
        let again = Beginning::Archive(String::new());
        assert_eq!(after(None, Some(9), None, 9), again);
        assert_eq!(after(None, Some(9), Some(9), 9), again);
        assert_eq!(after(Some(20), Some(9), Some(20), 9), again);
        assert_eq!(after(Some(4), None, Some(8), 4), all(4));
        let lost = after(Some(4), Some(4), Some(8), 3);
        assert!(
            matches!(&lost, Beginning::Archive(why) if why.contains("last pass, 3, is missing"))
        );
    }

    #[test]
    fn more_passes_continue_after_the_newest_one_that_can_be_restored() {
        let mut found = run(true);
        (found.settings.passes, found.done) = (Some(6), Some(6));
        let settings = RunSettings {
            passes: Some(8),
            ..settings(2)
        };
        let after = |restorable, whole: &[u64]| {
            let work = FoundWork {
                whole: whole.iter().copied().collect(),
                restorable,
                ..both()
            };
            decide(Some(&found), &settings, StartOptions::default(), &work)
        };
        let lost = Some(5);
        let repeats = |count| Beginning::More(FinishedPasses { count, lost });
        assert_eq!(after(Some(5), &[3, 4, 5]), all(6));
        assert_eq!(after(Some(4), &[3, 4]), repeats(5));
        assert_eq!(after(Some(4), &[3, 4, 5]), repeats(5), "it has no state");
        assert_eq!(after(Some(2), &[2]), repeats(3));
        assert_eq!(after(None, &[5]), all(6), "without a note nothing is known");
        assert!(matches!(after(None, &[4]), Beginning::Archive(_)));
    }

    #[test]
    fn an_unfinished_run_does_not_end_after_fewer_passes_than_it_has_done() {
        let with = |passes| {
            let settings = RunSettings {
                passes: Some(passes),
                ..settings(2)
            };
            let mut open = run(false);
            open.settings.passes = Some(6);
            decide(Some(&open), &settings, StartOptions::default(), &both())
        };
        assert!(matches!(with(2), Beginning::Differs(why) if why.contains("less than the 4")));
        for passes in [4, 6, 9] {
            assert_eq!(with(passes), Beginning::Resume("r1".to_owned()));
        }
    }

    #[test]
    fn a_run_that_was_interrupted_before_it_noted_its_first_pass_is_resumed() {
        let folder = tempfile::tempdir().unwrap();
        let mut open = run(false);
        open.start_pass = 3;
        let with = |directory: &str| {
            fs::create_dir(folder.path().join(directory)).unwrap();
            let work = find_work(folder.path());
            decide(Some(&open), &settings(2), StartOptions::default(), &work)
        };
        let resumed = Beginning::Resume("r1".to_owned());
        assert_eq!(with("pass-00002"), resumed);
        assert_eq!(with("pass-00003-001"), resumed);
        assert_eq!(with("pass-00003"), resumed);
        assert_eq!(with("pass-00004"), nameless(SAVED_NOTE, "is missing"));
    }

    #[test]
    fn work_of_an_unknown_run_is_never_written_over() {
        let beginning = |passes: bool, snapshots, fresh| {
            let wanted = StartOptions {
                fresh,
                in_place: false,
            };
            let work = FoundWork {
                last_pass: passes.then_some(0),
                snapshots,
                ..FoundWork::default()
            };
            decide(None, &settings(2), wanted, &work)
        };
        assert_eq!(beginning(false, false, false), Beginning::New);
        assert_eq!(beginning(false, false, true), Beginning::New);
        assert_eq!(
            beginning(true, false, false),
            Beginning::Archive(String::new())
        );
        for passes in [false, true] {
            let missing = nameless(RUN_FILE, "is missing");
            assert_eq!(beginning(passes, true, false), missing);
            assert_eq!(
                beginning(passes, true, true),
                Beginning::Archive(String::new())
            );
        }
    }

    fn run(finished: bool) -> RunFile {
        RunFile {
            run: "r1".to_owned(),
            settings: settings(2),
            finished,
            start_pass: 0,
            done: None,
            moved_to: None,
        }
    }

    #[test]
    fn an_unfinished_run_is_resumed_only_with_its_own_settings() {
        let (open, done) = (run(false), run(true));
        let plain = StartOptions::default();
        let with_work = |found, nodes, wanted| decide(found, &settings(nodes), wanted, &both());
        let resumed = Beginning::Resume("r1".to_owned());
        assert_eq!(with_work(Some(&open), 2, plain), resumed.clone());
        let differs = with_work(Some(&open), 3, plain);
        assert!(matches!(&differs, Beginning::Differs(why) if why.starts_with("--nodes was 2")));
        let changed = RunSettings {
            data_checksum: Some(4),
            ..settings(2)
        };
        let differs = decide(Some(&open), &changed, plain, &both());
        assert_eq!(
            differs,
            Beginning::Differs("the data files have changed".to_owned())
        );
        let unknown = RunSettings {
            data_checksum: None,
            ..settings(2)
        };
        assert_eq!(decide(Some(&open), &unknown, plain, &both()), resumed);
        let longer = RunSettings {
            passes: Some(6),
            ..settings(2)
        };
        let more = all(4);
        assert_eq!(decide(Some(&done), &longer, plain, &both()), more);
        assert_eq!(decide(Some(&open), &longer, plain, &both()), resumed);
        let other = RunSettings {
            config_files: Some(BTreeMap::from([("a.py".to_owned(), 9)])),
            ..longer
        };
        assert_eq!(
            decide(Some(&done), &other, plain, &both()),
            Beginning::Archive("a.py has changed, b.txt is gone".to_owned())
        );
        assert_eq!(
            decide(Some(&open), &other, plain, &both()),
            Beginning::Differs("a.py has changed, b.txt is gone".to_owned())
        );
        for (found, fresh) in [(&open, true), (&done, false), (&done, true)] {
            let wanted = StartOptions { fresh, ..plain };
            assert_eq!(
                with_work(Some(found), 3, wanted),
                Beginning::Archive(String::new())
            );
        }
        let in_place = StartOptions {
            in_place: true,
            ..plain
        };
        assert_eq!(with_work(Some(&done), 3, in_place), Beginning::New);
        let idle = decide(Some(&open), &settings(3), plain, &FoundWork::default());
        assert_eq!(
            idle,
            Beginning::New,
            "nothing was done, nothing can be lost"
        );
    }

    #[test]
    fn files_that_are_added_never_become_part_of_a_run() {
        let with = |files: &[(&str, u32)]| RunSettings {
            config_files: Some(
                files
                    .iter()
                    .map(|(name, sum)| ((*name).to_owned(), *sum))
                    .collect(),
            ),
            ..settings(2)
        };
        let first = with(&[("a.py", 7)]);
        let second = with(&[("a.py", 7), ("notes.txt", 1)]).continuing(&first);
        assert_eq!(second, first);
        let third = with(&[("a.py", 7), ("notes.txt", 2)]);
        assert!(differences(&second, &third).is_empty());
    }
}
