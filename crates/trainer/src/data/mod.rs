//! Data: from files to batches.
//!
//! Samples come from v1 data providers (Python, in worker processes) or from native readers (no Python at all). Either
//! way they are held column by column, their order is a pure function of (seed, pass, trainer), and batches are made
//! ahead of time by a thread. Nothing here knows what a network computes from them.
//!
//! # Map, in reading order
//!
//! - `order`: the order of samples, precisely; the pool they are drawn from. Pure.
//! - `table`: samples in memory and the batches copied from them.
//! - `source`: the thread behind [`Source`].
//! - `provider`, `worker`, `frame`: Python providers, one of their processes, what it sends.
//! - `native`: formats that we read ourselves.
//! - `list`, `random`, `stop`, `origin`, `error`: what the others share.

mod error;
mod frame;
mod list;
mod native;
mod order;
mod origin;
mod provider;
mod random;
mod source;
mod stop;
mod table;
mod worker;

use std::ffi::OsString;
use std::path::PathBuf;

use config::DataConfig;

pub use error::{DataError, Place};
pub use source::Source;

use list::FileList;
use origin::Origin;
use source::Seed;
use table::Kind;

/// A data layer that wants samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The layer's name.
    pub name: String,
    /// The layer's size.
    pub size: usize,
}

/// What a data source needs to know beside its configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// The job's seed.
    pub seed: u64,
    /// The number of this trainer.
    pub trainer: u32,
    /// Whether samples are for training (and so shuffled, unless the source says otherwise).
    pub training: bool,
    /// Samples of a batch.
    pub batch_size: u64,
    /// The job's directory: file names are relative to it, and providers run in it.
    pub directory: PathBuf,
    /// The directory of the configuration file, where provider modules are looked for, too.
    pub config_directory: Option<PathBuf>,
    /// The Python interpreter.
    pub python: PathBuf,
    /// The directory that holds our `paddle` Python package.
    pub package: PathBuf,
    /// The `PYTHONPATH` of providers; by default ours.
    pub python_path: Option<OsString>,
    /// Provider processes; without it as many as processors, and never more than files.
    pub workers: Option<usize>,
}

/// Opens a data source for the given data layers, in the order of the network's inputs.
///
/// Waits until a Python provider is initialised, so that what is wrong with it is said here.
pub fn open(config: &DataConfig, inputs: &[Input], options: &Options) -> Result<Source, DataError> {
    let list = FileList::read(&options.directory, config.files())?;
    let origin: Box<dyn Origin> = match config.r#type.as_str() {
        "py2" => Box::new(provider::Provider::open(config, list, inputs, options)?),
        "native" => native::open(config, list, inputs, options)?,
        other => {
            return Err(DataError::Kind {
                kind: other.to_owned(),
            });
        }
    };
    check_slots(&describe(config), origin.slots(), inputs)?;
    let seed = Seed {
        job: options.seed,
        trainer: options.trainer,
    };
    Ok(Source::new(origin, seed))
}

fn describe(config: &DataConfig) -> String {
    match config.load_data_object() {
        "" => config.load_data_module().to_owned(),
        object => format!("{}.{object}", config.load_data_module()),
    }
}

/// Whether the slots are what the data layers want.
fn check_slots(
    provider: &str,
    slots: &[table::SlotType],
    inputs: &[Input],
) -> Result<(), DataError> {
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
        if slot.kind != Kind::Ids && slot.dim != input.size {
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
