//! Small ragged batches for tests, with repeated samples, empty sequences and sequences of one.

use crate::noise::Noise;
use crate::{Batch, Slot, SlotData};

/// Lengths of the sequences of a batch; several samples are equal on purpose.
pub(crate) const LENGTHS: [u32; 6] = [3, 0, 1, 4, 3, 2];
/// Which sample each one repeats.
const SAME_AS: [usize; 6] = [0, 1, 2, 3, 0, 5];

/// Builds batches of six samples.
pub(crate) struct Feed {
    noise: Noise,
    slots: Vec<Slot>,
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self {
            noise: Noise::new(3),
            slots: Vec::new(),
        }
    }

    /// A feed that begins with dense sequences of which one is long.
    pub(crate) fn long(dim: usize, length: u32) -> Self {
        let mut feed = Self::new();
        let values = (0..(length as usize + 2) * dim)
            .map(|place| feed.number(place))
            .collect();
        let offsets = [
            0,
            length,
            length,
            length + 1,
            length + 1,
            length + 1,
            length + 2,
        ];
        feed.slots
            .push(Slot::sequence(SlotData::Dense { dim, values }, offsets));
        feed
    }

    pub(crate) fn batch(self) -> Batch {
        Batch {
            samples: LENGTHS.len(),
            slots: self.slots,
        }
    }

    fn number(&self, place: usize) -> f32 {
        self.noise
            .part(self.slots.len() as u64)
            .uniform(place as u64)
            * 2.0
            - 1.0
    }

    fn id(&self, place: usize, limit: u32) -> u32 {
        (self.noise.part(self.slots.len() as u64).bits(place as u64) % u64::from(limit)) as u32
    }

    fn plain(mut self, data: SlotData) -> Self {
        self.slots.push(Slot::plain(data));
        self
    }

    fn sequence(mut self, data: SlotData) -> Self {
        self.slots.push(Slot::sequence(data, offsets()));
        self
    }

    /// One dense row per sample, values in [-1, 1).
    pub(crate) fn dense(self, dim: usize) -> Self {
        let values = SAME_AS
            .iter()
            .flat_map(|&s| (0..dim).map(move |i| s * dim + i))
            .map(|p| self.number(p))
            .collect();
        self.plain(SlotData::Dense { dim, values })
    }

    /// One dense row per sample, values in (0, 1).
    pub(crate) fn positive(self, dim: usize) -> Self {
        let values = (0..LENGTHS.len() * dim)
            .map(|p| self.number(p) * 0.4 + 0.5)
            .collect();
        self.plain(SlotData::Dense { dim, values })
    }

    /// One dense row per position.
    pub(crate) fn dense_sequence(self, dim: usize) -> Self {
        let values = places()
            .flat_map(|p| (0..dim).map(move |i| p * dim + i))
            .map(|p| self.number(p))
            .collect();
        self.sequence(SlotData::Dense { dim, values })
    }

    /// One id per sample.
    pub(crate) fn ids(self, limit: u32) -> Self {
        let ids = SAME_AS.iter().map(|&s| self.id(s, limit)).collect();
        self.plain(SlotData::Ids(ids))
    }

    /// These ids, one per sample.
    pub(crate) fn given_ids(self, ids: &[u32]) -> Self {
        self.plain(SlotData::Ids(ids.to_vec()))
    }

    /// One id per position.
    pub(crate) fn id_sequence(self, limit: u32) -> Self {
        let ids = places().map(|p| self.id(p, limit)).collect();
        self.sequence(SlotData::Ids(ids))
    }

    /// Some columns per sample, one sample with none.
    pub(crate) fn binary(self, limit: u32) -> Self {
        let columns = self.columns(limit);
        self.plain(SlotData::Binary {
            offsets: offsets(),
            columns,
        })
    }

    /// Some columns with values per sample, one sample with none.
    pub(crate) fn sparse(self, limit: u32) -> Self {
        let columns = self.columns(limit);
        let values = columns
            .iter()
            .map(|&c| self.number(c as usize + 1000))
            .collect();
        self.plain(SlotData::Sparse {
            offsets: offsets(),
            columns,
            values,
        })
    }

    /// Columns of all samples; those of one sample are between two of [`offsets`].
    fn columns(&self, limit: u32) -> Vec<u32> {
        let mut columns: Vec<u32> = Vec::new();
        for (sample, &length) in LENGTHS.iter().enumerate() {
            let mut row: Vec<u32> = (0..length as usize)
                .map(|i| self.id(SAME_AS[sample] * 10 + i, limit))
                .collect();
            row.sort_unstable();
            row.dedup();
            row.resize(length as usize, row.last().copied().unwrap_or(0));
            columns.extend(row);
        }
        columns
    }

    /// Two-level sequences of dense rows: each sequence is cut into sub-sequences of at most two.
    pub(crate) fn nested(mut self, dim: usize) -> Self {
        let values = places()
            .flat_map(|p| (0..dim).map(move |i| p * dim + i))
            .map(|p| self.number(p))
            .collect();
        let mut inner = vec![0];
        for pair in offsets().windows(2) {
            let mut at = pair[0];
            while at < pair[1] {
                at = (at + 2).min(pair[1]);
                inner.push(at);
            }
        }
        self.slots.push(Slot {
            data: SlotData::Dense { dim, values },
            sequences: Some(offsets().into()),
            subsequences: Some(inner.into()),
        });
        self
    }
}

fn offsets() -> Vec<u32> {
    let mut offsets = vec![0];
    for length in LENGTHS {
        offsets.push(offsets.last().unwrap() + length);
    }
    offsets
}

/// An index for each position, the same where samples are the same.
fn places() -> impl Iterator<Item = usize> {
    LENGTHS
        .iter()
        .zip(SAME_AS)
        .flat_map(|(&length, same)| (0..length as usize).map(move |i| same * 10 + i))
}
