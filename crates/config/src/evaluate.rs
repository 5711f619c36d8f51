//! The entry points: evaluate a configuration file and check the result.

use std::path::PathBuf;

use serde_json::Value;

use crate::python::{self, ConfigError, EvaluateOptions, SourceLines};
use crate::training::TrainerConfig;
use crate::validate;

/// Evaluates a `trainer_config.py` and checks the result.
pub fn evaluate(options: &EvaluateOptions) -> Result<TrainerConfig, ConfigError> {
    evaluate_with_python(options).map(|evaluated| evaluated.config)
}

/// A configuration, and the Python that evaluated it.
#[derive(Debug)]
pub struct Evaluated {
    /// The checked configuration.
    pub config: TrainerConfig,
    /// Path of the interpreter itself: the program that was started may be a wrapper script.
    pub python: PathBuf,
    /// Where its layers and data sources are described.
    pub places: SourceLines,
    /// What the user should know, such as an argument that nothing reads.
    pub notes: Vec<String>,
    /// The Python 2 that was asked for, if `python` ran the file instead.
    pub instead_of: Option<PathBuf>,
}

/// As [`evaluate`]; also returns the interpreter.
pub fn evaluate_with_python(options: &EvaluateOptions) -> Result<Evaluated, ConfigError> {
    let run = python::run(options)?;
    check(options, &run.config)?;
    Ok(Evaluated {
        config: run.config,
        python: run.python,
        places: run.places,
        notes: run.notes,
        instead_of: run.instead_of,
    })
}

/// As [`evaluate`]; also returns the JSON, in which numbers are as the file wrote them.
pub(crate) fn evaluate_json(
    options: &EvaluateOptions,
) -> Result<(TrainerConfig, Value), ConfigError> {
    let run = python::run(options)?;
    check(options, &run.config)?;
    let answer: Value =
        serde_json::from_slice(&run.json).map_err(|source| ConfigError::Result {
            file: options.file.clone(),
            source,
        })?;
    Ok((run.config, answer["config"].clone()))
}

fn check(options: &EvaluateOptions, config: &TrainerConfig) -> Result<(), ConfigError> {
    let mut problems = validate::problems(config);
    problems.extend(validate::shadowed(config, &options.file));
    if problems.is_empty() {
        return Ok(());
    }
    Err(ConfigError::Invalid {
        file: options.file.clone(),
        problems,
    })
}
