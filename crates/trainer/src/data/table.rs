//! Samples in memory: one column per slot, ragged data with offsets, no object per sample.
//!
//! The same form serves as pool, as cache and as the store from which batches are copied, so a data set is held once.
//! A column knows its nesting: the positions of a sample (one row each), grouped by sub-sequences if it has them; a
//! row is an id, `dim` values, or a list of columns with or without values.

use std::ops::Range;

use nn::batch::{Batch, Slot, SlotData};

use super::error::DataError;

/// What one position of a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementKind {
    /// `dim` values.
    Dense,
    /// The indices whose value is 1.
    Binary,
    /// Indices and their values.
    Sparse,
    /// One id.
    Ids,
}

/// The type of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotType {
    /// Name of the data layer.
    pub name: String,
    /// What one position holds.
    pub kind: ElementKind,
    /// 0: one position per sample; 1: a sequence; 2: a sequence of sub-sequences.
    pub level: u8,
    /// Width of a dense or sparse position, or the number of ids.
    pub dim: usize,
    /// The number of the first id or column where people write it: 1 in most files of libsvm, else 0.
    pub first: u32,
}

/// Samples, column by column.
#[derive(Debug, Default)]
pub(crate) struct SampleTable {
    columns: Vec<Column>,
    /// Weight of each sample in a batch; empty if each weighs 1.
    weights: Vec<u32>,
    samples: usize,
}

/// An index of a sparse row that is not below the dimension.
pub(crate) struct WideIndex {
    pub(crate) sample: usize,
    pub(crate) index: u32,
}

/// One slot of all samples.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) slot: SlotType,
    /// Offset of each sample's first position (level 1) or sub-sequence (level 2), and the end: one more than samples.
    pub(crate) samples: Vec<u64>,
    /// Offset of each sub-sequence's first position (level 2), and the end: one more than sub-sequences.
    pub(crate) subsequences: Vec<u64>,
    /// Offset of each position's first index (sparse kinds), and the end: one more than positions.
    pub(crate) rows: Vec<u64>,
    pub(crate) ids: Vec<u32>,
    pub(crate) values: Vec<f32>,
}

impl SampleTable {
    /// An empty table.
    pub(crate) fn new(slots: &[SlotType]) -> Self {
        Self {
            columns: slots.iter().cloned().map(Column::new).collect(),
            weights: Vec::new(),
            samples: 0,
        }
    }

    /// Number of samples.
    pub(crate) fn len(&self) -> usize {
        self.samples
    }

    /// The columns, to be filled by a reader; call [`SampleTable::grow`] when samples are complete.
    pub(crate) fn columns_mut(&mut self) -> &mut [Column] {
        &mut self.columns
    }

    /// Counts samples that were appended to all columns; `weights` is empty or has one entry per sample.
    pub(crate) fn grow(&mut self, samples: usize, weights: impl Iterator<Item = u32>) {
        self.samples += samples;
        self.weights.extend(weights);
    }

    /// Checks that a 32-bit index can address all samples.
    pub(crate) fn check_size(&self) -> Result<(), DataError> {
        match u32::try_from(self.samples) {
            Ok(_) => Ok(()),
            Err(_) => Err(DataError::TooMany {
                limit: u64::from(u32::MAX),
            }),
        }
    }

    /// The weight of a sample in a batch.
    pub(crate) fn weight(&self, sample: u32) -> u64 {
        self.weights
            .get(sample as usize)
            .map_or(1, |weight| u64::from(*weight))
    }

    /// Removes all samples but keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.columns.iter_mut().for_each(Column::clear);
        self.weights.clear();
        self.samples = 0;
    }

    /// Frees the unused capacity of the columns.
    pub(crate) fn shrink(&mut self) {
        for column in &mut self.columns {
            column.samples.shrink_to_fit();
            column.subsequences.shrink_to_fit();
            column.rows.shrink_to_fit();
            column.ids.shrink_to_fit();
            column.values.shrink_to_fit();
        }
        self.weights.shrink_to_fit();
    }

    /// A table of the given samples, in that order.
    pub(crate) fn gather(&self, samples: &[u32]) -> Self {
        Self {
            columns: self.columns.iter().map(|c| c.gather(samples)).collect(),
            weights: if self.weights.is_empty() {
                Vec::new()
            } else {
                samples.iter().map(|s| self.weights[*s as usize]).collect()
            },
            samples: samples.len(),
        }
    }

    /// A batch of the given samples, in that order.
    pub(crate) fn batch(&self, samples: &[u32]) -> Result<Batch, DataError> {
        let slots = self.columns.iter().map(|column| column.slot(samples));
        Ok(Batch {
            samples: samples.len(),
            slots: slots.collect::<Result<_, _>>()?,
        })
    }
}

impl Column {
    fn new(slot: SlotType) -> Self {
        let mut column = Self {
            slot,
            samples: Vec::new(),
            subsequences: Vec::new(),
            rows: Vec::new(),
            ids: Vec::new(),
            values: Vec::new(),
        };
        column.clear();
        column
    }

    fn clear(&mut self) {
        for offsets in [&mut self.samples, &mut self.subsequences, &mut self.rows] {
            offsets.clear();
            offsets.push(0);
        }
        self.ids.clear();
        self.values.clear();
    }

    /// Sub-sequences of a sample.
    fn subsequences_of(&self, sample: u32) -> Range<usize> {
        self.samples[sample as usize] as usize..self.samples[sample as usize + 1] as usize
    }

    /// Positions of a sample.
    fn rows_of(&self, sample: u32) -> Range<usize> {
        match self.slot.level {
            0 => sample as usize..sample as usize + 1,
            1 => self.subsequences_of(sample),
            _ => {
                let within = self.subsequences_of(sample);
                self.subsequences[within.start] as usize..self.subsequences[within.end] as usize
            }
        }
    }

    /// Elements of `ids` or `values` that belong to positions.
    fn elements_of(&self, rows: Range<usize>) -> Range<usize> {
        match self.slot.kind {
            ElementKind::Ids => rows,
            ElementKind::Dense => rows.start * self.slot.dim..rows.end * self.slot.dim,
            ElementKind::Binary | ElementKind::Sparse => {
                self.rows[rows.start] as usize..self.rows[rows.end] as usize
            }
        }
    }

    /// The first index of sparse rows that is not below the dimension.
    ///
    /// Ids are not compared with the dimension of their slot: v1 did not, and configurations declare labels of size 1.
    /// The layer that uses an id knows how many there are.
    pub(crate) fn index_out_of_range(&self, samples: Range<usize>) -> Option<WideIndex> {
        if matches!(self.slot.kind, ElementKind::Dense | ElementKind::Ids) || samples.is_empty() {
            return None;
        }
        let elements = |sample: usize| self.elements_of(self.rows_of(sample as u32));
        let from = elements(samples.start).start;
        let limit = u32::try_from(self.slot.dim).unwrap_or(u32::MAX);
        let at = from + self.ids[from..].iter().position(|id| *id >= limit)?;
        let sample = samples
            .clone()
            .find(|sample| elements(*sample).contains(&at));
        Some(WideIndex {
            sample: sample.unwrap_or(samples.start),
            index: self.ids[at],
        })
    }

    fn gather(&self, samples: &[u32]) -> Self {
        let mut out = Self::new(self.slot.clone());
        for sample in samples {
            let rows = self.rows_of(*sample);
            if self.slot.level == 2 {
                let within = self.subsequences_of(*sample);
                extend(&mut out.subsequences, &self.subsequences, within.clone());
                extend(
                    &mut out.samples,
                    &self.samples,
                    *sample as usize..*sample as usize + 1,
                );
            } else if self.slot.level == 1 {
                extend(
                    &mut out.samples,
                    &self.samples,
                    *sample as usize..*sample as usize + 1,
                );
            }
            if matches!(self.slot.kind, ElementKind::Binary | ElementKind::Sparse) {
                extend(&mut out.rows, &self.rows, rows.clone());
            }
            let elements = self.elements_of(rows);
            if self.slot.kind != ElementKind::Dense {
                out.ids.extend_from_slice(&self.ids[elements.clone()]);
            }
            if matches!(self.slot.kind, ElementKind::Dense | ElementKind::Sparse) {
                out.values.extend_from_slice(&self.values[elements]);
            }
        }
        out
    }

    /// This slot of the given samples, as part of a batch.
    fn slot(&self, samples: &[u32]) -> Result<Slot, DataError> {
        let ranges: Vec<Range<usize>> = samples.iter().map(|s| self.rows_of(*s)).collect();
        let elements: Vec<Range<usize>> = ranges
            .iter()
            .map(|rows| self.elements_of(rows.clone()))
            .collect();
        let rows: usize = ranges.iter().map(Range::len).sum();
        let total: usize = elements.iter().map(Range::len).sum();
        if u32::try_from(total.max(rows)).is_err() {
            return Err(DataError::TooLarge {
                slot: self.slot.name.clone(),
                limit: u64::from(u32::MAX),
            });
        }
        let data = match self.slot.kind {
            ElementKind::Ids => SlotData::Ids(copied(&self.ids, &elements, total)),
            ElementKind::Dense => SlotData::Dense {
                dim: self.slot.dim,
                values: copied(&self.values, &elements, total),
            },
            ElementKind::Binary => SlotData::Binary {
                offsets: offsets(&self.rows, &ranges, rows),
                columns: copied(&self.ids, &elements, total),
            },
            ElementKind::Sparse => SlotData::Sparse {
                offsets: offsets(&self.rows, &ranges, rows),
                columns: copied(&self.ids, &elements, total),
                values: copied(&self.values, &elements, total),
            },
        };
        let sequences = (self.slot.level > 0).then(|| starts(ranges.iter().map(Range::len)).into());
        let subsequences = (self.slot.level > 1).then(|| {
            let within: Vec<Range<usize>> =
                samples.iter().map(|s| self.subsequences_of(*s)).collect();
            let count = within.iter().map(Range::len).sum();
            offsets(&self.subsequences, &within, count).into()
        });
        Ok(Slot {
            data,
            sequences,
            subsequences,
        })
    }
}

/// Appends the lengths between `from[range]` and its successors to another list of offsets.
fn extend(to: &mut Vec<u64>, from: &[u64], range: Range<usize>) {
    let mut end = to.last().copied().unwrap_or(0);
    for i in range {
        end += from[i + 1] - from[i];
        to.push(end);
    }
}

fn copied<T: Copy>(from: &[T], ranges: &[Range<usize>], total: usize) -> Vec<T> {
    let mut out = Vec::with_capacity(total);
    for range in ranges {
        out.extend_from_slice(&from[range.clone()]);
    }
    out
}

/// Offsets of a batch from those of the table; the caller has checked that they fit.
fn offsets(from: &[u64], ranges: &[Range<usize>], count: usize) -> Vec<u32> {
    let mut out = Vec::with_capacity(count + 1);
    out.push(0);
    let mut end = 0;
    for range in ranges {
        for pair in from[range.start..=range.end].windows(2) {
            end += (pair[1] - pair[0]) as u32;
            out.push(end);
        }
    }
    out
}

fn starts(lengths: impl Iterator<Item = usize>) -> Vec<u32> {
    let mut end = 0;
    std::iter::once(0)
        .chain(lengths.map(|n| {
            end += n as u32;
            end
        }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(kind: ElementKind, level: u8, dim: usize) -> SlotType {
        SlotType {
            name: "x".into(),
            kind,
            level,
            dim,
            first: 0,
        }
    }

    /// Two samples: `[[1, 2], [3]]` and `[[4, 5, 6]]`, as nested ids.
    fn nested() -> SampleTable {
        let mut table = SampleTable::new(&[slot(ElementKind::Ids, 2, 10)]);
        let column = &mut table.columns_mut()[0];
        column.samples.extend([2, 3]);
        column.subsequences.extend([2, 3, 6]);
        column.ids.extend([1, 2, 3, 4, 5, 6]);
        table.grow(2, std::iter::empty());
        table
    }

    #[test]
    fn sub_sequence_offsets_count_positions() {
        let batch = nested().batch(&[1, 0]).unwrap();
        let slot = &batch.slots[0];
        assert_eq!(slot.data, SlotData::Ids(vec![4, 5, 6, 1, 2, 3]));
        assert_eq!(slot.sequences.as_deref(), Some(&[0, 3, 6][..]));
        assert_eq!(slot.subsequences.as_deref(), Some(&[0, 3, 5, 6][..]));
    }

    #[test]
    fn gathering_keeps_the_batches() {
        let table = nested();
        let turned = table.gather(&[1, 0, 1]);
        assert_eq!(turned.len(), 3);
        let (a, b) = (
            table.batch(&[1, 0, 1]).unwrap(),
            turned.batch(&[0, 1, 2]).unwrap(),
        );
        assert_eq!(a.slots[0].data, b.slots[0].data);
        assert_eq!(a.slots[0].sequences, b.slots[0].sequences);
        assert_eq!(a.slots[0].subsequences, b.slots[0].subsequences);
    }

    #[test]
    fn dense_and_sparse_rows() {
        let mut table = SampleTable::new(&[
            slot(ElementKind::Dense, 0, 2),
            slot(ElementKind::Sparse, 1, 9),
        ]);
        let [dense, sparse] = table.columns_mut() else {
            panic!("two columns")
        };
        dense.values.extend([1.0, 2.0, 3.0, 4.0]);
        sparse.samples.extend([2, 2]);
        sparse.rows.extend([1, 3]);
        sparse.ids.extend([7, 0, 8]);
        sparse.values.extend([0.5, 1.5, 2.5]);
        table.grow(2, [3, 4].into_iter());
        assert_eq!((table.weight(0), table.weight(1)), (3, 4));
        let batch = table.gather(&[1, 0]).batch(&[0, 1]).unwrap();
        let dim = 2;
        let values = vec![3.0, 4.0, 1.0, 2.0];
        assert_eq!(batch.slots[0].data, SlotData::Dense { dim, values });
        assert_eq!(batch.slots[1].sequences.as_deref(), Some(&[0, 0, 2][..]));
        let SlotData::Sparse {
            offsets,
            columns,
            values,
        } = &batch.slots[1].data
        else {
            panic!("sparse")
        };
        assert_eq!(
            (&offsets[..], &columns[..], &values[..]),
            (&[0, 1, 3][..], &[7, 0, 8][..], &[0.5, 1.5, 2.5][..])
        );
    }
}
