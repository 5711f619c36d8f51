//! A trainer's part of a record: costs, tests, passes, statistics of parameters; trainer 0 writes for TensorBoard too.
//!
//! Every batch is reported here, but most are not recorded: the first batches all become points, later ones only as
//! often as a curve can show, so that a record grows with the logarithm of the time that a job runs.

use std::collections::BTreeMap;
use std::time::Instant;

use trainer::report::{self, PassProgress};
use watch::history::{History, RecordSource};
use watch::recorder::{Recorder, now};
use watch::tensorboard::EventFile;
use words::event::{self, Event, EventLine, Figures, ProcessStart};
use words::process::Role;

use words::statistics::ParameterStatistics;

use super::Folder;

/// Points that are recorded without thinning.
const ALL: u64 = 2000;

/// After that, at least this many seconds between two points,
const GAP: f64 = 0.1;

/// and at least this fraction of the time so far.
const PART: f64 = 1.0 / 4000.0;

/// Writes what a trainer reports.
pub(crate) struct TrainerRecord {
    recorder: Recorder,
    boards: Option<Boards>,
    begun: Instant,
    points: u64,
    /// When the last point was recorded.
    point: f64,
    /// Samples and summed cost of the pass at the last point.
    at: (u64, f64),
    pass_begun: Instant,
    /// Whether evaluators were recorded in this pass.
    evaluated: bool,
    steps: Steps,
}

/// TensorBoard's files: one folder for training, one for tests, so that both show in the same charts.
struct Boards {
    train: EventFile,
    test: EventFile,
    flushed: Instant,
}

/// Numbers the batches of all passes consecutively.
#[derive(Debug, Default)]
struct Steps {
    batches: BTreeMap<u64, u64>,
}

impl Steps {
    /// Batches before a position.
    fn before(&self, pass: u64, batch: u64) -> u64 {
        let last = self.batches.values().next_back().copied().unwrap_or(0);
        let of = |pass| self.batches.get(&pass).copied().unwrap_or(last);
        (0..pass).map(of).sum::<u64>() + batch
    }
}

impl TrainerRecord {
    /// Continues the record of a folder.
    pub(crate) fn append(folder: &Folder, start: ProcessStart) -> anyhow::Result<TrainerRecord> {
        let path = folder.file("train.events.jsonl");
        let steps = steps_so_far(&path, &start.run);
        let recorder = Recorder::append(&path)?;
        Self::begin(folder, recorder, steps, start)
    }

    /// Creates a record, in place of an earlier one.
    pub(crate) fn create(folder: &Folder, start: ProcessStart) -> anyhow::Result<TrainerRecord> {
        let recorder = Recorder::create(&folder.file("train.events.jsonl"))?;
        Self::begin(folder, recorder, Steps::default(), start)
    }

    fn begin(
        folder: &Folder,
        mut recorder: Recorder,
        steps: Steps,
        start: ProcessStart,
    ) -> anyhow::Result<TrainerRecord> {
        let boards = if start.node == 0 {
            Some(Boards::create(folder, &start.host)?)
        } else {
            None
        };
        recorder.record(Event::Start(Box::new(start)))?;
        recorder.flush()?;
        Ok(TrainerRecord {
            recorder,
            boards,
            begun: Instant::now(),
            points: 0,
            point: 0.0,
            at: (0, 0.0),
            pass_begun: Instant::now(),
            evaluated: false,
            steps,
        })
    }

    /// Records an event.
    pub(crate) fn take(&mut self, event: &report::TrainerEvent) -> anyhow::Result<()> {
        match event {
            report::TrainerEvent::Batch(progress) => self.batch(progress),
            report::TrainerEvent::PassStarted { pass, batch } => {
                self.at = (0, 0.0);
                self.pass_begun = Instant::now();
                self.evaluated = false;
                let (pass, batch) = (u64::from(*pass), *batch);
                Ok(self.recorder.record(Event::PassStarted { pass, batch })?)
            }
            report::TrainerEvent::Tested(progress) => self.tested(progress),
            report::TrainerEvent::PassFinished(progress) => self.pass_finished(progress),
            report::TrainerEvent::Parameters { pass, statistics } => {
                self.parameters(u64::from(*pass), statistics)
            }
            report::TrainerEvent::Saved { pass, path } => {
                let (pass, path) = (u64::from(*pass), path.clone());
                self.rare(Event::Saved { pass, path })
            }
            report::TrainerEvent::Note { text } => self.rare(Event::Note { text: text.clone() }),
            report::TrainerEvent::Best(best) => self.rare(Event::Best(best.clone())),
            report::TrainerEvent::Stopped(stopped) => self.rare(Event::Stopped(*stopped)),
            report::TrainerEvent::RolledBack { pass, batch } => {
                let (pass, batch) = (u64::from(*pass), *batch);
                if let Some(boards) = &mut self.boards {
                    boards.continues_from(self.steps.before(pass, batch))?;
                }
                self.rare(Event::RolledBack { pass, batch })
            }
        }
    }

    /// The process ends.
    pub(crate) fn end(&mut self, error: Option<String>) -> anyhow::Result<()> {
        self.rare(Event::End { error })?;
        self.boards.as_mut().map_or(Ok(()), Boards::flush)
    }

    fn rare(&mut self, event: Event) -> anyhow::Result<()> {
        self.recorder.record(event)?;
        Ok(self.recorder.flush()?)
    }

    fn batch(&mut self, progress: &PassProgress) -> anyhow::Result<()> {
        let time = self.begun.elapsed().as_secs_f64();
        let due = self.points < ALL || time - self.point >= GAP.max(time * PART);
        if !due && progress.evaluators.is_empty() {
            return Ok(());
        }
        self.points += 1;
        self.point = time;
        self.evaluated |= !progress.evaluators.is_empty();
        let cost = self.stretch(progress);
        let figures = figures(progress, progress.samples, cost);
        if let Some(boards) = &mut self.boards {
            let step = self.steps.before(figures.pass, figures.batch);
            boards.figures(false, step, &figures)?;
        }
        Ok(self.recorder.record(Event::Batch(figures))?)
    }

    /// Cost per sample since the last point.
    fn stretch(&mut self, progress: &PassProgress) -> f64 {
        let now = (progress.samples, progress.cost * progress.samples as f64);
        let (samples, cost) = std::mem::replace(&mut self.at, now);
        (now.1 - cost) / now.0.saturating_sub(samples).max(1) as f64
    }

    fn tested(&mut self, progress: &PassProgress) -> anyhow::Result<()> {
        // A test after a pass belongs to its last batch.
        let figures = figures(progress, self.at.0, progress.cost);
        if let Some(boards) = &mut self.boards {
            let step = self.steps.before(figures.pass, figures.batch);
            boards.figures(true, step, &figures)?;
        }
        self.rare(Event::Tested(figures))
    }

    fn pass_finished(&mut self, progress: &PassProgress) -> anyhow::Result<()> {
        let rest = progress.samples.saturating_sub(self.at.0);
        if rest > 0 {
            let cost = self.stretch(progress);
            let last = PassProgress {
                evaluators: Vec::new(),
                ..progress.clone()
            };
            let figures = figures(&last, progress.samples, cost);
            self.recorder.record(Event::Batch(figures))?;
        }
        self.steps
            .batches
            .insert(u64::from(progress.pass), progress.batch);
        let whole = figures(progress, progress.samples, progress.cost);
        // Without progress lines, evaluators are known only at the ends of passes.
        if let (Some(boards), false) = (&mut self.boards, self.evaluated) {
            let step = self.steps.before(whole.pass, whole.batch);
            let evaluators = Figures {
                cost: None,
                ..whole.clone()
            };
            boards.figures(false, step, &evaluators)?;
        }
        self.rare(Event::PassFinished {
            figures: whole,
            seconds: self.pass_begun.elapsed().as_secs_f64(),
            waited: progress.waited,
        })?;
        self.boards.as_mut().map_or(Ok(()), Boards::flush)
    }

    fn parameters(&mut self, pass: u64, statistics: &[ParameterStatistics]) -> anyhow::Result<()> {
        if let Some(boards) = &mut self.boards {
            boards
                .train
                .histograms(now(), self.steps.before(pass + 1, 0), statistics)?;
            boards.flush()?;
        }
        self.rare(Event::Parameters {
            pass,
            parameters: statistics.to_vec(),
        })
    }
}

fn figures(progress: &PassProgress, samples: u64, cost: f64) -> Figures {
    Figures {
        pass: u64::from(progress.pass),
        batch: progress.batch,
        samples,
        cost: Some(cost).filter(|cost| cost.is_finite()),
        evaluators: event::finite(&progress.evaluators),
    }
}

/// The lengths of passes that an earlier process of this trainer recorded.
fn steps_so_far(path: &std::path::Path, run: &str) -> Steps {
    let mut history = History::default();
    let source = RecordSource::Process(0, Role::Trainer);
    let mut same = false;
    // A record that cannot be read is started again.
    let _ = watch::follow::Follow::new(path).look(&mut |text| {
        if let Some(line) = EventLine::parse(text) {
            if let Event::Start(start) = &line.event {
                same = start.run == run;
            }
            history.take(source, line);
        }
    });
    let passes = history.passes.iter().filter(|_| same);
    Steps {
        batches: passes
            .map(|pass| (pass.figures.pass, pass.figures.batch))
            .collect(),
    }
}

impl Boards {
    /// Interval at which readers see something new.
    const FLUSH: std::time::Duration = std::time::Duration::from_secs(2);

    fn create(folder: &Folder, host: &str) -> anyhow::Result<Boards> {
        let place = folder.tensorboard();
        Ok(Boards {
            train: EventFile::create(&place.join("train"), now(), host)?,
            test: EventFile::create(&place.join("test"), now(), host)?,
            flushed: Instant::now(),
        })
    }

    fn figures(&mut self, test: bool, step: u64, figures: &Figures) -> anyhow::Result<()> {
        let cost = figures.cost.map(|cost| ("cost", cost));
        let others = figures
            .evaluators
            .iter()
            .map(|(name, value)| (name.as_str(), *value));
        let values: Vec<_> = cost.into_iter().chain(others).collect();
        let file = if test {
            &mut self.test
        } else {
            &mut self.train
        };
        file.scalars(now(), step, &values)?;
        if self.flushed.elapsed() > Self::FLUSH {
            self.flush()?;
        }
        Ok(())
    }

    fn continues_from(&mut self, step: u64) -> anyhow::Result<()> {
        self.train.continues_from(now(), step)?;
        self.test.continues_from(now(), step)?;
        self.flush()
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.flushed = Instant::now();
        self.train.flush()?;
        Ok(self.test.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(pass: u32, batch: u64, cost: f64) -> PassProgress {
        PassProgress {
            pass,
            batch,
            samples: batch * 10,
            cost,
            current_cost: cost,
            waited: 0.5,
            evaluators: vec![("error".into(), 0.25)],
        }
    }

    #[test]
    fn a_record_can_be_folded_and_gone_on_with() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder {
            output: directory.path().to_owned(),
            node: 0,
        };
        let start = || crate::record::start(Role::Trainer, 0, "run", &[]);
        {
            let mut record = TrainerRecord::create(&folder, start()).unwrap();
            record
                .take(&report::TrainerEvent::PassStarted { pass: 0, batch: 0 })
                .unwrap();
            record
                .take(&report::TrainerEvent::Batch(progress(0, 1, 1.0)))
                .unwrap();
            record
                .take(&report::TrainerEvent::Batch(progress(0, 2, 0.75)))
                .unwrap();
            record
                .take(&report::TrainerEvent::PassFinished(progress(0, 2, 0.75)))
                .unwrap();
            record
                .take(&report::TrainerEvent::Tested(progress(0, 2, 0.6)))
                .unwrap();
        }
        let mut record = TrainerRecord::append(&folder, start()).unwrap();
        assert_eq!(record.steps.before(1, 3), 5);
        record.end(None).unwrap();
        let mut job = watch::job::WatchedJob::open(directory.path()).unwrap();
        job.look(Instant::now(), 0.0);
        let curves: Vec<_> = job
            .history
            .series
            .iter()
            .map(|(key, series)| {
                let values: Vec<_> = series
                    .points()
                    .iter()
                    .map(|p| (p.samples, p.value))
                    .collect();
                (key.metric.as_str(), key.test, values)
            })
            .collect();
        assert_eq!(curves[0], ("cost", false, vec![(10.0, 1.0), (20.0, 0.5)]));
        assert_eq!(curves[1], ("cost", true, vec![(20.0, 0.6)]));
        assert_eq!(curves.len(), 4);
        assert!(directory.path().join("tensorboard/test").is_dir());
    }
}
