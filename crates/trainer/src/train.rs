//! The training loop: passes, batches, tests and saves.
//!
//! ```text
//! for each pass
//!     for each batch: forward → backward → update          (every trainer that this process plays)
//!     test, save
//! ```
//!
//! The loop knows neither where samples come from ([`crate::data`]) nor where updates happen ([`crate::updater`]).
//! All randomness is a function of the seed, the trainer and the position, so a run can be put back to any batch.

use std::time::{Duration, Instant};

use nn::{Batch, Evaluators, Gradients, Network, Parameters, Pass};

use crate::data::Source;
use crate::error::TrainError;
use crate::inspect::Inspector;
use crate::log::Level;
use crate::meter::Meter;
use crate::parameter_statistics;
use crate::parameter_stats;
use crate::pass_directory::{SERVERS, Writer};
use crate::report::{Event, Progress, Report};
use crate::saving::Saver;
use crate::settings::Settings;
use crate::testing::Tester;
use crate::updater::{Position, UpdateError, Updater, sum};

/// A trainer ready to run.
pub struct Trainer<'a> {
    /// The network.
    pub network: Network,
    /// Current values.
    pub parameters: Parameters,
    /// Turns gradients into new values.
    pub updater: Box<dyn Updater>,
    /// Training data: one source for each trainer that this process plays.
    pub sources: Vec<Source>,
    /// Test data and its evaluators, if the configuration has any.
    pub tester: Option<Tester>,
    /// Evaluators over the pass, and since the last line.
    pub evaluators: (Evaluators, Evaluators),
    /// Tells about the inside of batches.
    pub inspector: Inspector,
    /// Writes pass directories; only trainer 0 has one.
    pub saver: Option<Saver>,
    /// What was asked for.
    pub settings: &'a Settings,
    /// Time of the present pass that went into waiting for updates.
    pub waited: Duration,
}

/// One trainer's part of a batch: its gradients are summed with those of the others.
struct Step {
    samples: u64,
    cost: f64,
}

impl Trainer<'_> {
    /// Runs all passes from `start`.
    pub fn run(&mut self, start: Position, report: &mut dyn Report) -> Result<(), TrainError> {
        let end = self.settings.passes.start + self.settings.passes.count;
        let mut at = start;
        loop {
            let done = if at.pass < end {
                self.pass(at, report).map(|()| Some(at.pass + 1))
            } else {
                self.updater
                    .finish()
                    .map(|()| None)
                    .map_err(TrainError::from)
            };
            at = match done {
                Ok(Some(pass)) => Position { pass, batch: 0 },
                Ok(None) => return Ok(()),
                Err(TrainError::Update(UpdateError::RolledBack { to, reason })) => {
                    rolled_back(to, &reason, report);
                    to
                }
                Err(error) => return Err(error),
            };
        }
    }

    fn pass(&mut self, start: Position, report: &mut dyn Report) -> Result<(), TrainError> {
        let pass = start.pass;
        report.event(&Event::PassStarted {
            pass,
            batch: start.batch,
        });
        self.updater.start_pass(pass, &mut self.parameters)?;
        for source in &mut self.sources {
            source.start_pass(u64::from(pass), start.batch);
        }
        self.evaluators.0.reset();
        self.evaluators.1.reset();
        self.waited = Duration::ZERO;
        let batches = self.batches(start, report)?;
        // A trainer of several may have got an empty shard; alone it would only write down its first values.
        if batches.1 == 0 && self.settings.remote.is_none() {
            return Err(TrainError::NoSamples { pass });
        }
        let begun = Instant::now();
        self.updater.finish_pass(&mut self.parameters)?;
        self.waited += begun.elapsed();
        self.finish_pass(pass, batches, report)
    }

    /// Runs the batches of a pass; answers the meter and how many batches there were.
    fn batches(
        &mut self,
        start: Position,
        report: &mut dyn Report,
    ) -> Result<(Meter, u64), TrainError> {
        let mut meter = Meter::default();
        let mut gradients = Gradients::new(self.network.parameters());
        let mut total = (self.sources.len() > 1).then(|| Gradients::new(self.network.parameters()));
        let mut batch = start.batch;
        let at = |batch| Position {
            pass: start.pass,
            batch,
        };
        while let Some(step) = self.step(at(batch), &mut gradients, total.as_mut(), report)? {
            let applied = total.as_ref().unwrap_or(&gradients);
            self.inspector.gradients(&self.network, applied, report);
            let begun = Instant::now();
            self.updater
                .finish_batch(applied, step.samples, step.cost, &mut self.parameters)?;
            self.waited += begun.elapsed();
            batch += 1;
            self.parameter_stats(batch, applied, report)?;
            meter.add(step.cost, step.samples);
            self.after_batch(start.pass, batch, &mut meter, report)?;
        }
        Ok((meter, batch))
    }

    /// Forward and backward of every trainer that still has data; `None` when none has.
    fn step(
        &mut self,
        at: Position,
        gradients: &mut Gradients,
        mut total: Option<&mut Gradients>,
        report: &mut dyn Report,
    ) -> Result<Option<Step>, TrainError> {
        let mut step: Option<Step> = None;
        for node in 0..self.sources.len() {
            let Some(data) = self.sources[node].next_batch()? else {
                continue;
            };
            let trainer = self.settings.trainer + node as u32;
            let cost = self.compute(&data, trainer, gradients, at, report)?;
            // Moving averages belong to the trainer that saves the model.
            if node == 0 {
                self.network.assign(&mut self.parameters);
            }
            if let Some(total) = &mut total {
                let parameters = self.network.parameters().len();
                sum::add(total, parameters, gradients, step.is_none());
            }
            let sum = step.get_or_insert(Step {
                samples: 0,
                cost: 0.0,
            });
            sum.samples += data.samples as u64;
            sum.cost += cost;
        }
        Ok(step)
    }

    fn compute(
        &mut self,
        data: &Batch,
        trainer: u32,
        gradients: &mut Gradients,
        at: Position,
        report: &mut dyn Report,
    ) -> Result<f64, TrainError> {
        let Position { pass, batch } = at;
        let noise = noise_seed(self.settings.seed, trainer, pass, batch);
        let updater = &mut self.updater;
        let needed = self
            .network
            .rows_needed(data, |parameter| updater.wants_rows(parameter));
        let samples = data.samples as u64;
        let begun = Instant::now();
        updater.prepare(&needed, samples, &mut self.parameters)?;
        self.waited += begun.elapsed();
        let failed = |source| TrainError::Execute {
            pass,
            batch,
            source,
        };
        let cost = self
            .network
            .forward(&self.parameters, data, Pass::Train { noise })
            .map_err(failed)?;
        self.inspector.forward(&self.network, report);
        let updater = &mut self.updater;
        self.network
            .backward(&self.parameters, gradients, &mut |index, gradients| {
                updater.gradient_ready(index, gradients);
            });
        self.inspector.backward(&self.network, report);
        for evaluators in [&mut self.evaluators.0, &mut self.evaluators.1] {
            evaluators.accumulate(&self.network).map_err(failed)?;
        }
        // Both say the same; it is shown once.
        self.evaluators.1.take_messages();
        self.inspector.evaluated(&mut self.evaluators.0, report)?;
        Ok(cost)
    }

    fn after_batch(
        &mut self,
        pass: u32,
        batch: u64,
        meter: &mut Meter,
        report: &mut dyn Report,
    ) -> Result<(), TrainError> {
        let due = |period: u64| period > 0 && batch.is_multiple_of(period);
        let reporting = self.settings.reporting;
        let passes = &self.settings.passes;
        let average = due(passes.average_test_period);
        let (test, save) = (
            due(passes.test_period),
            due(passes.saving_period_by_batches),
        );
        let mut progress = figures(pass, batch, meter, self.waited);
        if due(reporting.log_period) {
            let (all, recent) = (self.evaluators.0.line(), self.evaluators.1.line());
            let line = meter.batch_line(batch, &all, &recent);
            report.line(Level::Info, "TrainerInternal.cpp:165", &line);
            progress.evaluators = self.evaluators.1.values();
            meter.reset_recent();
            self.evaluators.1.reset();
        } else if due(reporting.dot_period) {
            report.dot();
        }
        report.event(&Event::Batch(progress));
        if test || average {
            self.test(pass, batch, report)?;
        }
        if save {
            let part = batch / self.settings.passes.saving_period_by_batches;
            self.save(pass, Some(part), report)?;
        }
        Ok(())
    }

    /// v1 let only trainer 0 print these.
    fn parameter_stats(
        &mut self,
        batch: u64,
        gradients: &Gradients,
        report: &mut dyn Report,
    ) -> Result<(), TrainError> {
        let period = self.settings.reporting.parameter_period;
        if self.settings.trainer != 0 || period == 0 || !batch.is_multiple_of(period) {
            return Ok(());
        }
        self.updater.refresh(&mut self.parameters)?;
        for line in parameter_stats::lines(self.network.parameters(), &self.parameters, gradients) {
            report.line(Level::Info, "TrainerInternal.cpp:270", &line);
        }
        Ok(())
    }

    fn finish_pass(
        &mut self,
        pass: u32,
        (meter, batches): (Meter, u64),
        report: &mut dyn Report,
    ) -> Result<(), TrainError> {
        let line = meter.pass_line(pass, batches, &self.evaluators.0.line());
        report.line(Level::Info, "TrainerInternal.cpp:181", &line);
        let mut progress = figures(pass, batches, &meter, self.waited);
        progress.evaluators = self.evaluators.0.values();
        report.event(&Event::PassFinished(progress));
        if self.settings.passes.test_period == 0 {
            self.test(pass, batches, report)?;
        }
        if pass.is_multiple_of(self.settings.passes.saving_period.max(1)) {
            return self.save(pass, None, report);
        }
        if self.saver.is_some() {
            let statistics = parameter_statistics::of(self.network.parameters(), &self.parameters);
            report.event(&Event::Parameters { pass, statistics });
        }
        Ok(())
    }

    fn test(&mut self, pass: u32, batch: u64, report: &mut dyn Report) -> Result<(), TrainError> {
        let Some(tester) = &mut self.tester else {
            return Ok(());
        };
        self.updater.refresh(&mut self.parameters)?;
        let readable = self.updater.readable(&self.parameters)?;
        let parameters = readable.as_ref().unwrap_or(&self.parameters);
        let inspector = &mut self.inspector;
        let meter = tester.run(&mut self.network, &mut &*parameters, inspector, report)?;
        let line = meter.test_line(&tester.evaluators.line());
        report.line(Level::Info, "Tester.cpp:115", &line);
        let mut progress = figures(pass, batch, &meter, Duration::ZERO);
        progress.evaluators = tester.evaluators.values();
        report.event(&Event::Tested(progress));
        Ok(())
    }

    fn save(
        &mut self,
        pass: u32,
        part: Option<u64>,
        report: &mut dyn Report,
    ) -> Result<(), TrainError> {
        let Some(saver) = &self.saver else {
            return Ok(());
        };
        self.updater.refresh(&mut self.parameters)?;
        let readable = self.updater.readable(&self.parameters)?;
        let shown = readable.as_ref().unwrap_or(&self.parameters);
        let specs = self.network.parameters();
        let text = format!("Saving parameters to {}", saver.path(pass, part).display());
        report.line(Level::Info, "ParamUtil.cpp:110", &text);
        let path = match &self.settings.remote {
            None => {
                let state = self.updater.state(&self.parameters);
                saver.save(pass, part, specs, (shown, state.as_ref()), |_| Ok(()))?
            }
            Some(_) => {
                let updater = &mut self.updater;
                let whole = part.is_none();
                saver.save(pass, part, specs, (shown, None), |writer| {
                    save_on_servers(updater.as_mut(), whole, writer, report)
                })?
            }
        };
        let statistics = part
            .is_none()
            .then(|| parameter_statistics::of(specs, shown));
        report.event(&Event::Saved {
            pass,
            path: path.display().to_string(),
        });
        if let Some(statistics) = statistics {
            report.event(&Event::Parameters { pass, statistics });
        }
        Ok(())
    }
}

/// Has the servers write their share of a pass directory: tables that no trainer holds and, at the end of a pass, all
/// that is needed to go on. Without the latter the model is still good, so that is no reason to stop.
fn save_on_servers(
    updater: &mut dyn Updater,
    whole: bool,
    writer: &Writer,
    report: &mut dyn Report,
) -> Result<(), TrainError> {
    updater.save_rows(&writer.path(""))?;
    if !whole {
        return Ok(());
    }
    let directory = writer.path(SERVERS);
    std::fs::create_dir_all(&directory).map_err(|source| TrainError::Write {
        path: directory.clone(),
        source,
    })?;
    match updater.save_state(&directory) {
        Err(UpdateError::Remote(error @ wire::Error::Refused { .. })) => {
            // What some of the servers wrote is of no use without the others.
            let _ = std::fs::remove_dir_all(&directory);
            let text = format!("the servers' state is not saved, {SERVERS} is left out: {error}");
            report.line(Level::Warning, "ParamUtil.cpp:120", &text);
            Ok(())
        }
        done => Ok(done?),
    }
}

fn rolled_back(to: Position, reason: &str, report: &mut dyn Report) {
    let Position { pass, batch } = to;
    let text = format!("going back to pass {pass} batch {batch}: {reason}");
    report.line(Level::Warning, "Trainer.cpp:200", &text);
    report.event(&Event::RolledBack { pass, batch });
}

fn figures(pass: u32, batch: u64, meter: &Meter, waited: Duration) -> Progress {
    Progress {
        pass,
        batch,
        samples: meter.samples(),
        cost: meter.average_cost(),
        current_cost: meter.current_cost(),
        waited: waited.as_secs_f64(),
        evaluators: Vec::new(),
    }
}

/// The seed of a batch's dropout: a function of who computes what, and of nothing else.
fn noise_seed(seed: u64, trainer: u32, pass: u32, batch: u64) -> u64 {
    [u64::from(trainer), u64::from(pass), batch]
        .into_iter()
        .fold(seed, |hash, part| mix(hash ^ mix(part.wrapping_add(1))))
}

/// A bijection of 64 bits that leaves no pattern (the finalizer of SplitMix64).
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
