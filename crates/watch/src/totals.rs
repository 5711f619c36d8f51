//! Figures of a whole job, or of one pass over all its trainers, from its history.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::History;
use crate::series::Series;
use words::event::Figures;
use words::result;

impl History {
    /// Figures of a pass over all trainers that have finished it, weighted by samples: the same wherever a pass is shown.
    pub(crate) fn figures_of(&self, pass: u64) -> Figures {
        let same = || self.passes.iter().map(|done| &done.figures);
        let same = || same().filter(|figures| figures.pass == pass);
        let mean = |value: &dyn Fn(&Figures) -> Option<f64>| {
            let known =
                same().filter_map(|figures| Some((value(figures)?, figures.samples as f64)));
            let (sum, samples) = known.fold((0.0, 0.0), |(sum, all), (value, samples)| {
                (sum + value * samples, all + samples)
            });
            (samples > 0.0).then(|| sum / samples)
        };
        let names: BTreeSet<&String> = same().flat_map(|own| own.evaluators.keys()).collect();
        let evaluators = names.into_iter().filter_map(|name| {
            let value = mean(&|figures| figures.evaluators.get(name).copied())?;
            Some((name.clone(), value))
        });
        Figures {
            pass,
            batch: same().map(|figures| figures.batch).max().unwrap_or(0),
            samples: same().map(|figures| figures.samples).sum(),
            cost: mean(&|figures| figures.cost),
            evaluators: evaluators.collect(),
        }
    }

    /// Seconds from the first event to the last, without those between runs.
    pub fn took(&self) -> Option<f64> {
        let (began, last) = self.began.zip(self.last)?;
        Some(last - began - self.paused)
    }

    /// The last pass that a trainer has finished.
    pub(crate) fn last_pass(&self) -> Option<u64> {
        self.passes.iter().map(|pass| pass.figures.pass).max()
    }

    /// The result in words, if the job tests its passes.
    pub fn result(&self) -> Option<String> {
        let best = self.best.as_ref()?;
        Some(result::sentence(best, self.stopped))
    }

    /// Samples that each trainer has seen.
    fn trained(&self) -> BTreeMap<u32, f64> {
        let curves = self.series.iter();
        let curves = curves.filter(|(key, _)| key.metric == "cost" && !key.test);
        let last = |series: &Series| series.points().last().map_or(0.0, |point| point.samples);
        curves
            .map(|(key, series)| (key.node, last(series)))
            .collect()
    }

    /// Samples that all trainers have seen together.
    pub fn samples(&self) -> f64 {
        self.trained().values().sum()
    }

    /// For each trainer, how many samples all trainers have seen per sample of its own: points of its curves are at its
    /// own samples, and jobs are compared by those of all.
    pub fn scales(&self) -> BTreeMap<u32, f64> {
        let (all, trained) = (self.samples(), self.trained());
        let scale = |own: f64| if own > 0.0 { all / own } else { 1.0 };
        trained
            .into_iter()
            .map(|(node, own)| (node, scale(own)))
            .collect()
    }

    /// Samples that trainer 0, or the first that exists, had seen at a time.
    pub(crate) fn samples_at(&self, t: f64) -> f64 {
        let mut curves = self
            .series
            .iter()
            .filter(|(key, _)| key.metric == "cost" && !key.test);
        let Some((_, series)) = curves.next() else {
            return 0.0;
        };
        let points = series.points();
        let after = points.partition_point(|point| point.t <= t);
        after.checked_sub(1).map_or(0.0, |at| points[at].samples)
    }
}
