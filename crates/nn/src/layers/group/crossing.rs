//! Maps the rows of layers outside a group to rows of its wide graph, and these to rows of a step.

use std::ops::Range;
use std::sync::Arc;

use crate::domain::{Domain, Layout};
use crate::error::LayerError;
use crate::layers::recurrent::TimeMajor;

/// The rows of a value of the wide graph in the order of the steps that read them.
#[derive(Debug)]
pub(super) struct Crossing {
    /// Stored row of each row.
    index: Vec<u32>,
    /// Where the rows of each unit begin, and the end, if units are sequences.
    offsets: Option<Vec<u32>>,
    /// Whether every step has the same rows, those of the first units. Otherwise each unit belongs to one step.
    pub fixed: bool,
}

impl Crossing {
    /// The rows of a value with this layout. `units` is the domain of all units, `sequences` the one with a unit per
    /// sequence, and `order` the sequences, the longest first.
    pub(super) fn new(
        layout: &Layout,
        units: &Arc<Domain>,
        sequences: &Arc<Domain>,
        order: &[u32],
    ) -> Self {
        if Arc::ptr_eq(&layout.domain, sequences) {
            return Self::fixed(layout, order);
        }
        let spread = layout.spread(units, layout.domain.of_sample.as_ref());
        Self {
            index: match spread.index {
                Some(index) => index.to_vec(),
                None => (0..spread.layout.positions() as u32).collect(),
            },
            offsets: spread.layout.sequences.map(|offsets| offsets.to_vec()),
            fixed: false,
        }
    }

    /// The rows of these units, in this order.
    pub(super) fn fixed(layout: &Layout, order: &[u32]) -> Self {
        let stored = |position: u32| match &layout.rows {
            Some(rows) => rows[position as usize],
            None => position,
        };
        let Some(sequences) = &layout.sequences else {
            return Self {
                index: order.iter().map(|&sequence| stored(sequence)).collect(),
                offsets: None,
                fixed: true,
            };
        };
        let (mut index, mut offsets) = (Vec::new(), vec![0]);
        for &sequence in order {
            let range = sequences[sequence as usize]..sequences[sequence as usize + 1];
            index.extend(range.map(stored));
            offsets.push(index.len() as u32);
        }
        Self {
            index,
            offsets: Some(offsets),
            fixed: true,
        }
    }

    /// The stored rows of a range of units.
    pub(super) fn rows(&self, units: Range<usize>) -> &[u32] {
        &self.index[self.range(units)]
    }

    /// Number of rows of a range of units.
    pub(super) fn count(&self, units: Range<usize>) -> usize {
        self.range(units).len()
    }

    fn range(&self, units: Range<usize>) -> Range<usize> {
        match &self.offsets {
            Some(offsets) => offsets[units.start] as usize..offsets[units.end] as usize,
            None => units,
        }
    }

    /// The layout of a range of units as the units of `domain`.
    pub(super) fn layout(&self, units: Range<usize>, domain: &Arc<Domain>) -> Layout {
        Layout {
            sequences: self.offsets.as_ref().map(|offsets| {
                let start = offsets[units.start];
                offsets[units.start..=units.end]
                    .iter()
                    .map(|offset| offset - start)
                    .collect()
            }),
            ..Layout::units(domain.clone())
        }
    }

    /// All rows and the offsets of all units.
    pub(super) fn parts(&self) -> (&[u32], Option<&[u32]>) {
        (&self.index, self.offsets.as_deref())
    }
}

/// How many units each sequence has: offsets, as if they were positions.
pub(super) fn units_of(
    layout: &Layout,
    input: usize,
    nested: bool,
) -> Result<Arc<[u32]>, LayerError> {
    let sequences = layout
        .sequences
        .as_ref()
        .ok_or(LayerError::NotSequence { input })?;
    match (&layout.subsequences, nested) {
        (None, false) => Ok(sequences.clone()),
        (None, true) => Err(LayerError::NotNested { input }),
        (Some(_), false) => Err(LayerError::Value(format!(
            "input {input} is a nested sequence: pass it as SubsequenceInput"
        ))),
        (Some(inner), true) => Ok(sequences
            .iter()
            .map(|offset| inner.partition_point(|inner| inner < offset) as u32)
            .collect()),
    }
}

/// The layout of an in-link in the wide graph: its rows in the order of units.
pub(super) fn link_layout(
    layout: &Layout,
    index: Option<&[u32]>,
    nested: bool,
    time: &TimeMajor,
    units: &Arc<Domain>,
) -> Layout {
    let mut rows = Vec::new();
    let mut offsets = None;
    match (&layout.subsequences, nested) {
        (Some(inner), true) => {
            let offsets = offsets.insert(vec![0]);
            for &unit in &time.positions {
                let range = inner[unit as usize]..inner[unit as usize + 1];
                rows.extend(range.map(|row| index.map_or(row, |index| index[row as usize])));
                offsets.push(rows.len() as u32);
            }
        }
        _ => time.stored(index, &mut rows),
    }
    Layout {
        domain: units.clone(),
        sequences: offsets.map(Into::into),
        subsequences: None,
        rows: Some(rows.into()),
    }
}
