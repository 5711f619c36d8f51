//! What a job is: the network, its parameters, its data and its optimizer, as a `trainer_config.py` describes them.
//!
//! A user's Python file is evaluated in a subprocess against the `paddle` package that ships inside this crate;
//! the result comes back as JSON whose fields are those of v1's `TrainerConfig` protocol buffer.
//! Nothing here knows the mathematics of a layer, a socket or a cluster.
//!
//! # Map, in reading order
//!
//! - [`message`]: presence and defaults of v1's messages; `text`: their text form.
//! - [`parameter`], [`model`], [`data`], [`training`]: the messages themselves.
//! - `python/paddle` (Python): how a description grows; start at `paddle/core/__init__.py`.
//! - `package`: that Python package on disk, once per content. [`python`]: the subprocess that runs a user's file.
//! - [`validate`]: the second look at the whole. [`evaluate()`]: all of it, in one call.
//! - [`diagram`]: pictures of a network. [`command`]: what `canoe config` answers.

#[macro_use]
pub mod message;
pub mod command;
pub mod data;
pub mod diagram;
mod evaluate;
pub mod model;
mod package;
pub mod parameter;
pub mod python;
mod text;
pub mod training;
pub mod validate;

pub use data::DataConfig;
pub use evaluate::{evaluate, evaluate_with_python};
pub use model::{
    EvaluatorConfig, LayerConfig, LayerInputConfig, ModelConfig, OperatorConfig, ProjectionConfig,
};
pub use parameter::ParameterConfig;
pub use python::{ConfigError, EvaluateOptions, Failure, FailureKind, Frame, Prints};
pub use training::{OptimizationConfig, TrainerConfig};
