//! The file format of a part of a snapshot or of saved tables: one service's blocks and rows. Servers write and read
//! it; trainers read it to test a model whose tables do not fit in their memory. `P` is the type of a table's scalars.
//!
//! ```text
//! "CANOPART"  version u32  header length u32  header (JSON)  crc32 of all before
//! sections:   kind u32  table u32  index u64  count u64  data  crc32 of the section
//!   kind 1, a dense block: index = block, count = values; data = values, then state (slots x count), f32
//!   kind 2, rows of a shard: index = shard, count = rows; data = ids (u32), then rows
//!     (mark, values, state: 1 + cols x (1 + slots) f32 each)
//!   kind 0, the end: count = number of sections before it
//! ```
//!
//! Little-endian. A reader trusts nothing: lengths are compared with the table and with the rest of
//! the file before anything is allocated. The header says which part of which save the file is ([`Binding`]), and the
//! fingerprint, a checksum over all checksums, is in the save's manifest: a part of another step, server or run, or
//! one that was written at another time, is not taken for the right one.

use crate::binding::Binding;
use crate::shard::SHARDS;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

const MAGIC: &[u8; 8] = b"CANOPART";
const VERSION: u32 = 2;
const LONGEST_HEADER: u32 = 64 << 20;
const SECTION_HEAD: usize = 24;

/// The header of a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartHeader<P> {
    /// The save that this part belongs to, and the service that wrote it.
    pub binding: Binding,
    /// The tables.
    pub tables: Vec<TableHeader<P>>,
}

/// A table of the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableHeader<P> {
    /// Its name.
    pub name: String,
    /// Values per row.
    pub cols: u32,
    /// State values per parameter value.
    pub slots: u32,
    /// Its scalars; `None` if the service holds nothing of the table.
    pub progress: Option<P>,
}

/// A piece of a table.
#[derive(Debug, PartialEq)]
pub enum Section<'a> {
    /// A block of a dense table.
    Block {
        /// Index of the table.
        table: usize,
        /// Index of the block in its table.
        index: u64,
        /// Its values.
        values: &'a [f32],
        /// Its state.
        state: &'a [f32],
    },
    /// Rows of a shard of a sparse table.
    Rows {
        /// Index of the table.
        table: usize,
        /// The logical shard.
        shard: u32,
        /// Row ids.
        ids: &'a [u32],
        /// Mark, values and state of each row.
        rows: &'a [f32],
    },
}

/// Why a part cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The file ends early or there was a read error.
    #[error("read")]
    Read(#[source] io::Error),
    /// The file does not begin like a part.
    #[error("it was not written by a canoe server")]
    Magic,
    /// Written by another version of canoe.
    #[error(
        "it has format {0} of another version of canoe; this one reads format {VERSION}: continue with that version, or start with --fresh"
    )]
    Version(u32),
    /// A checksum does not match.
    #[error("checksum of {0} is wrong: the file is damaged")]
    Checksum(&'static str),
    /// The header does not parse.
    #[error("header cannot be read")]
    Header(#[source] serde_json::Error),
    /// A length, count or index that contradicts the header or the length of the file.
    #[error("{0}")]
    Impossible(String),
}

/// Writes a part.
#[derive(Debug)]
pub struct PartWriter<W: Write> {
    out: W,
    sections: u64,
    fingerprint: crc32fast::Hasher,
}

impl<W: Write> PartWriter<W> {
    /// Begins a part: writes the header.
    pub fn new<P: Serialize>(mut out: W, header: &PartHeader<P>) -> io::Result<Self> {
        let text = serde_json::to_vec(header).map_err(io::Error::other)?;
        let length = u32::try_from(text.len()).map_err(io::Error::other)?;
        let mut bytes = Vec::with_capacity(text.len() + 20);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&text);
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        out.write_all(&bytes)?;
        let mut fingerprint = crc32fast::Hasher::new();
        fingerprint.update(&crc.to_le_bytes());
        Ok(Self {
            out,
            sections: 0,
            fingerprint,
        })
    }

    /// Adds a section.
    pub fn section(&mut self, section: &Section<'_>) -> io::Result<()> {
        self.sections += 1;
        match section {
            Section::Block {
                table,
                index,
                values,
                state,
            } => {
                let head = head(1, *table, *index, values.len() as u64);
                self.write(
                    &head,
                    &[bytemuck::cast_slice(values), bytemuck::cast_slice(state)],
                )
            }
            Section::Rows {
                table,
                shard,
                ids,
                rows,
            } => {
                let head = head(2, *table, u64::from(*shard), ids.len() as u64);
                self.write(
                    &head,
                    &[bytemuck::cast_slice(ids), bytemuck::cast_slice(rows)],
                )
            }
        }
    }

    /// Ends the part and returns the stream and the part's fingerprint.
    pub fn finish(mut self) -> io::Result<(W, u32)> {
        let head = head(0, 0, 0, self.sections);
        self.write(&head, &[])?;
        self.out.flush()?;
        Ok((self.out, self.fingerprint.finalize()))
    }

    fn write(&mut self, head: &[u8; SECTION_HEAD], data: &[&[u8]]) -> io::Result<()> {
        let mut crc = crc32fast::Hasher::new();
        crc.update(head);
        self.out.write_all(head)?;
        for bytes in data {
            crc.update(bytes);
            self.out.write_all(bytes)?;
        }
        let crc = crc.finalize().to_le_bytes();
        self.fingerprint.update(&crc);
        self.out.write_all(&crc)
    }
}

fn head(kind: u32, table: usize, index: u64, count: u64) -> [u8; SECTION_HEAD] {
    let mut out = [0; SECTION_HEAD];
    out[0..4].copy_from_slice(&kind.to_le_bytes());
    out[4..8].copy_from_slice(&(table as u32).to_le_bytes());
    out[8..16].copy_from_slice(&index.to_le_bytes());
    out[16..24].copy_from_slice(&count.to_le_bytes());
    out
}

/// Reads a part.
#[derive(Debug)]
pub struct PartReader<R: Read, P> {
    input: R,
    length: u64,
    /// Bytes that are left, according to the file's length.
    left: u64,
    header: PartHeader<P>,
    sections: u64,
    fingerprint: crc32fast::Hasher,
    ids: Vec<u32>,
    numbers: Vec<f32>,
}

impl<R: Read, P: DeserializeOwned> PartReader<R, P> {
    /// Reads the header of a part of `length` bytes.
    pub fn new(mut input: R, length: u64) -> Result<Self, FormatError> {
        let mut front = [0_u8; 16];
        input.read_exact(&mut front).map_err(FormatError::Read)?;
        if &front[..8] != MAGIC {
            return Err(FormatError::Magic);
        }
        let word = |at: usize| {
            u32::from_le_bytes([front[at], front[at + 1], front[at + 2], front[at + 3]])
        };
        if word(8) != VERSION {
            return Err(FormatError::Version(word(8)));
        }
        let size = word(12);
        let left = length.checked_sub(20 + u64::from(size));
        let left = left.filter(|_| size <= LONGEST_HEADER).ok_or_else(|| {
            FormatError::Impossible(format!(
                "a header of {size} bytes does not fit a file of {length}"
            ))
        })?;
        let mut text = vec![0; size as usize];
        input.read_exact(&mut text).map_err(FormatError::Read)?;
        let mut crc = crc32fast::Hasher::new();
        crc.update(&front);
        crc.update(&text);
        let mut fingerprint = crc32fast::Hasher::new();
        check(&mut input, crc, "the header", &mut fingerprint)?;
        let header = serde_json::from_slice(&text).map_err(FormatError::Header)?;
        Ok(Self {
            input,
            length,
            left,
            header,
            sections: 0,
            fingerprint,
            ids: Vec::new(),
            numbers: Vec::new(),
        })
    }

    /// The part's header.
    pub fn header(&self) -> &PartHeader<P> {
        &self.header
    }

    /// The checksum over all checksums so far; of the whole part once [`PartReader::next_section`] returned `None`.
    pub fn fingerprint(&self) -> u32 {
        self.fingerprint.clone().finalize()
    }

    /// Offset in the file of the first value of the last section.
    pub fn numbers_at(&self) -> u64 {
        self.length - self.left - 4 - 4 * self.numbers.len() as u64
    }

    /// The next section; `None` after the last one, if the file ends as it must.
    pub fn next_section(&mut self) -> Result<Option<Section<'_>>, FormatError> {
        let mut bytes = [0_u8; SECTION_HEAD];
        self.input
            .read_exact(&mut bytes)
            .map_err(FormatError::Read)?;
        let long = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let (kind, table) = (long(0) as u32, (long(0) >> 32) as usize);
        let (index, count) = (long(8), long(16));
        self.left = self.left.saturating_sub(SECTION_HEAD as u64 + 4);
        let mut crc = crc32fast::Hasher::new();
        crc.update(&bytes);
        if kind == 0 {
            check(&mut self.input, crc, "the end", &mut self.fingerprint)?;
            if self.left > 0 {
                let text = format!("{} bytes follow its end", self.left);
                return Err(FormatError::Impossible(text));
            }
            if count != self.sections {
                return Err(FormatError::Impossible(format!(
                    "{} of {count} sections are there",
                    self.sections
                )));
            }
            return Ok(None);
        }
        let lengths = self.lengths(kind, table, count)?;
        self.sections += 1;
        self.ids.resize(lengths.ids, 0);
        self.numbers.resize(lengths.values, 0.0);
        let id_bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.ids);
        self.input.read_exact(id_bytes).map_err(FormatError::Read)?;
        crc.update(id_bytes);
        let number_bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.numbers);
        self.input
            .read_exact(number_bytes)
            .map_err(FormatError::Read)?;
        crc.update(number_bytes);
        check(&mut self.input, crc, "a section", &mut self.fingerprint)?;
        if kind == 1 {
            let (values, state) = self.numbers.split_at(count as usize);
            return Ok(Some(Section::Block {
                table,
                index,
                values,
                state,
            }));
        }
        let shard = u32::try_from(index).ok().filter(|shard| *shard < SHARDS);
        let shard =
            shard.ok_or_else(|| FormatError::Impossible(format!("there is no shard {index}")))?;
        Ok(Some(Section::Rows {
            table,
            shard,
            ids: &self.ids,
            rows: &self.numbers,
        }))
    }

    /// The lengths of a section; fails before anything is allocated if the file is too short for it.
    fn lengths(
        &mut self,
        kind: u32,
        table: usize,
        count: u64,
    ) -> Result<SectionLengths, FormatError> {
        let impossible = |text: String| Err(FormatError::Impossible(text));
        let Some(spec) = self.header.tables.get(table) else {
            return impossible(format!("section of table {table}, which does not exist"));
        };
        let (cols, slots) = (u64::from(spec.cols), u64::from(spec.slots));
        let (ids, each) = match kind {
            1 => (0, Some(1 + slots)),
            2 => (count, (1 + slots).checked_mul(cols).map(|n| n + 1)),
            _ => return impossible(format!("unknown kind of section {kind}")),
        };
        let numbers = each.and_then(|each| each.checked_mul(count));
        let bytes = numbers
            .and_then(|n| n.checked_add(ids))
            .and_then(|n| n.checked_mul(4));
        match (
            numbers,
            bytes.and_then(|bytes| self.left.checked_sub(bytes)),
        ) {
            (Some(numbers), Some(left)) => {
                self.left = left;
                Ok(SectionLengths {
                    ids: ids as usize,
                    values: numbers as usize,
                })
            }
            _ => impossible(format!(
                "it ends too early for a section of {count} entries"
            )),
        }
    }
}

/// How many ids and values a section has.
struct SectionLengths {
    ids: usize,
    values: usize,
}

/// Compares the checksum that follows, and adds it to the fingerprint.
fn check(
    input: &mut impl Read,
    crc: crc32fast::Hasher,
    what: &'static str,
    fingerprint: &mut crc32fast::Hasher,
) -> Result<(), FormatError> {
    let mut stored = [0_u8; 4];
    input.read_exact(&mut stored).map_err(FormatError::Read)?;
    fingerprint.update(&stored);
    if u32::from_le_bytes(stored) == crc.finalize() {
        Ok(())
    } else {
        Err(FormatError::Checksum(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Vec<u8> {
        let table = |name: &str| TableHeader {
            name: name.to_owned(),
            cols: 2,
            slots: 1,
            progress: Some(5),
        };
        let header = PartHeader {
            binding: crate::binding::tests::sample(),
            tables: vec![table("a"), table("b")],
        };
        let mut writer = PartWriter::new(Vec::new(), &header).unwrap();
        writer
            .section(&Section::Block {
                table: 0,
                index: 3,
                values: &[1.0, 2.0],
                state: &[3.0, 4.0],
            })
            .unwrap();
        let rows = [1.0, 2.0, 3.0, 4.0, 5.0];
        writer
            .section(&Section::Rows {
                table: 1,
                shard: 9,
                ids: &[77],
                rows: &rows,
            })
            .unwrap();
        writer.finish().unwrap().0
    }

    fn read_all(bytes: &[u8]) -> Result<usize, FormatError> {
        let mut reader = PartReader::<_, u64>::new(bytes, bytes.len() as u64)?;
        let mut count = 0;
        while reader.next_section()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    #[test]
    fn a_part_comes_back() {
        let bytes = sample();
        let length = bytes.len() as u64;
        let mut reader = PartReader::<_, u64>::new(bytes.as_slice(), length).unwrap();
        assert_eq!(reader.header().binding.boundary.batches, [2, 2]);
        assert_eq!(reader.header().tables[1].progress, Some(5));
        let block = Section::Block {
            table: 0,
            index: 3,
            values: &[1.0, 2.0],
            state: &[3.0, 4.0],
        };
        assert_eq!(reader.next_section().unwrap(), Some(block));
        let rows = [1.0, 2.0, 3.0, 4.0, 5.0];
        let section = Section::Rows {
            table: 1,
            shard: 9,
            ids: &[77],
            rows: &rows,
        };
        assert_eq!(reader.next_section().unwrap(), Some(section));
        let at = reader.numbers_at() as usize;
        let written: &[u8] = bytemuck::cast_slice(&rows);
        assert_eq!(&bytes[at..at + 20], written);
        assert_eq!(reader.next_section().unwrap(), None);
    }

    #[test]
    fn the_fingerprint_is_of_the_contents() {
        let fingerprint = |value: f32| {
            let header = PartHeader::<u64> {
                binding: crate::binding::tests::sample(),
                tables: vec![TableHeader {
                    name: "a".to_owned(),
                    cols: 1,
                    slots: 0,
                    progress: None,
                }],
            };
            let mut writer = PartWriter::new(Vec::new(), &header).unwrap();
            let block = Section::Block {
                table: 0,
                index: 0,
                values: &[value],
                state: &[],
            };
            writer.section(&block).unwrap();
            let (bytes, written) = writer.finish().unwrap();
            let length = bytes.len() as u64;
            let mut reader = PartReader::<_, u64>::new(bytes.as_slice(), length).unwrap();
            while reader.next_section().unwrap().is_some() {}
            assert_eq!(reader.fingerprint(), written);
            written
        };
        assert_eq!(fingerprint(1.0), fingerprint(1.0));
        assert_ne!(fingerprint(1.0), fingerprint(2.0));
    }

    #[test]
    fn what_follows_the_end_is_noticed() {
        let mut bytes = sample();
        bytes.push(0);
        assert!(read_all(&bytes).is_err());
    }

    #[test]
    fn an_earlier_format_is_refused_by_name() {
        let mut bytes = sample();
        bytes[8] = 1;
        let text = read_all(&bytes).unwrap_err().to_string();
        assert!(
            text.contains("format 1") && text.contains("--fresh"),
            "{text}"
        );
    }

    #[test]
    fn every_truncation_is_noticed() {
        let bytes = sample();
        for length in 0..bytes.len() {
            assert!(read_all(&bytes[..length]).is_err(), "cut to {length}");
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = sample();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read_all(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_huge_count_is_refused_before_it_is_allocated() {
        let bytes = sample();
        let at = bytes.len() - 28 - (24 + 4 + 20 + 4);
        let mut damaged = bytes;
        damaged[at + 16..at + 24].copy_from_slice(&(u64::MAX / 8).to_le_bytes());
        assert!(matches!(
            read_all(&damaged),
            Err(FormatError::Impossible(_))
        ));
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read_all(&bytes);
            let mut fronted = MAGIC.to_vec();
            fronted.extend_from_slice(&VERSION.to_le_bytes());
            fronted.extend_from_slice(&bytes);
            let _ = read_all(&fronted);
        }
    }
}
