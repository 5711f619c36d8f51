//! A model in one file, as v1's `merge_model` wrote it and its C programs read it.
//!
//! | offset | type | value |
//! |---|---|---|
//! | 0 | `i64` | length of the configuration in bytes |
//! | 8 | bytes | the configuration: v1's `TrainerConfig` as a protocol buffer |
//! | … | parameter files | every parameter of the network, in its order, each with the header of [`crate::parameter_file`] |
//!
//! All lengths are checked against the file before anything is allocated or read.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use config::TrainerConfig;
use config::binary::{self, BinaryError};
use nn::ParameterSpec;

use crate::model::ModelParameter;
use crate::output_file::OutputFile;
use crate::parameter_file::{self, HEADER, ParameterFileError};
use crate::rules;
use crate::saved_rows::{RowInterpretation, SavedRows, SavedRowsError};

/// Rows of a table that are copied at a time.
const ROWS: u32 = 4096;

/// Why a merged model could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum MergedError {
    /// The file could not be read.
    #[error("read merged model {path}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// The file could not be written.
    #[error("write merged model {path}")]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// The file does not begin with a configuration.
    #[error("{path} is not a merged model: it does not begin with a configuration")]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with the configuration; absent if its length is impossible.
        #[source]
        source: Option<BinaryError>,
    },
    /// A parameter is not where it has to be, or its header is not that of the configuration.
    #[error("{path} is damaged at parameter '{parameter}': {reason}")]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Name of the parameter.
        parameter: String,
        /// The check that failed.
        reason: String,
    },
    /// The configuration cannot be written as a protocol buffer.
    #[error("the configuration cannot be written")]
    Configuration(#[source] BinaryError),
    /// A parameter of the network is not in the pass directory.
    #[error("{directory} has no parameter '{parameter}'; give a complete pass directory")]
    Missing {
        /// The pass directory.
        directory: PathBuf,
        /// Name of the parameter.
        parameter: String,
    },
    /// A parameter file could not be read, or has another size.
    #[error(transparent)]
    Parameter(#[from] ParameterFileError),
    /// Tables that servers saved cannot be read.
    #[error(transparent)]
    SavedRows(#[from] SavedRowsError),
    /// The network cannot be built, which is needed for tables that servers saved.
    #[error("build the network")]
    Build(#[from] nn::BuildError),
    /// The configuration asks for an update rule that does not exist.
    #[error(transparent)]
    Rule(#[from] rules::RuleError),
}

/// Writes the parameters of a pass directory and their configuration to one file; returns the number of parameters.
///
/// The file appears when it is complete: a reader never sees part of it.
pub fn write(file: &Path, config: &TrainerConfig, directory: &Path) -> Result<usize, MergedError> {
    let head = binary::encode(config).map_err(MergedError::Configuration)?;
    let failed = || write_error(file);
    let mut out = BufWriter::new(OutputFile::create(file).map_err(failed())?);
    out.write_all(&(head.len() as i64).to_le_bytes())
        .and_then(|()| out.write_all(&head))
        .map_err(failed())?;
    let parameters = config.model_config.as_ref().map(|m| &m.parameters[..]);
    let parameters = parameters.unwrap_or_default();
    let mut rows = None;
    for parameter in parameters {
        let path = directory.join(&parameter.name);
        if path.exists() {
            copy(&path, parameter.size, &mut out, file)?;
            continue;
        }
        if rows.is_none() {
            rows = Rows::open(config, directory)?;
        }
        let missing = || MergedError::Missing {
            directory: directory.to_owned(),
            parameter: parameter.name.clone(),
        };
        let rows = rows.as_ref().ok_or_else(missing)?;
        if !rows.copy(&parameter.name, &mut out, file)? {
            return Err(missing());
        }
    }
    let written = out.into_inner().map_err(|e| failed()(e.into_error()))?;
    written.commit().map_err(failed())?;
    Ok(parameters.len())
}

/// Copies a parameter file after its header and length were checked.
fn copy(path: &Path, size: u64, out: &mut impl Write, target: &Path) -> Result<(), MergedError> {
    let got = parameter_file::length(path)?;
    if got != size {
        let path = path.to_owned();
        let want = size;
        return Err(ParameterFileError::SizeMismatch { path, got, want }.into());
    }
    let file = File::open(path).map_err(read_error(path))?;
    let all = HEADER as u64 + 4 * size;
    let copied = io::copy(&mut file.take(all), out).map_err(write_error(target))?;
    if copied == all {
        return Ok(());
    }
    Err(read_error(path)(io::ErrorKind::UnexpectedEof.into()))
}

/// Tables that are in the files of servers.
struct Rows {
    saved: SavedRows,
    specs: Vec<ParameterSpec>,
    initials: Vec<optim::Initial>,
    rules: Vec<optim::Rule>,
}

impl Rows {
    fn open(config: &TrainerConfig, directory: &Path) -> Result<Option<Self>, MergedError> {
        let (Some(model), Some(saved)) = (&config.model_config, SavedRows::open(directory)?) else {
            return Ok(None);
        };
        let initials = model.parameters.iter().map(|p| rules::initial(p, 1));
        Ok(Some(Self {
            saved,
            specs: nn::Network::new(model)?.parameters().to_vec(),
            initials: initials.collect(),
            rules: rules::rules(&config.opt_config, &model.parameters)?,
        }))
    }

    /// Writes a table as a parameter; returns false if servers have not saved it.
    fn copy(&self, name: &str, out: &mut impl Write, target: &Path) -> Result<bool, MergedError> {
        let found = self.specs.iter().position(|spec| spec.name == name);
        let Some(at) = found.filter(|_| self.saved.has(name)) else {
            return Ok(false);
        };
        let reading = RowInterpretation {
            spec: &self.specs[at],
            initial: &self.initials[at],
            rule: &self.rules[at],
        };
        let rows = reading.spec.rows as u32;
        let size = reading.spec.size();
        parameter_file::write_header(out, size).map_err(write_error(target))?;
        let mut values = Vec::new();
        for start in (0..rows).step_by(ROWS as usize) {
            let end = start.saturating_add(ROWS).min(rows);
            self.saved.read(&reading, start..end, &mut values)?;
            parameter_file::write_values(out, &values).map_err(write_error(target))?;
        }
        Ok(true)
    }
}

/// A merged model whose lengths were checked; values are read when they are asked for.
#[derive(Debug)]
pub struct Merged {
    path: PathBuf,
    file: File,
    config: TrainerConfig,
    places: Vec<MergedEntry>,
}

/// The position of a parameter in the file.
#[derive(Debug)]
struct MergedEntry {
    name: String,
    /// Rows and columns.
    dims: (u64, u64),
    /// Offset of its first value, in bytes.
    first: u64,
}

impl Merged {
    /// Opens a merged model and checks its lengths.
    pub fn open(path: &Path) -> Result<Self, MergedError> {
        let file = File::open(path).map_err(read_error(path))?;
        let length = file.metadata().map_err(read_error(path))?.len();
        let foreign = |source| MergedError::Foreign {
            path: path.to_owned(),
            source,
        };
        let mut bytes = [0; 8];
        if length < 8 {
            return Err(foreign(None));
        }
        file.read_exact_at(&mut bytes, 0)
            .map_err(read_error(path))?;
        let head = u64::from_le_bytes(bytes);
        if head > length - 8 {
            return Err(foreign(None));
        }
        let mut encoded = vec![0; head as usize];
        file.read_exact_at(&mut encoded, 8)
            .map_err(read_error(path))?;
        let config = binary::decode(&encoded).map_err(|source| foreign(Some(source)))?;
        let places = places(path, &file, &config, 8 + head, length)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            config,
            places,
        })
    }

    /// The configuration.
    pub fn config(&self) -> &TrainerConfig {
        &self.config
    }

    /// Whether the model has a parameter of this name.
    pub fn has(&self, name: &str) -> bool {
        self.places.iter().any(|place| place.name == name)
    }

    /// Reads a parameter of exactly this many values; the caller has checked that the model [has](Self::has) it.
    pub fn read_into(&self, name: &str, values: &mut [f32]) -> Result<(), MergedError> {
        let damaged = |reason: String| MergedError::Damaged {
            path: self.path.clone(),
            parameter: name.to_owned(),
            reason,
        };
        let found = self.places.iter().find(|place| place.name == name);
        let Some(place) = found else {
            return Err(damaged("the model does not have it".to_owned()));
        };
        let (rows, cols) = place.dims;
        if rows.checked_mul(cols) != Some(values.len() as u64) {
            let want = values.len();
            let text = format!("it is {rows}x{cols}, but the network's has {want} values");
            return Err(damaged(text));
        }
        let mut input = BufReader::new(At {
            file: &self.file,
            offset: place.first,
        });
        parameter_file::read_values(&mut input, values).map_err(read_error(&self.path))
    }

    /// All parameters, sorted by name.
    pub fn parameters(&self) -> Result<Vec<ModelParameter>, MergedError> {
        let mut all = Vec::new();
        for MergedEntry { name, dims, .. } in &self.places {
            let mut values = vec![0.0; (dims.0 * dims.1) as usize];
            self.read_into(name, &mut values)?;
            all.push(ModelParameter {
                name: name.clone(),
                dims: *dims,
                values,
            });
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }
}

/// Finds the parameters behind the configuration and checks their headers and the end of the file.
fn places(
    path: &Path,
    file: &File,
    config: &TrainerConfig,
    start: u64,
    length: u64,
) -> Result<Vec<MergedEntry>, MergedError> {
    let (mut at, mut places) = (start, Vec::new());
    let parameters = config.model_config.iter().flat_map(|m| &m.parameters);
    for parameter in parameters {
        let damaged = |reason: String| MergedError::Damaged {
            path: path.to_owned(),
            parameter: parameter.name.clone(),
            reason,
        };
        let cut = || damaged("the file ends inside it".to_owned());
        let first = at + HEADER as u64;
        if first > length {
            return Err(cut());
        }
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, at)
            .map_err(read_error(path))?;
        let size = parameter_file::size_in(&header)
            .ok_or_else(|| damaged("it has no header of format 0 with 4 bytes".to_owned()))?;
        if size != parameter.size {
            let want = parameter.size;
            let text = format!("it has {size} values, the configuration says {want}");
            return Err(damaged(text));
        }
        let bytes = size
            .checked_mul(4)
            .and_then(|bytes| first.checked_add(bytes));
        at = bytes.filter(|end| *end <= length).ok_or_else(cut)?;
        let dims = match parameter.dims[..] {
            [rows, cols] if rows.checked_mul(cols) == Some(size) => (rows, cols),
            _ => (1, size),
        };
        places.push(MergedEntry {
            name: parameter.name.clone(),
            dims,
            first,
        });
    }
    if at == length {
        return Ok(places);
    }
    Err(MergedError::Damaged {
        path: path.to_owned(),
        parameter: places.last().map_or_else(String::new, |p| p.name.clone()),
        reason: format!("{} bytes follow the last parameter", length - at),
    })
}

/// Reads a file from an offset without moving its position.
struct At<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

fn read_error(path: &Path) -> impl FnOnce(io::Error) -> MergedError {
    let path = path.to_owned();
    move |source| MergedError::Read { path, source }
}

fn write_error(path: &Path) -> impl FnOnce(io::Error) -> MergedError {
    let path = path.to_owned();
    move |source| MergedError::Write { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn config() -> TrainerConfig {
        serde_json::from_value(serde_json::json!({
            "model_config": {
                "type": "nn",
                "parameters": [
                    {"name": "w", "size": 6, "dims": [3, 2]},
                    {"name": "b", "size": 2, "dims": [1, 2]}
                ]
            },
            "opt_config": {"batch_size": 1, "algorithm": "sgd", "learning_rate": 1.0}
        }))
        .unwrap()
    }

    /// A directory with both parameters, and the file that was made of it.
    fn merged() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        parameter_file::write(&path("w"), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        parameter_file::write(&path("b"), &[7.0, 8.0]).unwrap();
        let file = path("model.paddle");
        assert_eq!(write(&file, &config(), directory.path()).unwrap(), 2);
        (directory, file)
    }

    #[test]
    fn a_merged_model_is_read_back() {
        let (directory, file) = merged();
        let model = Merged::open(&file).unwrap();
        assert_eq!(model.config(), &config());
        let parameters = model.parameters().unwrap();
        assert_eq!(
            (parameters[0].name.as_str(), parameters[0].dims),
            ("b", (1, 2))
        );
        assert_eq!(parameters[1].values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
    }

    /// The layout that programs which link v1's C library expect, byte by byte.
    #[test]
    fn bytes_are_those_of_v1() {
        let (directory, file) = merged();
        let head = binary::encode(&config()).unwrap();
        let part = |name: &str| fs::read(directory.path().join(name)).unwrap();
        let length = (head.len() as i64).to_le_bytes().to_vec();
        let want = [length, head, part("w"), part("b")].concat();
        assert_eq!(fs::read(file).unwrap(), want);
    }

    #[test]
    fn a_directory_without_a_parameter_leaves_no_file() {
        let (directory, file) = merged();
        fs::remove_file(&file).unwrap();
        fs::remove_file(directory.path().join("b")).unwrap();
        let error = write(&file, &config(), directory.path()).unwrap_err();
        assert!(
            error.to_string().contains("has no parameter 'b'"),
            "{error}"
        );
        parameter_file::write(&directory.path().join("b"), &[7.0]).unwrap();
        let error = write(&file, &config(), directory.path()).unwrap_err();
        assert!(error.to_string().contains("holds 1 values"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn no_cut_or_changed_byte_panics_and_cuts_are_noticed() {
        let (directory, file) = merged();
        let good = fs::read(&file).unwrap();
        let bad = directory.path().join("bad");
        let read = |bytes: &[u8]| {
            fs::write(&bad, bytes).unwrap();
            Merged::open(&bad).and_then(|model| model.parameters())
        };
        for length in 0..good.len() {
            assert!(read(&good[..length]).is_err(), "{length}");
        }
        assert!(read(&[&good[..], &[0]].concat()).is_err());
        for at in 0..good.len() {
            for value in [0, 127, 255] {
                let mut changed = good.clone();
                changed[at] = value;
                let _ = read(&changed);
            }
        }
    }
}
