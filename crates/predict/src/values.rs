//! The parameters of a model that is applied: each is read once, shared by all threads, and never changed.
//!
//! Large parameter files are mapped, so that a table larger than memory can be used and loading takes no time; tables
//! that servers saved stay on disk, and a batch reads the rows that it needs.

use std::fs::File;
use std::path::Path;

use config::TrainerConfig;
use nn::{Batch, Network, ParameterSpec, ParameterValues, Parameters, SharedValues};
use optim::{Initial, Rule};
use trainer::checksums::DirectorySums;
use trainer::merged::Merged;
use trainer::parameter_file::{self, HEADER, ParameterFileError};
use trainer::rules;
use trainer::saved_rows::{RowInterpretation, SavedRows};

use crate::error::PredictError;

/// Files with at least this many values are mapped; smaller ones are read, because that is faster than page faults.
const MAPPED: u64 = 16 << 20;

/// Values per part, when all of a parameter are visited.
const CHUNK: usize = 1 << 18;

/// A pass directory whose parameters are read.
pub(crate) struct ParameterOrigin<'a> {
    pub directory: &'a Path,
    pub config_file: &'a Path,
    /// Also read files that would be mapped, if memory allows it.
    pub in_memory: bool,
    /// The seed from which rows are drawn that were never saved.
    pub seed: u64,
}

/// All parameters of a model, shared by its runners.
#[derive(Debug)]
pub(crate) struct ParameterStore {
    whole: Parameters,
    rows: Option<Rows>,
}

/// Tables that servers saved.
#[derive(Debug)]
struct Rows {
    saved: SavedRows,
    initials: Vec<Initial>,
    rules: Vec<Rule>,
    specs: Vec<ParameterSpec>,
}

impl Rows {
    fn reading(&self, at: usize) -> RowInterpretation<'_> {
        RowInterpretation {
            spec: &self.specs[at],
            initial: &self.initials[at],
            rule: &self.rules[at],
        }
    }
}

impl ParameterStore {
    /// Reads the parameters of a network from a pass directory.
    pub(crate) fn load(
        origin: &ParameterOrigin<'_>,
        config: &TrainerConfig,
        specs: &[ParameterSpec],
    ) -> Result<Self, PredictError> {
        let (directory, seed) = (origin.directory, origin.seed);
        let configs = config.model_config.as_ref();
        let configs = configs.map_or(&[][..], |model| &model.parameters);
        let saved = SavedRows::open(directory)?;
        let mut store = Self {
            whole: Parameters(Vec::with_capacity(specs.len())),
            rows: match saved {
                Some(saved) => Some(Rows {
                    saved,
                    initials: configs.iter().map(|p| rules::initial(p, seed)).collect(),
                    rules: rules::rules(&config.opt_config, configs)?,
                    specs: specs.to_vec(),
                }),
                None => None,
            },
        };
        let sums = DirectorySums::open(directory)?;
        for (at, spec) in specs.iter().enumerate() {
            let file = directory.join(&spec.name);
            let by_servers = store
                .rows
                .as_ref()
                .filter(|rows| rows.saved.has(&spec.name));
            let values = match by_servers {
                _ if file.exists() => {
                    ParameterValues::Shared(shared(&file, spec, &sums, origin.in_memory)?)
                }
                Some(rows) if spec.by_row => {
                    // Fails if the table has another shape.
                    rows.saved.read(&rows.reading(at), 0..0, &mut Vec::new())?;
                    ParameterValues::Rows {
                        ids: Vec::new(),
                        values: Vec::new(),
                    }
                }
                Some(rows) => {
                    let mut all = Vec::new();
                    let ids = 0..u32::try_from(spec.rows).unwrap_or(u32::MAX);
                    rows.saved.read(&rows.reading(at), ids, &mut all)?;
                    ParameterValues::Shared(SharedValues::new(all))
                }
                None => {
                    return Err(PredictError::MissingParameter {
                        directory: directory.to_owned(),
                        parameter: spec.name.clone(),
                        config: origin.config_file.to_owned(),
                    });
                }
            };
            store.whole.0.push(values);
        }
        Ok(store)
    }

    /// Reads the parameters of a network from a merged model.
    pub(crate) fn of_merged(
        merged: &Merged,
        specs: &[ParameterSpec],
    ) -> Result<Self, PredictError> {
        let values = specs.iter().map(|spec| {
            let mut values = vec![0.0; spec.size()];
            merged.read_into(&spec.name, &mut values)?;
            Ok(values)
        });
        Ok(Self::of(values.collect::<Result<_, PredictError>>()?))
    }

    /// A store of values that are in memory already, in the order of the network's parameters.
    pub(crate) fn of(values: Vec<Vec<f32>>) -> Self {
        let shared = values
            .into_iter()
            .map(|v| ParameterValues::Shared(SharedValues::new(v)));
        Self {
            whole: Parameters(shared.collect()),
            rows: None,
        }
    }

    /// Calls `each` with the values of a parameter, a part after another.
    pub(crate) fn each_chunk(
        &self,
        at: usize,
        each: &mut dyn FnMut(&[f32]) -> Result<(), PredictError>,
    ) -> Result<(), PredictError> {
        match (&self.whole.0[at], &self.rows) {
            (ParameterValues::Full(values), _) => values.chunks(CHUNK).try_for_each(each),
            (ParameterValues::Shared(shared), _) => {
                shared.values().chunks(CHUNK).try_for_each(each)
            }
            (ParameterValues::Rows { .. }, None) => Ok(()),
            (ParameterValues::Rows { .. }, Some(rows)) => {
                let spec = &rows.specs[at];
                let step = (CHUNK / spec.cols.max(1)).max(1);
                let mut values = Vec::new();
                for start in (0..spec.rows).step_by(step) {
                    let ids = start as u32..(start + step).min(spec.rows) as u32;
                    rows.saved.read(&rows.reading(at), ids, &mut values)?;
                    each(&values)?;
                }
                Ok(())
            }
        }
    }

    /// Parameters for one runner: it shares the large ones and has its own rows.
    pub(crate) fn parameters(&self) -> Parameters {
        self.whole.clone()
    }

    /// Reads the rows that a batch needs into a runner's parameters.
    pub(crate) fn fetch(
        &self,
        network: &Network,
        batch: &Batch,
        parameters: &mut Parameters,
    ) -> Result<(), PredictError> {
        let Some(rows) = &self.rows else {
            return Ok(());
        };
        for (index, wanted) in network.rows_needed(batch, |_| false) {
            let ParameterValues::Rows { ids, values } = &mut parameters.0[index.0] else {
                continue;
            };
            let limit = rows.specs[index.0].rows;
            let wanted: Vec<u32> = wanted
                .into_iter()
                .filter(|id| (*id as usize) < limit)
                .collect();
            rows.saved
                .read(&rows.reading(index.0), wanted.iter().copied(), values)?;
            *ids = wanted;
        }
        Ok(())
    }
}

/// The values of a parameter file, checked against the shape and, if it is read whole, against its checksum.
fn shared(
    file: &Path,
    spec: &ParameterSpec,
    sums: &DirectorySums,
    in_memory: bool,
) -> Result<SharedValues, ParameterFileError> {
    let got = parameter_file::length(file)?;
    let want = spec.size() as u64;
    if got != want {
        return Err(ParameterFileError::SizeMismatch {
            path: file.to_owned(),
            got,
            want,
        });
    }
    let mapped = want >= MAPPED && !(in_memory && fits_memory(4 * want));
    if mapped && cfg!(target_endian = "little") {
        let mapped = Mapped::open(file, spec.size());
        return mapped
            .map(SharedValues::new)
            .map_err(|source| ParameterFileError::Read {
                path: file.to_owned(),
                source,
            });
    }
    let mut values = vec![0.0; spec.size()];
    parameter_file::read_into(file, &mut values)?;
    sums.check(file)?;
    Ok(SharedValues::new(values))
}

/// Whether a copy takes at most half of the free memory; false if the system does not report how much is free.
fn fits_memory(bytes: u64) -> bool {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let free = available(&read("/proc/meminfo"));
    let group = |name: &str| read(&format!("/sys/fs/cgroup/memory.{name}"));
    let left = limited(&group("max"), &group("current"));
    free.is_some_and(|free| bytes <= free.min(left.unwrap_or(u64::MAX)) / 2)
}

/// Free memory, from the system's own list.
fn available(list: &str) -> Option<u64> {
    let line = list
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Memory that a container may still use; `None` if it has no limit.
fn limited(most: &str, taken: &str) -> Option<u64> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    Some(number(most)?.saturating_sub(number(taken)?))
}

/// A mapped parameter file. Canoe never writes to a pass directory once it is visible, but replaces it as a whole by a
/// rename, which does not change a mapping of the old file. A user may truncate the file, which kills the process. So an
/// HTTP server, which runs for long, maps only files that do not fit into memory.
struct Mapped {
    start: std::ptr::NonNull<u8>,
    length: usize,
}

// SAFETY: the memory is only ever read, and belongs to this value until it is dropped.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    fn open(path: &Path, values: usize) -> std::io::Result<Self> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap};
        let file = File::open(path)?;
        let length = HEADER + 4 * values;
        // SAFETY: a new mapping at an address that the system chooses.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ,
                MapFlags::SHARED,
                &file,
                0,
            )?
        };
        // SAFETY: the range is the mapping above. Advice may be ignored, and so may its failure.
        let _ = unsafe { madvise(start, length, Advice::WillNeed) };
        let start = std::ptr::NonNull::new(start.cast::<u8>())
            .ok_or_else(|| std::io::Error::other("a mapping at address 0"))?;
        Ok(Self { start, length })
    }
}

impl AsRef<[f32]> for Mapped {
    fn as_ref(&self) -> &[f32] {
        // SAFETY: the mapping has this length and lives as long as `self`.
        let bytes = unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) };
        bytemuck::cast_slice(&bytes[HEADER..])
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping of `open`, and nobody borrows it any more.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_takes_at_most_half_of_the_free_memory() {
        let list = "MemTotal:  8000000 kB\nMemFree:  10 kB\nMemAvailable:    4000 kB\n";
        assert_eq!(available(list), Some(4000 * 1024));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
        assert_eq!(limited("max\n", "500\n"), None);
        assert_eq!(limited("2000\n", "500\n"), Some(1500));
        assert_eq!(limited("100\n", "500\n"), Some(0));
        assert!(fits_memory(1) || !Path::new("/proc/meminfo").exists());
        assert!(!fits_memory(1 << 60));
    }

    #[test]
    fn a_mapped_file_has_the_values_of_one_that_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w");
        let values: Vec<f32> = (0..1000).map(|i| i as f32 * 0.5).collect();
        parameter_file::write(&path, &values).unwrap();
        let mapped = Mapped::open(&path, values.len()).unwrap();
        assert_eq!(mapped.as_ref(), values);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(mapped.as_ref()[999], 499.5);
    }
}
