//! Why a trainer stops before its work is done.

use std::path::PathBuf;

use crate::data::DataError;
use crate::parameter_file::ParameterFileError;
use crate::pass_directory::PassDirectoryError;
use crate::rules::RuleError;
use crate::saved_rows::SavedRowsError;
use crate::state_file::StateFileError;
use crate::updater::UpdateError;

/// Why a trainer stops.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The network cannot be built.
    #[error("build the network")]
    Build(#[from] nn::BuildError),
    /// An update rule cannot be made.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// Samples cannot be had.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A batch cannot be computed.
    #[error("pass {pass} batch {batch}")]
    Execute {
        /// The pass.
        pass: u32,
        /// The batch, from 0.
        batch: u64,
        /// The layer and the reason.
        #[source]
        source: nn::ExecuteError,
    },
    /// A test batch cannot be computed.
    #[error("test batch {batch}")]
    Test {
        /// The batch of the test, from 0.
        batch: u64,
        /// The layer and the reason.
        #[source]
        source: nn::ExecuteError,
    },
    /// An update cannot be made.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// A pass directory cannot be written or used.
    #[error(transparent)]
    PassDirectory(#[from] PassDirectoryError),
    /// Optimizer state cannot be read or written.
    #[error(transparent)]
    State(#[from] StateFileError),
    /// Tables that servers saved cannot be read.
    #[error(transparent)]
    SavedRows(#[from] SavedRowsError),
    /// A parameter file cannot be read.
    #[error(transparent)]
    Parameter(#[from] ParameterFileError),
    /// A parameter has no file in the directory to load from.
    #[error(
        "{directory} has no file for parameter '{parameter}' (--load_missing_parameter_strategy=rand or =zero starts it afresh)"
    )]
    MissingParameter {
        /// Where it was looked for.
        directory: PathBuf,
        /// Which one.
        parameter: String,
    },
    /// The configuration lacks something that the job needs.
    #[error("the configuration {0}")]
    Configuration(&'static str),
    /// There is nothing to learn from.
    #[error("pass {pass} has no samples: the training data are empty")]
    NoSamples {
        /// The pass.
        pass: u32,
    },
    /// A file that lists models cannot be read.
    #[error("read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A result file cannot be written.
    #[error("write {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The analytic gradient disagrees with the differences of the cost.
    #[error("the gradient check failed for {}", .0.join(", "))]
    GradientCheck(Vec<String>),
    /// Threads could not be started.
    #[error("start compute threads")]
    Threads(#[source] rayon::ThreadPoolBuildError),
}
