//! The one entry point: from a configuration file to a checked configuration.

use serde_json::Value;

use crate::python::{self, ConfigError, EvaluateOptions};
use crate::training::TrainerConfig;
use crate::validate;

/// Evaluates a `trainer_config.py` and checks what it describes.
pub fn evaluate(options: &EvaluateOptions) -> Result<TrainerConfig, ConfigError> {
    let config = python::run(options)?;
    check(options, &config)?;
    Ok(config)
}

/// As [`evaluate`], with the JSON in which numbers still look as they were written.
pub(crate) fn evaluate_json(
    options: &EvaluateOptions,
) -> Result<(TrainerConfig, Value), ConfigError> {
    let (config, json) = python::run_to_json(options)?;
    check(options, &config)?;
    let outcome: Value = serde_json::from_slice(&json).map_err(|source| ConfigError::Result {
        file: options.file.clone(),
        source,
    })?;
    Ok((config, outcome["config"].clone()))
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
