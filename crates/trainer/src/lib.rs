//! One trainer: samples in, gradients out, new values back, pass after pass.
//!
//! A trainer reads its shard of the data, runs the network forward and backward, and passes gradients to an updater,
//! which applies them here or sends them to parameter servers. It tests, reports and saves. It does not know how a
//! parameter server works inside, nor Kubernetes, nor how its log lines reach the user.
//!
//! # Map, in reading order
//!
//! - [`job`]: assembles everything: train, test, check gradients, measure times.
//! - [`train`]: the loop over passes and batches.
//! - [`data`]: samples from data providers and native readers, in an order that only the seed determines.
//! - [`updater`]: turns gradients into new values; [`rules`] and [`loading`]: how parameters change and start.
//! - [`saving`], [`pass_directory`], [`parameter_file`], [`state_file`]: models on disk, written atomically.
//! - [`best`], [`scores_file`]: which pass is the best, which models are kept, when training ends early.
//! - [`passes_to_test`], [`tested_model`], [`saved_rows`], [`tester`], [`gather`], [`predict`]: tests and predictions
//!   with saved models. [`check`], [`checkgrad`], [`timing`]: `canoe check`, `--job=checkgrad` and `--job=time`.
//! - [`checksums`], [`verify`]: detect changes of a pass directory since it was saved.
//! - [`model`]: a finished model read from its directory; [`merged`]: a model in one file, as v1 merged it.
//! - [`output_file`]: writes a command's result file atomically.
//! - [`report`], [`meter`], [`parameter_sizes`], [`parameter_statistics`], [`inspect`], [`log`]: what a trainer
//!   reports, in v1's wording.
//!
//! # Invariants
//!
//! 1. A run is a function of configuration, data and seed: the number of threads does not change the result.
//! 2. A pass directory that exists is complete.
//! 3. A run that is stopped and resumed from a pass directory equals one that was never stopped, byte for byte.

pub mod best;
pub mod check;
mod checkgrad;
pub mod checksums;
pub mod data;
pub mod error;
pub mod gather;
mod inspect;
pub mod job;
pub mod loading;
pub mod log;
pub mod merged;
mod meter;
pub mod model;
pub mod output_file;
pub mod parameter_file;
mod parameter_sizes;
mod parameter_statistics;
pub mod pass_directory;
mod passes_to_test;
pub mod predict;
pub mod report;
pub mod rules;
pub mod saved_note;
pub mod saved_rows;
pub mod saving;
pub mod scores_file;
pub mod settings;
pub mod state_file;
mod tested_model;
mod tester;
pub mod timing;
pub mod train;
mod updater;
pub mod verify;

pub use error::TrainError;
