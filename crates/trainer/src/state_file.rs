//! Optimizer state on disk, which v1 lost at every restart.
//!
//! ```text
//! "CANOEST1" | u32 header length | header (JSON) | values, little-endian | u32 CRC-32 of all before it
//! ```
//!
//! The header lists each parameter with its update rule, its progress and the number of its state values. The data
//! follow in that order: `f32` values, `f32` state, then the `u32` step of each row's last update (only parameters that
//! are updated by row). Lengths are checked against the file's size before anything is allocated.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use optim::{ParameterProgress, Rule};
use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 8] = b"CANOEST1";
const MAX_HEADER: u32 = 64 << 20;

/// The state of all parameters after a number of passes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SavedState<'a> {
    /// Seed of the run; another seed means another data order and noise.
    pub seed: u64,
    /// One entry per parameter, in the order of the model.
    pub parameters: Vec<ParameterState<'a>>,
}

/// The state of one parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterState<'a> {
    /// Name of the parameter.
    pub name: String,
    /// Rows and columns of the parameter.
    pub dims: (u64, u64),
    /// The rule to which the state belongs.
    pub rule: Rule,
    /// Steps, samples and passes so far.
    pub progress: ParameterProgress,
    /// The values with which training continues, where the parameter's file has others (averaged or caught up);
    /// empty where they are the same.
    pub values: Cow<'a, [f32]>,
    /// State values in the updater's layout: in blocks, or by row. Borrowed when they are written.
    pub state: Cow<'a, [f32]>,
    /// Step of each row's last update; empty for dense parameters.
    pub last: Cow<'a, [u32]>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    seed: u64,
    parameters: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    name: String,
    dims: (u64, u64),
    rule: Rule,
    progress: ParameterProgress,
    values: u64,
    state: u64,
    last: u64,
}

/// Why a state file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// The file cannot be opened or read.
    #[error("read optimizer state {path}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// Writing failed, for example because the disk is full.
    #[error("write optimizer state {path}")]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// The file is damaged: a check of its length, header or CRC failed.
    #[error(
        "optimizer state {path} is damaged: {what} (remove the file to continue without optimizer state)"
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// The check that failed.
        what: String,
    },
}

/// Writes the state and flushes it to the disk.
pub fn write(path: &Path, saved: &SavedState<'_>) -> Result<(), StateFileError> {
    let failed = |source| StateFileError::Write {
        path: path.to_owned(),
        source,
    };
    let file = File::create(path).map_err(failed)?;
    let mut out = Checked::new(BufWriter::with_capacity(1 << 16, file));
    write_to(&mut out, saved).map_err(failed)?;
    let mut inner = out.into_inner();
    inner.flush().map_err(failed)?;
    inner.get_ref().sync_all().map_err(failed)
}

fn write_to(out: &mut Checked<impl Write>, saved: &SavedState<'_>) -> io::Result<()> {
    let header = Header {
        seed: saved.seed,
        parameters: saved.parameters.iter().map(entry).collect(),
    };
    let header = serde_json::to_vec(&header)?;
    out.write_all(MAGIC)?;
    let length = u32::try_from(header.len()).map_err(io::Error::other)?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&header)?;
    for parameter in &saved.parameters {
        write_numbers(out, &parameter.values, |v| v.to_le_bytes())?;
        write_numbers(out, &parameter.state, |v| v.to_le_bytes())?;
        write_numbers(out, &parameter.last, |v| v.to_le_bytes())?;
    }
    let crc = out.crc();
    out.write_all(&crc.to_le_bytes())
}

fn entry(parameter: &ParameterState<'_>) -> Entry {
    Entry {
        name: parameter.name.clone(),
        dims: parameter.dims,
        rule: parameter.rule.clone(),
        progress: parameter.progress.clone(),
        values: parameter.values.len() as u64,
        state: parameter.state.len() as u64,
        last: parameter.last.len() as u64,
    }
}

fn write_numbers<T: Copy>(
    out: &mut impl Write,
    numbers: &[T],
    bytes: impl Fn(T) -> [u8; 4],
) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(4 * numbers.len().min(1 << 14));
    for chunk in numbers.chunks(1 << 14) {
        buffer.clear();
        buffer.extend(chunk.iter().flat_map(|n| bytes(*n)));
        out.write_all(&buffer)?;
    }
    Ok(())
}

/// Reads a state file and checks all of it.
pub fn read(path: &Path) -> Result<SavedState<'static>, StateFileError> {
    let failed = |source| StateFileError::Read {
        path: path.to_owned(),
        source,
    };
    let damaged = |what: &str| StateFileError::Damaged {
        path: path.to_owned(),
        what: what.to_owned(),
    };
    let file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut input = Checked::new(BufReader::with_capacity(1 << 16, file));
    let mut start = [0u8; 12];
    input
        .read_exact(&mut start)
        .map_err(|_| damaged("it ends inside the first twelve bytes"))?;
    let [m @ .., l0, l1, l2, l3] = start;
    let header_length = u32::from_le_bytes([l0, l1, l2, l3]);
    if &m != MAGIC {
        return Err(damaged("it does not begin like a state file"));
    }
    if header_length > MAX_HEADER || u64::from(header_length) + 16 > length {
        return Err(damaged("its header is longer than the file"));
    }
    let mut header = vec![0; header_length as usize];
    input.read_exact(&mut header).map_err(failed)?;
    let header: Header = serde_json::from_slice(&header)
        .map_err(|e| damaged(&format!("its header cannot be read ({e})")))?;
    let numbers = header.parameters.iter().fold(0u64, |sum, e| {
        sum.saturating_add(e.values)
            .saturating_add(e.state)
            .saturating_add(e.last)
    });
    let expected = numbers
        .saturating_mul(4)
        .saturating_add(u64::from(header_length) + 16);
    if expected != length {
        return Err(damaged(&format!(
            "it has {length} bytes where its header promises {expected}"
        )));
    }
    let mut parameters = Vec::with_capacity(header.parameters.len());
    for entry in header.parameters {
        let values = read_numbers(&mut input, entry.values, f32::from_le_bytes).map_err(failed)?;
        let state = read_numbers(&mut input, entry.state, f32::from_le_bytes).map_err(failed)?;
        let last = read_numbers(&mut input, entry.last, u32::from_le_bytes).map_err(failed)?;
        parameters.push(ParameterState {
            name: entry.name,
            dims: entry.dims,
            rule: entry.rule,
            progress: entry.progress,
            values: values.into(),
            state: state.into(),
            last: last.into(),
        });
    }
    let computed = input.crc();
    let mut crc = [0u8; 4];
    input.read_exact(&mut crc).map_err(failed)?;
    if u32::from_le_bytes(crc) != computed {
        return Err(damaged("its checksum does not match"));
    }
    Ok(SavedState {
        seed: header.seed,
        parameters,
    })
}

fn read_numbers<T>(
    input: &mut impl Read,
    count: u64,
    value: impl Fn([u8; 4]) -> T,
) -> io::Result<Vec<T>> {
    let count = usize::try_from(count).map_err(io::Error::other)?;
    let mut numbers = Vec::with_capacity(count);
    let mut buffer = vec![0u8; 4 * count.min(1 << 14)];
    while numbers.len() < count {
        let part = buffer.len().min(4 * (count - numbers.len()));
        input.read_exact(&mut buffer[..part])?;
        let values = buffer[..part].chunks_exact(4);
        numbers.extend(values.map(|b| value([b[0], b[1], b[2], b[3]])));
    }
    Ok(numbers)
}

/// A reader or writer that keeps a running CRC of its data.
struct Checked<T> {
    inner: T,
    hasher: crc32fast::Hasher,
}

impl<T> Checked<T> {
    fn new(inner: T) -> Self {
        Checked {
            inner,
            hasher: crc32fast::Hasher::new(),
        }
    }

    fn crc(&self) -> u32 {
        self.hasher.clone().finalize()
    }

    fn into_inner(self) -> T {
        self.inner
    }
}

impl<W: Write> Write for Checked<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(bytes)?;
        self.hasher.update(&bytes[..got]);
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> SavedState<'static> {
        SavedState {
            seed: 7,
            parameters: vec![ParameterState {
                name: "___fc_layer_0__.w0".into(),
                dims: (3, 2),
                rule: Rule::sgd(0.1),
                progress: ParameterProgress {
                    step: 12,
                    samples: 1536,
                    ..ParameterProgress::default()
                },
                values: vec![0.5; 6].into(),
                state: vec![1.0, 2.0, 3.0].into(),
                last: vec![4, 5, 6].into(),
            }],
        }
    }

    fn written() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("canoe.state");
        write(&path, &example()).unwrap();
        (dir, path)
    }

    #[test]
    fn round_trip() {
        let (_dir, path) = written();
        assert_eq!(read(&path).unwrap(), example());
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_is_noticed() {
        let (_dir, path) = written();
        let bytes = std::fs::read(&path).unwrap();
        for length in 0..bytes.len() {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert!(read(&path).is_err(), "cut to {length} bytes");
        }
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            std::fs::write(&path, &flipped).unwrap();
            assert!(read(&path).is_err(), "bit flipped at {at}");
        }
    }
}
