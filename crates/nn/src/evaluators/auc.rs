//! The area under the ROC curve of the last column, in 2²⁴ bins of its value between 0 and 1; label 0 is negative.

use std::collections::BTreeMap;

use config::EvaluatorConfig;

use super::{Evaluator, check_inputs, id, numbers, weight};
use crate::error::LayerError;
use crate::network::LayerView;
use crate::number::general;

const BINS: u32 = (1 << 24) - 1;

/// Weights of positive and negative rows by bin. Inputs: prediction, label and, maybe, weight.
pub(super) struct Auc {
    name: String,
    bins: BTreeMap<u32, (f64, f64)>,
    /// Prediction and label of every row, if predictions are kept.
    rows: Option<Vec<(f32, u32)>>,
}

impl Auc {
    /// An evaluator that has seen no rows.
    pub(super) fn new(config: &EvaluatorConfig) -> Self {
        Self {
            name: config.name.clone(),
            bins: BTreeMap::new(),
            rows: None,
        }
    }

    fn value(&self) -> f64 {
        let (mut positives, mut negatives, mut area) = (0.0, 0.0, 0.0);
        for (positive, negative) in self.bins.values().rev() {
            area += negative * (positives + positives + positive) / 2.0;
            positives += positive;
            negatives += negative;
        }
        if positives > 0.0 && negatives > 0.0 {
            area / positives / negatives
        } else {
            0.0
        }
    }
}

impl Evaluator for Auc {
    fn add(&mut self, inputs: &[LayerView<'_>]) -> Result<(), LayerError> {
        check_inputs(inputs, 2..=3)?;
        for row in 0..inputs[0].rows() {
            let value = numbers(inputs, 0, row)?.last().copied().unwrap_or(0.0);
            if !(0.0..=1.0).contains(&value) {
                return Err(LayerError::Value(format!(
                    "a prediction of {value} is not a probability"
                )));
            }
            let bin = self
                .bins
                .entry((f64::from(value) * f64::from(BINS)) as u32)
                .or_default();
            let (label, weight) = (id(inputs, 1, row)?, weight(inputs, 2, row)?);
            if let Some(rows) = &mut self.rows {
                rows.push((value, label));
            }
            if label == 0 {
                bin.1 += weight;
            } else {
                bin.0 += weight;
            }
        }
        Ok(())
    }

    fn text(&self) -> String {
        format!("{}={}", self.name, general(self.value()))
    }

    fn values(&self) -> Vec<(String, f64)> {
        vec![(self.name.clone(), self.value())]
    }

    fn state(&self) -> Vec<f64> {
        self.bins
            .iter()
            .flat_map(|(&bin, &(positive, negative))| [f64::from(bin), positive, negative])
            .collect()
    }

    fn absorb(&mut self, state: &[f64]) {
        for entry in state.chunks_exact(3) {
            let bin = self.bins.entry((entry[0] as u32).min(BINS)).or_default();
            bin.0 += entry[1];
            bin.1 += entry[2];
        }
    }

    fn reset(&mut self) {
        self.bins.clear();
        self.rows.iter_mut().for_each(Vec::clear);
    }

    fn keep_predictions(&mut self) {
        self.rows.get_or_insert_default();
    }

    fn predictions(&self) -> Vec<String> {
        let rows = self.rows.iter().flatten();
        rows.map(|(value, label)| format!("{} {label}", general(f64::from(*value))))
            .collect()
    }
}
