//! The edit distance between recognised and true labels (`ctc_edit_distance`).
//!
//! Inputs: probabilities of all classes at all steps (the last class is blank), and the labels of each sequence. The
//! recognised labels are the greatest class of every step, with repeats merged and blanks removed. The distance is the
//! smallest number of deletions, insertions and substitutions, divided by the longer length; all results are means over
//! sequences.

use config::EvaluatorConfig;

use super::{Evaluator, id, numbers, ratio};
use crate::error::LayerError;
use crate::network::LayerView;
use crate::number::general;

/// Counts edits.
pub(super) struct EditDistance {
    name: String,
    totals: Totals,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Totals {
    distance: f64,
    deletions: f64,
    insertions: f64,
    substitutions: f64,
    wrong: f64,
    sequences: f64,
}

impl EditDistance {
    /// An evaluator as configured.
    pub(super) fn new(config: &EvaluatorConfig) -> Self {
        Self {
            name: config.name.clone(),
            totals: Totals::default(),
        }
    }

    /// The means with their names in the log.
    fn means(&self) -> [(&str, f64); 5] {
        let Totals {
            distance,
            deletions,
            insertions,
            substitutions,
            wrong,
            sequences,
        } = self.totals;
        [
            (&self.name[..], distance),
            ("deletions error", deletions),
            ("insertions error", insertions),
            ("substitutions error", substitutions),
            ("sequences error", wrong),
        ]
        .map(|(name, total)| (name, ratio(total, sequences)))
    }
}

impl Evaluator for EditDistance {
    fn add(&mut self, inputs: &[LayerView<'_>]) -> Result<(), LayerError> {
        let [output, labels] = inputs else {
            return Err(LayerError::Value(format!(
                "it reads {} layers, but needs 2",
                inputs.len()
            )));
        };
        let steps = output
            .sequences()
            .ok_or(LayerError::NotSequence { input: 0 })?;
        let places = labels
            .sequences()
            .ok_or(LayerError::NotSequence { input: 1 })?;
        for (steps, places) in steps.windows(2).zip(places.windows(2)) {
            let path = (steps[0]..steps[1])
                .map(|row| Ok(greatest(numbers(inputs, 0, row as usize)?)))
                .collect::<Result<Vec<u32>, LayerError>>()?;
            let blank = output.cols().saturating_sub(1) as u32;
            let recognised = meaning(path, blank);
            let wanted = (places[0]..places[1])
                .map(|row| id(inputs, 1, row as usize))
                .collect::<Result<Vec<u32>, LayerError>>()?;
            self.totals.add(&wanted, &recognised);
        }
        Ok(())
    }

    fn text(&self) -> String {
        let parts = self
            .means()
            .map(|(name, mean)| format!("{name}={}", general(mean)));
        parts.join("  ")
    }

    fn values(&self) -> Vec<(String, f64)> {
        vec![(
            self.name.clone(),
            ratio(self.totals.distance, self.totals.sequences),
        )]
    }

    fn state(&self) -> Vec<f64> {
        let t = &self.totals;
        vec![
            t.distance,
            t.deletions,
            t.insertions,
            t.substitutions,
            t.wrong,
            t.sequences,
        ]
    }

    fn absorb(&mut self, state: &[f64]) {
        if let [
            distance,
            deletions,
            insertions,
            substitutions,
            wrong,
            sequences,
        ] = state
        {
            self.totals.distance += distance;
            self.totals.deletions += deletions;
            self.totals.insertions += insertions;
            self.totals.substitutions += substitutions;
            self.totals.wrong += wrong;
            self.totals.sequences += sequences;
        }
    }

    fn reset(&mut self) {
        self.totals = Totals::default();
    }
}

impl Totals {
    fn add(&mut self, wanted: &[u32], recognised: &[u32]) {
        self.sequences += 1.0;
        let longer = wanted.len().max(recognised.len());
        if longer == 0 {
            return;
        }
        let edits = edits(wanted, recognised);
        let part = |count: usize| count as f64 / longer as f64;
        self.distance += part(edits.iter().sum());
        self.deletions += part(edits[0]);
        self.insertions += part(edits[1]);
        self.substitutions += part(edits[2]);
        if edits != [0; 3] {
            self.wrong += 1.0;
        }
    }
}

/// The first greatest column.
fn greatest(row: &[f32]) -> u32 {
    let best = row.iter().enumerate().fold(
        0,
        |best, (column, x)| if *x > row[best] { column } else { best },
    );
    best as u32
}

/// The labels of a path: repeats merged, blanks removed.
fn meaning(mut path: Vec<u32>, blank: u32) -> Vec<u32> {
    path.dedup();
    path.retain(|&label| label != blank);
    path
}

/// Smallest number of deletions, insertions and substitutions that turn `wanted` into `recognised`; substitutions
/// first.
fn edits(wanted: &[u32], recognised: &[u32]) -> [usize; 3] {
    let (n, m) = (wanted.len(), recognised.len());
    let at = |i: usize, j: usize| i * (m + 1) + j;
    let mut distance = vec![0usize; (n + 1) * (m + 1)];
    (0..=n).for_each(|i| distance[at(i, 0)] = i);
    (0..=m).for_each(|j| distance[at(0, j)] = j);
    for i in 1..=n {
        for j in 1..=m {
            let change = usize::from(wanted[i - 1] != recognised[j - 1]);
            let (above, left) = (distance[at(i - 1, j)] + 1, distance[at(i, j - 1)] + 1);
            distance[at(i, j)] = above.min(left).min(distance[at(i - 1, j - 1)] + change);
        }
    }
    let (mut i, mut j, mut counts) = (n, m, [0; 3]);
    while i > 0 && j > 0 {
        let (here, corner) = (distance[at(i, j)], distance[at(i - 1, j - 1)]);
        let same = wanted[i - 1] == recognised[j - 1];
        if (same && here == corner) || (!same && here == corner + 1) {
            counts[2] += usize::from(!same);
            (i, j) = (i - 1, j - 1);
        } else if here == distance[at(i - 1, j)] + 1 {
            counts[0] += 1;
            i -= 1;
        } else {
            counts[1] += 1;
            j -= 1;
        }
    }
    [counts[0] + i, counts[1] + j, counts[2]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        assert_eq!(edits(&[1, 2, 3], &[1, 2, 3]), [0, 0, 0]);
        assert_eq!(edits(&[1, 2, 3], &[1, 3]), [1, 0, 0]);
        assert_eq!(edits(&[1, 3], &[0, 1, 3, 3]), [0, 2, 0]);
        assert_eq!(edits(&[1, 2, 3], &[1, 0, 3]), [0, 0, 1]);
        assert_eq!(edits(&[], &[1, 2]), [0, 2, 0]);
        assert_eq!(edits(&[5, 6], &[]), [2, 0, 0]);
        assert_eq!(
            edits(&[0, 1, 2, 3], &[1, 2, 9, 3, 3]).iter().sum::<usize>(),
            3
        );
    }

    #[test]
    fn a_path_means_labels_without_blanks() {
        assert_eq!(meaning(vec![2, 0, 0, 2, 0, 1, 1], 2), [0, 0, 1]);
        assert_eq!(meaning(vec![], 2), [0; 0]);
    }
}
