//! Outputs of batches become arrays.

use nn::LayerView;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

/// One output of some samples.
#[derive(Default)]
pub(crate) struct OutputArray {
    ids: Option<Vec<u32>>,
    values: Vec<f32>,
    width: usize,
    rows: u32,
    sequences: Option<Vec<u32>>,
    subsequences: Option<Vec<u32>>,
}

/// As Python gets it: whether the elements are ids (u32) or values (f32), the elements, the width of a row, and the rows
/// at which sequences and sub-sequences start (u32), if there are any.
pub(crate) type GivenOutput<'py> = (
    bool,
    Bound<'py, PyByteArray>,
    usize,
    Option<Bound<'py, PyByteArray>>,
    Option<Bound<'py, PyByteArray>>,
);

impl OutputArray {
    /// The output of a batch.
    pub(crate) fn of(view: &LayerView<'_>) -> Self {
        let mut array = Self {
            width: view.cols(),
            rows: view.rows() as u32,
            sequences: view.sequences().map(<[u32]>::to_vec),
            subsequences: view.subsequences().map(<[u32]>::to_vec),
            ..Self::default()
        };
        if view.is_ids() {
            array.ids = Some((0..view.rows()).filter_map(|row| view.id(row)).collect());
            return array;
        }
        for row in 0..view.rows() {
            let start = array.values.len();
            match view.row(row) {
                Some(values) => array.values.extend_from_slice(values),
                None => array.values.resize(start + array.width, 0.0),
            }
            for (column, value) in view.sparse_row(row).into_iter().flatten() {
                array.values[start + column as usize] = value;
            }
        }
        array
    }

    /// Appends the rows of the next batch.
    pub(crate) fn join(&mut self, other: Self) {
        let starts = |all: &mut Option<Vec<u32>>, more: Option<Vec<u32>>, rows: u32| {
            if let Some(more) = more {
                let all = all.get_or_insert_with(|| vec![0]);
                all.extend(more.iter().skip(1).map(|start| rows + start));
            }
        };
        starts(&mut self.sequences, other.sequences, self.rows);
        starts(&mut self.subsequences, other.subsequences, self.rows);
        self.rows += other.rows;
        self.width = other.width;
        self.values.extend(other.values);
        if let Some(ids) = other.ids {
            self.ids.get_or_insert_default().extend(ids);
        }
    }

    /// The bytes for Python.
    pub(crate) fn give<'py>(&self, py: Python<'py>) -> GivenOutput<'py> {
        let bytes = |data: &[u8]| PyByteArray::new(py, data);
        let starts = |starts: &Option<Vec<u32>>| {
            starts
                .as_ref()
                .map(|starts| bytes(bytemuck::cast_slice(starts)))
        };
        let data = match &self.ids {
            Some(ids) => bytes(bytemuck::cast_slice(ids)),
            None => bytes(bytemuck::cast_slice(&self.values)),
        };
        (
            self.ids.is_some(),
            data,
            self.width,
            starts(&self.sequences),
            starts(&self.subsequences),
        )
    }
}
