//! What a job is: the network, its parameters, its data and its optimizer, as a `trainer_config.py` describes them.
//!
//! A user's Python file is evaluated in a subprocess against the `paddle` package that ships inside this crate;
//! the result comes back as JSON whose fields are those of v1's `TrainerConfig` protocol buffer.
//! Nothing here knows the mathematics of a layer, a socket or a cluster.
//!
//! # Map, in reading order
//!
//! - [`message`]: presence, defaults and the text form of v1's messages.
//! - [`parameter`], [`model`], [`data`], [`training`]: the messages themselves.

#[macro_use]
pub mod message;
pub mod data;
pub mod model;
pub mod parameter;
pub mod training;

pub use data::DataConfig;
pub use model::{
    EvaluatorConfig, LayerConfig, LayerInputConfig, ModelConfig, OperatorConfig, ProjectionConfig,
};
pub use parameter::ParameterConfig;
pub use training::{OptimizationConfig, TrainerConfig};
