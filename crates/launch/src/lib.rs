//! Runs jobs: N nodes as processes on this machine, or as pods of a Kubernetes Job.
//!
//! A job is a folder with a model configuration and data. A node is one parameter server and one
//! trainer. This crate decides what to start where, starts it, watches it and says what happens.
//! It starts programs and does not link them: what a trainer computes is unknown here, and the
//! only things it reads from one are its exit status, its status page and its log lines.
//! Nothing here prints; the callers get [`event::JobEvent`]s and strings.
//!
//! # Map, in reading order
//!
//! - [`event`]: what happens in a job, as values.
//! - [`status`], [`logline`]: what a process says about itself, by HTTP and in its log.
//! - [`local`]: the engine of `canoe run`: plan, supervise, end.
//! - [`k8s`]: a job file becomes objects; the state of objects becomes words.
//! - [`node`]: what runs in a pod.
//! - [`display`]: events to text: live view, plain lines, summary table.
//!
//! # Invariants
//!
//! 1. No process that was started here outlives the run, even if this process gets SIGKILL.
//! 2. The first cause of a failure is kept and named; what follows from it is not mistaken for it.
//! 3. A secret never becomes an argument of a process.

pub mod display;
pub mod event;
pub mod k8s;
pub mod local;
pub mod logline;
pub mod node;
pub mod status;
