//! Supervises the processes of a job: N nodes on this machine (`canoe run`), or one node in a pod (`canoe node`).
//!
//! A job is a folder with a model configuration and data. A node is one parameter server and one
//! trainer. This crate decides what to start where, starts it, watches it and reports what happens.
//! It starts programs and does not link them: it does not know what a trainer computes, and all that it reads
//! from a process is its exit status, its state file, its record and its log.
//! Nothing here prints; the callers get [`event::JobEvent`]s and strings.
//!
//! # Map, in reading order
//!
//! - [`event`]: the events of a run, as values.
//! - [`local`]: the engine of `canoe run`: plan, supervise, end.
//! - [`node`]: what runs in a pod.
//! - [`http`]: pages for probes and metrics.
//! - [`display`]: events to text: live view, plain lines, summary table.
//!
//! # Invariants
//!
//! 1. No process that was started here outlives the run, even if this process gets SIGKILL.
//! 2. The first cause of a failure is kept and reported; later failures that it causes do not replace it.
//! 3. A secret never becomes an argument of a process.

pub mod display;
pub mod event;
pub mod http;
pub mod local;
pub mod node;
