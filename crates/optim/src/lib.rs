//! How one parameter changes: initial values, update rules, schedules, clipping, decay and averaging.
//!
//! The trainer's local updater and the parameter servers call the same code, so one process and a cluster compute
//! the same values. Nothing here knows what a layer, a batch of data, a table or a socket is: it sees slices of
//! values, state and gradients. The formulas are those of PaddlePaddle v1; where we deviate, the head of the
//! method's file says how.
//!
//! # Map, in reading order
//!
//! - [`settings`]: from the strings and numbers of a v1 configuration to a [`Rule`], with errors for users.
//! - [`rule`]: [`Rule`], everything that decides how a parameter changes, and the calls that change it.
//! - [`progress`]: [`ParameterProgress`], the scalars that are kept per parameter from step to step, and [`UpdateStep`],
//!   those of one step.
//! - [`schedule`]: the learning rate as a function of samples and passes.
//! - [`method`]: one file per method, with the formula in its head.
//! - [`rows`]: brings a row up to date for the steps that did not touch it.
//! - [`average`]: the moving average of a parameter for testing and saving.
//! - [`init`]: initial values as a pure function of (seed, row, column).
//!
//! # Invariants
//!
//! 1. Every update is element-wise: a parameter that is updated in blocks has the same bytes as one updated as a whole.
//! 2. The same calls yield the same bytes on every CPU: no fused multiply-add, no platform mathematics.
//! 3. A row that no batch touches costs nothing; [`Rule::catch_up`] brings it up to date when it is read.
//! 4. One [`ParameterProgress`] per parameter, never one per block.
//!
//! # Deviations from v1, common to all methods
//!
//! Schedules, L1, L2 and clipping apply to every method, locally and remotely (v1: not to Adam, Adamax and partly
//! AdaGrad; clipping only remotely; L1 not with momentum). Dense L2 is always the gradient term `g + l2*w`, also
//! together with L1, where v1 applied it after the update. Rates and powers are computed in f64 and rounded once.
//!
//! # Example
//!
//! ```
//! use optim::{OptimizerSettings, ParameterProgress, ParameterSettings, Rule};
//!
//! let settings = OptimizerSettings { learning_method: "adam".into(), learning_rate: 2e-3, ..OptimizerSettings::default() };
//! let rule = Rule::new(&settings, &ParameterSettings::default())?;
//! let mut value = vec![0.5f32; 4];
//! let mut state = vec![0.0f32; rule.slots() * value.len()];
//! let mut progress = ParameterProgress::default();
//! let step = rule.begin(&mut progress, 128);
//! rule.update(&step, &mut value, &mut state, &[1.0, 0.0, -1.0, 2.0]);
//! assert_eq!(value, [0.498, 0.5, 0.502, 0.498]);
//! # Ok::<(), optim::SettingsError>(())
//! ```

mod average;
mod elements;
pub mod init;
mod method;
pub mod progress;
mod rows;
mod rule;
mod schedule;
pub mod settings;

pub use average::Average;
pub use init::{Distribution, Initial};
pub use method::Method;
pub use progress::{ParameterProgress, UpdateStep};
pub use rows::{Scattered, TouchedRows};
pub use rule::Rule;
pub use schedule::Schedule;
pub use settings::{OptimizerSettings, ParameterSettings, SettingsError};
