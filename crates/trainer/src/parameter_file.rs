//! One parameter on disk, byte for byte as v1 wrote it.
//!
//! | offset | type | value |
//! |---|---|---|
//! | 0 | `i32` | format, 0 |
//! | 4 | `u32` | bytes per value, 4 |
//! | 8 | `u64` | number of values |
//! | 16 | `f32[]` | values, row-major, little-endian |
//!
//! The file is named after the parameter and has no extension. Reading checks the header against the size that the
//! caller expects before a single value is allocated.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Bytes before the first value.
pub const HEADER: usize = 16;

/// Values converted at a time, so that reading and writing need no second copy of a large parameter.
const CHUNK: usize = 16 * 1024;

/// Why a parameter file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ParameterFileError {
    /// The file could not be opened or read.
    #[error("read parameter file {path}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// The file could not be written, for example because the disk is full.
    #[error("write parameter file {path}")]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// The header is not that of a parameter file.
    #[error(
        "{path} is not a parameter file: format {format}, {width} bytes per value (format 0 with 4 bytes is expected)"
    )]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// The format field; 0 in a valid file.
        format: i32,
        /// The bytes-per-value field; 4 in a valid file.
        width: u32,
    },
    /// The file is shorter or longer than its header says.
    #[error("{path} has {got} bytes, but its header promises {values} values, which take {want}")]
    Truncated {
        /// Path of the file.
        path: PathBuf,
        /// Length of the file in bytes.
        got: u64,
        /// Length in bytes that follows from the header.
        want: u64,
        /// Number of values in the header.
        values: u64,
    },
    /// The file is not the one that was saved.
    #[error(
        "{path} is damaged: it does not have the checksum that canoe.sums beside it has; use another pass, or, if you changed the file on purpose, delete canoe.sums"
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
    },
    /// `canoe.sums`, which should list all files of the directory, does not list this one.
    #[error(
        "canoe.sums, which has the checksums of all saved files, does not have one of {path}: one of the two is damaged; use another pass, or, if you added the file on purpose, delete canoe.sums"
    )]
    Unlisted {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file is valid but belongs to a parameter of another size.
    #[error("{path} holds {got} values, but the parameter has {want} in this configuration")]
    SizeMismatch {
        /// Path of the file.
        path: PathBuf,
        /// Number of values in the file.
        got: u64,
        /// Number of values of the model's parameter.
        want: u64,
    },
}

/// Writes `values` to `path` and flushes them to the disk.
pub fn write(path: &Path, values: &[f32]) -> Result<(), ParameterFileError> {
    let failed = |source| ParameterFileError::Write {
        path: path.to_owned(),
        source,
    };
    let file = File::create(path).map_err(failed)?;
    let mut out = BufWriter::with_capacity(4 * CHUNK, file);
    write_to(&mut out, values).map_err(failed)?;
    let file = out.into_inner().map_err(|e| failed(e.into_error()))?;
    file.sync_all().map_err(failed)
}

fn write_to(out: &mut impl Write, values: &[f32]) -> io::Result<()> {
    write_header(out, values.len())?;
    write_values(out, values)
}

/// Writes the header of a parameter with `values` values.
pub(crate) fn write_header(out: &mut impl Write, values: usize) -> io::Result<()> {
    out.write_all(&0i32.to_le_bytes())?;
    out.write_all(&4u32.to_le_bytes())?;
    out.write_all(&(values as u64).to_le_bytes())
}

/// Writes values as they follow the header.
pub(crate) fn write_values(out: &mut impl Write, values: &[f32]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(4 * CHUNK.min(values.len()));
    for chunk in values.chunks(CHUNK) {
        bytes.clear();
        bytes.extend(chunk.iter().flat_map(|v| v.to_le_bytes()));
        out.write_all(&bytes)?;
    }
    Ok(())
}

/// Number of values that the header of `path` announces, after the header and the file length were checked.
pub fn length(path: &Path) -> Result<u64, ParameterFileError> {
    let mut file = open(path)?;
    checked_length(path, &mut file)
}

/// Reads a parameter of exactly `values.len()` values into `values`.
pub fn read_into(path: &Path, values: &mut [f32]) -> Result<(), ParameterFileError> {
    let mut file = open(path)?;
    let got = checked_length(path, &mut file)?;
    let want = values.len() as u64;
    if got != want {
        return Err(ParameterFileError::SizeMismatch {
            path: path.to_owned(),
            got,
            want,
        });
    }
    read_values(&mut file, values).map_err(|source| ParameterFileError::Read {
        path: path.to_owned(),
        source,
    })
}

/// Reads a parameter of whatever size the file has.
pub fn read(path: &Path) -> Result<Vec<f32>, ParameterFileError> {
    let mut file = open(path)?;
    let count = checked_length(path, &mut file)?;
    let mut values = vec![0.0; usize::try_from(count).unwrap_or(usize::MAX)];
    read_values(&mut file, &mut values).map_err(|source| ParameterFileError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(values)
}

fn open(path: &Path) -> Result<File, ParameterFileError> {
    File::open(path).map_err(|source| ParameterFileError::Read {
        path: path.to_owned(),
        source,
    })
}

fn checked_length(path: &Path, file: &mut File) -> Result<u64, ParameterFileError> {
    let failed = |source| ParameterFileError::Read {
        path: path.to_owned(),
        source,
    };
    let got = file.metadata().map_err(failed)?.len();
    if got < HEADER as u64 {
        return Err(ParameterFileError::Truncated {
            path: path.to_owned(),
            got,
            want: HEADER as u64,
            values: 0,
        });
    }
    let mut header = [0u8; HEADER];
    file.read_exact(&mut header).map_err(failed)?;
    let HeaderFields {
        format,
        width,
        values,
    } = HeaderFields::of(&header);
    if format != 0 || width != 4 {
        return Err(ParameterFileError::Foreign {
            path: path.to_owned(),
            format,
            width,
        });
    }
    let want = values
        .saturating_mul(u64::from(width))
        .saturating_add(HEADER as u64);
    if got != want {
        return Err(ParameterFileError::Truncated {
            path: path.to_owned(),
            got,
            want,
            values,
        });
    }
    Ok(values)
}

/// The header of a parameter file.
struct HeaderFields {
    format: i32,
    /// Bytes per value.
    width: u32,
    /// Number of values.
    values: u64,
}

impl HeaderFields {
    fn of(header: &[u8; HEADER]) -> Self {
        let [f0, f1, f2, f3, w0, w1, w2, w3, count @ ..] = *header;
        Self {
            format: i32::from_le_bytes([f0, f1, f2, f3]),
            width: u32::from_le_bytes([w0, w1, w2, w3]),
            values: u64::from_le_bytes(count),
        }
    }
}

/// The number of values that a header announces; `None` if it is not one of a parameter.
pub(crate) fn size_in(header: &[u8; HEADER]) -> Option<u64> {
    let header = HeaderFields::of(header);
    (header.format == 0 && header.width == 4).then_some(header.values)
}

/// Fills `values` from what follows the header.
pub(crate) fn read_values(file: &mut impl Read, values: &mut [f32]) -> io::Result<()> {
    let mut bytes = vec![0u8; 4 * CHUNK.min(values.len())];
    for chunk in values.chunks_mut(CHUNK) {
        let bytes = &mut bytes[..4 * chunk.len()];
        file.read_exact(bytes)?;
        for (value, b) in chunk.iter_mut().zip(bytes.chunks_exact(4)) {
            *value = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_with(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("___fc_layer_0__.w0");
        std::fs::write(&path, bytes).unwrap();
        (dir, path)
    }

    #[test]
    fn bytes_are_those_of_v1() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        write(&path, &[1.0, -2.5]).unwrap();
        let expected = [
            0u8, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0,
        ];
        assert_eq!(std::fs::read(&path).unwrap(), expected);
        assert_eq!(read(&path).unwrap(), [1.0, -2.5]);
    }

    #[test]
    fn large_parameters_survive_chunking() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        let values: Vec<f32> = (0..3 * CHUNK + 7).map(|i| i as f32).collect();
        write(&path, &values).unwrap();
        let mut back = vec![0.0; values.len()];
        read_into(&path, &mut back).unwrap();
        assert_eq!(back, values);
    }

    #[test]
    fn a_truncated_file_is_named_with_both_sizes() {
        let (_dir, path) = file_with(&[0, 0, 0, 0, 4, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
        let message = read(&path).unwrap_err().to_string();
        assert!(message.contains("has 20 bytes"), "{message}");
        assert!(message.contains("9 values, which take 52"), "{message}");
    }

    #[test]
    fn an_absurd_length_allocates_nothing() {
        let mut bytes = vec![0, 0, 0, 0, 4, 0, 0, 0];
        bytes.extend(u64::MAX.to_le_bytes());
        let (_dir, path) = file_with(&bytes);
        assert!(matches!(
            read(&path),
            Err(ParameterFileError::Truncated { .. })
        ));
    }

    #[test]
    fn foreign_and_short_files_are_refused() {
        let (_dir, path) = file_with(b"\x89PNG\r\n\x1a\n0123456789");
        assert!(matches!(
            read(&path),
            Err(ParameterFileError::Foreign { .. })
        ));
        let (_dir, path) = file_with(b"tiny");
        assert!(matches!(
            read(&path),
            Err(ParameterFileError::Truncated { .. })
        ));
    }

    #[test]
    fn a_size_mismatch_names_both_sizes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        write(&path, &[0.0; 6]).unwrap();
        let message = read_into(&path, &mut [0.0; 4]).unwrap_err().to_string();
        assert!(
            message.contains("holds 6 values") && message.contains("has 4"),
            "{message}"
        );
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let error = write(Path::new("/dev/full"), &[1.0; 1 << 16]).unwrap_err();
        assert!(matches!(error, ParameterFileError::Write { .. }));
    }
}
