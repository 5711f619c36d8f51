//! Data layers: check a slot of the batch and find its equal samples.

use std::sync::Arc;

use crate::batch::{Slot, SlotData};
use crate::domain::{Joints, Layout, Units};
use crate::error::LayerError;
use crate::matrix::{Matrix, SparseRows};
use crate::output::{Output, OutputValues};
use words::random::mix;

/// Dense rows wider than this are rarely equal, and comparing them is expensive.
const WIDEST_COMPARED: usize = 64;
/// Sparse rows with more entries than this on average are rarely equal.
const LONGEST_COMPARED: usize = 16;

/// Reads one slot of the batch.
#[derive(Debug)]
pub(crate) struct DataLayer {
    size: usize,
    share: bool,
}

impl DataLayer {
    /// A layer for rows of `size` columns, or ids. `share`: look for equal samples.
    pub(crate) fn new(size: usize, share: bool) -> Self {
        Self { size, share }
    }

    /// Checks a slot and copies it to the data layer's output.
    pub(crate) fn read(
        &self,
        slot: &Slot,
        samples: usize,
        joints: &Joints,
        out: &mut Output,
    ) -> Result<(), LayerError> {
        self.check(slot, samples)?;
        let sequences = slot.sequences.as_deref();
        let found = if self.share {
            equal_samples(slot, samples)
        } else {
            None
        };
        let domain = match found {
            Some(equal) => joints.of_keys(equal.units, equal.of_sample),
            None => joints.whole().clone(),
        };
        let Some(of_sample) = &domain.of_sample else {
            copy(&slot.data, self.size, out);
            out.layout = Layout {
                domain,
                sequences: slot.sequences.clone(),
                subsequences: slot.subsequences.clone(),
                rows: None,
            };
            return Ok(());
        };
        let mut first = vec![u32::MAX; domain.units];
        for (sample, &unit) in of_sample.iter().enumerate() {
            let first = &mut first[unit as usize];
            *first = (*first).min(sample as u32);
        }
        let mut ranges = Vec::with_capacity(first.len());
        let mut offsets = vec![0u32];
        for &sample in &first {
            let range = range_of(sequences, sample as usize);
            offsets.push(offsets.last().copied().unwrap_or(0) + (range.end - range.start) as u32);
            ranges.push(range);
        }
        copy_ranges(&slot.data, self.size, &ranges, out);
        out.layout = Layout {
            domain,
            sequences: sequences.map(|_| Arc::from(offsets)),
            subsequences: None,
            rows: None,
        };
        Ok(())
    }

    fn check(&self, slot: &Slot, samples: usize) -> Result<(), LayerError> {
        let rows = check_data(&slot.data, self.size)?;
        let Some(sequences) = &slot.sequences else {
            return check_that(rows == samples, || {
                format!("{rows} rows for {samples} samples")
            });
        };
        check_offsets(sequences, rows, "sequence")?;
        check_that(sequences.len() == samples + 1, || {
            format!(
                "{} sequences for {samples} samples",
                sequences.len() as i64 - 1
            )
        })?;
        let Some(inner) = &slot.subsequences else {
            return Ok(());
        };
        check_offsets(inner, rows, "sub-sequence")?;
        check_that(
            sequences
                .iter()
                .all(|offset| inner.binary_search(offset).is_ok()),
            || "a sequence does not start where a sub-sequence starts".to_owned(),
        )
    }
}

fn check_that(holds: bool, reason: impl FnOnce() -> String) -> Result<(), LayerError> {
    if holds {
        Ok(())
    } else {
        Err(LayerError::Malformed(reason()))
    }
}

fn check_offsets(offsets: &[u32], rows: usize, what: &str) -> Result<(), LayerError> {
    let good = offsets.first() == Some(&0)
        && offsets.last().is_some_and(|&end| end as usize == rows)
        && offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    check_that(good, || {
        format!("{what} offsets must ascend from 0 to {rows}")
    })
}

fn check_columns(columns: &[u32], limit: usize) -> Result<(), LayerError> {
    let largest = columns.iter().fold(0, |max, &column| max.max(column));
    if columns.is_empty() || (largest as usize) < limit {
        return Ok(());
    }
    Err(LayerError::Id { id: largest, limit })
}

fn check_data(data: &SlotData, size: usize) -> Result<usize, LayerError> {
    match data {
        SlotData::Dense { dim, values } => {
            check_that(*dim == size && values.len() % (*dim).max(1) == 0, || {
                format!(
                    "rows have {dim} numbers ({} in all), the data layer has size {size}",
                    values.len()
                )
            })?;
        }
        // As in v1: the layer that uses an id decides whether it exists; labels are often declared with size 1.
        SlotData::Ids(_) => {}
        SlotData::Binary { offsets, columns } => {
            check_offsets(offsets, columns.len(), "row")?;
            check_columns(columns, size)?;
        }
        SlotData::Sparse {
            offsets,
            columns,
            values,
        } => {
            check_offsets(offsets, columns.len(), "row")?;
            check_that(columns.len() == values.len(), || {
                format!("{} columns with {} values", columns.len(), values.len())
            })?;
            check_columns(columns, size)?;
        }
    }
    Ok(data.rows())
}

fn range_of(sequences: Option<&[u32]>, sample: usize) -> std::ops::Range<usize> {
    match sequences {
        Some(sequences) => sequences[sample] as usize..sequences[sample + 1] as usize,
        None => sample..sample + 1,
    }
}

/// Which samples of a slot are equal.
struct EqualSamples {
    /// Number of distinct samples.
    units: usize,
    /// The unit of each sample.
    of_sample: Vec<u32>,
}

/// `None` if the search is not worthwhile, or if two different samples had the same hash.
fn equal_samples(slot: &Slot, samples: usize) -> Option<EqualSamples> {
    if slot.subsequences.is_some() {
        return None;
    }
    if let SlotData::Dense { dim, .. } = &slot.data
        && (*dim > WIDEST_COMPARED || slot.sequences.is_some())
    {
        return None;
    }
    if let SlotData::Binary { columns, .. } | SlotData::Sparse { columns, .. } = &slot.data
        && columns.len() > LONGEST_COMPARED * slot.data.rows()
    {
        return None;
    }
    let mut units = Units::default();
    let mut firsts: Vec<usize> = Vec::new();
    let mut of_sample = Vec::with_capacity(samples);
    for sample in 0..samples {
        let range = range_of(slot.sequences.as_deref(), sample);
        let unit = units.unit(key(&slot.data, range.clone()));
        match firsts.get(unit as usize) {
            None => firsts.push(sample),
            Some(&first) => {
                let other = range_of(slot.sequences.as_deref(), first);
                if !equal(&slot.data, range, other) {
                    return None;
                }
            }
        }
        of_sample.push(unit);
    }
    Some(EqualSamples {
        units: units.count(),
        of_sample,
    })
}

fn hash(words: impl Iterator<Item = u32>) -> u64 {
    let mut hash = 0x243f_6a88_85a3_08d3u64;
    let mut count = 0u64;
    for word in words {
        hash = (hash ^ u64::from(word))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
        count += 1;
    }
    mix(hash ^ mix(count))
}

fn key(data: &SlotData, range: std::ops::Range<usize>) -> u64 {
    match data {
        SlotData::Ids(ids) => hash(ids[range].iter().copied()),
        SlotData::Dense { dim, values } => hash(
            values[range.start * dim..range.end * dim]
                .iter()
                .map(|x| x.to_bits()),
        ),
        SlotData::Binary { offsets, columns } => hash(words(offsets, columns, &[], range)),
        SlotData::Sparse {
            offsets,
            columns,
            values,
        } => hash(words(offsets, columns, values, range)),
    }
}

/// Everything that identifies sparse rows, as words: row lengths, columns, values.
fn words<'a>(
    offsets: &'a [u32],
    columns: &'a [u32],
    values: &'a [f32],
    range: std::ops::Range<usize>,
) -> impl Iterator<Item = u32> + 'a {
    let entries = offsets[range.start] as usize..offsets[range.end] as usize;
    let values = if values.is_empty() {
        &[]
    } else {
        &values[entries.clone()]
    };
    let lengths = offsets[range.start..=range.end]
        .windows(2)
        .map(|pair| pair[1] - pair[0]);
    lengths
        .chain(columns[entries].iter().copied())
        .chain(values.iter().map(|x| x.to_bits()))
}

fn equal(data: &SlotData, a: std::ops::Range<usize>, b: std::ops::Range<usize>) -> bool {
    match data {
        SlotData::Ids(ids) => ids[a] == ids[b],
        SlotData::Dense { dim, values } => {
            let bits = |r: std::ops::Range<usize>| {
                values[r.start * dim..r.end * dim]
                    .iter()
                    .map(|x| x.to_bits())
            };
            bits(a).eq(bits(b))
        }
        SlotData::Binary { offsets, columns } => {
            words(offsets, columns, &[], a).eq(words(offsets, columns, &[], b))
        }
        SlotData::Sparse {
            offsets,
            columns,
            values,
        } => words(offsets, columns, values, a).eq(words(offsets, columns, values, b)),
    }
}

fn copy(data: &SlotData, size: usize, out: &mut Output) {
    copy_ranges(data, size, std::slice::from_ref(&(0..data.rows())), out);
}

fn copy_ranges(data: &SlotData, size: usize, ranges: &[std::ops::Range<usize>], out: &mut Output) {
    match data {
        SlotData::Dense { dim, values } => copy_dense(values, *dim, ranges, out.value_mut()),
        SlotData::Ids(ids) => {
            let to = out.ids_mut();
            to.clear();
            for range in ranges {
                to.extend_from_slice(&ids[range.clone()]);
            }
        }
        SlotData::Binary { offsets, columns } => {
            copy_sparse((offsets, columns, &[]), size, ranges, out)
        }
        SlotData::Sparse {
            offsets,
            columns,
            values,
        } => copy_sparse((offsets, columns, values), size, ranges, out),
    }
}

fn copy_dense(values: &[f32], dim: usize, ranges: &[std::ops::Range<usize>], to: &mut Matrix) {
    to.resize(ranges.iter().map(ExactSizeIterator::len).sum(), dim);
    let mut start = 0;
    for range in ranges {
        let from = &values[range.start * dim..range.end * dim];
        to.values_mut()[start..start + from.len()].copy_from_slice(from);
        start += from.len();
    }
}

fn copy_sparse(
    (offsets, columns, values): (&[u32], &[u32], &[f32]),
    size: usize,
    ranges: &[std::ops::Range<usize>],
    out: &mut Output,
) {
    let mut to = match std::mem::replace(&mut out.data, OutputValues::Ids(Vec::new())) {
        OutputValues::Sparse(rows) => rows,
        _ => SparseRows::default(),
    };
    to.cols = size;
    to.offsets.clear();
    to.columns.clear();
    to.values.clear();
    to.offsets.push(0);
    for range in ranges {
        let start = offsets[range.start];
        let shift = to.columns.len() as u32;
        to.offsets.extend(
            offsets[range.start + 1..=range.end]
                .iter()
                .map(|offset| offset - start + shift),
        );
        let entries = start as usize..offsets[range.end] as usize;
        to.columns.extend_from_slice(&columns[entries.clone()]);
        if !values.is_empty() {
            to.values.extend_from_slice(&values[entries]);
        }
    }
    out.data = OutputValues::Sparse(to);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(slot: &Slot, samples: usize, size: usize) -> Result<Output, LayerError> {
        let mut out = Output::new(false);
        DataLayer::new(size, true).read(slot, samples, &Joints::new(samples), &mut out)?;
        Ok(out)
    }

    #[test]
    fn equal_samples_are_kept_once() {
        let ids = Slot::sequence(
            SlotData::Ids(vec![1, 2, 3, 1, 2, 3]),
            vec![0, 2, 3, 5, 5, 5, 6],
        );
        let out = read(&ids, 6, 9).unwrap();
        assert_eq!(out.ids(0).unwrap(), [1, 2, 3]);
        assert_eq!(out.layout.sequences.as_deref(), Some(&[0, 2, 3, 3][..]));
        assert_eq!(
            out.layout.domain.of_sample.as_deref(),
            Some(&[0, 1, 0, 2, 2, 1][..])
        );
        let sparse = Slot::plain(SlotData::Sparse {
            offsets: vec![0, 2, 3, 5, 7],
            columns: vec![0, 1, 2, 0, 1, 0, 1],
            values: vec![1.0, 2.0, 3.0, 1.0, 2.0, 1.0, 2.5],
        });
        assert_eq!(read(&sparse, 4, 3).unwrap().layout.domain.units, 3);
    }

    #[test]
    fn bad_data_is_refused_with_the_reason() {
        let cases = [
            (Slot::plain(SlotData::Ids(vec![0])), 2),
            (Slot::sequence(SlotData::Ids(vec![0, 1]), vec![0, 2, 1]), 2),
            (Slot::sequence(SlotData::Ids(vec![0, 1]), vec![0, 1]), 1),
            (
                Slot::plain(SlotData::Dense {
                    dim: 3,
                    values: vec![0.0; 6],
                }),
                2,
            ),
            (
                Slot::plain(SlotData::Binary {
                    offsets: vec![0, 5],
                    columns: vec![1],
                }),
                1,
            ),
            (
                Slot::plain(SlotData::Sparse {
                    offsets: vec![0, 1],
                    columns: vec![1],
                    values: vec![],
                }),
                1,
            ),
        ];
        for (slot, samples) in cases {
            assert!(read(&slot, samples, 9).is_err(), "{slot:?}");
        }
    }
}
