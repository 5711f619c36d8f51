//! `canoe node`: what a pod of the training Job runs, in place of v1's start.sh and start_paddle.py.
//!
//! ```text
//! environment ─→ own id, addresses of all nodes ─→ copy shard and configuration ─→ pserver + trainer ─→ exit code
//! ```
//!
//! Nothing here sleeps for a fixed time: every step waits for a condition, with a time limit, and reports
//! what it waits for, also when it gives up.
//!
//! # Map, in reading order
//!
//! - [`pod`]: paths and ports that the node and its manifest share.
//! - [`environment`]: the variables of the pod; all mistakes are reported at once. Pure.
//! - [`discover`]: ids and addresses, by completion index or by listing pods. Pure.
//! - [`own_output`]: keeps results of different runs apart in the output folder.
//! - [`addresses`]: the addresses of the pods: each writes its own to the volume.
//! - [`patience`]: waits for a condition.
//! - [`stage`]: copies shard and configuration to local disk.
//! - [`plan`]: command lines of the two processes. Pure.
//! - [`prepare`]: from the variables of the pod to the plan.
//! - [`finish`]: waits until all nodes have finished; the exit code.
//! - [`farewell`]: decides when a node that drains may end. Pure.
//! - [`rollcall`]: detects replaced pods while the job runs (`podlist`).
//! - [`work`]: the two processes as the supervisor sees them.
//! - [`health`]: replies to probes.
//! - [`metrics`]: the metrics of both processes at one address.
//! - [`start`]: the arguments of `canoe node`.
//! - [`run`]: all of these in order.

pub mod addresses;
pub mod discover;
pub mod environment;
pub(crate) mod farewell;
pub mod finish;
pub mod health;
pub mod metrics;
pub mod own_output;
pub mod patience;
pub mod plan;
pub mod pod;
mod prepare;
pub mod rollcall;
pub mod run;
pub(crate) mod stage;
pub mod start;
mod work;
