//! Sets of row indices: which rows a batch touches, and the position of each in the compact form.

use crate::batch::SlotData;
use crate::error::LayerError;

/// The id that stands for no row (v1's -1): a lookup yields zeros.
pub(crate) const NO_ROW: u32 = u32::MAX;

/// A set of row indices below a limit, with the position of each in ascending order.
#[derive(Debug, Default)]
pub(crate) struct RowSet {
    bits: Vec<u64>,
    ranks: Vec<u32>,
    ids: Vec<u32>,
}

impl RowSet {
    /// Replaces the set by these rows, without [`NO_ROW`]; all others must be below `limit`.
    pub(crate) fn collect(&mut self, rows: &[u32], limit: usize) -> Result<(), LayerError> {
        let is_bad = |row: u32| row as usize >= limit && row != NO_ROW;
        if let Some(&id) = rows.iter().find(|&&row| is_bad(row)) {
            return Err(LayerError::Id { id, limit });
        }
        for &id in &self.ids {
            self.bits[id as usize / 64] = 0;
        }
        self.bits.resize(limit.div_ceil(64), 0);
        self.ranks.resize(self.bits.len(), 0);
        for &row in rows.iter().filter(|&&row| row != NO_ROW) {
            self.bits[row as usize / 64] |= 1 << (row % 64);
        }
        self.ids.clear();
        for (word, &bits) in self.bits.iter().enumerate() {
            if bits == 0 {
                continue;
            }
            self.ranks[word] = self.ids.len() as u32;
            let mut rest = bits;
            while rest != 0 {
                self.ids.push((word * 64) as u32 + rest.trailing_zeros());
                rest &= rest - 1;
            }
        }
        Ok(())
    }

    /// The rows, ascending and distinct.
    pub(crate) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The position of a row that is in the set.
    #[inline(always)]
    pub(crate) fn place(&self, row: u32) -> u32 {
        let word = row as usize / 64;
        self.ranks[word] + (self.bits[word] & ((1 << (row % 64)) - 1)).count_ones()
    }
}

/// The distinct rows below `limit` of several lists, ascending: by a mark for each possible one where these are few, else
/// by sorting. A mark is a byte: a frequent row would have to wait for its last mark if a mark were a bit.
pub(crate) fn distinct_rows(lists: &[&[u32]], limit: usize) -> Vec<u32> {
    let count = lists.iter().map(|rows| rows.len()).sum::<usize>();
    if limit / 32 > count {
        let rows = lists.iter().copied().flatten().copied();
        let mut rows: Vec<u32> = rows.filter(|&row| (row as usize) < limit).collect();
        rows.sort_unstable();
        rows.dedup();
        return rows;
    }
    let mut marks = vec![[0_u8; 8]; limit.div_ceil(8)];
    let (flat, _) = marks.as_flattened_mut().split_at_mut(limit);
    for &row in lists.iter().copied().flatten() {
        if let Some(mark) = flat.get_mut(row as usize) {
            *mark = 1;
        }
    }
    let mut ids = Vec::with_capacity(count.min(limit));
    for (at, eight) in marks.iter().enumerate() {
        let mut rest = u64::from_le_bytes(*eight);
        while rest != 0 {
            ids.push((at * 8) as u32 + rest.trailing_zeros() / 8);
            rest &= rest - 1;
        }
    }
    ids
}

/// The rows of a table that a slot's data looks up: its ids or its sparse columns.
pub fn looked_up(data: &SlotData) -> &[u32] {
    match data {
        SlotData::Ids(ids) => ids,
        SlotData::Binary { columns, .. } | SlotData::Sparse { columns, .. } => columns,
        SlotData::Dense { .. } => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_ranks_and_the_set_can_be_reused() {
        let mut set = RowSet::default();
        for rows in [vec![200, 3, 3, 64, 63, 127], vec![5], vec![], vec![299, 0]] {
            set.collect(&rows, 300).unwrap();
            assert_eq!(set.ids(), distinct_rows(&[&rows], 300));
            assert!(
                set.ids().is_sorted_by(|a, b| a < b)
                    && rows.iter().all(|row| set.ids().contains(row))
            );
            for (place, &id) in set.ids().iter().enumerate() {
                assert_eq!(set.place(id), place as u32);
            }
        }
        // By marks and by sorting, from several lists; rows that do not exist are left out.
        for limit in [64, 100_000] {
            let lists: [&[u32]; 3] = [&[7, 3, 7], &[], &[NO_ROW, 3, limit, limit - 1]];
            assert_eq!(distinct_rows(&lists, limit as usize), [3, 7, limit - 1]);
        }
        set.collect(&[7, NO_ROW], 300).unwrap();
        assert_eq!(set.ids(), [7]);
        assert_eq!(
            set.collect(&[300], 300),
            Err(LayerError::Id {
                id: 300,
                limit: 300
            })
        );
    }
}
