//! The gradients of all parameters: dense, or by row where a batch touches few rows.

use crate::matrix::Matrix;
use crate::parameters::{ParameterIndex, ParameterSpec};
use crate::product::{Accumulate, MatrixView, multiply};
use crate::simd;

/// The gradient of one parameter, summed over the batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Gradient {
    /// The gradient of every value, row after row.
    Dense(Vec<f32>),
    /// Of the rows that the batch touched; all others are zero.
    Rows {
        /// The rows, ascending and distinct.
        ids: Vec<u32>,
        /// Their gradients, one row after another.
        values: Vec<f32>,
    },
}

/// The gradients of all parameters. Buffers are reused from batch to batch.
#[derive(Debug)]
pub struct Gradients {
    entries: Vec<Entry>,
    /// How many recurrent groups around the current layer postpone products.
    postponing: usize,
    /// Products whose factors arrive step by step.
    postponed: Vec<Postponed>,
}

/// A product of a gradient with rows that are not complete yet: `leftᵀ · right`.
#[derive(Debug)]
struct Postponed {
    parameter: ParameterIndex,
    /// First value of the part of the gradient that it is added to.
    start: usize,
    /// Widths of the factors.
    shape: (usize, usize),
    rows: usize,
    left: Vec<f32>,
    right: Vec<f32>,
}

/// Clearing a single row costs as much as clearing this many more values in one run.
const ROW_COST: usize = 16;

#[derive(Debug)]
struct Entry {
    gradient: Gradient,
    rows: usize,
    cols: usize,
    is_static: bool,
    touched: bool,
    spare: (Vec<u32>, Vec<f32>),
    /// The whole gradient of a parameter that is kept by row, if some layer read it as a whole.
    whole: Option<Vec<f32>>,
    /// Rows of a whole gradient that may differ from zero, if it is known that all others are zero.
    dirty: Option<Vec<u32>>,
}

impl Gradients {
    /// No gradients yet, for these parameters.
    pub fn new(parameters: &[ParameterSpec]) -> Self {
        let entries = parameters
            .iter()
            .map(|spec| Entry {
                gradient: if spec.by_row {
                    Gradient::Rows {
                        ids: Vec::new(),
                        values: Vec::new(),
                    }
                } else {
                    Gradient::Dense(vec![0.0; if spec.is_static { 0 } else { spec.size() }])
                },
                rows: spec.rows,
                cols: spec.cols,
                is_static: spec.is_static,
                touched: false,
                spare: (Vec::new(), Vec::new()),
                whole: None,
                dirty: Some(Vec::new()),
            })
            .collect();
        Self {
            entries,
            postponing: 0,
            postponed: Vec::new(),
        }
    }

    /// One parameter's gradient; valid once backward has completed it.
    pub fn get(&self, parameter: ParameterIndex) -> &Gradient {
        &self.entries[parameter.0].gradient
    }

    /// Rows of a whole gradient, in any order, if all others are zero.
    pub fn rows(&self, parameter: ParameterIndex) -> Option<&[u32]> {
        let entry = &self.entries[parameter.0];
        match &entry.gradient {
            Gradient::Dense(_) => entry.dirty.as_deref(),
            Gradient::Rows { .. } => None,
        }
    }

    /// One parameter's gradient, to change it.
    pub fn get_mut(&mut self, parameter: ParameterIndex) -> &mut Gradient {
        &mut self.entries[parameter.0].gradient
    }

    /// Discards the gradients of the last batch.
    pub(crate) fn begin(&mut self) {
        for entry in &mut self.entries {
            entry.touched = false;
            entry.whole = None;
        }
        self.postponing = 0;
        for postponed in &mut self.postponed {
            postponed.clear();
        }
    }

    /// Completes the gradient of a parameter: zero if nothing was added, and one form if it was added in two.
    pub(crate) fn complete(&mut self, parameter: ParameterIndex) {
        let entry = &mut self.entries[parameter.0];
        if !entry.touched {
            entry.touched = true;
            entry.clear();
        }
        if let Some(whole) = entry.whole.take() {
            entry.spread(&whole);
        }
    }

    /// The whole gradient and what to do with it (replace if nothing was added yet); `None` if it is not needed.
    /// For a parameter that is kept by row it finally becomes a gradient of all rows, which is correct but expensive.
    pub fn dense(&mut self, parameter: ParameterIndex) -> Option<(&mut [f32], Accumulate)> {
        let entry = &mut self.entries[parameter.0];
        if entry.is_static {
            return None;
        }
        let Gradient::Dense(values) = &mut entry.gradient else {
            let whole = entry
                .whole
                .get_or_insert_with(|| vec![0.0; entry.rows * entry.cols]);
            return Some((whole, Accumulate::Add));
        };
        let mode = if entry.touched {
            Accumulate::Add
        } else {
            Accumulate::Overwrite
        };
        entry.touched = true;
        entry.dirty = None;
        Some((values, mode))
    }

    /// Adds `leftᵀ · right` to the part of a gradient that begins at `start`: at once or, between [`Gradients::postpone`]
    /// and [`Gradients::settle`], together with the rows of all other steps.
    pub(crate) fn add_product(
        &mut self,
        parameter: ParameterIndex,
        start: usize,
        left: MatrixView<'_>,
        right: MatrixView<'_>,
    ) {
        let shape = (left.shape().1, right.shape().1);
        if self.postponing == 0 || self.entries[parameter.0].is_static {
            self.multiply(parameter, start, left, right);
            return;
        }
        let same = |postponed: &Postponed| {
            (postponed.parameter, postponed.start, postponed.shape) == (parameter, start, shape)
        };
        let place = self.postponed.iter().position(same).unwrap_or_else(|| {
            self.postponed.push(Postponed {
                parameter,
                start,
                shape,
                rows: 0,
                left: Vec::new(),
                right: Vec::new(),
            });
            self.postponed.len() - 1
        });
        let postponed = &mut self.postponed[place];
        postponed.rows += left.shape().0;
        left.append_to(&mut postponed.left);
        right.append_to(&mut postponed.right);
    }

    fn multiply(
        &mut self,
        parameter: ParameterIndex,
        start: usize,
        left: MatrixView<'_>,
        right: MatrixView<'_>,
    ) {
        let size = left.shape().1 * right.shape().1;
        let Some((values, mut mode)) = self.dense(parameter) else {
            return;
        };
        if mode == Accumulate::Overwrite && values.len() != size {
            values.fill(0.0);
            mode = Accumulate::Add;
        }
        multiply(&mut values[start..start + size], left.t(), right, mode);
    }

    /// From now on products are collected, so that one product over all steps replaces one per step. Calls nest.
    pub(crate) fn postpone(&mut self) {
        self.postponing += 1;
    }

    /// Ends a [`Gradients::postpone`]; the outermost adds all products.
    pub fn settle(&mut self) {
        self.postponing -= 1;
        if self.postponing > 0 {
            return;
        }
        let mut all = std::mem::take(&mut self.postponed);
        for postponed in all.iter_mut().filter(|postponed| postponed.rows > 0) {
            let (left, right) = postponed.shape;
            let left = MatrixView::new(&postponed.left, postponed.rows, left);
            let right = MatrixView::new(&postponed.right, postponed.rows, right);
            self.multiply(postponed.parameter, postponed.start, left, right);
            postponed.clear();
        }
        self.postponed = all;
    }

    /// The whole gradient to add to, zeros at first; `None` if it is not needed.
    pub(crate) fn dense_zeroed(&mut self, parameter: ParameterIndex) -> Option<&mut [f32]> {
        let (values, mode) = self.dense(parameter)?;
        if mode == Accumulate::Overwrite {
            values.fill(0.0);
        }
        Some(values)
    }

    /// The whole gradient to add to some of its rows, zeros at first; `None` if it is not needed.
    /// Rows that no batch touches are not even cleared: outside of layers, a zero must stay a zero.
    pub fn dense_rows(&mut self, parameter: ParameterIndex, rows: &[u32]) -> Option<&mut [f32]> {
        let entry = &mut self.entries[parameter.0];
        if entry.is_static || !matches!(entry.gradient, Gradient::Dense(_)) {
            return None;
        }
        if !entry.touched {
            entry.clear();
            entry.touched = true;
        }
        if let Some(dirty) = &mut entry.dirty {
            dirty.extend_from_slice(rows);
        }
        match &mut entry.gradient {
            Gradient::Dense(values) => Some(values),
            Gradient::Rows { .. } => None,
        }
    }

    /// Whether the gradient is needed and kept by row.
    pub fn by_row(&self, parameter: ParameterIndex) -> bool {
        let entry = &self.entries[parameter.0];
        !entry.is_static && matches!(entry.gradient, Gradient::Rows { .. })
    }

    /// Adds rows (ascending, distinct ids) to the gradient of a parameter, however that is kept.
    pub fn add_rows(&mut self, parameter: ParameterIndex, ids: &[u32], rows: &Matrix) {
        if let Some(values) = self.dense_rows(parameter, ids) {
            let cols = rows.cols();
            simd::vectorised(
                #[inline(always)]
                || {
                    for (&id, row) in ids.iter().zip(rows.iter_rows()) {
                        simd::add(
                            &mut values[id as usize * cols..(id as usize + 1) * cols],
                            row,
                        );
                    }
                },
            );
            return;
        }
        if self.by_row(parameter) {
            self.entries[parameter.0].merge(ids, rows.values());
        }
    }
}

impl Postponed {
    fn clear(&mut self) {
        self.rows = 0;
        self.left.clear();
        self.right.clear();
    }
}

impl Entry {
    /// Adds a whole gradient to one that is kept by row: afterwards it has all rows.
    fn spread(&mut self, whole: &[f32]) {
        let ids: Vec<u32> = (0..self.rows as u32).collect();
        self.merge(&ids, whole);
    }

    /// Makes the gradient zero, touching only what may differ from it.
    fn clear(&mut self) {
        match (&mut self.gradient, &mut self.dirty) {
            (Gradient::Dense(values), Some(dirty)) => {
                let cols = self.cols;
                if dirty.len() * (cols + ROW_COST) > values.len() / 2 {
                    values.fill(0.0);
                } else {
                    let rows = dirty.iter().map(|&row| row as usize * cols);
                    rows.for_each(|start| values[start..start + cols].fill(0.0));
                }
                dirty.clear();
            }
            (Gradient::Dense(values), None) => values.fill(0.0),
            (Gradient::Rows { ids, values }, _) => {
                ids.clear();
                values.clear();
            }
        }
        self.dirty.get_or_insert_default();
    }

    fn merge(&mut self, new_ids: &[u32], new_values: &[f32]) {
        let Gradient::Rows { ids, values } = &mut self.gradient else {
            return;
        };
        if !self.touched {
            self.touched = true;
            ids.clear();
            ids.extend_from_slice(new_ids);
            values.clear();
            values.extend_from_slice(new_values);
            return;
        }
        std::mem::swap(ids, &mut self.spare.0);
        std::mem::swap(values, &mut self.spare.1);
        ids.clear();
        values.clear();
        merge_rows(
            (&self.spare.0, &self.spare.1),
            (new_ids, new_values),
            self.cols,
            ids,
            values,
        );
    }
}

/// The union of two sets of rows; rows in both are added.
fn merge_rows(
    a: (&[u32], &[f32]),
    b: (&[u32], &[f32]),
    cols: usize,
    ids: &mut Vec<u32>,
    values: &mut Vec<f32>,
) {
    let (mut i, mut j) = (0, 0);
    while i < a.0.len() || j < b.0.len() {
        let from_a = j == b.0.len() || (i < a.0.len() && a.0[i] <= b.0[j]);
        let from_b = i == a.0.len() || (j < b.0.len() && b.0[j] <= a.0[i]);
        if from_a {
            ids.push(a.0[i]);
            values.extend_from_slice(&a.1[i * cols..(i + 1) * cols]);
            i += 1;
        }
        if from_b {
            let row = &b.1[j * cols..(j + 1) * cols];
            if from_a {
                let start = values.len() - cols;
                simd::add(&mut values[start..], row);
            } else {
                ids.push(b.0[j]);
                values.extend_from_slice(row);
            }
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_gradient_is_cleared_where_it_was_touched() {
        // Few values are cleared in one run, many row by row.
        for rows in [4, 1000] {
            let spec = ParameterSpec {
                name: "w".into(),
                rows,
                cols: 1,
                by_row: false,
                looked_up: false,
                is_static: false,
                maintained: false,
            };
            let p = ParameterIndex(0);
            let mut gradients = Gradients::new(&[spec]);
            let mut two = Matrix::zeros(1, 1);
            two.values_mut()[0] = 2.0;
            let add = |gradients: &mut Gradients, row: u32| {
                gradients.begin();
                gradients.add_rows(p, &[row], &two);
                gradients.complete(p);
                assert_eq!(gradients.rows(p), Some([row].as_slice()));
                let Gradient::Dense(values) = gradients.get(p) else {
                    unreachable!("kept whole")
                };
                let places = values
                    .iter()
                    .enumerate()
                    .filter(|(_, value)| **value != 0.0);
                places
                    .map(|(place, value)| (place, *value))
                    .collect::<Vec<_>>()
            };
            assert_eq!(add(&mut gradients, 1), [(1, 2.0)]);
            assert_eq!(add(&mut gradients, 3), [(3, 2.0)]);
            gradients.begin();
            gradients.dense_zeroed(p).unwrap().fill(7.0);
            assert_eq!(add(&mut gradients, 0), [(0, 2.0)]);
            gradients.begin();
            gradients.complete(p);
            assert_eq!(gradients.get(p), &Gradient::Dense(vec![0.0; rows]));
        }
    }

    #[test]
    fn rows_are_merged_in_order_and_added() {
        let spec = ParameterSpec {
            name: "w".into(),
            rows: 10,
            cols: 2,
            by_row: true,
            looked_up: true,
            is_static: false,
            maintained: false,
        };
        let rows = |values: &[f32]| {
            let mut m = Matrix::zeros(values.len() / 2, 2);
            m.values_mut().copy_from_slice(values);
            m
        };
        let p = ParameterIndex(0);
        let mut gradients = Gradients::new(&[spec]);
        for _batch in 0..2 {
            gradients.begin();
            gradients.add_rows(p, &[1, 4], &rows(&[1.0, 2.0, 3.0, 4.0]));
            gradients.add_rows(p, &[0, 4, 9], &rows(&[5.0, 5.0, 0.5, 0.5, 7.0, 8.0]));
            assert_eq!(
                gradients.get(p),
                &Gradient::Rows {
                    ids: vec![0, 1, 4, 9],
                    values: vec![5.0, 5.0, 1.0, 2.0, 3.5, 4.5, 7.0, 8.0]
                }
            );
        }
        gradients.begin();
        let empty = Gradient::Rows {
            ids: vec![],
            values: vec![],
        };
        gradients.complete(p);
        assert_eq!(gradients.get(p), &empty);
    }
}
