//! Turns what a trainer reports into log lines, a status page and metrics.

use std::sync::Arc;
use std::time::Instant;
use words::lock::Mutex;

use trainer::TrainError;
use trainer::log::{Level, Log, Topic};
use trainer::report::{PassProgress, Reporter, TrainerEvent};
use words::event::{ProcessStart, finite};
use words::metrics::{Exposition, MetricKind};
use words::process::Role;
use words::result::Best;
use words::status::{Status, Task};

use crate::console::Console;
use crate::record::Folder;
use crate::record::heart::{self, Heart};
use crate::record::trainer::TrainerRecord;
use crate::status_page::Pages;
use words::causes::chain;

/// Writes to the console and keeps the newest figures for readers.
pub(crate) struct ConsoleObserver {
    console: Console,
    figures: Arc<TrainerFigures>,
    record: Option<TrainerRecord>,
    /// The fields that are the same in every status.
    base: Status,
}

/// The newest figures of a trainer.
pub(crate) struct TrainerFigures {
    trainer: u32,
    started: Instant,
    newest: Mutex<Newest>,
    waits_for: Mutex<Option<Box<dyn Fn() -> String + Send>>>,
}

#[derive(Default)]
struct Newest {
    progress: Option<PassProgress>,
    evaluators: Vec<(String, f64)>,
    tested: Option<PassProgress>,
    best: Option<Best>,
    /// Samples of finished passes.
    before: u64,
    /// Seconds of finished passes spent waiting.
    waited_before: f64,
    /// Batches since the process started.
    batches: u64,
    /// Batches of the last complete pass.
    pass_batches: Option<u64>,
    roll_backs: u64,
    saves: u64,
    /// Work besides batches that is in progress.
    task: Option<Task>,
    speed: Speed,
}

/// Samples per second over the last seconds.
#[derive(Default)]
struct Speed {
    marks: Vec<(f64, u64, f64)>,
}

impl Speed {
    const WINDOW: f64 = 5.0;

    /// While a batch takes longer than this many seconds, the speed falls.
    const STALL: f64 = 1.0;

    fn mark(&mut self, now: f64, samples: u64, waited: f64) {
        if self.marks.last().is_some_and(|(t, ..)| now - t < 0.1) {
            return;
        }
        self.marks.push((now, samples, waited));
        self.marks.retain(|(t, ..)| now - t <= Self::WINDOW);
    }

    /// Samples per second.
    fn per_second(&self, now: f64) -> f64 {
        self.over(now, |first, last| last.1.saturating_sub(first.1) as f64)
    }

    /// Share of the time spent waiting.
    fn waiting(&self, now: f64) -> f64 {
        self.over(now, |first, last| last.2 - first.2)
            .clamp(0.0, 1.0)
    }

    fn over(&self, now: f64, gain: impl Fn(&(f64, u64, f64), &(f64, u64, f64)) -> f64) -> f64 {
        let (Some(first), Some(last)) = (self.marks.first(), self.marks.last()) else {
            return 0.0;
        };
        let end = if now - last.0 > Self::STALL {
            now
        } else {
            last.0
        };
        if end > first.0 {
            gain(first, last) / (end - first.0)
        } else {
            0.0
        }
    }
}

impl ConsoleObserver {
    /// An observer of this trainer.
    pub(crate) fn new(trainer: u32) -> ConsoleObserver {
        let figures = TrainerFigures {
            trainer,
            started: Instant::now(),
            newest: Mutex::default(),
            waits_for: Mutex::new(None),
        };
        ConsoleObserver {
            console: Console::default(),
            figures: Arc::new(figures),
            record: None,
            base: Status::default(),
        }
    }

    /// Keeps a record from now on.
    pub(crate) fn record(
        &mut self,
        folder: &Folder,
        start: ProcessStart,
        anew: bool,
    ) -> anyhow::Result<()> {
        self.base = Status {
            run: start.run.clone(),
            role: Some(Role::Trainer),
            node: start.node,
            pid: start.pid,
            host: start.host.clone(),
            status_port: start.status_port,
            ..Status::default()
        };
        self.record = Some(if anew {
            TrainerRecord::create(folder, start)?
        } else {
            TrainerRecord::append(folder, start)?
        });
        Ok(())
    }

    /// Which trainer this is.
    pub(crate) fn trainer(&self) -> u32 {
        self.figures.trainer
    }

    /// Sets the number of passes of the job.
    pub(crate) fn passes(&mut self, passes: u64) {
        self.console.passes(passes);
    }

    /// Writes the current status from now on, until the result is dropped.
    pub(crate) fn heart(&self, folder: &Folder) -> anyhow::Result<Heart> {
        let (figures, base) = (self.figures.clone(), self.base.clone());
        let path = folder.file("train.beat.json");
        Ok(Heart::start(path, move || {
            TrainerFigures::status(&figures, &base)
        })?)
    }

    /// The trainer ends.
    pub(crate) fn end(&mut self, error: Option<&TrainError>) {
        let error = error.map(|error| chain(error));
        if let Some(mut record) = self.record.take() {
            // The process ends, so a failure cannot be reported any more.
            let _ = record.end(error);
        }
    }

    fn keep(&mut self, event: &TrainerEvent) {
        let Some(record) = &mut self.record else {
            return;
        };
        if let Err(error) = record.take(event) {
            self.record = None;
            let text = format!(
                "the record cannot be written any more: {error:#}; training continues without it"
            );
            self.console.line(Level::Warning, Topic::Record, &text);
        }
    }

    /// What the status page reads.
    pub(crate) fn figures(&self) -> Arc<TrainerFigures> {
        self.figures.clone()
    }
}

impl Log for ConsoleObserver {
    fn line(&mut self, level: Level, topic: Topic, text: &str) {
        self.console.line(level, topic, text);
    }

    fn dot(&mut self) {
        self.console.dot();
    }
}

impl Reporter for ConsoleObserver {
    fn event(&mut self, event: &TrainerEvent) {
        self.keep(event);
        let now = self.figures.started.elapsed().as_secs_f64();
        let mut newest = lock(&self.figures.newest);
        newest.task = None;
        match event {
            TrainerEvent::Batch(progress) => {
                newest.batch(progress, now);
                let speed = newest.speed.per_second(now);
                drop(newest);
                self.console.progress(self.figures.trainer, progress, speed);
            }
            TrainerEvent::PassFinished(progress) => {
                self.console.pass_finished(progress.batch);
                newest.evaluators.clone_from(&progress.evaluators);
                newest.pass_batches = Some(progress.batch);
                newest.before += progress.samples;
                newest.waited_before += progress.waited;
                newest.progress = Some(PassProgress {
                    samples: 0,
                    waited: 0.0,
                    ..progress.clone()
                });
            }
            TrainerEvent::Tested(progress) => newest.tested = Some(progress.clone()),
            TrainerEvent::Saved { .. } => newest.saves += 1,
            TrainerEvent::RolledBack { .. } => newest.roll_backs += 1,
            TrainerEvent::Best(best) => newest.best = Some(best.clone()),
            TrainerEvent::PassStarted { .. }
            | TrainerEvent::Parameters { .. }
            | TrainerEvent::Note { .. }
            | TrainerEvent::Stopped(_) => {}
        }
    }

    fn task(&mut self, task: Option<Task>) {
        lock(&self.figures.newest).task = task;
    }

    fn waits_for(&mut self, ask: Box<dyn Fn() -> String + Send>) {
        *lock(&self.figures.waits_for) = Some(ask);
    }
}

impl Newest {
    fn batch(&mut self, progress: &PassProgress, now: f64) {
        if !progress.evaluators.is_empty() {
            self.evaluators.clone_from(&progress.evaluators);
        }
        self.batches += 1;
        self.speed.mark(
            now,
            self.before + progress.samples,
            self.waited_before + progress.waited,
        );
        self.progress = Some(progress.clone());
    }

    fn samples(&self) -> u64 {
        self.before + self.progress.as_ref().map_or(0, |p| p.samples)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock()
}

impl Pages for TrainerFigures {
    fn status(&self) -> Status {
        TrainerFigures::status(
            self,
            &Status {
                role: Some(Role::Trainer),
                node: self.trainer,
                pid: std::process::id(),
                ..Status::default()
            },
        )
    }

    fn metrics(&self) -> String {
        let newest = lock(&self.newest);
        let progress = newest.progress.as_ref();
        let count = |n: u64| n as f64;
        let of_pass = |figure: fn(&PassProgress) -> f64| progress.map_or(f64::NAN, figure);
        let waited = newest.waited_before + progress.map_or(0.0, |p| p.waited);
        let tested = newest.tested.as_ref().map_or(f64::NAN, |p| p.cost);
        let speed = newest.speed.per_second(self.now());
        let memory = heart::memory() as f64;
        use MetricKind::{Counter, Gauge};
        let figures = [
            (
                "batches_total",
                Counter,
                "Batches computed, repeated ones included.",
                count(newest.batches),
            ),
            (
                "samples_total",
                Counter,
                "Samples trained on, without those that a roll-back undid.",
                count(newest.samples()),
            ),
            (
                "samples_per_second",
                Gauge,
                "Samples per second over the last five seconds.",
                speed,
            ),
            (
                "wait_seconds_total",
                Counter,
                "Time spent waiting for servers and other trainers.",
                waited,
            ),
            (
                "pass",
                Gauge,
                "Current pass, from 0.",
                of_pass(|p| f64::from(p.pass)),
            ),
            (
                "batch",
                Gauge,
                "Batches done in the current pass.",
                of_pass(|p| p.batch as f64),
            ),
            (
                "cost",
                Gauge,
                "Cost per sample since the start of the pass.",
                of_pass(|p| p.cost),
            ),
            (
                "test_cost",
                Gauge,
                "Cost per sample in the latest test.",
                tested,
            ),
            (
                "best_pass",
                Gauge,
                "The pass with the best test result, from 0; only of trainer 0.",
                newest
                    .best
                    .as_ref()
                    .map_or(f64::NAN, |best| best.pass as f64),
            ),
            (
                "best_value",
                Gauge,
                "The best test result; only of trainer 0.",
                newest.best.as_ref().map_or(f64::NAN, |best| best.value),
            ),
            (
                "saves_total",
                Counter,
                "Pass directories written.",
                count(newest.saves),
            ),
            (
                "roll_backs_total",
                Counter,
                "Roll-backs to a snapshot.",
                count(newest.roll_backs),
            ),
            (
                "memory_bytes",
                Gauge,
                "Memory in use by the trainer.",
                memory,
            ),
        ];
        let trainer = self.trainer.to_string();
        let mut out = Exposition::default();
        for (name, kind, help, value) in figures {
            out.metric(&format!("canoe_trainer_{name}"), kind, help)
                .value(&[("trainer", &trainer)], value);
        }
        out.into_text()
    }
}

impl TrainerFigures {
    fn now(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// The current status; `base` has the fields that do not change.
    fn status(&self, base: &Status) -> Status {
        let waits_for = lock(&self.waits_for).as_ref().map(|ask| ask());
        let newest = lock(&self.newest);
        let progress = newest.progress.as_ref();
        // Before the first batch there are no figures to report.
        let begun = progress.filter(|_| newest.samples() > 0);
        Status {
            pass: progress.map(|p| u64::from(p.pass)),
            batch: begun.map(|p| p.batch),
            pass_batches: newest.pass_batches,
            samples: newest.samples(),
            samples_per_second: begun.map(|_| newest.speed.per_second(self.now())),
            cost: begun.map(|p| p.cost).filter(|cost| cost.is_finite()),
            evaluators: finite(&newest.evaluators),
            waiting: progress.map(|_| newest.speed.waiting(self.now())),
            waits_for: waits_for.unwrap_or_default(),
            task: newest.task.clone(),
            ..base.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_falls_while_a_batch_does_not_end() {
        let mut speed = Speed::default();
        assert_eq!(speed.per_second(0.0), 0.0);
        speed.mark(0.0, 0, 0.0);
        speed.mark(1.0, 100, 0.5);
        assert_eq!((speed.per_second(1.5), speed.waiting(1.5)), (100.0, 0.5));
        assert_eq!(speed.per_second(10.0), 10.0);
    }
}
