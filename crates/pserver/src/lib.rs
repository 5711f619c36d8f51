//! The parameter server: tables of numbers that many trainers read and update.
//!
//! A server holds some shards of every table. Trainers pull values and push gradients; the server applies the
//! optimizer and answers. Nothing here knows what a layer, a Python file or a Kubernetes pod is: a table is
//! created by a message with its shape and update rule.
//!
//! # Map, in reading order
//!
//! - [`barrier`]: when a step is complete. Pure; no clock, no socket.
//! - [`members`]: who takes part, when an epoch ends and the next may begin. Pure.
//! - [`table`], [`dense`], [`sparse`]: rules and numbers. [`gradient`]: where a push waits.
//! - [`service`]: barrier and pieces of one port; where values change.
//! - [`run`]: the job in one epoch.
//! - [`snapshot`], `saving`: tables to disk and back.
//! - `host`, `opening`, `connection`, `data`: what connections share and say.
//! - [`server`]: sockets and threads. [`nics`]: where to listen. [`metrics`]: what is counted.
//! - [`mod@bench`]: how fast it is.
//!
//! # Invariants
//!
//! 1. A gradient is applied at most once per (trainer, step, table).
//! 2. The sum over trainers is taken in their order, whatever the order of arrival.
//! 3. A snapshot that has a manifest is complete; one without is garbage.
//! 4. A request never waits for a disk.

pub mod barrier;
pub mod bench;
mod connection;
mod data;
pub mod dense;
pub mod gradient;
mod host;
pub mod members;
pub mod metrics;
pub mod nics;
mod opening;
pub mod run;
mod saving;
pub mod server;
pub mod service;
pub mod snapshot;
pub mod sparse;
pub mod table;

pub use server::{Config, Level, Log, Outcome, ServeError, Server};
