//! Turns what a trainer reports into log lines, a status page and metrics.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use trainer::TrainError;
use trainer::log::{Level, Log};
use trainer::report::{Event, Progress, Report};
use watch::beat::Beat;
use watch::metrics::{Exposition, Kind};
use watch::record::{Role, Start};

use crate::causes::chain;
use crate::console::Console;
use crate::record::Folder;
use crate::record::heart::{self, Heart};
use crate::record::trainer::TrainerRecord;
use crate::status_page::Pages;

/// Writes to the console and keeps the newest figures for readers.
pub struct Observer {
    console: Console,
    figures: Arc<Figures>,
    record: Option<TrainerRecord>,
    /// What is the same in every state that is written.
    base: Beat,
}

/// The newest figures of a trainer.
pub struct Figures {
    trainer: u32,
    started: Instant,
    newest: Mutex<Newest>,
    waits_for: Mutex<Option<Box<dyn Fn() -> String + Send>>>,
}

#[derive(Default)]
struct Newest {
    progress: Option<Progress>,
    evaluators: Vec<(String, f64)>,
    tested: Option<Progress>,
    /// Samples of finished passes.
    before: u64,
    /// Seconds of finished passes spent waiting.
    waited_before: f64,
    /// Samples, cost times and batches since the process began.
    batches: u64,
    /// Batches of the last whole pass.
    pass_batches: Option<u64>,
    roll_backs: u64,
    saves: u64,
    speed: Speed,
}

/// Samples a second over the last seconds.
#[derive(Default)]
struct Speed {
    marks: Vec<(f64, u64, f64)>,
}

impl Speed {
    const WINDOW: f64 = 5.0;

    /// A batch that takes longer than this makes the speed fall while it lasts.
    const STALL: f64 = 1.0;

    fn mark(&mut self, now: f64, samples: u64, waited: f64) {
        if self.marks.last().is_some_and(|(t, ..)| now - t < 0.1) {
            return;
        }
        self.marks.push((now, samples, waited));
        self.marks.retain(|(t, ..)| now - t <= Self::WINDOW);
    }

    /// Samples a second.
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

impl Observer {
    /// An observer of this trainer.
    pub fn new(trainer: u32) -> Observer {
        let figures = Figures {
            trainer,
            started: Instant::now(),
            newest: Mutex::default(),
            waits_for: Mutex::new(None),
        };
        Observer {
            console: Console::default(),
            figures: Arc::new(figures),
            record: None,
            base: Beat::default(),
        }
    }

    /// Keeps a record from now on.
    pub fn record(&mut self, folder: &Folder, start: Start, anew: bool) -> anyhow::Result<()> {
        self.base = Beat {
            run: start.run.clone(),
            role: Role::Trainer,
            pid: start.pid,
            host: start.host.clone(),
            status_port: start.status_port,
            ..Beat::default()
        };
        self.record = Some(if anew {
            TrainerRecord::create(folder, start)?
        } else {
            TrainerRecord::append(folder, start)?
        });
        Ok(())
    }

    /// The job will have so many passes.
    pub fn passes(&mut self, passes: u64) {
        self.console.passes(passes);
    }

    /// Writes the present state from now on, until it is dropped.
    pub fn heart(&self, folder: &Folder) -> anyhow::Result<Heart> {
        let (figures, base) = (self.figures.clone(), self.base.clone());
        let path = folder.file("train.beat.json");
        Ok(Heart::start(path, move || figures.beat(base.clone()))?)
    }

    /// The trainer ends.
    pub fn end(&mut self, error: Option<&TrainError>) {
        let error = error.map(|error| chain(error));
        if let Some(mut record) = self.record.take() {
            // Nobody is left to hear of a failure.
            let _ = record.end(error);
        }
    }

    fn keep(&mut self, event: &Event) {
        let Some(record) = &mut self.record else {
            return;
        };
        if let Err(error) = record.take(event) {
            self.record = None;
            let text = format!("the record ends here: {error:#}");
            self.console.line(Level::Warning, "Trainer.cpp:91", &text);
        }
    }

    /// What the status page reads.
    pub fn figures(&self) -> Arc<Figures> {
        self.figures.clone()
    }
}

impl Log for Observer {
    fn line(&mut self, level: Level, source: &str, text: &str) {
        self.console.line(level, source, text);
    }

    fn dot(&mut self) {
        self.console.dot();
    }
}

impl Report for Observer {
    fn event(&mut self, event: &Event) {
        self.keep(event);
        let now = self.figures.started.elapsed().as_secs_f64();
        let mut newest = lock(&self.figures.newest);
        match event {
            Event::Batch(progress) => {
                newest.batch(progress, now);
                let speed = newest.speed.per_second(now);
                drop(newest);
                self.console.progress(self.figures.trainer, progress, speed);
            }
            Event::PassFinished(progress) => {
                self.console.pass_finished(progress.batch);
                newest.evaluators.clone_from(&progress.evaluators);
                newest.pass_batches = Some(progress.batch);
                newest.before += progress.samples;
                newest.waited_before += progress.waited;
                newest.progress = Some(Progress {
                    samples: 0,
                    waited: 0.0,
                    ..progress.clone()
                });
            }
            Event::Tested(progress) => newest.tested = Some(progress.clone()),
            Event::Saved { .. } => newest.saves += 1,
            Event::RolledBack { .. } => newest.roll_backs += 1,
            Event::PassStarted { .. } | Event::Parameters { .. } => {}
        }
    }

    fn waits_for(&mut self, ask: Box<dyn Fn() -> String + Send>) {
        *lock(&self.figures.waits_for) = Some(ask);
    }
}

impl Newest {
    fn batch(&mut self, progress: &Progress, now: f64) {
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
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pages for Figures {
    fn status(&self) -> serde_json::Value {
        let waits_for = lock(&self.waits_for).as_ref().map(|ask| ask());
        let newest = lock(&self.newest);
        let evals: serde_json::Map<_, _> = newest
            .evaluators
            .iter()
            .map(|(name, value)| (name.clone(), (*value).into()))
            .collect();
        let progress = newest.progress.as_ref();
        serde_json::json!({
            "role": "trainer",
            "id": self.trainer,
            "pass": progress.map(|p| p.pass),
            "batch": progress.map(|p| p.batch),
            "pass_batches": newest.pass_batches,
            "samples": newest.samples(),
            "samples_per_s": newest.speed.per_second(self.now()),
            "cost": progress.map(|p| p.cost),
            "evals": evals,
            "test_cost": newest.tested.as_ref().map(|p| p.cost),
            "waits_for": waits_for,
        })
    }

    fn metrics(&self) -> String {
        let newest = lock(&self.newest);
        let progress = newest.progress.as_ref();
        let count = |n: u64| n as f64;
        let of_pass = |figure: fn(&Progress) -> f64| progress.map_or(f64::NAN, figure);
        let waited = newest.waited_before + progress.map_or(0.0, |p| p.waited);
        let tested = newest.tested.as_ref().map_or(f64::NAN, |p| p.cost);
        let speed = newest.speed.per_second(self.now());
        let memory = heart::memory() as f64;
        use Kind::{Counter, Gauge};
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
                "Samples of the present line of training.",
                count(newest.samples()),
            ),
            (
                "samples_per_second",
                Gauge,
                "Samples a second over the last five seconds.",
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
                "Present pass, from 0.",
                of_pass(|p| f64::from(p.pass)),
            ),
            (
                "batch",
                Gauge,
                "Batches done in the present pass.",
                of_pass(|p| p.batch as f64),
            ),
            (
                "cost",
                Gauge,
                "Cost a sample since the pass began.",
                of_pass(|p| p.cost),
            ),
            (
                "test_cost",
                Gauge,
                "Cost a sample in the newest test.",
                tested,
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
                "Times the job went back to a snapshot.",
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

impl Figures {
    fn now(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// The present state, on top of what does not change.
    fn beat(&self, base: Beat) -> Beat {
        let waits_for = lock(&self.waits_for).as_ref().map(|ask| ask());
        let newest = lock(&self.newest);
        let progress = newest.progress.as_ref();
        Beat {
            pass: progress.map(|p| u64::from(p.pass)),
            batch: progress.map(|p| p.batch),
            samples: newest.samples(),
            samples_per_second: progress.map(|_| newest.speed.per_second(self.now())),
            waiting: progress.map(|_| newest.speed.waiting(self.now())),
            waits_for: waits_for.unwrap_or_default(),
            ..base
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
