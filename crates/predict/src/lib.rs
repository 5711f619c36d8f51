//! Applies a trained model: returns the outputs of samples, in the order of the samples.
//!
//! A model is a pass directory plus the configuration that it was trained with. The network is reduced to what the
//! outputs need, so samples have no label; the types of the inputs are those of the configuration's own data source.
//! Nothing here trains, listens on a socket or prints.
//!
//! # Map, in reading order
//!
//! - [`locate`]: finds the pass directory, the job folder and the configuration for a path that a user names.
//! - [`cut`]: the part of a network that some outputs need. [`values`]: its parameters, shared and perhaps mapped.
//! - [`model`]: the opened model, and a [`model::Runner`] per thread that computes batches.
//! - [`dictionary`], [`sample`]: words and fields become the slots of a batch. [`read`]: text, CSV and JSON lines.
//! - [`write`](mod@write): outputs as CSV, JSON lines or v1's lines.
//! - [`pipeline`]: batches on all cores, results in order, bounded memory.
//! - [`python_worker`]: the process behind v1's `py_paddle`.
//! - [`export`]: parameters with their shapes and names, as safetensors, npz; and back. [`onnx`]: the whole network.
//!
//! # Invariants
//!
//! 1. The outputs of a sample are those of `canoe train --job=test`, bit for bit.
//! 2. Every sample is checked before it is computed; an error names its line and field.

mod cut;
pub mod dictionary;
pub mod error;
pub mod export;
pub mod locate;
pub mod model;
pub mod onnx;
pub mod pipeline;
pub mod python_worker;
pub mod read;
pub mod sample;
mod values;
pub mod write;

pub use config::python::keep_package_below;
pub use error::PredictError;
pub use model::{Model, OpenOptions, Runner};
