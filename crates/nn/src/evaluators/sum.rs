//! The mean of a row's sum, or of its last column, over rows; rows may have weights.

use config::EvaluatorConfig;

use super::{Evaluator, check_inputs, numbers, ratio, weight};
use crate::error::LayerError;
use crate::network::LayerView;
use crate::number::general;

/// Which columns count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Columns {
    /// All of them (or the id itself).
    All,
    Last,
}

/// Adds up columns. Inputs: values and, maybe, weight.
pub(super) struct Sum {
    name: String,
    columns: Columns,
    total: f64,
    rows: f64,
}

impl Sum {
    /// An evaluator over the given columns.
    pub(super) fn new(config: &EvaluatorConfig, columns: Columns) -> Self {
        Self {
            name: config.name.clone(),
            columns,
            total: 0.0,
            rows: 0.0,
        }
    }

    fn value(&self) -> f64 {
        ratio(self.total, self.rows)
    }
}

impl Evaluator for Sum {
    fn add(&mut self, inputs: &[LayerView<'_>]) -> Result<(), LayerError> {
        check_inputs(inputs, 1..=2)?;
        for row in 0..inputs[0].rows() {
            let weight = weight(inputs, 1, row)?;
            let value = match (inputs[0].id(row), self.columns) {
                (Some(id), Columns::All) => f64::from(id),
                (_, Columns::All) => numbers(inputs, 0, row)?.iter().map(|&x| f64::from(x)).sum(),
                (_, Columns::Last) => numbers(inputs, 0, row)?
                    .last()
                    .map_or(0.0, |&x| f64::from(x)),
            };
            self.total += value * weight;
            self.rows += weight;
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
        vec![self.total, self.rows]
    }

    fn absorb(&mut self, state: &[f64]) {
        if let [total, rows] = state {
            self.total += total;
            self.rows += rows;
        }
    }

    fn reset(&mut self) {
        (self.total, self.rows) = (0.0, 0.0);
    }
}
