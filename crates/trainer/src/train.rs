//! The training loop: passes, batches, tests and saves.
//!
//! ```text
//! for each pass
//!     for each batch: forward → backward → update          (every trainer that this process plays)
//!     test, save, end the pass
//! ```
//!
//! `wire::owed` decides which tests and saves are due at a position, and `owed` runs them, also at the position to
//! which a recovery returns: a pass ends, for all trainers, when trainer 0 has saved it.
//!
//! The loop knows neither where samples come from ([`crate::data`]) nor where updates happen ([`crate::updater`]).
//! All randomness is a function of the seed, the trainer and the position, so a run can be repeated from any batch.

mod owed;

use std::time::{Duration, Instant};

use nn::{Batch, BatchUse, Evaluators, Gradients, Network, ParameterIndex, Parameters};

use crate::data::DataSource;
use crate::error::TrainError;
use crate::inspect::Inspector;
use crate::log::{Level, Topic};
use crate::meter::CostMeter;
use crate::parameter_sizes;
use crate::report::{PassProgress, Reporter, TrainerEvent};
use crate::saving::Saver;
use crate::settings::{RunChecks, TrainerSettings};
use crate::tester::Tester;
use crate::updater::{Position, UpdateError, Updater, sum};
use words::random::SplitMix64;

/// The same evaluators twice, because log lines show figures of the whole pass and figures since the last line.
pub struct TrainEvaluators {
    /// Since the pass began.
    pub pass: Evaluators,
    /// Since the last line.
    pub recent: Evaluators,
}

/// A trainer ready to run.
pub struct Trainer<'a> {
    /// Built from the configuration.
    pub network: Network,
    /// Current values of the parameters.
    pub parameters: Parameters,
    /// Turns gradients into new values.
    pub updater: Box<dyn Updater>,
    /// Training data: one source per trainer that this process plays.
    pub sources: Vec<DataSource>,
    /// Test data and its evaluators, if the configuration has any.
    pub tester: Option<Tester>,
    /// Measures of the training data's predictions.
    pub evaluators: TrainEvaluators,
    /// Reports details of batches.
    pub inspector: Inspector,
    /// Writes pass directories; only trainer 0 has one.
    pub saver: Option<Saver>,
    /// Passes without improvement after which training ends; `None`: it does not end early. The same on all trainers.
    pub patience: Option<u32>,
    /// Options of the run.
    pub settings: &'a TrainerSettings,
    /// Time in the current pass spent waiting for updates.
    pub waited: Duration,
}

/// The rows that a batch reads: parameter, ascending ids.
type RowsNeeded = Vec<(ParameterIndex, Vec<u32>)>;

/// One trainer's part of a batch: its gradients are summed with those of the others.
struct Step {
    samples: u64,
    cost: f64,
}

impl Trainer<'_> {
    /// Runs all passes from `start`.
    pub fn run(&mut self, start: Position, report: &mut dyn Reporter) -> Result<(), TrainError> {
        let end = self.settings.passes.start + self.settings.passes.count;
        let mut at = start;
        loop {
            let done = self.next(at, end, report);
            at = match done {
                Ok(Some(pass)) => Position {
                    pass,
                    ..Position::default()
                },
                Ok(None) => return Ok(()),
                Err(TrainError::Update(UpdateError::RolledBack { to, reason })) => {
                    rolled_back(to, &reason, report);
                    to
                }
                Err(error) => return Err(error),
            };
        }
    }

    /// Runs the pass of `at` and returns the next one; `None` if there is none and this trainer has left the job.
    fn next(
        &mut self,
        at: Position,
        end: u32,
        report: &mut dyn Reporter,
    ) -> Result<Option<u32>, TrainError> {
        if at.pass >= end {
            self.leave()?;
            return Ok(None);
        }
        if self.is_enough(at.pass)? {
            self.tell_stop(at.pass, report);
            self.leave()?;
            return Ok(None);
        }
        self.pass(at, report)?;
        Ok(Some(at.pass + 1))
    }

    /// Whether training ends before this pass. Trainer 0 decides from the durable results of the passes before, and all
    /// trainers receive the decision whenever they enter a pass, also after a recovery. So all trainers ask equally
    /// often, and a recovery between the decision and the end of the job repeats it.
    fn is_enough(&mut self, pass: u32) -> Result<bool, TrainError> {
        let Some(patience) = self.patience else {
            return Ok(false);
        };
        let start = self.settings.passes.start;
        let said = self.saver.as_ref();
        let said = said.is_some_and(|saver| saver.scores.stops_before(pass, patience, start));
        Ok(self.updater.agree(said)?)
    }

    /// Leaves the job; fails if the last model that it should have saved is missing.
    fn leave(&mut self) -> Result<(), TrainError> {
        if let Some(saver) = &self.saver {
            saver.check_last(&self.settings.passes, self.patience)?;
        }
        Ok(self.updater.finish()?)
    }

    fn pass(&mut self, start: Position, report: &mut dyn Reporter) -> Result<(), TrainError> {
        let pass = start.pass;
        self.check_data(|checks| checks.data())?;
        report.event(&TrainerEvent::PassStarted {
            pass,
            batch: start.batch,
        });
        let batch = self.updater.start_pass(start, &mut self.parameters)?;
        let start = Position { batch, ..start };
        for source in &mut self.sources {
            source.start_pass(u64::from(pass), start.batch);
        }
        self.evaluators.pass.reset();
        self.evaluators.recent.reset();
        self.waited = Duration::ZERO;
        let done = self.batches(start, report)?;
        self.check_data(|checks| checks.data())?;
        // One of several trainers may have an empty data shard; a single trainer without data would only save initial
        // values.
        let remote = self.settings.remote.as_ref();
        let is_alone = remote.is_none_or(|remote| remote.session.trainers == 1);
        if done.batches == 0 && start.batch == 0 && is_alone {
            return Err(TrainError::NoSamples { pass });
        }
        let begun = Instant::now();
        self.updater.finish_pass(&mut self.parameters)?;
        self.waited += begun.elapsed();
        self.finish_pass(pass, done, report)?;
        Ok(self.updater.end_pass()?)
    }

    /// Runs the batches of a pass.
    fn batches(
        &mut self,
        start: Position,
        report: &mut dyn Reporter,
    ) -> Result<FinishedBatches, TrainError> {
        let mut meter = CostMeter::default();
        let mut gradients = Gradients::new(self.network.parameters());
        let mut total = (self.sources.len() > 1).then(|| Gradients::new(self.network.parameters()));
        let mut batch = start.batch;
        let mut ahead = None;
        let at = |batch| Position {
            pass: start.pass,
            batch,
            passed: start.passed && batch == start.batch,
        };
        loop {
            self.settle(at(batch), report)?;
            let sums = (&mut gradients, total.as_mut());
            let Some(step) = self.step(at(batch), ahead.take(), sums, report)? else {
                break;
            };
            let applied = total.as_ref().unwrap_or(&gradients);
            self.inspector.gradients(&self.network, applied, report);
            ahead = self.rows_ahead();
            self.updater.announce(ahead.as_deref().unwrap_or_default());
            let begun = Instant::now();
            self.updater
                .finish_batch(applied, step.samples, step.cost, &mut self.parameters)?;
            self.waited += begun.elapsed();
            batch += 1;
            self.parameter_stats(batch, applied, report)?;
            meter.add(step.cost, step.samples);
            self.tell_batch(at(batch), &mut meter, report);
        }
        Ok(FinishedBatches {
            batches: batch,
            meter,
        })
    }

    /// Fails if the training files were replaced: a model of other samples would be saved.
    fn check_data(
        &self,
        check: impl FnOnce(&dyn RunChecks) -> Result<(), String>,
    ) -> Result<(), TrainError> {
        let checks = self.settings.checks.as_deref();
        checks
            .map_or(Ok(()), check)
            .map_err(TrainError::DataReplaced)
    }

    /// The rows that the next batch reads, if this process plays one trainer and the batch is ready.
    fn rows_ahead(&mut self) -> Option<RowsNeeded> {
        let [source] = self.sources.as_mut_slice() else {
            return None;
        };
        let (next, updater) = (source.peek()?, &self.updater);
        let wanted = |parameter| updater.wants_rows(parameter);
        Some(self.network.rows_needed(next, wanted))
    }

    /// Runs forward and backward for every trainer that still has data; returns `None` when none has. `ahead` are the rows
    /// that the batch reads, if they are known.
    fn step(
        &mut self,
        at: Position,
        mut ahead: Option<RowsNeeded>,
        (gradients, mut total): (&mut Gradients, Option<&mut Gradients>),
        report: &mut dyn Reporter,
    ) -> Result<Option<Step>, TrainError> {
        let mut step: Option<Step> = None;
        for node in 0..self.sources.len() {
            let Some(data) = self.sources[node].next_batch()? else {
                continue;
            };
            self.check_data(|checks| checks.data_quickly())?;
            let updater = &self.updater;
            let wanted = |parameter| updater.wants_rows(parameter);
            let needed = ahead.take();
            let needed = needed.unwrap_or_else(|| self.network.rows_needed(&data, wanted));
            let cost = self.compute((&data, &needed), node, gradients, at, report)?;
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
        (data, needed): (&Batch, &RowsNeeded),
        node: usize,
        gradients: &mut Gradients,
        at: Position,
        report: &mut dyn Reporter,
    ) -> Result<f64, TrainError> {
        let Position { pass, batch, .. } = at;
        let trainer = self.settings.trainer + node as u32;
        let noise = noise_seed(self.settings.seed, trainer, pass, batch);
        let samples = data.samples as u64;
        let begun = Instant::now();
        self.updater
            .prepare(needed, samples, &mut self.parameters)?;
        self.waited += begun.elapsed();
        let failed = |source| TrainError::Execute {
            pass,
            batch,
            source,
        };
        let cost = self
            .network
            .forward(&self.parameters, data, BatchUse::Train { noise })
            .map_err(failed)?;
        self.inspector.forward(&self.network, report);
        let updater = &mut self.updater;
        self.network
            .backward(&self.parameters, gradients, &mut |index, gradients| {
                updater.gradient_ready(index, gradients);
            });
        self.inspector.backward(&self.network, report);
        for evaluators in [&mut self.evaluators.pass, &mut self.evaluators.recent] {
            evaluators.accumulate(&self.network).map_err(failed)?;
        }
        // Both sets of evaluators have the same messages; they are shown once.
        self.evaluators.recent.take_messages();
        self.inspector
            .evaluated(&mut self.evaluators.pass, report)?;
        Ok(cost)
    }

    fn tell_batch(&mut self, at: Position, meter: &mut CostMeter, report: &mut dyn Reporter) {
        let due = |period: u64| period > 0 && at.batch.is_multiple_of(period);
        let reporting = self.settings.reporting;
        let mut progress = figures(at.pass, at.batch, meter, self.waited);
        if due(reporting.log_period) {
            let TrainEvaluators { pass, recent } = &self.evaluators;
            let line = meter.batch_line(at.batch, &pass.line(), &recent.line());
            report.line(Level::Info, Topic::Progress, &line);
            progress.evaluators = self.evaluators.recent.values();
            meter.reset_recent();
            self.evaluators.recent.reset();
        } else if due(reporting.dot_period) {
            report.dot();
        }
        report.event(&TrainerEvent::Batch(progress));
    }

    /// Logs parameter statistics; only on trainer 0, as in v1.
    fn parameter_stats(
        &mut self,
        batch: u64,
        gradients: &Gradients,
        report: &mut dyn Reporter,
    ) -> Result<(), TrainError> {
        let period = self.settings.reporting.parameter_period;
        if self.settings.trainer != 0 || period == 0 || !batch.is_multiple_of(period) {
            return Ok(());
        }
        self.updater.refresh(&mut self.parameters)?;
        for line in parameter_sizes::lines(self.network.parameters(), &self.parameters, gradients) {
            report.line(Level::Info, Topic::ParameterStatistics, &line);
        }
        Ok(())
    }

    fn finish_pass(
        &mut self,
        pass: u32,
        done: FinishedBatches,
        report: &mut dyn Reporter,
    ) -> Result<(), TrainError> {
        let FinishedBatches { batches, meter } = done;
        if meter.samples() == 0 && batches > 0 {
            // Empty figures would replace those that the pass had before the recovery.
            let text =
                format!("all {batches} batches of pass {pass} were done before the recovery");
            report.line(Level::Info, Topic::PassEnd, &text);
        } else {
            let line = meter.pass_line(pass, batches, &self.evaluators.pass.line());
            report.line(Level::Info, Topic::PassEnd, &line);
            let mut progress = figures(pass, batches, &meter, self.waited);
            progress.evaluators = self.evaluators.pass.values();
            report.event(&TrainerEvent::PassFinished(progress));
        }
        self.settle_end(pass, batches, report)
    }
}

/// All batches of a pass are done.
struct FinishedBatches {
    /// How many there are, with those before a resume or a recovery.
    batches: u64,
    /// The cost of the batches since then.
    meter: CostMeter,
}

fn rolled_back(to: Position, reason: &str, report: &mut dyn Reporter) {
    let Position { pass, batch, .. } = to;
    let text = format!("rolling back to pass {pass} batch {batch}: {reason}");
    report.line(Level::Warning, Topic::RollBack, &text);
    report.event(&TrainerEvent::RolledBack { pass, batch });
}

fn figures(pass: u32, batch: u64, meter: &CostMeter, waited: Duration) -> PassProgress {
    PassProgress {
        pass,
        batch,
        samples: meter.samples(),
        cost: meter.average_cost(),
        current_cost: meter.current_cost(),
        waited: waited.as_secs_f64(),
        evaluators: Vec::new(),
    }
}

/// The seed of a batch's dropout: a function of seed, trainer and position only.
fn noise_seed(seed: u64, trainer: u32, pass: u32, batch: u64) -> u64 {
    let next = |state| SplitMix64(state).next_u64();
    [u64::from(trainer), u64::from(pass), batch]
        .into_iter()
        .fold(seed, |hash, part| next(hash ^ next(part.wrapping_add(1))))
}
