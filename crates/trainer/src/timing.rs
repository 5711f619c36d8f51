//! `--job=time`: how long forward, backward and update of a batch take.

use std::time::{Duration, Instant};

use nn::{Batch, BatchUse, Gradients, Network, Parameters};

use crate::data::DataSource;
use crate::error::TrainError;
use crate::log::{Level, Topic};
use crate::report::Reporter;
use crate::updater::Updater;
use nn::number::general;

/// Batches that are run before the clock starts.
const WARM_UP: u64 = 10;

/// The parts of a trainer whose time is measured.
pub(crate) struct TrainerTiming<'a> {
    pub network: &'a mut Network,
    /// Current values of the parameters.
    pub parameters: &'a mut Parameters,
    /// Applies gradients.
    pub updater: &'a mut dyn Updater,
    /// Source of batches, at the start of a pass.
    pub source: &'a mut DataSource,
    /// Whether every round uses a new batch; otherwise all use the first.
    pub feeds: bool,
}

/// Time spent in each part of a batch.
#[derive(Default)]
struct Spent {
    rounds: u64,
    samples: u64,
    data: Duration,
    forward: Duration,
    backward: Duration,
    update: Duration,
}

impl TrainerTiming<'_> {
    /// Runs `rounds` batches and logs the times. With `feeds` it ends early when the data end.
    pub(crate) fn run(mut self, rounds: u64, report: &mut dyn Reporter) -> Result<(), TrainError> {
        let none = TrainError::Configuration("yields no training samples");
        let mut batch = self.source.next_batch()?.ok_or(none)?;
        let mut gradients = Gradients::new(self.network.parameters());
        let mut unused = Spent::default();
        for round in 0..WARM_UP {
            self.round(round, &batch, &mut gradients, &mut unused)?;
        }
        let mut spent = Spent::default();
        for round in 0..rounds {
            if self.feeds {
                let asked = Instant::now();
                match self.source.next_batch()? {
                    Some(next) => batch = next,
                    None => break,
                }
                spent.data += asked.elapsed();
            }
            self.round(WARM_UP + round, &batch, &mut gradients, &mut spent)?;
        }
        for text in spent.texts(self.feeds) {
            report.line(Level::Info, Topic::Timing, &text);
        }
        Ok(())
    }

    fn round(
        &mut self,
        round: u64,
        batch: &Batch,
        gradients: &mut Gradients,
        spent: &mut Spent,
    ) -> Result<(), TrainError> {
        let failed = |source| TrainError::Execute {
            pass: 0,
            batch: round,
            source,
        };
        let mut clock = Instant::now();
        let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed();
        let pass = BatchUse::Train { noise: round };
        let cost = self.network.forward(self.parameters, batch, pass);
        let cost = cost.map_err(failed)?;
        spent.forward += lap();
        self.network
            .backward(self.parameters, gradients, &mut |_, _| {});
        spent.backward += lap();
        let samples = batch.samples as u64;
        self.updater
            .finish_batch(gradients, samples, cost, self.parameters)?;
        spent.update += lap();
        spent.rounds += 1;
        spent.samples += samples;
        Ok(())
    }
}

impl Spent {
    fn texts(&self, feeds: bool) -> Vec<String> {
        let mut parts = vec![
            ("forward", self.forward),
            ("backward", self.backward),
            ("update", self.update),
        ];
        if feeds {
            parts.insert(0, ("data", self.data));
        }
        let total: f64 = parts.iter().map(|(_, part)| part.as_secs_f64()).sum();
        let rounds = self.rounds.max(1) as f64;
        let mut texts: Vec<String> = parts
            .iter()
            .map(|(name, part)| {
                let each = general(1e3 * part.as_secs_f64() / rounds);
                format!("{name:<10} {each} ms per batch")
            })
            .collect();
        texts.push(format!(
            "{} batches of {} samples: {} samples/s",
            self.rounds,
            general(self.samples as f64 / rounds),
            general(self.samples as f64 / total.max(f64::MIN_POSITIVE))
        ));
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_a_batch_and_a_rate() {
        let part = Duration::from_millis(10);
        let spent = Spent {
            rounds: 2,
            samples: 200,
            data: part,
            forward: part,
            backward: 2 * part,
            update: part,
        };
        let texts = spent.texts(true);
        assert_eq!(texts[0], "data       5 ms per batch");
        assert_eq!(texts[2], "backward   10 ms per batch");
        assert_eq!(texts[4], "2 batches of 100 samples: 4000 samples/s");
        assert_eq!(spent.texts(false).len(), 4);
    }
}
