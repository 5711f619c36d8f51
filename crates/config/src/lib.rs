//! The configuration of a job: network, parameters, data and optimizer, as a `trainer_config.py` describes them.
//!
//! A user's Python file is evaluated in a subprocess with the `paddle` package that this crate embeds; the result is
//! JSON whose fields are those of v1's `TrainerConfig` protocol buffer. Nothing here knows the mathematics of a layer,
//! a socket or a cluster.
//!
//! # Map, in reading order
//!
//! - [`message`]: presence and defaults of v1's messages; `text`: their text form; [`binary`] and [`protobuf`]: their bytes.
//! - [`parameter`], [`model`], [`data`], [`training`]: the messages themselves.
//! - `python/paddle` (Python): builds the description; start at `paddle/core/__init__.py`.
//! - `package`: that Python package on disk, one directory per version. [`python`]: the subprocess that runs a user's
//!   file.
//! - [`validate`]: checks the whole result. [`evaluate()`]: everything in one call.
//! - [`diagram`]: pictures of a network. [`command`]: the output of `canoe config`.

#[macro_use]
pub mod message;
pub mod binary;
pub mod command;
pub mod data;
pub mod diagram;
mod evaluate;
pub mod model;
mod package;
mod parameter;
pub mod protobuf;
pub mod python;
mod text;
mod training;
pub mod validate;

pub use data::DataConfig;
pub use evaluate::{Evaluated, evaluate, evaluate_with_python};
pub use model::{
    EvaluatorConfig, GeneratorConfig, LayerConfig, LayerInputConfig, LinkConfig, MemoryConfig,
    ModelConfig, OperatorConfig, ProjectionConfig, SubModelConfig,
};
pub use parameter::ParameterConfig;
pub use python::{ConfigError, EvaluateOptions, Failure, FailureKind, Prints, TracebackFrame};
pub use training::{OptimizationConfig, TrainerConfig};
