//! Why there are no samples: every failure names the file, the line or sample, and the way out.

use std::io;
use std::path::PathBuf;

/// Why a data source cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The configuration names no list of files.
    #[error(
        "the data source names no file list; give train_list or test_list in the configuration"
    )]
    NoList,
    /// The list of files cannot be read.
    #[error("read file list {path}")]
    List {
        /// The list.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The list names no file.
    #[error("file list {path} is empty; write one data file a line")]
    EmptyList {
        /// The list.
        path: PathBuf,
    },
    /// The type of the data source is not supported.
    #[error(
        "data source type {kind:?} is not supported; use define_py_data_sources2 or define_native_data_sources"
    )]
    Kind {
        /// What the configuration says.
        kind: String,
    },
    /// The arguments of a native reader cannot be understood.
    #[error("native reader {format:?}: {reason}")]
    Native {
        /// The format.
        format: String,
        /// What is wrong.
        reason: String,
    },
    /// A data file cannot be read.
    #[error("read data file {file} (from list {list})")]
    File {
        /// The file as the list names it.
        file: String,
        /// The list.
        list: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A dictionary cannot be read.
    #[error("read dictionary {path}")]
    Dictionary {
        /// The dictionary.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A line of a data file does not have the form of its format.
    #[error("{file}:{line}: {reason}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// An id is too large for its slot.
    #[error("{file}, {place}: slot {slot} has the value {value}, it must be below {limit}")]
    OutOfRange {
        /// The file.
        file: String,
        /// The line or sample, from 1.
        place: Place,
        /// The slot's data layer.
        slot: String,
        /// The value.
        value: i64,
        /// The dimension of the slot.
        limit: u64,
    },
    /// A provider yielded something that does not fit its input types.
    #[error("{file}, sample {sample}: {what} needs {expected}, got {got}")]
    Type {
        /// The file.
        file: String,
        /// The sample, from 1.
        sample: u64,
        /// The slot and its type, or the sample as a whole.
        what: String,
        /// What fits.
        expected: String,
        /// What came.
        got: String,
    },
    /// The provider's slots are not those of the network.
    #[error("data provider {provider}: {reason}")]
    Slots {
        /// Module and function.
        provider: String,
        /// What differs.
        reason: String,
    },
    /// Python cannot be started.
    #[error(
        "start the data provider with {program}; install Python 3.8 or newer, or name it with --python_bin"
    )]
    Start {
        /// The interpreter.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The provider's module does not exist.
    #[error(
        "data provider module {module:?} was not found ({searched}); it must lie beside the configuration"
    )]
    Module {
        /// The module.
        module: String,
        /// Where it was looked for.
        searched: String,
    },
    /// The provider's function does not exist.
    #[error("data provider {module:?} has no {object:?} ({known})")]
    Object {
        /// The module.
        module: String,
        /// The function.
        object: String,
        /// What it has.
        known: String,
    },
    /// The provider raised while it was loaded or initialised.
    #[error("data provider {provider} failed to load:\n{traceback}")]
    Load {
        /// Module and function.
        provider: String,
        /// The user's traceback.
        traceback: String,
    },
    /// The provider raised while it read a file.
    #[error("data provider {provider} failed in {file}, sample {sample}:\n{traceback}")]
    Raised {
        /// Module and function.
        provider: String,
        /// The file.
        file: String,
        /// The sample that was not made, from 1.
        sample: u64,
        /// The user's traceback.
        traceback: String,
    },
    /// A provider process ended before its work was done.
    #[error(
        "a process of data provider {provider} ended unexpectedly ({status}) while reading {file}"
    )]
    Died {
        /// Module and function.
        provider: String,
        /// Exit code or signal.
        status: String,
        /// The file it was to read next.
        file: String,
    },
    /// A provider process sent something that is no message.
    #[error(
        "a process of data provider {provider} sent a broken message ({reason}); does it write to file descriptors of its own?"
    )]
    Broken {
        /// Module and function.
        provider: String,
        /// What is wrong with it.
        reason: String,
    },
    /// One sample takes more than a whole batch.
    #[error(
        "a sample counts {weight} by calc_batch_size but a batch holds {batch}; set can_over_batch_size=True or a larger batch_size"
    )]
    TooHeavy {
        /// What the sample counts.
        weight: u64,
        /// What a batch holds.
        batch: u64,
    },
    /// A batch has more positions than can be addressed.
    #[error("slot {slot} has more than {limit} positions; use a smaller batch")]
    TooLarge {
        /// The slot's data layer.
        slot: String,
        /// The most that fits.
        limit: u64,
    },
    /// A pool or cache has more samples than can be numbered.
    #[error("more than {limit} samples are to be held in memory; set pool_size and no cache")]
    TooMany {
        /// The most that fits.
        limit: u64,
    },
    /// A batch was asked for outside of a pass, or after a failure.
    #[error("no pass is under way; call start_pass first")]
    NoPass,
    /// The reading thread is gone.
    #[error("the thread that reads data has ended unexpectedly")]
    Thread,
}

/// Where in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line, from 1.
    Line(u64),
    /// A sample, from 1.
    Sample(u64),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(n) => write!(f, "line {n}"),
            Self::Sample(n) => write!(f, "sample {n}"),
        }
    }
}
