//! Pooling: layers that reduce a sequence to one row: its maximum, average, first or last row.

pub(crate) mod average;
pub(crate) mod last;
pub(crate) mod max;

use std::sync::Arc;

use crate::domain::Layout;
use crate::error::{BuildError, LayerError};
use crate::layer::Build;

/// Which rows are pooled together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segments {
    /// Sub-sequences become rows of a sequence; otherwise sequences become single rows.
    nested: bool,
    /// Sequences are cut into windows of this many rows first.
    stride: Option<usize>,
    /// Windows are counted from the end.
    from_end: bool,
}

impl Segments {
    /// The segments that a pooling layer's description asks for.
    pub(crate) fn new(build: &Build<'_>) -> Result<Self, BuildError> {
        let config = build.config;
        build.expect_inputs(1..=1)?;
        let nested = match config.trans_type() {
            "non-seq" => false,
            "seq" => true,
            other => {
                return Err(build.error(format!(
                    "trans_type '{other}' is neither 'seq' nor 'non-seq'"
                )));
            }
        };
        build.expect(build.input_sizes[0] == build.size(), || {
            format!(
                "input has width {}, the layer {}",
                build.input_sizes[0],
                build.size()
            )
        })?;
        Ok(Self {
            nested,
            stride: usize::try_from(config.seq_pool_stride())
                .ok()
                .filter(|&stride| stride > 0),
            from_end: config.select_first(),
        })
    }

    /// The rows of this layout that are pooled together.
    pub(crate) fn of(&self, layout: &Layout) -> Result<PooledRows, LayerError> {
        let sequences = layout
            .sequences
            .clone()
            .ok_or(LayerError::NotSequence { input: 0 })?;
        if self.nested {
            let inner = layout
                .subsequences
                .clone()
                .ok_or(LayerError::NotNested { input: 0 })?;
            let outer = sequences
                .iter()
                .map(|offset| inner.partition_point(|inner| inner < offset) as u32)
                .collect();
            let layout = Layout {
                sequences: Some(outer),
                ..layout.pooled()
            };
            return Ok(PooledRows {
                offsets: inner,
                layout,
            });
        }
        let Some(stride) = self.stride else {
            return Ok(PooledRows {
                offsets: sequences,
                layout: layout.pooled(),
            });
        };
        let windows = windows(&sequences, stride as u32, self.from_end);
        let layout = Layout {
            sequences: Some(windows.sequences),
            ..layout.pooled()
        };
        Ok(PooledRows {
            offsets: windows.rows,
            layout,
        })
    }
}

/// Which rows become one.
pub(crate) struct PooledRows {
    /// Offsets of the rows that are pooled together.
    pub(crate) offsets: Arc<[u32]>,
    /// The layout of the results.
    pub(crate) layout: Layout,
}

/// Sequences that were cut into windows.
struct SequenceWindows {
    /// Offsets of the rows of the windows.
    rows: Arc<[u32]>,
    /// Offsets of the windows of the sequences.
    sequences: Arc<[u32]>,
}

/// Cuts each sequence into windows of `stride` rows; the shorter one is the last, or the first if counted from the end.
fn windows(sequences: &[u32], stride: u32, from_end: bool) -> SequenceWindows {
    let (mut inner, mut outer) = (vec![0], vec![0]);
    for pair in sequences.windows(2) {
        let (start, end) = (pair[0], pair[1]);
        let mut cut = if from_end && !(end - start).is_multiple_of(stride) {
            start + (end - start) % stride
        } else {
            start + stride
        };
        while start < end && cut < end {
            inner.push(cut);
            cut += stride;
        }
        if start < end {
            inner.push(end);
        }
        outer.push(inner.len() as u32 - 1);
    }
    SequenceWindows {
        rows: inner.into(),
        sequences: outer.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cut_every_sequence() {
        let cut = windows(&[0, 5, 5, 7], 2, false);
        assert_eq!(
            (&cut.rows[..], &cut.sequences[..]),
            (&[0, 2, 4, 5, 7][..], &[0, 3, 3, 4][..])
        );
        let cut = windows(&[0, 5, 5, 7], 2, true);
        assert_eq!(
            (&cut.rows[..], &cut.sequences[..]),
            (&[0, 1, 3, 5, 7][..], &[0, 3, 3, 4][..])
        );
    }
}
