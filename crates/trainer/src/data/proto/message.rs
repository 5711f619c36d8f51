//! The messages of v1's data files: `DataHeader`, then `DataSample`s, each behind its length as a varint.
//!
//! A file whose name ends in `.gz` is compressed. Field numbers are those of v1's `DataFormat.proto`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use config::protobuf::{Cut, FOUR_BYTES, FieldValue, Fields, VARINT};
use flate2::bufread::MultiGzDecoder;

/// The largest message that is accepted, in bytes.
const LARGEST: u64 = 1 << 30;

/// A slot as the header of a file describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotDef {
    pub kind: SlotKind,
    /// Width of a vector; one more than the largest id.
    pub dim: u32,
}

/// v1's types of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotKind {
    Dense,
    Binary,
    Sparse,
    Index,
    /// Images of any size, their labels, and text: what v1's tools for speech and pictures wrote.
    Other(u64),
}

impl SlotKind {
    fn of(number: u64) -> Self {
        match number {
            0 => SlotKind::Dense,
            1 => SlotKind::Binary,
            2 => SlotKind::Sparse,
            3 => SlotKind::Index,
            other => SlotKind::Other(other),
        }
    }
}

/// One sample, or one frame of a sequence.
#[derive(Debug, PartialEq)]
pub(super) struct ProtoSample {
    /// Whether a sequence begins here.
    pub beginning: bool,
    pub vectors: Vec<Vector>,
    pub ids: Vec<u32>,
    pub subsequences: Vec<SlotSubsequences>,
}

/// How the ids of a slot are divided.
#[derive(Debug, PartialEq)]
pub(super) struct SlotSubsequences {
    pub slot: u32,
    pub lengths: Vec<u32>,
}

/// The value of one vector slot.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Vector {
    pub values: Vec<f32>,
    pub ids: Vec<u32>,
}

/// Decodes the header of a file.
pub(super) fn header(bytes: &[u8]) -> Result<Vec<SlotDef>, Cut> {
    let mut slots = Vec::new();
    for field in Fields(bytes) {
        if let (1, FieldValue::Bytes(slot)) = field? {
            slots.push(slot_def(slot)?);
        }
    }
    Ok(slots)
}

fn slot_def(bytes: &[u8]) -> Result<SlotDef, Cut> {
    let (mut kind, mut dim) = (None, None);
    for field in Fields(bytes) {
        match field? {
            (1, FieldValue::Varint(number)) => kind = Some(SlotKind::of(number)),
            (2, FieldValue::Varint(number)) => dim = u32::try_from(number).ok(),
            _ => {}
        }
    }
    let (kind, dim) = kind.zip(dim).ok_or(Cut)?;
    Ok(SlotDef { kind, dim })
}

/// Decodes a sample.
pub(super) fn sample(bytes: &[u8]) -> Result<ProtoSample, Cut> {
    let mut sample = ProtoSample {
        beginning: true,
        vectors: Vec::new(),
        ids: Vec::new(),
        subsequences: Vec::new(),
    };
    for field in Fields(bytes) {
        match field? {
            (1, FieldValue::Varint(value)) => sample.beginning = value != 0,
            (2, FieldValue::Bytes(slot)) => sample.vectors.push(vector(slot)?),
            (3, piece) => integers(piece, &mut sample.ids)?,
            (5, FieldValue::Bytes(slot)) => sample.subsequences.push(subsequences(slot)?),
            _ => {}
        }
    }
    Ok(sample)
}

fn vector(bytes: &[u8]) -> Result<Vector, Cut> {
    let mut vector = Vector::default();
    for field in Fields(bytes) {
        match field? {
            (1, FieldValue::Four(value)) => vector.values.push(f32::from_le_bytes(value)),
            (1, FieldValue::Bytes(mut packed)) => {
                vector.values.reserve(packed.len() / 4);
                while !packed.is_empty() {
                    let Some(FieldValue::Four(value)) = FieldValue::take(FOUR_BYTES, &mut packed)
                    else {
                        return Err(Cut);
                    };
                    vector.values.push(f32::from_le_bytes(value));
                }
            }
            (2, piece) => integers(piece, &mut vector.ids)?,
            _ => {}
        }
    }
    Ok(vector)
}

fn subsequences(bytes: &[u8]) -> Result<SlotSubsequences, Cut> {
    let (mut slot, mut lengths) = (None, Vec::new());
    for field in Fields(bytes) {
        match field? {
            (1, FieldValue::Varint(number)) => slot = u32::try_from(number).ok(),
            (2, piece) => integers(piece, &mut lengths)?,
            _ => {}
        }
    }
    Ok(SlotSubsequences {
        slot: slot.ok_or(Cut)?,
        lengths,
    })
}

/// A `uint32`, or a packed list of them. v1 wrote -1 as the largest.
fn integers(piece: FieldValue<'_>, to: &mut Vec<u32>) -> Result<(), Cut> {
    match piece {
        FieldValue::Varint(value) => to.push(value as u32),
        FieldValue::Bytes(mut packed) => {
            while !packed.is_empty() {
                let Some(FieldValue::Varint(value)) = FieldValue::take(VARINT, &mut packed) else {
                    return Err(Cut);
                };
                to.push(value as u32);
            }
        }
        _ => return Err(Cut),
    }
    Ok(())
}

/// A data file, message by message.
pub(super) struct Messages {
    input: Box<dyn BufRead + Send>,
    buffer: Vec<u8>,
}

impl Messages {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = BufReader::with_capacity(1 << 16, File::open(path)?);
        let compressed = path.extension().is_some_and(|ending| ending == "gz");
        let input: Box<dyn BufRead + Send> = if compressed {
            Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(file)))
        } else {
            Box::new(file)
        };
        Ok(Self {
            input,
            buffer: Vec::new(),
        })
    }

    /// The bytes of the next message; `None` at the end of the file.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let Some(length) = self.length()? else {
            return Ok(None);
        };
        if length > LARGEST {
            let text = "a sample is longer than a gigabyte; is it a data file of v1?";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        self.buffer.clear();
        let got = self
            .input
            .by_ref()
            .take(length)
            .read_to_end(&mut self.buffer)?;
        if got as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(&self.buffer))
    }

    fn length(&mut self) -> io::Result<Option<u64>> {
        let mut length = 0u64;
        for at in 0..5 {
            let mut byte = [0];
            if self.input.read(&mut byte)? == 0 {
                return match at {
                    0 => Ok(None),
                    _ => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
            length |= u64::from(byte[0] & 0x7f) << (7 * at);
            if byte[0] & 0x80 == 0 {
                return Ok(Some(length));
            }
        }
        let text = "the length of a sample is not valid; is it a data file of v1?";
        Err(io::Error::new(io::ErrorKind::InvalidData, text))
    }
}
