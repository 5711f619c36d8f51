//! Joins several batches of the same inputs to one.

use std::sync::Arc;

use nn::{Batch, Slot, SlotData};

/// The samples of all batches, one after another; `None` if their slots are of different kinds.
pub(crate) fn merge<'a>(mut batches: impl Iterator<Item = &'a Batch>) -> Option<Batch> {
    let mut merged = batches.next()?.clone();
    for batch in batches {
        if batch.slots.len() != merged.slots.len() {
            return None;
        }
        for (slot, more) in merged.slots.iter_mut().zip(&batch.slots) {
            append(slot, more)?;
        }
        merged.samples += batch.samples;
    }
    Some(merged)
}

fn append(slot: &mut Slot, more: &Slot) -> Option<()> {
    let rows = u32::try_from(slot.data.rows()).ok()?;
    match (&mut slot.data, &more.data) {
        (SlotData::Ids(ids), SlotData::Ids(more)) => ids.extend_from_slice(more),
        (
            SlotData::Dense { dim, values },
            SlotData::Dense {
                dim: own,
                values: more,
            },
        ) if dim == own => {
            values.extend_from_slice(more);
        }
        (
            SlotData::Binary { offsets, columns },
            SlotData::Binary {
                offsets: starts,
                columns: more,
            },
        ) => {
            shifted(offsets, starts);
            columns.extend_from_slice(more);
        }
        (
            SlotData::Sparse {
                offsets,
                columns,
                values,
            },
            SlotData::Sparse {
                offsets: starts,
                columns: more,
                values: numbers,
            },
        ) => {
            shifted(offsets, starts);
            columns.extend_from_slice(more);
            values.extend_from_slice(numbers);
        }
        _ => return None,
    }
    let outer = joined(slot.sequences.as_deref(), more.sequences.as_deref(), rows);
    let inner = joined(
        slot.subsequences.as_deref(),
        more.subsequences.as_deref(),
        rows,
    );
    slot.sequences = outer.ok()?;
    slot.subsequences = inner.ok()?;
    Some(())
}

/// Appends offsets, counted from the last one.
fn shifted(offsets: &mut Vec<u32>, more: &[u32]) {
    let start = offsets.last().copied().unwrap_or(0);
    offsets.extend(more.iter().skip(1).map(|offset| start + offset));
}

/// Offsets of both, the second ones behind the rows of the first; an error if only one has sequences.
fn joined(
    first: Option<&[u32]>,
    more: Option<&[u32]>,
    rows: u32,
) -> Result<Option<Arc<[u32]>>, Mismatch> {
    match (first, more) {
        (None, None) => Ok(None),
        (Some(first), Some(more)) => {
            let more = more.iter().skip(1).map(|offset| rows + offset);
            Ok(Some(first.iter().copied().chain(more).collect()))
        }
        _ => Err(Mismatch),
    }
}

/// One batch has sequences where another has none.
struct Mismatch;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merged_batch_has_the_samples_of_both() {
        let words =
            |ids: &[u32], starts: &[u32]| Slot::sequence(SlotData::Ids(ids.to_vec()), starts);
        let bag = |offsets: &[u32], columns: &[u32]| {
            Slot::plain(SlotData::Binary {
                offsets: offsets.to_vec(),
                columns: columns.to_vec(),
            })
        };
        let a = Batch {
            samples: 2,
            slots: vec![words(&[1, 2, 3], &[0, 1, 3]), bag(&[0, 2, 2], &[7, 8])],
        };
        let b = Batch {
            samples: 1,
            slots: vec![words(&[4], &[0, 1]), bag(&[0, 1], &[9])],
        };
        let merged = merge([&a, &b].into_iter()).unwrap();
        assert_eq!(merged.samples, 3);
        assert_eq!(merged.slots[0].data, SlotData::Ids(vec![1, 2, 3, 4]));
        assert_eq!(
            merged.slots[0].sequences.as_deref(),
            Some(&[0, 1, 3, 4][..])
        );
        let SlotData::Binary { offsets, columns } = &merged.slots[1].data else {
            panic!("a bag");
        };
        assert_eq!(
            (&offsets[..], &columns[..]),
            (&[0, 2, 2, 3][..], &[7, 8, 9][..])
        );
        let other = Batch {
            samples: 1,
            slots: vec![bag(&[0, 1], &[9]), bag(&[0, 1], &[9])],
        };
        assert!(merge([&a, &other].into_iter()).is_none());
    }
}
