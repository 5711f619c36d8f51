//! The area under the curve of clicks, computed for every sequence and averaged over sequences.
//!
//! Rows of a sequence are ordered by score, the highest first. A row has a number of clicks and, maybe, of views; rows
//! with equal scores count half for each other.

use config::EvaluatorConfig;

use super::{Evaluator, check_inputs, numbers, ratio, weight};
use crate::error::LayerError;
use crate::network::LayerView;
use crate::number::general;

/// Inputs: score, clicks and, maybe, views; one column each, as sequences.
pub(super) struct RankAuc {
    name: String,
    total: f64,
    sequences: f64,
}

impl RankAuc {
    /// An evaluator that has seen no sequences.
    pub(super) fn new(config: &EvaluatorConfig) -> Self {
        Self {
            name: config.name.clone(),
            total: 0.0,
            sequences: 0.0,
        }
    }

    fn value(&self) -> f64 {
        ratio(self.total, self.sequences)
    }
}

/// The area of one sequence; rows are (score, clicks, views). As v1 has it, the rows without clicks that the area is
/// divided by are summed from the beginning of each group of equal scores.
fn area(rows: &mut [(f32, f64, f64)]) -> f64 {
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (mut area, mut clicks, mut clicks_before) = (0.0, 0.0, 0.0);
    let (mut others, mut all_others) = (0.0, 0.0);
    let mut last = None;
    for &(score, clicked, viewed) in rows.iter() {
        if last != Some(score) {
            area += (clicks + clicks_before) * others / 2.0;
            clicks_before = clicks;
            others = 0.0;
            last = Some(score);
        }
        others += viewed - clicked;
        all_others += others;
        clicks += clicked;
    }
    area += (clicks + clicks_before) * others / 2.0;
    ratio(area, clicks * all_others)
}

impl Evaluator for RankAuc {
    fn add(&mut self, inputs: &[LayerView<'_>]) -> Result<(), LayerError> {
        check_inputs(inputs, 2..=3)?;
        let sequences = inputs[0]
            .sequences()
            .ok_or(LayerError::NotSequence { input: 0 })?;
        for range in sequences.windows(2) {
            let row = |row: u32| {
                let row = row as usize;
                let first =
                    |input| Ok(numbers(inputs, input, row)?.first().copied().unwrap_or(0.0));
                Ok((first(0)?, f64::from(first(1)?), weight(inputs, 2, row)?))
            };
            let mut rows = (range[0]..range[1])
                .map(row)
                .collect::<Result<Vec<_>, LayerError>>()?;
            self.total += area(&mut rows);
            self.sequences += 1.0;
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
        vec![self.total, self.sequences]
    }

    fn absorb(&mut self, state: &[f64]) {
        if let [total, sequences] = state {
            self.total += total;
            self.sequences += sequences;
        }
    }

    fn reset(&mut self) {
        (self.total, self.sequences) = (0.0, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_counts_clicks_above_rows_without() {
        assert_eq!(area(&mut [(0.9, 1.0, 1.0), (0.1, 0.0, 1.0)]), 1.0);
        assert_eq!(area(&mut [(0.9, 0.0, 1.0), (0.1, 1.0, 1.0)]), 0.0);
        assert_eq!(area(&mut [(0.5, 1.0, 1.0), (0.5, 0.0, 1.0)]), 0.5);
        assert_eq!(area(&mut [(0.5, 1.0, 1.0)]), 0.0, "nothing to compare with");
        assert_eq!(area(&mut []), 0.0);
    }
}
