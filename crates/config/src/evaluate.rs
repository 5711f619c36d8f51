//! The entry points: from a configuration file to a checked configuration.

use std::path::PathBuf;

use serde_json::Value;

use crate::python::{self, ConfigError, EvaluateOptions};
use crate::training::TrainerConfig;
use crate::validate;

/// Evaluates a `trainer_config.py` and checks what it describes.
pub fn evaluate(options: &EvaluateOptions) -> Result<TrainerConfig, ConfigError> {
    evaluate_with_python(options).map(|(config, _)| config)
}

/// As [`evaluate`], with the path of the interpreter itself: what was started may be a script that takes its time to
/// choose one.
pub fn evaluate_with_python(
    options: &EvaluateOptions,
) -> Result<(TrainerConfig, PathBuf), ConfigError> {
    let run = python::run(options)?;
    check(options, &run.config)?;
    Ok((run.config, run.python))
}

/// As [`evaluate`], with the JSON in which numbers still look as they were written.
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
    let problems = validate::problems(config);
    if problems.is_empty() {
        return Ok(());
    }
    Err(ConfigError::Invalid {
        file: options.file.clone(),
        problems,
    })
}
