//! Errors of data sources. Every message names the file, the line or sample, and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why a data source cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The system has no room for a thread: a limit of processes, or memory.
    #[error("start a thread that reads data (is a limit of processes reached?)")]
    NoThread(#[source] io::Error),
    /// The configuration names no list of files.
    #[error(
        "the data source names no file list; give train_list or test_list in the configuration"
    )]
    NoList,
    /// The list of files cannot be read.
    #[error("read file list {path}")]
    List {
        /// As the configuration names it, below the job's directory.
        path: PathBuf,
        /// The error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// The list names no file.
    #[error("file list {path} is empty; write one data file per line")]
    EmptyList {
        /// As the configuration names it, below the job's directory.
        path: PathBuf,
    },
    /// `MultiData`, several sources in one.
    #[error(
        "MultiData, a mixture of data sources, is not supported; mix them in one data provider: define_py_data_sources2 with a @provider that yields the samples of all"
    )]
    Several,
    /// The type of the data source is not supported.
    #[error(
        "data source type {kind:?} is not supported; use define_py_data_sources2, define_native_data_sources, ProtoData or SimpleData"
    )]
    Kind {
        /// The configuration's `type`.
        kind: String,
    },
    /// The arguments of a native reader are missing, unknown or contradict each other.
    #[error("native reader {format:?}: {reason}")]
    Native {
        /// Name of the format, such as `csv`.
        format: String,
        /// The argument that is wrong, and why.
        reason: String,
    },
    /// A data file cannot be read.
    #[error("read data file {file}{}", of_list(list.as_deref()))]
    File {
        /// As the list names it.
        file: String,
        /// The list that names the file; absent if a user named it.
        list: Option<PathBuf>,
        /// The error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// A dictionary cannot be read.
    #[error("read dictionary {path}")]
    Dictionary {
        /// As the configuration names it, below the job's directory.
        path: PathBuf,
        /// The I/O error, or that the file is too large.
        #[source]
        source: io::Error,
    },
    /// A line of a data file does not have the form of its format.
    #[error("{file}:{line}: {reason}")]
    Line {
        /// As the list names it.
        file: String,
        /// Counted from 1.
        line: u64,
        /// What the line should have had there.
        reason: String,
    },
    /// An id is too small or too large for its slot.
    #[error(
        "{file}, {place}: slot {slot} has the value {value}, it must be {}",
        match .first {
            0 if *.value < 0 => format!("0 or more and below {limit}"),
            0 => format!("below {limit}"),
            first => format!("{first} to {}", first + *.limit as i64 - 1),
        }
    )]
    OutOfRange {
        /// As the list names it.
        file: String,
        /// Lines in native readers, samples in providers.
        place: FilePosition,
        /// Name of the slot's data layer.
        slot: String,
        /// The id that was read.
        value: i64,
        /// The lowest value.
        first: i64,
        /// The dimension of the slot: how many values there are.
        limit: u64,
    },
    /// A provider yielded something that does not fit its input types.
    #[error("{file}, sample {sample}: {what} needs {expected}, got {got}")]
    Type {
        /// As the list names it.
        file: String,
        /// Counted from 1 in the file.
        sample: u64,
        /// The slot and its type, or the sample as a whole.
        what: String,
        /// What the type accepts.
        expected: String,
        /// What the provider yielded, as text.
        got: String,
    },
    /// The provider's slots are not those of the network.
    #[error("data provider {provider}: {reason}")]
    Slots {
        /// Module and function, `module.function`.
        provider: String,
        /// The slot that differs, and how.
        reason: String,
    },
    /// Python cannot be started.
    #[error(
        "start the data provider with {program}; install Python 3.8 or newer, or name it with --python_bin"
    )]
    Start {
        /// The interpreter that was tried.
        program: PathBuf,
        /// The error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// The provider's module does not exist.
    #[error(
        "data provider module {module:?} was not found ({searched}); it must lie beside the configuration"
    )]
    Module {
        /// Name of the module, without `.py`.
        module: String,
        /// The directories that were searched.
        searched: String,
    },
    /// The provider's function does not exist.
    #[error("data provider {module:?} has no {object:?} ({known})")]
    Object {
        /// Name of the module, without `.py`.
        module: String,
        /// Name of the function in the configuration.
        object: String,
        /// Data providers that the module has.
        known: String,
    },
    /// The provider raised while it was loaded or initialized.
    #[error("data provider {provider} failed to load:\n{traceback}")]
    Load {
        /// Module and function, `module.function`.
        provider: String,
        /// Python's traceback, as the worker sent it.
        traceback: String,
    },
    /// The provider raised while it read a file.
    #[error("data provider {provider} failed in {file}, sample {sample}:\n{traceback}")]
    Raised {
        /// Module and function, `module.function`.
        provider: String,
        /// As the list names it.
        file: String,
        /// The sample that was not yielded, counted from 1.
        sample: u64,
        /// Python's traceback, as the worker sent it.
        traceback: String,
    },
    /// A provider process ended before its work was done.
    #[error(
        "a process of data provider {provider} ended unexpectedly ({status}) while reading {file}"
    )]
    Died {
        /// Module and function, `module.function`.
        provider: String,
        /// Exit code or signal, as text.
        status: String,
        /// The file that it was reading, or was to read next.
        file: String,
    },
    /// A provider process sent bytes that are not a valid frame.
    #[error(
        "a process of data provider {provider} sent a broken message ({reason}); does it write to file descriptors that are not its own?"
    )]
    Broken {
        /// Module and function, `module.function`.
        provider: String,
        /// The check of the frame that failed.
        reason: String,
    },
    /// One sample weighs more than a whole batch.
    #[error(
        "a sample counts {weight} by calc_batch_size but a batch holds {batch}; set can_over_batch_size=True or a larger batch_size"
    )]
    TooHeavy {
        /// The sample's weight, from `calc_batch_size`.
        weight: u64,
        /// Total weight that fits into a batch: `batch_size`.
        batch: u64,
    },
    /// A batch has more positions than can be addressed.
    #[error("slot {slot} has more than {limit} positions; use a smaller batch")]
    TooLarge {
        /// Name of the slot's data layer.
        slot: String,
        /// The largest number of positions.
        limit: u64,
    },
    /// A pool or cache has more samples than a 32-bit index can address.
    #[error("more than {limit} samples are to be held in memory; set pool_size and no cache")]
    TooMany {
        /// The largest number of samples.
        limit: u64,
    },
    /// A batch was asked for outside of a pass, or after a failure.
    #[error("no pass has been started; call start_pass first")]
    NoPass,
    /// The reading thread has ended unexpectedly.
    #[error("the thread that reads data has ended unexpectedly")]
    Thread,
}

impl DataError {
    /// Whether configuration and files alone cause it, so that a new process would find it again. What a provider does,
    /// which may read from elsewhere, is not known.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::NoList
            | Self::EmptyList { .. }
            | Self::Several
            | Self::Kind { .. }
            | Self::Native { .. }
            | Self::Line { .. }
            | Self::Slots { .. }
            | Self::Module { .. }
            | Self::Object { .. }
            | Self::TooHeavy { .. } => true,
            Self::NoThread(_)
            | Self::List { .. }
            | Self::File { .. }
            | Self::Dictionary { .. }
            | Self::OutOfRange { .. }
            | Self::Type { .. }
            | Self::Start { .. }
            | Self::Load { .. }
            | Self::Raised { .. }
            | Self::Died { .. }
            | Self::Broken { .. }
            | Self::TooLarge { .. }
            | Self::TooMany { .. }
            | Self::NoPass
            | Self::Thread => false,
        }
    }
}

fn of_list(list: Option<&Path>) -> String {
    list.map_or_else(String::new, |list| {
        format!(" (from list {})", list.display())
    })
}

/// A position in a data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePosition {
    /// A line, counted from 1.
    Line(u64),
    /// A sample, counted from 1.
    Sample(u64),
}

impl std::fmt::Display for FilePosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(n) => write!(f, "line {n}"),
            Self::Sample(n) => write!(f, "sample {n}"),
        }
    }
}
