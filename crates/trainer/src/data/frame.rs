//! Decodes the frames that a provider process sends. Every length and id is checked before it is used.
//!
//! The layout of a frame is described in the head of `provider_worker.py`. A block of samples is decoded straight into
//! the columns of a table.

use std::io::{self, Read};

use super::table::{Column, ElementKind, SampleTable};

/// Frames may not be larger than this; a provider's block is about a megabyte.
const LARGEST: usize = 1 << 30;

/// A message of a provider process.
#[derive(Debug)]
pub(crate) enum ProviderFrame {
    /// The slots and options of the provider, as JSON.
    Hello(Vec<u8>),
    /// A block of samples.
    Block(SampleBlock),
    /// Why the process ends without further samples, as JSON.
    Refused(Vec<u8>),
}

/// Consecutive samples of one file.
#[derive(Debug)]
pub(crate) struct SampleBlock {
    /// Index of the file in the list, from 0.
    pub file: u32,
    /// Index of the block's first sample in the file, from 0.
    pub first: u64,
    /// Number of samples in the block.
    pub samples: usize,
    /// Whether the file has no more samples after these.
    pub ended: bool,
    weighted: bool,
    payload: Vec<u8>,
}

/// Reads one frame; returns `None` at the end of the stream.
pub(crate) fn read(from: &mut impl Read) -> io::Result<Option<ProviderFrame>> {
    let mut head = [0u8; 5];
    let mut got = 0;
    while got < head.len() {
        match from.read(&mut head[got..])? {
            0 if got == 0 => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => got += n,
        }
    }
    let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if length > LARGEST {
        return Err(broken("a frame is too long"));
    }
    let mut payload = Vec::new();
    from.by_ref()
        .take(length as u64)
        .read_to_end(&mut payload)?;
    if payload.len() != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    match head[0] {
        b'H' => Ok(Some(ProviderFrame::Hello(payload))),
        b'E' => Ok(Some(ProviderFrame::Refused(payload))),
        b'D' => block(payload).map(|block| Some(ProviderFrame::Block(block))),
        _ => Err(broken("a frame of unknown kind")),
    }
}

fn broken(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

const BLOCK_HEAD: usize = 18;

fn block(payload: Vec<u8>) -> io::Result<SampleBlock> {
    let Some((head, _)) = payload.split_first_chunk::<BLOCK_HEAD>() else {
        return Err(broken("a block without head"));
    };
    let [
        f0,
        f1,
        f2,
        f3,
        s0,
        s1,
        s2,
        s3,
        s4,
        s5,
        s6,
        s7,
        n0,
        n1,
        n2,
        n3,
        ended,
        weighted,
    ] = *head;
    Ok(SampleBlock {
        file: u32::from_le_bytes([f0, f1, f2, f3]),
        first: u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
        samples: u32::from_le_bytes([n0, n1, n2, n3]) as usize,
        ended: ended != 0,
        weighted: weighted != 0,
        payload,
    })
}

/// Why a block cannot be appended to a table.
#[derive(Debug, PartialEq)]
pub(crate) enum BlockError {
    /// It is not a block of these slots.
    Broken(&'static str),
    /// An index of a sparse row is too large; the sample's index counts from the first of the block.
    OutOfRange {
        slot: usize,
        sample: usize,
        value: u32,
    },
}

impl SampleBlock {
    /// Appends the samples to a table.
    pub(super) fn enter(&self, table: &mut SampleTable) -> Result<(), BlockError> {
        let mut arrays = Arrays(&self.payload[BLOCK_HEAD..]);
        let weights = if self.weighted {
            let weights = arrays.next()?;
            require(weights.len() == self.samples * 4, "weights")?;
            weights
        } else {
            &[]
        };
        let before = table.len();
        for (slot, column) in table.columns_mut().iter_mut().enumerate() {
            column.take(&mut arrays, self.samples)?;
            if let Some(wide) = column.index_out_of_range(before..before + self.samples) {
                return Err(BlockError::OutOfRange {
                    slot,
                    sample: wide.sample - before,
                    value: wide.index,
                });
            }
        }
        require(arrays.0.is_empty(), "more arrays than slots")?;
        table.grow(self.samples, words(weights));
        Ok(())
    }
}

fn require(holds: bool, what: &'static str) -> Result<(), BlockError> {
    if holds {
        Ok(())
    } else {
        Err(BlockError::Broken(what))
    }
}

/// The arrays of a block: a u32 count, then that many 4-byte values.
struct Arrays<'a>(&'a [u8]);

impl<'a> Arrays<'a> {
    fn next(&mut self) -> Result<&'a [u8], BlockError> {
        let short = BlockError::Broken("an array is cut off");
        let Some((count, rest)) = self.0.split_first_chunk::<4>() else {
            return Err(short);
        };
        let bytes = u32::from_le_bytes(*count) as usize * 4;
        let Some((array, rest)) = rest.split_at_checked(bytes) else {
            return Err(short);
        };
        self.0 = rest;
        Ok(array)
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let quads = bytes.as_chunks::<4>().0;
    quads.iter().map(|quad| u32::from_le_bytes(*quad))
}

impl Column {
    /// Decodes the arrays of this slot for `samples` samples.
    fn take(&mut self, arrays: &mut Arrays<'_>, samples: usize) -> Result<(), BlockError> {
        let mut rows = samples;
        if self.slot.level > 0 {
            rows = lengths(arrays, rows, &mut self.samples)?;
        }
        if self.slot.level > 1 {
            rows = lengths(arrays, rows, &mut self.subsequences)?;
        }
        let elements = match self.slot.kind {
            ElementKind::Ids => rows,
            ElementKind::Dense => rows.saturating_mul(self.slot.dim),
            ElementKind::Binary | ElementKind::Sparse => lengths(arrays, rows, &mut self.rows)?,
        };
        if self.slot.kind != ElementKind::Dense {
            let ids = arrays.next()?;
            require(ids.len() / 4 == elements, "ids do not match their lengths")?;
            self.ids.extend(words(ids));
        }
        if matches!(self.slot.kind, ElementKind::Dense | ElementKind::Sparse) {
            let values = arrays.next()?;
            require(
                values.len() / 4 == elements,
                "values do not match their lengths",
            )?;
            self.values.extend(words(values).map(f32::from_bits));
        }
        Ok(())
    }
}

/// Reads an array of lengths and appends them as offsets; returns their sum.
fn lengths(arrays: &mut Arrays<'_>, count: usize, to: &mut Vec<u64>) -> Result<usize, BlockError> {
    let array = arrays.next()?;
    require(
        array.len() / 4 == count,
        "lengths do not match what they divide",
    )?;
    let start = to.last().copied().unwrap_or(0);
    let mut end = start;
    to.extend(words(array).map(|length| {
        end += u64::from(length);
        end
    }));
    usize::try_from(end - start).map_err(|_| BlockError::Broken("lengths are too large"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::table::SlotType;

    fn slots() -> Vec<SlotType> {
        let slot = |kind, level, dim| SlotType {
            name: "s".into(),
            kind,
            level,
            dim,
            first: 0,
        };
        vec![
            slot(ElementKind::Ids, 1, 10),
            slot(ElementKind::Sparse, 0, 5),
            slot(ElementKind::Dense, 0, 2),
        ]
    }

    fn array(bytes: &mut Vec<u8>, words: &[u32]) {
        bytes.extend((words.len() as u32).to_le_bytes());
        words.iter().for_each(|w| bytes.extend(w.to_le_bytes()));
    }

    /// Two samples of the three slots, with `column` as the only index of the sparse slot.
    fn frame(column: u32) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.extend(7u32.to_le_bytes());
        payload.extend(40u64.to_le_bytes());
        payload.extend(2u32.to_le_bytes());
        payload.extend([1, 1]);
        array(&mut payload, &[5, 6]);
        array(&mut payload, &[1, 2]);
        array(&mut payload, &[9, 3, u32::MAX]);
        array(&mut payload, &[0, 1]);
        array(&mut payload, &[column]);
        array(&mut payload, &[0.5f32.to_bits()]);
        array(&mut payload, &[1.0f32, 2.0, 3.0, 4.0].map(f32::to_bits));
        let mut bytes = vec![b'D'];
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.extend(payload);
        bytes
    }

    fn decode(bytes: &[u8]) -> SampleBlock {
        match read(&mut &bytes[..]) {
            Ok(Some(ProviderFrame::Block(block))) => block,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_block_enters_the_columns() {
        let block = decode(&frame(4));
        assert_eq!(
            (block.file, block.first, block.samples, block.ended),
            (7, 40, 2, true)
        );
        let mut table = SampleTable::new(&slots());
        block.enter(&mut table).unwrap();
        block.enter(&mut table).unwrap();
        assert_eq!((table.len(), table.weight(3)), (4, 6));
        let batch = table.batch(&[3, 0]).unwrap();
        assert_eq!(batch.slots[0].data, nn::SlotData::Ids(vec![3, u32::MAX, 9]));
    }

    #[test]
    fn an_index_out_of_range_names_slot_sample_and_value() {
        let mut table = SampleTable::new(&slots());
        decode(&frame(4)).enter(&mut table).unwrap();
        let failed = decode(&frame(5)).enter(&mut table);
        let want = BlockError::OutOfRange {
            slot: 1,
            sample: 1,
            value: 5,
        };
        assert_eq!(failed, Err(want));
    }

    #[test]
    fn no_cut_or_changed_byte_panics() {
        let good = frame(4);
        for length in 0..good.len() {
            let _ = read(&mut &good[..length]);
        }
        for at in 0..good.len() {
            for value in [0, 1, 127, 255] {
                let mut bad = good.clone();
                bad[at] = value;
                if let Ok(Some(ProviderFrame::Block(block))) = read(&mut &bad[..]) {
                    let _ = block.enter(&mut SampleTable::new(&slots()));
                }
            }
        }
    }
}
