//! Runs tests and saves where they are due, and makes the servers write their part.

use std::time::Duration;

use wire::message::Code;
use wire::owed::Save;
use words::result::Stopped;
use words::status::Task;

use super::{Trainer, figures};
use crate::error::TrainError;
use crate::log::{Level, Topic};
use crate::parameter_statistics;
use crate::pass_directory::{SERVERS, Writer};
use crate::report::{PassProgress, Reporter, TrainerEvent};
use crate::tester::TEST;
use crate::updater::{Position, UpdateError, Updater};

impl Trainer<'_> {
    /// Runs the tests and saves that are due inside a pass. After a recovery they are repeated, because it is unknown
    /// how far they had come.
    pub(super) fn settle(
        &mut self,
        at: Position,
        report: &mut dyn Reporter,
    ) -> Result<(), TrainError> {
        if at.passed {
            return Ok(());
        }
        let owed = self.settings.passes.periods().inside(at.batch);
        if owed.test {
            self.test(at.pass, at.batch, report)?;
        }
        if let Some(Save::Part(part)) = owed.save {
            self.save(at.pass, Some(part), report)?;
        }
        Ok(())
    }

    /// Runs the tests and saves that are due at the end of a pass.
    pub(super) fn settle_end(
        &mut self,
        pass: u32,
        batches: u64,
        report: &mut dyn Reporter,
    ) -> Result<(), TrainError> {
        let settings = self.settings;
        let passes = &settings.passes;
        let due = |is_last| passes.periods().at_end(u64::from(pass), is_last);
        let tested = if due(false).test || self.patience.is_some() {
            self.test(pass, batches, report)?
        } else {
            None
        };
        let value = self.measured(tested);
        let (saver, patience) = (self.saver.as_mut(), self.patience);
        let is_last = saver.is_some_and(|saver| saver.is_last(pass, value, passes, patience));
        let saves = due(is_last).save.is_some();
        if saves {
            if let Some(saver) = &mut self.saver {
                saver.note_test(pass, value)?;
            }
            self.save(pass, None, report)?;
        } else if self.saver.is_some() {
            let statistics = parameter_statistics::of(self.network.parameters(), &self.parameters);
            report.event(&TrainerEvent::Parameters { pass, statistics });
        }
        self.score(pass, saves, value, report)
    }

    /// The value by which passes are compared; only trainer 0 compares them.
    fn measured(&self, tested: Option<PassProgress>) -> Option<f64> {
        let measure = self.saver.as_ref()?.scores.measure.as_ref()?;
        let tested = tested?;
        measure.of(tested.cost, &tested.evaluators)
    }

    /// Compares a finished pass with those before it; only trainer 0 does.
    fn score(
        &mut self,
        pass: u32,
        saved: bool,
        value: Option<f64>,
        report: &mut dyn Reporter,
    ) -> Result<(), TrainError> {
        let Some(saver) = &mut self.saver else {
            return Ok(());
        };
        if let Some(best) = saver.finish_pass(pass, value, saved)? {
            let text = words::result::sentence(&best, None);
            report.line(Level::Info, Topic::Best, &text);
            report.event(&TrainerEvent::Best(best));
        }
        Ok(())
    }

    /// Reports that training ends before this pass.
    pub(super) fn tell_stop(&mut self, pass: u32, report: &mut dyn Reporter) {
        let stopped = Stopped {
            pass: u64::from(pass.saturating_sub(1)),
            patience: self.patience.unwrap_or_default(),
        };
        let text = format!(
            "stopped after pass {}: {} passes without improvement (--patience)",
            stopped.pass, stopped.patience
        );
        report.line(Level::Info, Topic::EarlyEnd, &text);
        report.event(&TrainerEvent::Stopped(stopped));
    }

    fn test(
        &mut self,
        pass: u32,
        batch: u64,
        report: &mut dyn Reporter,
    ) -> Result<Option<PassProgress>, TrainError> {
        let Some(tester) = &mut self.tester else {
            return Ok(None);
        };
        report.task(Some(Task {
            name: TEST.to_owned(),
            done: 0,
        }));
        words::failpoint::reach("testing");
        self.updater.refresh(&mut self.parameters)?;
        let readable = self.updater.readable(&self.parameters)?;
        let parameters = readable.as_ref().unwrap_or(&self.parameters);
        let inspector = &mut self.inspector;
        let meter = tester.run(&mut self.network, &mut &*parameters, inspector, report)?;
        let line = meter.test_line(&tester.evaluators.line());
        report.line(Level::Info, Topic::Test, &line);
        let mut progress = figures(pass, batch, &meter, Duration::ZERO);
        progress.evaluators = tester.evaluators.values();
        report.event(&TrainerEvent::Tested(progress.clone()));
        Ok(Some(progress))
    }

    fn save(
        &mut self,
        pass: u32,
        part: Option<u64>,
        report: &mut dyn Reporter,
    ) -> Result<(), TrainError> {
        let Some(saver) = &mut self.saver else {
            return Ok(());
        };
        self.updater.refresh(&mut self.parameters)?;
        let readable = self.updater.readable(&self.parameters)?;
        let shown = readable.as_ref().unwrap_or(&self.parameters);
        let specs = self.network.parameters();
        let text = format!("Saving parameters to {}", saver.path(pass, part).display());
        report.line(Level::Info, Topic::Saving, &text);
        let saved = match &self.settings.remote {
            None => {
                let state = self.updater.state(&self.parameters);
                saver.save(pass, part, specs, shown, state.as_ref(), |_| Ok(()))?
            }
            Some(_) => {
                let updater = &mut self.updater;
                let whole = part.is_none();
                saver.save(pass, part, specs, shown, None, |writer| {
                    save_on_servers(updater.as_mut(), whole, writer, report)
                })?
            }
        };
        for text in saved.warnings {
            report.warn(Topic::Saving, text);
        }
        let statistics = part
            .is_none()
            .then(|| parameter_statistics::of(specs, shown));
        report.event(&TrainerEvent::Saved {
            pass,
            path: saved.path.display().to_string(),
        });
        if let Some(statistics) = statistics {
            report.event(&TrainerEvent::Parameters { pass, statistics });
        }
        Ok(())
    }
}

/// Pauses before a failed save is tried again: a full disk may have room by then.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

/// Makes the servers write their part of a pass directory: tables that no trainer holds and, at the end of a pass,
/// everything that is needed to resume. If servers do not see the directory, their state is left out: the model is
/// usable without it. If a disk fails, the save is tried again; if it still fails, this process ends. The pass has not
/// ended then, and is saved by the replacement of this trainer, or when the job is started again.
fn save_on_servers(
    updater: &mut dyn Updater,
    whole: bool,
    writer: &Writer,
    report: &mut dyn Reporter,
) -> Result<(), TrainError> {
    persist(report, || updater.save_rows(&writer.path("")))?;
    report.task(Some(Task {
        name: "its save".to_owned(),
        done: 0,
    }));
    words::failpoint::reach("saving");
    // From here on, the trainer waits for the servers.
    report.task(None);
    if !whole {
        return Ok(());
    }
    let directory = writer.path(SERVERS);
    std::fs::create_dir_all(&directory).map_err(|source| TrainError::Write {
        path: directory.clone(),
        source,
    })?;
    match persist(report, || updater.save_state(&directory)) {
        Err(UpdateError::Remote(
            error @ wire::Error::Refused {
                code: Code::Invalid,
                ..
            },
        )) => {
            // The files of some servers are useless without those of the others.
            let _ = std::fs::remove_dir_all(&directory);
            let text = format!("the servers' state is not saved, {SERVERS} is left out: {error}");
            report.warn(Topic::Saving, text);
            Ok(())
        }
        done => Ok(done?),
    }
}

/// Requests a save from the servers, and again after each of [`PAUSES`] as long as a disk fails.
fn persist(
    report: &mut dyn Reporter,
    mut write: impl FnMut() -> Result<(), UpdateError>,
) -> Result<(), UpdateError> {
    for pause in PAUSES {
        match write() {
            Err(UpdateError::Remote(
                error @ wire::Error::Refused {
                    code: Code::Unable, ..
                },
            )) => {
                let seconds = pause.as_secs();
                let text = format!("the save is repeated in {seconds} s: {error}");
                report.warn(Topic::Saving, text);
                std::thread::sleep(pause);
            }
            done => return done,
        }
    }
    write()
}
