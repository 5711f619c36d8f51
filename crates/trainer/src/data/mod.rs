//! Data: from files to batches.
//!
//! Samples come from v1 data providers (Python, in worker processes) or from native readers (no Python at all). Either
//! way they are stored by column, their order is a pure function of (seed, pass, trainer), and a thread prepares
//! batches ahead of time. Nothing here knows what a network computes from them.
//!
//! # Map, in reading order
//!
//! - `order`: the exact order of samples, and the pool from which they are drawn. Pure.
//! - `table`: samples in memory and the batches copied from them.
//! - `source`: the thread that serves a [`DataSource`].
//! - `provider`, `worker`, `frame`: Python providers, one of their processes, the frames that it sends.
//! - `native`, `proto`: text formats, and v1's binary one, that are read without Python.
//! - [`describe()`]: the slots and dictionaries of a source, without reading a sample.
//! - `list`, `random`, `stop`, `origin`, `error`: shared by the modules above.

mod describe;
mod error;
mod frame;
mod list;
mod native;
mod order;
mod origin;
mod proto;
mod provider;
mod random;
mod source;
mod starter;
mod stop;
mod table;
mod worker;

use std::ffi::OsString;
use std::path::PathBuf;

use config::DataConfig;

pub use describe::{Description, WordList, describe};
pub use error::{DataError, FilePosition};
pub use native::has_header;
pub use source::DataSource;
pub use table::{ElementKind, SlotType};

use list::FileList;
use origin::SampleStream;
use source::Seed;

/// A data layer of the network, for which samples are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataInput {
    /// The layer's name.
    pub name: String,
    /// The layer's size: width of a vector, or number of ids.
    pub size: usize,
}

/// What a data source needs to know besides its configuration.
#[derive(Clone, Debug)]
pub struct DataOptions {
    /// The job's seed; with pass and trainer it decides the order of samples.
    pub seed: u64,
    /// Index of this trainer in the job, from 0.
    pub trainer: u32,
    /// Whether samples are for training (and so shuffled, unless the source says otherwise).
    pub training: bool,
    /// Total weight of a batch's samples; each weighs 1 unless the provider has `calc_batch_size`.
    pub batch_size: u64,
    /// The job's directory: file names are relative to it, and providers run in it.
    pub directory: PathBuf,
    /// The directory of the configuration file, where provider modules are searched too.
    pub config_directory: Option<PathBuf>,
    /// Path or name of the Python interpreter.
    pub python: PathBuf,
    /// The directory that holds our `paddle` Python package.
    pub package: PathBuf,
    /// The `PYTHONPATH` of providers; by default that of this process.
    pub python_path: Option<OsString>,
    /// The data layers whose samples are used; `None`: all. For the others, such as the label, a CSV reader needs no
    /// columns and yields zeros.
    pub needed: Option<Vec<String>>,
    /// Number of provider processes; by default one per processor, and never more than files.
    pub workers: Option<usize>,
}

/// Opens a data source for the given data layers, in the order of the network's inputs.
///
/// Waits until a Python provider is initialized, so that its errors are reported here.
pub fn open(
    config: &DataConfig,
    inputs: &[DataInput],
    options: &DataOptions,
) -> Result<DataSource, DataError> {
    if config.r#type == "multi" {
        return Err(DataError::Several);
    }
    let list = FileList::of(&options.directory, config)?;
    open_list(config, list, inputs, options)
}

/// As [`open`], with these files instead of those of the configuration's list.
pub fn open_files(
    config: &DataConfig,
    files: Vec<String>,
    inputs: &[DataInput],
    options: &DataOptions,
) -> Result<DataSource, DataError> {
    if files.is_empty() {
        return Err(DataError::NoList);
    }
    open_list(config, FileList { path: None, files }, inputs, options)
}

fn open_list(
    config: &DataConfig,
    list: FileList,
    inputs: &[DataInput],
    options: &DataOptions,
) -> Result<DataSource, DataError> {
    let origin: Box<dyn SampleStream> = match config.r#type.as_str() {
        "py2" => Box::new(provider::Provider::open(config, list, inputs, options)?),
        "native" => native::open(config, list, inputs, options)?,
        "simple" => native::open_simple(config, list, inputs, options)?,
        "proto" | "proto_group" | "proto_sequence" | "proto_sequence_group" => {
            proto::open(config, list, inputs, options)?
        }
        other => {
            return Err(DataError::Kind {
                kind: other.to_owned(),
            });
        }
    };
    check_slots(&describe_source(config), origin.slots(), inputs)?;
    let seed = Seed {
        job: options.seed,
        trainer: options.trainer,
    };
    DataSource::new(origin, seed)
}

fn describe_source(config: &DataConfig) -> String {
    match config.load_data_object() {
        "" if config.load_data_module().is_empty() => config.r#type.clone(),
        "" => config.load_data_module().to_owned(),
        object => format!("{}.{object}", config.load_data_module()),
    }
}

/// Checks that the slots fit the data layers.
fn check_slots(provider: &str, slots: &[SlotType], inputs: &[DataInput]) -> Result<(), DataError> {
    let refuse = |reason: String| {
        Err(DataError::Slots {
            provider: provider.to_owned(),
            reason,
        })
    };
    if slots.len() != inputs.len() {
        let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
        return refuse(format!(
            "it has {} slots but the network has {} data layers ({})",
            slots.len(),
            inputs.len(),
            names.join(", ")
        ));
    }
    for (slot, input) in slots.iter().zip(inputs) {
        if slot.kind != ElementKind::Ids && slot.dim != input.size {
            return refuse(format!(
                "the slot of data layer {} has dimension {} but the layer has size {}",
                input.name, slot.dim, input.size
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
