//! One trainer: samples in, gradients out, new values back, pass after pass.
//!
//! A trainer reads its shard of the data, runs the network forward and backward, and hands gradients to an updater,
//! which applies them here or sends them to parameter servers. It tests, reports and saves. It knows nothing of what
//! a parameter server is inside, of Kubernetes, or of how its lines reach a person.
//!
//! # Map, in reading order
//!
//! - [`job`]: puts everything together: train, test, check gradients, take times.
//! - [`train`]: the loop over passes and batches.
//! - [`data`]: samples from data providers and native readers, in an order that only the seed decides.
//! - [`updater`]: gradients to new values; [`rules`] and [`loading`] say how parameters change and start.
//! - [`saving`], [`pass_directory`], [`parameter_file`], [`state_file`]: models on disk, whole or not at all.
//! - [`models`], [`tested`], [`saved_rows`], [`testing`], [`gather`], [`predict`], [`checkgrad`], [`timing`]: what else can be done with a model.
//! - [`model`]: a finished model seen from outside.
//! - [`report`], [`meter`], [`parameter_stats`], [`parameter_statistics`], [`inspect`], [`log`]: what a trainer
//!   says, in v1's words.
//!
//! # Invariants
//!
//! 1. A run is a function of configuration, data and seed: the number of threads does not show in the result.
//! 2. A pass directory that exists is complete.
//! 3. A run that is stopped and goes on from a pass directory equals one that was never stopped, byte for byte.

pub mod checkgrad;
pub mod data;
pub mod error;
pub mod gather;
pub mod inspect;
pub mod job;
pub mod loading;
pub mod log;
pub mod meter;
pub mod model;
pub mod models;
pub mod parameter_file;
pub mod parameter_statistics;
pub mod parameter_stats;
pub mod pass_directory;
pub mod predict;
pub mod report;
pub mod rules;
pub mod saved_rows;
pub mod saving;
pub mod settings;
pub mod state_file;
pub mod tested;
pub mod testing;
pub mod timing;
pub mod train;
pub mod updater;

pub use error::TrainError;
