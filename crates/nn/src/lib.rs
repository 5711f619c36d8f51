//! Networks of layers: forward, backward, and evaluators.
//!
//! A [`Network`] is built from a [`config::ModelConfig`]. It takes a [`Batch`] and [`Parameters`], returns the cost,
//! and fills [`Gradients`]. It does not know optimizers, files or sockets.
//!
//! Two ideas make it fast on text, click and recommendation models: nothing is padded (sequences are ragged, sparse
//! rows stay sparse), and nothing is computed twice (equal samples and equal rows of a batch are found and computed
//! once, see [`domain`]).
//!
//! # Map, in reading order
//!
//! - [`batch`], [`parameters`], [`gradients`]: its inputs and results.
//! - [`matrix`], [`product`], [`simd`], [`functions`], [`noise`]: arithmetic; [`number`]: how v1 prints numbers.
//! - [`domain`], [`output`]: how rows map to positions; values and gradients of one layer.
//! - [`image`]: convolution and pooling of rows that are images.
//! - [`layer`], [`build`]: the interface of a layer, and what it is built from. [`finish`], [`activation`]: the last
//!   step of most layers. [`layers`], [`projections`]: all of them.
//! - [`network`]: layers in order, forward and backward. [`evaluators`]: measures of its outputs.
//!
//! # Invariants
//!
//! 1. The same parameters, batch and noise seed yield the same bits, whatever the number of threads.
//! 2. Costs and gradients are sums over the batch.
//! 3. Malformed batches are errors that name the layer; they never panic.

mod activation;
pub mod batch;
pub mod build;
mod domain;
pub mod error;
pub mod evaluators;
mod finish;
mod functions;
#[cfg(test)]
mod gradient_check;
mod gradients;
pub mod image;
mod kept_products;
mod layer;
pub mod layers;
mod matrix;
pub mod network;
pub mod noise;
pub mod number;
mod output;
mod parameters;
pub mod product;
pub mod projections;
mod row_gradient;
pub mod rows;
mod simd;

pub use batch::{Batch, Slot, SlotData};
pub use error::{BuildError, ExecuteError, LayerError};
pub use evaluators::Evaluators;
pub use gradients::{Gradient, Gradients};
pub use layer::{Assigned, BatchUse};
pub use matrix::Matrix;
pub use network::{InputSpec, LayerView, Network, NetworkOptions};
pub use parameters::{ParameterIndex, ParameterSpec, ParameterValues, Parameters, SharedValues};
