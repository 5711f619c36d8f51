//! Errors that end a trainer before its work is done.

use std::path::PathBuf;

use crate::best::UnknownMeasure;
use crate::data::DataError;
use crate::merged::MergedError;
use crate::parameter_file::ParameterFileError;
use crate::pass_directory::PassDirectoryError;
use crate::rules::{RuleError, UnknownAlgorithm};
use crate::saved_rows::SavedRowsError;
use crate::scores_file::ScoresFileError;
use crate::state_file::StateFileError;
use crate::updater::UpdateError;

/// Why a trainer ends early. Each variant prints its cause and what to do.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The network cannot be built.
    #[error("build the network")]
    Build(#[from] nn::BuildError),
    /// The configuration asks for an update rule that does not exist.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The configuration asks for an algorithm of training that does not exist.
    #[error(transparent)]
    Algorithm(#[from] UnknownAlgorithm),
    /// A data source cannot be opened or read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A batch cannot be computed.
    #[error("pass {pass} batch {batch}")]
    Execute {
        /// The pass, from 0.
        pass: u32,
        /// The batch, from 0.
        batch: u64,
        /// Names the layer and the reason.
        #[source]
        source: nn::ExecuteError,
    },
    /// A test batch cannot be computed.
    #[error("test batch {batch}")]
    Test {
        /// The batch of the test, from 0.
        batch: u64,
        /// Names the layer and the reason.
        #[source]
        source: nn::ExecuteError,
    },
    /// The measure of `--best_by` does not exist.
    #[error(transparent)]
    Measure(#[from] UnknownMeasure),
    /// Test results cannot be written.
    #[error(transparent)]
    Scores(#[from] ScoresFileError),
    /// The parameter servers cannot apply an update.
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
    /// A merged model cannot be read.
    #[error(transparent)]
    Merged(#[from] MergedError),
    /// A parameter file cannot be read.
    #[error(transparent)]
    Parameter(#[from] ParameterFileError),
    /// A parameter has no file in the directory to load from.
    #[error(
        "{directory} has no file for parameter '{parameter}' (--load_missing_parameter_strategy=rand or =zero initialises it)"
    )]
    MissingParameter {
        /// The directory that was searched.
        directory: PathBuf,
        /// Name of the parameter.
        parameter: String,
    },
    /// The servers' state in a pass directory is not the one that was saved with its model.
    #[error(
        "{path} cannot be continued exactly: {reason}; bring the file back, or start from its values with --init_model_path={path}"
    )]
    WrongState {
        /// The pass directory.
        path: PathBuf,
        /// Which file is wrong.
        reason: String,
    },
    /// The configuration lacks something that the job needs.
    #[error("the configuration {0}")]
    Configuration(&'static str),
    /// The configuration does not say how to train.
    #[error(
        "settings is not called, so there is neither a batch size nor a learning rate; add settings(batch_size=…, learning_rate=…)"
    )]
    NoSettings,
    /// A batch would have no sample.
    #[error("settings has batch_size={size}; a batch needs at least one sample")]
    BatchSize {
        /// The value in the configuration.
        size: i32,
    },
    /// The training data have no samples.
    #[error("pass {pass} has no samples: the training data are empty")]
    NoSamples {
        /// The pass, from 0.
        pass: u32,
    },
    /// A list of models or a dictionary of an evaluator cannot be read.
    #[error("read {path}")]
    Read {
        /// Path of the list or dictionary.
        path: PathBuf,
        /// The error that the operating system returned.
        #[source]
        source: std::io::Error,
    },
    /// A result file or a directory of results cannot be written.
    #[error("write {path}")]
    Write {
        /// Path of the file or directory.
        path: PathBuf,
        /// The error that the operating system returned.
        #[source]
        source: std::io::Error,
    },
    /// The analytic gradient disagrees with the differences of the cost, for the parameters named here.
    #[error("the gradient check failed for {}", .0.join(", "))]
    GradientCheck(Vec<String>),
    /// The output folder belongs to another run.
    #[error("{0}")]
    FolderLost(String),
    /// The training files are not those with which the run began.
    #[error("{0}")]
    DataReplaced(String),
    /// Compute threads could not be started.
    #[error("start compute threads")]
    Threads(#[source] rayon::ThreadPoolBuildError),
}

impl TrainError {
    /// Whether configuration, flags and files alone cause it, a server refuses the trainer for good, or the run has lost
    /// its folder or data: a new process would end in the same way.
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::Build(_)
            | Self::Rule(_)
            | Self::Algorithm(_)
            | Self::Measure(_)
            | Self::MissingParameter { .. }
            | Self::WrongState { .. }
            | Self::Configuration(_)
            | Self::NoSettings
            | Self::BatchSize { .. }
            | Self::NoSamples { .. }
            | Self::FolderLost(_)
            | Self::DataReplaced(_) => true,
            Self::Data(error) => error.is_lasting(),
            Self::Update(UpdateError::Remote(error)) => {
                matches!(error, wire::Error::Rejected { .. } | wire::Error::Usage(_))
            }
            Self::PassDirectory(PassDirectoryError::Parameter(error)) | Self::Parameter(error) => {
                !matches!(
                    error,
                    ParameterFileError::Read { .. } | ParameterFileError::Write { .. }
                )
            }
            Self::PassDirectory(error) => !matches!(error, PassDirectoryError::Io { .. }),
            Self::State(error) => matches!(error, StateFileError::Damaged { .. }),
            Self::SavedRows(error) => !matches!(error, SavedRowsError::Read { .. }),
            Self::Merged(error) => {
                !matches!(error, MergedError::Read { .. } | MergedError::Write { .. })
            }
            Self::Scores(error) => matches!(error, ScoresFileError::Damaged { .. }),
            // A provider or a disk may fail once; a check of gradients is no refusal.
            Self::Execute { .. }
            | Self::Test { .. }
            | Self::Update(UpdateError::RolledBack { .. })
            | Self::Read { .. }
            | Self::Write { .. }
            | Self::GradientCheck(_)
            | Self::Threads(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn what_another_process_would_find_again_is_told_from_what_may_pass() {
        let refused = |code| {
            let text = "the disk is full".to_owned();
            let server = "a:1".to_owned();
            TrainError::Update(UpdateError::Remote(match code {
                Some(code) => wire::Error::Refused { server, code, text },
                None => wire::Error::Rejected { server, text },
            }))
        };
        let path = PathBuf::from("pass-00001");
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let lasting = [
            TrainError::Configuration("names test data"),
            TrainError::PassDirectory(PassDirectoryError::Incomplete { path: path.clone() }),
            TrainError::Data(DataError::NoList),
            refused(None),
        ];
        for error in lasting {
            assert!(error.is_lasting(), "{error}");
        }
        let passing = [
            TrainError::Write {
                path: path.clone(),
                source: full(),
            },
            TrainError::PassDirectory(PassDirectoryError::Io {
                action: "create",
                path: path.clone(),
                source: full(),
            }),
            TrainError::Data(DataError::NoThread(full())),
            refused(Some(wire::message::Code::Unable)),
            TrainError::Update(UpdateError::Remote(wire::Error::JobFailed("x".to_owned()))),
        ];
        for error in passing {
            assert!(!error.is_lasting(), "{error}");
        }
    }
}
