//! The one entry point: from a configuration file to a checked configuration.

use crate::python::{self, ConfigError, EvaluateOptions};
use crate::training::TrainerConfig;
use crate::validate;

/// Evaluates a `trainer_config.py` and checks what it describes.
pub fn evaluate(options: &EvaluateOptions) -> Result<TrainerConfig, ConfigError> {
    let config = python::run(options)?;
    let problems = validate::problems(&config);
    if problems.is_empty() {
        return Ok(config);
    }
    Err(ConfigError::Invalid {
        file: options.file.clone(),
        problems,
    })
}
