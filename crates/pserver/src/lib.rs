//! The parameter server: tables of values that many trainers read and update.
//!
//! A server holds some shards of every table. Trainers pull values and push gradients; the server applies the
//! optimizer and replies. Nothing here knows what a layer, a Python file or a Kubernetes pod is: a table is
//! created by a message with its shape and update rule.
//!
//! # Map, in reading order
//!
//! - [`barrier`]: when a step is complete. Pure; no clock, no socket.
//! - [`members`]: which trainers take part, when a generation ends and the next may begin. Pure.
//! - [`table`], [`dense`], [`sparse`]: rules and values. [`gradient`]: a push until its step is applied.
//! - [`service`]: barrier and pieces of one port; where values change.
//! - [`run`]: the job in one generation.
//! - [`snapshot`], `saving`: tables to disk and back.
//! - `gate`: accepts connections and checks their hellos. `host`: the state that all connections share. `opening`: the
//!   start of a generation. `connection`, `data`: how commands, pushes and pulls are served.
//! - [`server`]: sockets and threads. [`nics`]: the addresses to listen on. [`metrics`]: counters for Prometheus.
//! - [`mod@bench`]: measures the speed.
//!
//! # Invariants
//!
//! 1. A gradient is applied at most once per (trainer, step, table).
//! 2. Gradients are summed in the order of trainer ids, whatever the order of arrival.
//! 3. A snapshot that has a manifest is complete; one without is garbage.
//! 4. A request waits for a disk only when a snapshot is due and the one before is not written yet.

pub mod barrier;
pub mod bench;
mod connection;
mod data;
pub mod dense;
mod gate;
mod gradient;
mod host;
mod line_pool;
pub mod members;
pub mod metrics;
pub mod nics;
mod opening;
mod pulses;
pub mod run;
mod saving;
pub mod server;
mod service;
pub mod snapshot;
pub mod sparse;
pub mod table;
mod waiters;

pub use server::{Level, Server, ServerConfig, ServerError, ServerLog, ServerOutcome};
