//! The position of a trainer on the axis of samples, over passes, restarts and roll-backs.

use words::event::Figures;

/// The position of a trainer on the axis of samples.
#[derive(Debug, Clone, Default)]
pub(crate) struct SamplePosition {
    /// Samples before the point from which figures count.
    base: f64,
    /// (pass, batch) and the number of samples up to there.
    seen: Vec<((u64, u64), f64)>,
    /// Number of points with evaluators in this pass.
    pub(crate) evaluated: u32,
}

impl SamplePosition {
    const MOST: usize = 20_000;

    /// The number of samples when `figures` were written.
    pub(crate) fn samples(&self, figures: &Figures) -> f64 {
        self.base + figures.samples as f64
    }

    /// Records that training has reached a position.
    pub(crate) fn note(&mut self, position: (u64, u64), samples: f64) {
        self.seen.push((position, samples));
        if self.seen.len() > Self::MOST {
            self.seen = self
                .seen
                .chunks(2)
                .map(|pair| pair[pair.len() - 1])
                .collect();
        }
    }

    /// Begins at a position; returns the number of samples there if training rolled back.
    pub(crate) fn begin(&mut self, pass: u64, batch: u64) -> Option<f64> {
        let known = self.seen.partition_point(|(at, _)| *at <= (pass, batch));
        let back = known < self.seen.len();
        self.seen.truncate(known);
        self.base = self.seen.last().map_or(0.0, |(_, samples)| *samples);
        self.evaluated = 0;
        back.then_some(self.base)
    }
}
