//! Saves pass directories with parameters, optimizer state and configuration.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use nn::{ParameterSpec, ParameterValues, Parameters};
use words::result::Best;

use crate::best::{Keep, Scores};
use crate::error::TrainError;
use crate::pass_directory::{self, Extras, STATE, Writer};
use crate::saved_note::{self, SavedNote};
use crate::scores_file;
use crate::settings::{Passes, RunChecks};
use crate::state_file::{self, SavedState};

/// Writes pass directories.
#[derive(Debug, Clone)]
pub struct Saver {
    /// The directory in which pass directories are created.
    pub save_dir: PathBuf,
    /// Files that are written besides parameters.
    pub extras: Extras,
    /// Which pass directories are kept.
    pub keep: Keep,
    /// The pass that the run started from, which it needs as long as it runs.
    pub needed: Option<u32>,
    /// Test results of finished passes.
    pub scores: Scores,
    /// Which passes this run has saved; `None` for a job without servers, which overwrites existing directories, as v1
    /// does.
    pub(crate) note: Option<SavedNote>,
    /// Whether the folder still belongs to this run.
    pub(crate) checks: Option<Arc<dyn RunChecks>>,
}

/// A directory that was saved.
#[derive(Debug)]
pub struct SavedDirectory {
    /// Its path.
    pub path: PathBuf,
    /// Warnings for people who do not read logs.
    pub warnings: Vec<String>,
}

impl Saver {
    /// The path at which a save will appear.
    pub fn path(&self, pass: u32, part: Option<u64>) -> PathBuf {
        self.save_dir.join(pass_directory::name(pass, part))
    }

    /// Writes a pass directory atomically; `beside` adds the files of the servers. An existing directory that this run
    /// has not written is renamed.
    pub fn save(
        &mut self,
        pass: u32,
        part: Option<u64>,
        specs: &[ParameterSpec],
        parameters: &Parameters,
        state: Option<&SavedState<'_>>,
        beside: impl FnOnce(&Writer) -> Result<(), TrainError>,
    ) -> Result<SavedDirectory, TrainError> {
        // Another run may be writing under the same hidden name.
        self.check_folder()?;
        let name = pass_directory::name(pass, part);
        let writer = Writer::create(&self.save_dir, &name)?;
        for (spec, values) in specs.iter().zip(&parameters.0) {
            if let ParameterValues::Full(values) = values {
                writer.parameter(&spec.name, values)?;
            }
        }
        if let Some(state) = state {
            state_file::write(&writer.path(STATE), state)?;
        }
        beside(&writer)?;
        writer.complete(&self.extras)?;
        self.check_folder()?;
        let mut warnings = Vec::new();
        let target = self.save_dir.join(&name);
        if let Some(note) = &mut self.note {
            let is_own = note.wrote(&name);
            if let Err(error) = note.begin(&name, &writer.path("")) {
                // Without the note, a loss of snapshots costs more work, but the model is saved.
                let path = self.save_dir.join(saved_note::NOTE);
                warnings.push(format!("write {}: {error}", path.display()));
            }
            if !is_own && fs::symlink_metadata(&target).is_ok() {
                let kept =
                    pass_directory::put_aside(&target).map_err(|source| TrainError::Write {
                        path: target.clone(),
                        source,
                    })?;
                warnings.push(format!(
                    "{} has files that this run did not save: it was renamed to {}",
                    target.display(),
                    kept.display()
                ));
            }
        }
        let path = writer.publish()?;
        if let Some(Err(error)) = self.note.as_mut().map(SavedNote::appeared) {
            let path = self.save_dir.join(saved_note::NOTE);
            warnings.push(format!("write {}: {error}", path.display()));
        }
        Ok(SavedDirectory { path, warnings })
    }

    /// Fails if the folder belongs to another run, which must not find results of this one.
    fn check_folder(&self) -> Result<(), TrainError> {
        let checks = self.checks.as_ref();
        let checked = checks.map_or(Ok(()), |checks| checks.folder());
        checked.map_err(TrainError::FolderLost)
    }

    /// Makes the test result of a pass durable before the pass is saved. If the process ended right after the save, there
    /// would otherwise be a model without a result, which could neither become the best nor be removed.
    pub(crate) fn note_test(&mut self, pass: u32, value: Option<f64>) -> Result<(), TrainError> {
        self.check_folder()?;
        self.scores.add(pass, value, true);
        Ok(scores_file::write(&self.save_dir, &self.scores)?)
    }

    /// A pass has ended: makes its test result durable, links the best model, and removes those that are not kept.
    /// Returns the best pass, if there are test results.
    pub fn finish_pass(
        &mut self,
        pass: u32,
        value: Option<f64>,
        saved: bool,
    ) -> Result<Option<Best>, TrainError> {
        self.check_folder()?;
        self.scores.add(pass, value, saved);
        let expendable = self.scores.expendable(self.keep, self.needed);
        for old in &expendable {
            self.scores.removed(*old);
        }
        let linked = self.scores.best_kept();
        let name = linked.map(|best| pass_directory::name(best.pass, None));
        scores_file::link(&self.save_dir, name.as_deref())?;
        for old in expendable {
            pass_directory::remove(&self.save_dir, old);
        }
        // This comes last: after a crash before this point, the repeated pass removes the same directories.
        scores_file::write(&self.save_dir, &self.scores)?;
        Ok(self.scores.told_best())
    }

    /// Compares the noted models with those that exist.
    pub(crate) fn check_kept(&mut self) {
        let folder = &self.save_dir;
        let exists = |pass| pass_directory::complete_now(folder, pass).is_some();
        self.scores.check_kept(exists);
    }

    /// Whether training ends after this pass, given its test result.
    pub(crate) fn is_last(
        &mut self,
        pass: u32,
        value: Option<f64>,
        passes: &Passes,
        patience: Option<u32>,
    ) -> bool {
        self.scores.add(pass, value, false);
        self.scores.end(passes.start, passes.count, patience) == pass + 1
    }

    /// Checks that the last model of these passes exists: without it, a job that was to save models has failed.
    pub(crate) fn check_last(
        &self,
        passes: &Passes,
        patience: Option<u32>,
    ) -> Result<(), TrainError> {
        let end = self.scores.end(passes.start, passes.count, patience);
        let Some(pass) = end.checked_sub(1).filter(|pass| *pass >= passes.start) else {
            return Ok(());
        };
        pass_directory::saved(&self.save_dir, pass)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(start: u32, count: u32, saving_period: u32) -> Passes {
        Passes {
            start,
            saving_period,
            ..Passes::unsaved(count)
        }
    }

    #[test]
    fn a_job_that_was_asked_for_models_does_not_end_without_the_last_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut saver = Saver {
            save_dir: dir.path().to_owned(),
            extras: Extras::default(),
            keep: Keep::ALL,
            needed: None,
            scores: Scores::default(),
            note: None,
            checks: None,
        };
        let check = |saver: &Saver, passes: Passes| {
            saver.check_last(&passes, None).map_err(|e| e.to_string())
        };
        let missing = check(&saver, passes(0, 3, 2)).unwrap_err();
        assert!(missing.contains("pass-00002"), "{missing}");
        let nothing = Parameters(Vec::new());
        saver
            .save(2, None, &[], &nothing, None, |_| Ok(()))
            .unwrap();
        assert_eq!(check(&saver, passes(0, 3, 2)), Ok(()));
        for period in [1, 2, 9] {
            let other = check(&saver, passes(0, 4, period));
            assert!(other.is_err(), "another pass is the last");
        }
        assert_eq!(check(&saver, passes(3, 0, 2)), Ok(()), "there is none");
    }

    #[test]
    fn what_another_run_or_the_user_has_put_in_the_place_of_a_pass_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut saver = Saver {
            save_dir: dir.path().to_owned(),
            extras: Extras::default(),
            keep: Keep::ALL,
            needed: None,
            scores: Scores::default(),
            note: Some(SavedNote::open(dir.path(), "r1")),
            checks: None,
        };
        let nothing = Parameters(Vec::new());
        let mut save = |pass| {
            let saved = saver.save(pass, None, &[], &nothing, None, |_| Ok(()));
            saved.unwrap().warnings.join("; ")
        };
        assert_eq!(save(2), "");
        assert_eq!(save(2), "", "its own is replaced");
        fs::write(dir.path().join("pass-00002/notes.txt"), "mine").unwrap();
        let told = save(2);
        assert!(
            told.contains("was renamed to") && told.contains("aside-pass-00002"),
            "{told}"
        );
        let kept = dir.path().join("aside-pass-00002");
        assert!(kept.join("notes.txt").exists());
        fs::create_dir(dir.path().join("pass-00003")).unwrap();
        assert!(save(3).contains("aside-pass-00003"));
        assert!(dir.path().join("pass-00003/done").exists());
    }

    #[test]
    fn the_best_and_the_last_three_stay_and_the_link_names_the_best() {
        let dir = tempfile::tempdir().unwrap();
        let mut saver = Saver {
            save_dir: dir.path().to_owned(),
            extras: Extras::default(),
            keep: "best,last:3".parse().unwrap(),
            needed: None,
            scores: Scores::default(),
            note: None,
            checks: None,
        };
        saver.scores.measured_by(Some(crate::best::Measure {
            name: "cost".to_owned(),
            better: crate::best::Better::Lower,
        }));
        let nothing = Parameters(Vec::new());
        let end = |saver: &mut Saver, pass: u32, value: f64| {
            let none = |_: &Writer| Ok(());
            saver.save(pass, None, &[], &nothing, None, none).unwrap();
            saver.finish_pass(pass, Some(value), true).unwrap()
        };
        let values = [0.5, 0.2, 0.4, 0.3, 0.25, 0.6];
        for (pass, value) in (0..).zip(values) {
            end(&mut saver, pass, value);
        }
        let names = || {
            let entries = fs::read_dir(dir.path()).unwrap();
            let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<_> = names.filter(|name| name.starts_with("pass-")).collect();
            names.sort();
            names
        };
        let kept = ["pass-00001", "pass-00003", "pass-00004", "pass-00005"];
        assert_eq!(names(), kept);
        let best = fs::read_link(dir.path().join("best")).unwrap();
        assert_eq!(best, std::path::Path::new("pass-00001"));
        // A process that was killed before it wrote the results repeats the end of the pass.
        saver.scores = scores_file::read(dir.path()).unwrap();
        let told = end(&mut saver, 5, 0.6).unwrap();
        assert_eq!((told.pass, told.value, told.kept), (1, 0.2, None));
        assert_eq!(names(), kept);
        assert!(saver.check_last(&passes(0, 100, 1), Some(4)).is_ok());
        assert!(saver.check_last(&passes(0, 100, 1), None).is_err());
        // Another one was killed right after the save.
        saver.note_test(6, Some(0.1)).unwrap();
        let none = |_: &Writer| Ok(());
        saver.save(6, None, &[], &nothing, None, none).unwrap();
        saver.scores = scores_file::read(dir.path()).unwrap();
        saver.check_kept();
        let best = saver.scores.best_kept().unwrap();
        assert_eq!((best.pass, best.value), (6, 0.1));
        end(&mut saver, 7, 0.2);
        assert!(names().contains(&"pass-00006".to_owned()), "{:?}", names());
        let best = fs::read_link(dir.path().join("best")).unwrap();
        assert_eq!(best, std::path::Path::new("pass-00006"));
    }
}
