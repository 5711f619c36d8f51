//! Where a trainer is on the axis of samples, over passes, restarts and roll-backs.

use crate::record::Figures;

/// Where a trainer is on the axis of samples.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    /// Samples before the stretch that figures count from.
    base: f64,
    /// (pass, batch) and the samples until there.
    seen: Vec<((u64, u64), f64)>,
    /// Points of evaluators in this pass.
    pub(crate) evaluated: u32,
}

impl Place {
    const MOST: usize = 20_000;

    /// Samples at the end of a stretch.
    pub(crate) fn samples(&self, figures: &Figures) -> f64 {
        self.base + figures.samples as f64
    }

    /// Training has come to a position.
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

    /// Begins at a position; answers the samples there if training went back.
    pub(crate) fn begin(&mut self, pass: u64, batch: u64) -> Option<f64> {
        let known = self.seen.partition_point(|(at, _)| *at <= (pass, batch));
        let back = known < self.seen.len();
        self.seen.truncate(known);
        self.base = self.seen.last().map_or(0.0, |(_, samples)| *samples);
        self.evaluated = 0;
        back.then_some(self.base)
    }
}
