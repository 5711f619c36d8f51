//! The share of rows whose label is not among the `top_k` greatest columns; for sets of labels the share of columns
//! on the wrong side of the threshold. By sequence: a sequence is wrong if any of its rows is.

use config::EvaluatorConfig;

use super::{Evaluator, check_inputs, id, numbers, ratio, weight};
use crate::error::LayerError;
use crate::network::LayerView;
use crate::number::general;

/// Counts wrong rows, or wrong sequences. Inputs: prediction, label and, maybe, weight.
pub(super) struct ClassificationError {
    name: String,
    top_k: usize,
    threshold: f32,
    by_sequence: bool,
    wrong: f64,
    all: f64,
}

impl ClassificationError {
    /// An evaluator as configured; `by_sequence` counts sequences.
    pub(super) fn new(config: &EvaluatorConfig, by_sequence: bool) -> Self {
        Self {
            name: config.name.clone(),
            top_k: usize::try_from(config.top_k()).unwrap_or(1).max(1),
            threshold: config.classification_threshold() as f32,
            by_sequence,
            wrong: 0.0,
            all: 0.0,
        }
    }

    /// The error of a row: 0, 1, or the share or number of wrong columns.
    pub(super) fn error(&self, inputs: &[LayerView<'_>], row: usize) -> Result<f64, LayerError> {
        let prediction = numbers(inputs, 0, row)?;
        if let Some(set) = inputs[1].sparse_row(row) {
            let mut wrong = prediction.iter().filter(|&&p| p >= self.threshold).count() as f64;
            for (column, _) in set {
                let p = prediction.get(column as usize).copied().unwrap_or(0.0);
                wrong += if p < self.threshold { 1.0 } else { -1.0 };
            }
            return Ok(wrong / prediction.len().max(1) as f64);
        }
        if let Some(labels) = inputs[1].row(row) {
            let differs = |(p, t): (&f32, &f32)| (*p > self.threshold) != (*t > self.threshold);
            return Ok(prediction
                .iter()
                .zip(labels)
                .filter(|&pair| differs(pair))
                .count() as f64);
        }
        let label = id(inputs, 1, row)? as usize;
        let Some(&own) = prediction.get(label) else {
            return Ok(1.0);
        };
        let better = prediction
            .iter()
            .enumerate()
            .filter(|&(col, &p)| p > own || (p == own && col < label))
            .count();
        Ok(if better < self.top_k { 0.0 } else { 1.0 })
    }

    fn value(&self) -> f64 {
        ratio(self.wrong, self.all)
    }
}

impl Evaluator for ClassificationError {
    fn add(&mut self, inputs: &[LayerView<'_>]) -> Result<(), LayerError> {
        check_inputs(inputs, 2..=3)?;
        if !self.by_sequence {
            for row in 0..inputs[0].rows() {
                let weight = weight(inputs, 2, row)?;
                self.wrong += self.error(inputs, row)? * weight;
                self.all += weight;
            }
            return Ok(());
        }
        let sequences = inputs[0]
            .sequences()
            .ok_or(LayerError::NotSequence { input: 0 })?;
        for pair in sequences.windows(2) {
            let mut errors = 0.0;
            for row in pair[0] as usize..pair[1] as usize {
                errors += self.error(inputs, row)? * weight(inputs, 2, row)?;
            }
            self.wrong += if errors > 0.0 { 1.0 } else { 0.0 };
            self.all += 1.0;
        }
        Ok(())
    }

    fn text(&self) -> String {
        if self.top_k == 1 {
            format!("{}={}", self.name, general(self.value()))
        } else {
            format!(" top_{}_error={}", self.top_k, general(self.value()))
        }
    }

    fn values(&self) -> Vec<(String, f64)> {
        vec![(self.name.clone(), self.value())]
    }

    fn state(&self) -> Vec<f64> {
        vec![self.wrong, self.all]
    }

    fn absorb(&mut self, state: &[f64]) {
        if let [wrong, all] = state {
            self.wrong += wrong;
            self.all += all;
        }
    }

    fn reset(&mut self) {
        (self.wrong, self.all) = (0.0, 0.0);
    }
}
