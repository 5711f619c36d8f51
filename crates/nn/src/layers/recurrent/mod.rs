//! Recurrent layers on ragged sequences, one step of all sequences at a time, without padding.

pub(crate) mod gru;
mod gru_cell;
pub(crate) mod gru_step;
pub(crate) mod lstm;
mod lstm_cell;
pub(crate) mod lstm_step;
pub(crate) mod multi_lstm;
pub(crate) mod simple;

use crate::matrix::Matrix;
use crate::simd;

/// The positions of a batch ordered by time: first every sequence's first step, then every second step, and so on.
///
/// Sequences are ordered by length, the longest first, so those that are still running are always the first ones:
/// step `t` has the rows `starts[t]..starts[t + 1]`, and its row `r` continues row `r` of step `t - 1`.
#[derive(Debug, Default)]
pub(crate) struct TimeMajor {
    /// The first row of each step, and the end: one more than steps.
    pub starts: Vec<usize>,
    /// Position of each row.
    pub positions: Vec<u32>,
    order: Vec<u32>,
}

impl TimeMajor {
    /// Orders the positions of these sequences; `reversed` runs from their ends.
    pub(crate) fn arrange(&mut self, sequences: &[u32], reversed: bool) {
        let length =
            |sequence: u32| sequences[sequence as usize + 1] - sequences[sequence as usize];
        self.order.clear();
        self.order.extend(0..sequences.len() as u32 - 1);
        self.order
            .sort_by_key(|&sequence| std::cmp::Reverse(length(sequence)));
        self.starts.clear();
        self.positions.clear();
        self.starts.push(0);
        let mut running = self.order.len();
        for step in 0.. {
            while running > 0 && length(self.order[running - 1]) <= step {
                running -= 1;
            }
            if running == 0 {
                break;
            }
            for &sequence in &self.order[..running] {
                let (start, end) = (
                    sequences[sequence as usize],
                    sequences[sequence as usize + 1],
                );
                self.positions.push(if reversed {
                    end - 1 - step
                } else {
                    start + step
                });
            }
            self.starts.push(self.positions.len());
        }
    }

    /// The sequences in the order of rows: the longest first, equal ones as they came.
    pub(crate) fn order(&self) -> &[u32] {
        &self.order
    }

    /// Number of steps: length of the longest sequence.
    pub(crate) fn steps(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Number of rows in all steps.
    pub(crate) fn rows(&self) -> usize {
        self.positions.len()
    }

    /// The rows of a step.
    pub(crate) fn step(&self, step: usize) -> std::ops::Range<usize> {
        self.starts[step]..self.starts[step + 1]
    }

    /// The rows of the previous step that continue in a step.
    pub(crate) fn before(&self, step: usize) -> std::ops::Range<usize> {
        let start = self.starts[step - 1];
        start..start + (self.starts[step + 1] - self.starts[step])
    }

    /// Stored row of an input, read through its index, for each row.
    pub(crate) fn stored(&self, index: Option<&[u32]>, stored: &mut Vec<u32>) {
        stored.clear();
        match index {
            Some(index) => stored.extend(
                self.positions
                    .iter()
                    .map(|&position| index[position as usize]),
            ),
            None => stored.extend_from_slice(&self.positions),
        }
    }

    /// `to[row] = from[position of row] + bias`, for the stored rows of an input.
    pub(crate) fn read(to: &mut Matrix, from: &Matrix, stored: &[u32], bias: Option<&[f32]>) {
        to.resize(stored.len(), from.cols());
        Self::read_rows(to.values_mut(), from, stored, bias);
    }

    /// As [`TimeMajor::read`], for some of the rows.
    pub(crate) fn read_rows(to: &mut [f32], from: &Matrix, stored: &[u32], bias: Option<&[f32]>) {
        let cols = from.cols();
        simd::for_row_blocks(
            to,
            cols,
            #[inline(always)]
            |first, block| {
                for (row, to) in block.chunks_exact_mut(cols).enumerate() {
                    to.copy_from_slice(from.row(stored[first + row] as usize));
                    if let Some(bias) = bias {
                        simd::add(to, bias);
                    }
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_hold_the_running_sequences_longest_first() {
        let mut time = TimeMajor::default();
        time.arrange(&[0, 2, 2, 5, 6], false);
        assert_eq!(time.starts, [0, 3, 5, 6]);
        assert_eq!(time.positions, [2, 0, 5, 3, 1, 4]);
        assert_eq!(
            (time.steps(), time.before(1), time.step(2)),
            (3, 0..2, 5..6)
        );
        time.arrange(&[0, 2, 2, 5, 6], true);
        assert_eq!(time.positions, [4, 1, 5, 3, 0, 2]);
        time.arrange(&[0], false);
        assert_eq!((time.steps(), time.rows()), (0, 0));
    }
}
