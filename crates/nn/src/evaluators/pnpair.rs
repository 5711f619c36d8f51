//! Of all pairs with the same query and different labels: how many are in the right order per pair in the wrong one.
//!
//! A pair weighs the mean of its two weights; pairs with equal scores count for neither side.

use config::EvaluatorConfig;

use super::{Evaluator, check_inputs, id, numbers, weight};
use crate::error::LayerError;
use crate::network::LayerView;
use crate::number::general;

/// Collects scored rows. Inputs: score (last column), label, query and, maybe, weight.
pub(super) struct PairOrder {
    name: String,
    /// Query, score, label, weight.
    rows: Vec<[f64; 4]>,
}

/// Weights of pairs of rows.
#[derive(Default)]
struct PairWeights {
    /// Of the pairs in the right order.
    right: f64,
    /// Of the pairs in the wrong order.
    wrong: f64,
}

impl PairOrder {
    /// An evaluator that has seen no rows.
    pub(super) fn new(config: &EvaluatorConfig) -> Self {
        Self {
            name: config.name.clone(),
            rows: Vec::new(),
        }
    }

    fn pairs(&self) -> PairWeights {
        let mut rows = self.rows.clone();
        rows.sort_by(|a, b| a[0].total_cmp(&b[0]));
        let mut pairs = PairWeights::default();
        for query in rows.chunk_by(|a, b| a[0] == b[0]) {
            for (i, a) in query.iter().enumerate() {
                for b in &query[i + 1..] {
                    let agreement = (a[1] - b[1]) * (a[2] - b[2]);
                    let weight = (a[3] + b[3]) / 2.0;
                    if agreement > 0.0 {
                        pairs.right += weight;
                    } else if agreement < 0.0 {
                        pairs.wrong += weight;
                    }
                }
            }
        }
        pairs
    }

    fn value(&self) -> f64 {
        let PairWeights { right, wrong } = self.pairs();
        right / if wrong <= 0.0 { 1.0 } else { wrong }
    }
}

impl Evaluator for PairOrder {
    fn add(&mut self, inputs: &[LayerView<'_>]) -> Result<(), LayerError> {
        check_inputs(inputs, 3..=4)?;
        for row in 0..inputs[0].rows() {
            let score = numbers(inputs, 0, row)?.last().copied().unwrap_or(0.0);
            let (label, query) = (id(inputs, 1, row)?, id(inputs, 2, row)?);
            self.rows.push([
                f64::from(query),
                f64::from(score),
                f64::from(label),
                weight(inputs, 3, row)?,
            ]);
        }
        Ok(())
    }

    fn text(&self) -> String {
        format!(" pos/neg={}", general(self.value()))
    }

    fn values(&self) -> Vec<(String, f64)> {
        vec![(self.name.clone(), self.value())]
    }

    fn state(&self) -> Vec<f64> {
        self.rows.iter().flatten().copied().collect()
    }

    fn absorb(&mut self, state: &[f64]) {
        self.rows.extend(
            state
                .chunks_exact(4)
                .map(|row| [row[0], row[1], row[2], row[3]]),
        );
    }

    fn reset(&mut self) {
        self.rows.clear();
    }

    fn predictions(&self) -> Vec<String> {
        let rows = self.rows.iter();
        rows.map(|[query, score, label, _]| format!("{} {label} {query}", general(*score)))
            .collect()
    }
}
