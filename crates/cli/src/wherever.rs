//! Evaluates a configuration in the folder that its file names are relative to: the current folder, the job folder, or
//! the folder of the configuration.

use std::path::{Path, PathBuf};

use config::{ConfigError, EvaluateOptions, Evaluated, Prints};

/// Why a configuration could not be evaluated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WhereverError {
    /// The error of the first folder.
    #[error(transparent)]
    Configuration(#[from] ConfigError),
    /// There is no working directory.
    #[error("find the working directory")]
    Here(#[from] std::io::Error),
}

/// The folders to which file names of a configuration may be relative: this one, the parent of the configuration's folder
/// (a job folder), and the configuration's folder.
pub(crate) fn choices(path: &Path) -> std::io::Result<[PathBuf; 3]> {
    let here = std::env::current_dir()?;
    let beside = path.parent().unwrap_or(Path::new("/"));
    let around = beside.parent().unwrap_or(beside);
    Ok([here, around.to_owned(), beside.to_owned()])
}

/// A result, and the first folder in which it was obtained.
pub(crate) struct DoneThere<T> {
    pub(crate) done: T,
    pub(crate) folder: PathBuf,
}

/// Evaluates the file in the first folder in which that works.
pub(crate) fn evaluate(options: &EvaluateOptions) -> Result<DoneThere<Evaluated>, WhereverError> {
    first(options, config::evaluate_with_python)
}

/// Tries `act` in each folder until it succeeds; if it fails in all of them, returns the error of the current folder.
pub(crate) fn first<T>(
    options: &EvaluateOptions,
    act: impl Fn(&EvaluateOptions) -> Result<T, ConfigError>,
) -> Result<DoneThere<T>, WhereverError> {
    let path = std::path::absolute(&options.file)?;
    let [here, others @ ..] = choices(&path)?;
    let error = match act(options) {
        Ok(done) => return Ok(DoneThere { done, folder: here }),
        Err(error) => error,
    };
    for folder in others {
        let elsewhere = EvaluateOptions {
            file: path.clone(),
            directory: Some(folder.clone()),
            prints: Prints::Nowhere,
            ..options.clone()
        };
        if let Ok(done) = act(&elsewhere) {
            return Ok(DoneThere { done, folder });
        }
    }
    // The user typed file names relative to the current folder, so its error is the one that helps.
    Err(error.into())
}
