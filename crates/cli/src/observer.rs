//! Turns what a trainer reports into log lines, a status page and metrics.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use trainer::log::{Level, Log};
use trainer::report::{Event, Progress, Report};

use crate::console::Console;
use crate::status_page::Pages;

/// Writes to the console and keeps the newest figures for readers.
pub struct Observer {
    console: Console,
    figures: Arc<Figures>,
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
    /// Samples, cost times and batches since the process began.
    batches: u64,
    roll_backs: u64,
    saves: u64,
    speed: Speed,
}

/// Samples a second over the last seconds.
#[derive(Default)]
struct Speed {
    marks: Vec<(f64, u64)>,
}

impl Speed {
    const WINDOW: f64 = 5.0;

    fn mark(&mut self, now: f64, samples: u64) {
        if self.marks.last().is_some_and(|(t, _)| now - t < 0.1) {
            return;
        }
        self.marks.push((now, samples));
        self.marks.retain(|(t, _)| now - t <= Self::WINDOW);
    }

    fn per_second(&self) -> f64 {
        match (self.marks.first(), self.marks.last()) {
            (Some((t0, s0)), Some((t1, s1))) if t1 > t0 => (s1 - s0) as f64 / (t1 - t0),
            _ => 0.0,
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
        let now = self.figures.started.elapsed().as_secs_f64();
        let mut newest = lock(&self.figures.newest);
        match event {
            Event::Batch(progress) => newest.batch(progress, now),
            Event::PassFinished(progress) => {
                newest.evaluators.clone_from(&progress.evaluators);
                newest.before += progress.samples;
                newest.progress = Some(Progress {
                    samples: 0,
                    ..progress.clone()
                });
            }
            Event::Tested(progress) => newest.tested = Some(progress.clone()),
            Event::Saved { .. } => newest.saves += 1,
            Event::RolledBack { .. } => newest.roll_backs += 1,
            Event::PassStarted { .. } => {}
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
        self.speed.mark(now, self.before + progress.samples);
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
            "samples": newest.samples(),
            "samples_per_s": newest.speed.per_second(),
            "cost": progress.map(|p| p.cost),
            "evals": evals,
            "test_cost": newest.tested.as_ref().map(|p| p.cost),
            "waits_for": waits_for,
        })
    }

    fn metrics(&self) -> String {
        let newest = lock(&self.newest);
        let mut out = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, value: f64| {
            let trainer = self.trainer;
            let _ = writeln!(out, "# HELP canoe_trainer_{name} {help}");
            let _ = writeln!(out, "# TYPE canoe_trainer_{name} {kind}");
            let _ = writeln!(out, "canoe_trainer_{name}{{trainer=\"{trainer}\"}} {value}");
        };
        let progress = newest.progress.as_ref();
        let number = |n: u64| n as f64;
        metric(
            "batches_total",
            "counter",
            "Batches computed, repeated ones included.",
            number(newest.batches),
        );
        metric(
            "samples_total",
            "counter",
            "Samples of the present line of training.",
            number(newest.samples()),
        );
        metric(
            "samples_per_second",
            "gauge",
            "Samples a second over the last five seconds.",
            newest.speed.per_second(),
        );
        metric(
            "pass",
            "gauge",
            "Present pass, from 0.",
            progress.map_or(0.0, |p| f64::from(p.pass)),
        );
        metric(
            "batch",
            "gauge",
            "Batches done in the present pass.",
            progress.map_or(0.0, |p| number(p.batch)),
        );
        metric(
            "cost",
            "gauge",
            "Cost a sample since the pass began.",
            progress.map_or(f64::NAN, |p| p.cost),
        );
        metric(
            "test_cost",
            "gauge",
            "Cost a sample in the newest test.",
            newest.tested.as_ref().map_or(f64::NAN, |p| p.cost),
        );
        metric(
            "saves_total",
            "counter",
            "Pass directories written.",
            number(newest.saves),
        );
        metric(
            "roll_backs_total",
            "counter",
            "Times the job went back to a snapshot.",
            number(newest.roll_backs),
        );
        out
    }
}
