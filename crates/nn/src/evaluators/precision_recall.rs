//! Precision, recall and F1 of one class, or their averages over all classes.
//!
//! Macro averages are the mean over classes; micro averages count all classes together.

use config::EvaluatorConfig;

use super::{Evaluator, check_inputs, id, numbers, weight};
use crate::error::LayerError;
use crate::layers::maxid::greatest;
use crate::network::LayerView;
use crate::number::general;

/// Counts right and wrong decisions by class. Inputs: prediction, label and, maybe, weight.
pub(super) struct PrecisionRecall {
    name: String,
    positive_label: i32,
    threshold: f32,
    /// Labels are sets of classes.
    sets: bool,
    classes: Vec<Counts>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    true_positives: f64,
    false_positives: f64,
    false_negatives: f64,
}

/// The fraction `part / (part + rest)`; 1 if both are 0, as in v1.
fn share(part: f64, rest: f64) -> f64 {
    if part > 0.0 || rest > 0.0 {
        part / (part + rest)
    } else {
        1.0
    }
}

fn f1(precision: f64, recall: f64) -> f64 {
    if precision > 0.0 || recall > 0.0 {
        2.0 * precision * recall / (precision + recall)
    } else {
        0.0
    }
}

impl Counts {
    fn precision(&self) -> f64 {
        share(self.true_positives, self.false_positives)
    }

    fn recall(&self) -> f64 {
        share(self.true_positives, self.false_negatives)
    }
}

impl PrecisionRecall {
    /// An evaluator that has seen no rows.
    pub(super) fn new(config: &EvaluatorConfig) -> Self {
        Self {
            name: config.name.clone(),
            positive_label: config.positive_label(),
            threshold: config.classification_threshold() as f32,
            sets: false,
            classes: Vec::new(),
        }
    }

    fn add_class(&mut self, prediction: &[f32], label: u32, weight: f64) -> Result<(), LayerError> {
        let (guess, label, limit) = (
            greatest(prediction) as usize,
            label as usize,
            prediction.len(),
        );
        if label >= limit {
            return Err(LayerError::Id {
                id: label as u32,
                limit,
            });
        }
        if guess == label {
            self.classes[label].true_positives += weight;
        } else {
            self.classes[label].false_negatives += weight;
            self.classes[guess].false_positives += weight;
        }
        Ok(())
    }

    fn add_set(&mut self, prediction: &[f32], labels: &[u32], weight: f64) {
        for (class, &p) in prediction.iter().enumerate() {
            let counts = &mut self.classes[class];
            match (p >= self.threshold, labels.contains(&(class as u32))) {
                (true, true) => counts.true_positives += weight,
                (true, false) => counts.false_positives += weight,
                (false, true) => counts.false_negatives += weight,
                (false, false) => {}
            }
        }
    }

    /// Names and values, in the order of v1's text.
    fn measures(&self) -> Vec<(&'static str, f64)> {
        if let Ok(label) = usize::try_from(self.positive_label) {
            let counts = self.classes.get(label).copied().unwrap_or_default();
            let (precision, recall) = (counts.precision(), counts.recall());
            return vec![
                ("precision", precision),
                ("recall", recall),
                ("F1-score", f1(precision, recall)),
            ];
        }
        let count = self.classes.len().max(1) as f64;
        let precision = self.classes.iter().map(Counts::precision).sum::<f64>() / count;
        let recall = self.classes.iter().map(Counts::recall).sum::<f64>() / count;
        let total = self
            .classes
            .iter()
            .fold(Counts::default(), |sum, class| Counts {
                true_positives: sum.true_positives + class.true_positives,
                false_positives: sum.false_positives + class.false_positives,
                false_negatives: sum.false_negatives + class.false_negatives,
            });
        let mut measures = vec![
            ("macro-average-precision", precision),
            ("macro-average-recall", recall),
            ("macro-average-F1-score", f1(precision, recall)),
            ("micro-average-precision", total.precision()),
        ];
        if self.sets {
            measures.push(("micro-average-recall", total.recall()));
            measures.push((
                "micro-average-F1-score",
                f1(total.precision(), total.recall()),
            ));
        }
        measures
    }
}

impl Evaluator for PrecisionRecall {
    fn add(&mut self, inputs: &[LayerView<'_>]) -> Result<(), LayerError> {
        check_inputs(inputs, 2..=3)?;
        self.classes
            .resize(inputs[0].cols().max(self.classes.len()), Counts::default());
        for row in 0..inputs[0].rows() {
            let (prediction, weight) = (numbers(inputs, 0, row)?, weight(inputs, 2, row)?);
            if let Some(set) = inputs[1].sparse_row(row) {
                self.sets = true;
                let labels: Vec<u32> = set.map(|(column, _)| column).collect();
                self.add_set(prediction, &labels, weight);
            } else {
                self.add_class(prediction, id(inputs, 1, row)?, weight)?;
            }
        }
        Ok(())
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if self.positive_label >= 0 {
            text = format!("positive_label={} ", self.positive_label);
        }
        let measures: Vec<String> = self
            .measures()
            .iter()
            .map(|(name, value)| format!("{name}={}", general(*value)))
            .collect();
        text + &measures.join(" ")
    }

    fn values(&self) -> Vec<(String, f64)> {
        self.measures()
            .into_iter()
            .map(|(name, value)| (format!("{}.{name}", self.name), value))
            .collect()
    }

    fn state(&self) -> Vec<f64> {
        let counts = self.classes.iter().flat_map(|class| {
            [
                class.true_positives,
                class.false_positives,
                class.false_negatives,
            ]
        });
        std::iter::once(if self.sets { 1.0 } else { 0.0 })
            .chain(counts)
            .collect()
    }

    fn absorb(&mut self, state: &[f64]) {
        let Some((sets, counts)) = state.split_first() else {
            return;
        };
        self.sets |= *sets > 0.0;
        self.classes.resize(
            (counts.len() / 3).max(self.classes.len()),
            Counts::default(),
        );
        for (class, counts) in self.classes.iter_mut().zip(counts.chunks_exact(3)) {
            class.true_positives += counts[0];
            class.false_positives += counts[1];
            class.false_negatives += counts[2];
        }
    }

    fn reset(&mut self) {
        self.classes.clear();
    }
}
