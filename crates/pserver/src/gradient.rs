//! Gradients of a dense piece that wait for their step: received whole, with gaps or as rows, or still in the outbox of
//! a trainer on this host. When the step is applied, they are read block by block, so that a block stays in the cache;
//! gaps are neither stored nor added.

use std::ops::Range;
use std::sync::Arc;
use wire::shard::Block;
use wire::shared::SharedRegion;
use wire::{gaps, runs};

/// A gradient that waits for those of the other trainers.
#[derive(Debug, Clone)]
pub enum Held {
    /// The values of all blocks, one after another.
    Whole(Vec<f32>),
    /// The values without the gaps.
    Packed(PackedGradient),
    /// The values of some rows.
    Rows(LookupGradient),
    /// In the outbox of a trainer on this host.
    Placed(OutboxGradient),
}

/// A gradient with gaps (see [`gaps`]).
#[derive(Debug, Clone, Default)]
pub struct PackedGradient {
    /// Which parts of each block are present.
    pub masks: Vec<u64>,
    /// The parts that are present, one after another.
    pub values: Vec<f32>,
}

/// A gradient of rows that are narrower than the parts of blocks: all other values are zero.
#[derive(Debug, Clone, Default)]
pub struct LookupGradient {
    /// Where the values are among those of all blocks. Ascending, each inside one block.
    pub runs: Vec<Range<usize>>,
    /// The values, one run after another.
    pub values: Vec<f32>,
}

/// A gradient in an outbox.
#[derive(Debug, Clone)]
pub struct OutboxGradient {
    /// The shared memory that it is in.
    pub outbox: Arc<SharedRegion>,
    /// Offset of its first value.
    pub at: usize,
    /// Which parts of each block are present, if the gradient has gaps.
    pub masks: Option<Vec<u64>>,
}

/// Reads the next block of a gradient that is arriving.
pub(crate) type Receive<'a, E> = Box<dyn FnMut(&mut [f32]) -> Result<(), E> + 'a>;

/// Reads one gradient, block after block.
pub(crate) enum GradientSource<'a, E> {
    /// From memory of this process.
    Held(&'a [f32]),
    /// From memory of this process, where gaps are not stored: the masks and values of the next blocks.
    Packed(&'a [u64], &'a [f32]),
    /// From memory of this process that has some rows.
    Rows(RowCursor<'a>),
    /// From an outbox.
    Placed(&'a OutboxGradient, Cursor),
    /// From a connection, as it arrives.
    Arriving(Receive<'a, E>),
}

/// What has not been read of a gradient of rows.
#[derive(Debug)]
pub(crate) struct RowCursor<'a> {
    /// Where the next block begins among the values of all blocks.
    start: usize,
    runs: &'a [Range<usize>],
    values: &'a [f32],
}

/// How far an outbox has been read.
#[derive(Debug)]
pub(crate) struct Cursor {
    values: usize,
    blocks: usize,
}

impl<'a, E> GradientSource<'a, E> {
    /// Starts at the block after `before`.
    pub(crate) fn after(held: &'a Held, before: &[Block]) -> Self {
        let passed = || before.iter().map(|block| block.len).sum();
        match held {
            Held::Whole(values) => Self::Held(&values[passed()..]),
            Held::Packed(packed) => {
                let (masks, later) = packed.masks.split_at(before.len());
                Self::Packed(later, &packed.values[packed_len(masks, before)..])
            }
            Held::Rows(rows) => {
                let mut cursor = RowCursor {
                    start: 0,
                    runs: &rows.runs,
                    values: &rows.values,
                };
                cursor.next(passed());
                Self::Rows(cursor)
            }
            Held::Placed(placed) => {
                let values = match &placed.masks {
                    None => passed(),
                    Some(masks) => packed_len(masks, before),
                };
                let blocks = before.len();
                Self::Placed(placed, Cursor { values, blocks })
            }
        }
    }

    /// Writes the next block to `sum`; returns which of its parts (see [`gaps`]) may differ from zero.
    pub(crate) fn begin(&mut self, sum: &mut [f32], scratch: &mut Vec<f32>) -> Result<u64, E> {
        match self {
            Self::Held(values) => sum.copy_from_slice(take(values, sum.len())),
            Self::Packed(masks, values) => {
                let (mask, parts) = next_parts(masks, values, sum.len());
                gaps::unpack(parts, mask, sum);
                return Ok(mask);
            }
            Self::Rows(cursor) => {
                sum.fill(0.0);
                let rows = cursor.next(sum.len());
                rows.write(sum);
                return Ok(if rows.runs.is_empty() { 0 } else { u64::MAX });
            }
            Self::Placed(placed, cursor) => {
                let Some(mask) = placed.next(cursor, sum.len(), scratch) else {
                    sum.copy_from_slice(scratch);
                    return Ok(u64::MAX);
                };
                gaps::unpack(scratch, mask, sum);
                return Ok(mask);
            }
            Self::Arriving(receive) => receive(sum)?,
        }
        Ok(u64::MAX)
    }

    /// Writes the sum of the next blocks of two gradients to `sum`. If both are in memory, it adds them without copying
    /// the first.
    pub(crate) fn begin_pair(
        &mut self,
        other: &mut Self,
        sum: &mut [f32],
        scratch: &mut Vec<f32>,
    ) -> Result<u64, E> {
        match (&mut *self, &mut *other) {
            (Self::Held(first), Self::Arriving(receive)) => {
                receive(sum)?;
                let first = take(first, sum.len());
                sum.iter_mut()
                    .zip(first)
                    .for_each(|(sum, first)| *sum += *first);
                Ok(u64::MAX)
            }
            (Self::Held(first), Self::Held(second)) => {
                let both = take(first, sum.len()).iter().zip(take(second, sum.len()));
                sum.iter_mut()
                    .zip(both)
                    .for_each(|(sum, (first, second))| *sum = *first + *second);
                Ok(u64::MAX)
            }
            _ => {
                let filled = self.begin(sum, scratch)?;
                other.add(sum, filled, scratch)
            }
        }
    }

    /// Adds the next block to `sum`, of which the parts `filled` may differ from zero; returns those that may
    /// afterwards.
    pub(crate) fn add(
        &mut self,
        sum: &mut [f32],
        filled: u64,
        scratch: &mut Vec<f32>,
    ) -> Result<u64, E> {
        match self {
            Self::Held(values) => add(sum, take(values, sum.len())),
            Self::Packed(masks, values) => {
                let (mask, parts) = next_parts(masks, values, sum.len());
                return Ok(gaps::add(parts, mask, sum, filled));
            }
            Self::Rows(cursor) => {
                let rows = cursor.next(sum.len());
                if rows.runs.is_empty() {
                    return Ok(gaps::add(&[], 0, sum, filled));
                }
                scratch.clear();
                scratch.resize(sum.len(), 0.0);
                rows.write(scratch);
                add(sum, scratch);
            }
            Self::Placed(placed, cursor) => {
                if let Some(mask) = placed.next(cursor, sum.len(), scratch) {
                    return Ok(gaps::add(scratch, mask, sum, filled));
                }
                add(sum, scratch);
            }
            Self::Arriving(receive) => {
                scratch.resize(sum.len(), 0.0);
                receive(scratch)?;
                add(sum, scratch);
            }
        }
        Ok(u64::MAX)
    }
}

impl<'a> RowCursor<'a> {
    /// Splits off what is in the next `len` values.
    fn next(&mut self, len: usize) -> RowCursor<'a> {
        let (start, end) = (self.start, self.start + len);
        let inside = self.runs.partition_point(|run| run.start < end);
        let (own, later_runs) = self.runs.split_at(inside);
        let (values, later_values) = self.values.split_at(runs::count(own));
        (self.start, self.runs, self.values) = (end, later_runs, later_values);
        RowCursor {
            start,
            runs: own,
            values,
        }
    }

    fn write(&self, block: &mut [f32]) {
        runs::unpack(self.values, self.runs, self.start, block);
    }
}

impl OutboxGradient {
    /// Copies the parts that are present of the next block of `len` values, and returns its mask if it has gaps.
    fn next(&self, cursor: &mut Cursor, len: usize, out: &mut Vec<f32>) -> Option<u64> {
        let mask = self.masks.as_ref().map(|masks| masks[cursor.blocks]);
        let count = mask.map_or(len, |mask| count(mask, len));
        out.resize(count, 0.0);
        self.outbox.read(self.at + cursor.values, out);
        cursor.values += count;
        cursor.blocks += 1;
        mask
    }
}

/// Splits off the next `len` values.
fn take<'a>(values: &mut &'a [f32], len: usize) -> &'a [f32] {
    let (own, rest) = values.split_at(len);
    *values = rest;
    own
}

/// Splits off the mask of the next block, which has `len` values, and the parts of it that are present.
fn next_parts<'a>(masks: &mut &[u64], values: &mut &'a [f32], len: usize) -> (u64, &'a [f32]) {
    let (mask, later) = masks.split_first().expect("there is a mask for each block");
    *masks = later;
    (*mask, take(values, count(*mask, len)))
}

/// Number of values that are present of these blocks.
fn packed_len(masks: &[u64], blocks: &[Block]) -> usize {
    let blocks = masks.iter().zip(blocks);
    blocks.map(|(mask, block)| count(*mask, block.len)).sum()
}

/// `sum += other`, element by element.
fn add(sum: &mut [f32], other: &[f32]) {
    for (sum, other) in sum.iter_mut().zip(other) {
        *sum += *other;
    }
}

fn count(mask: u64, len: usize) -> usize {
    gaps::count(mask, len).expect("masks are checked when they arrive")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// The values from block `from` on.
    fn read(held: &Held, lens: &[usize], from: usize) -> Vec<f32> {
        let block = |len: &usize| Block {
            index: 0,
            start: 0,
            len: *len,
        };
        let before: Vec<Block> = lens[..from].iter().map(block).collect();
        let mut source = GradientSource::<Infallible>::after(held, &before);
        let mut all = Vec::new();
        for len in &lens[from..] {
            let mut block = vec![9.0; *len];
            let Ok(filled) = source.begin(&mut block, &mut Vec::new());
            assert_eq!(gaps::mask(&block) & !filled, 0);
            all.extend(block);
        }
        all
    }

    /// The sum of two gradients.
    fn sum_of(one: &Held, other: &Held, lens: &[usize]) -> Vec<f32> {
        let mut first = GradientSource::<Infallible>::after(one, &[]);
        let mut second = GradientSource::<Infallible>::after(other, &[]);
        let mut all = Vec::new();
        for len in lens {
            let mut block = vec![9.0; *len];
            let Ok(_) = first.begin_pair(&mut second, &mut block, &mut Vec::new());
            all.extend(block);
        }
        all
    }

    #[test]
    fn a_gradient_reads_the_same_from_wherever_it_lies() {
        let lens = [64, 64, 3];
        let mut values = vec![0.0; 131];
        (values[5], values[70], values[130]) = (1.5, -2.0, 3.0);
        let outbox = Arc::new(SharedRegion::create(200).unwrap());
        outbox.write(16, &values);
        let whole = OutboxGradient {
            outbox: outbox.clone(),
            at: 16,
            masks: None,
        };
        let (mut masks, mut packed, mut at) = (Vec::new(), Vec::new(), 0);
        for len in lens {
            let block = &values[at..at + len];
            masks.push(gaps::mask(block));
            gaps::pack(block, gaps::mask(block), &mut packed);
            at += len;
        }
        outbox.write(160, &packed);
        let gaps = OutboxGradient {
            outbox,
            at: 160,
            masks: Some(masks.clone()),
        };
        let values_present = packed;
        let packed = PackedGradient {
            masks,
            values: values_present,
        };
        let rows = LookupGradient {
            runs: vec![4..6, 70..71, 130..131],
            values: vec![0.0, 1.5, -2.0, 3.0],
        };
        let doubled: Vec<f32> = values.iter().map(|value| value + value).collect();
        for held in [
            Held::Placed(whole),
            Held::Placed(gaps),
            Held::Packed(packed),
            Held::Rows(rows),
            Held::Whole(values.clone()),
        ] {
            assert_eq!(read(&held, &lens, 0), values);
            assert_eq!(read(&held, &lens, 1), values[64..]);
            assert!(read(&held, &lens, 3).is_empty());
            for other in [Held::Whole(values.clone()), held.clone()] {
                assert_eq!(sum_of(&held, &other, &lens), doubled);
                assert_eq!(sum_of(&other, &held, &lens), doubled);
            }
            let mut sum = vec![1.0; 64];
            let mut source = GradientSource::<Infallible>::after(&held, &[]);
            let Ok(_) = source.add(&mut sum, u64::MAX, &mut Vec::new());
            assert_eq!(sum[5], 2.5);
            assert_eq!(sum.iter().filter(|value| **value == 1.0).count(), 63);
        }
    }
}
