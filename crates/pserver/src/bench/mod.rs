//! Measurements of the servers on one machine: `canoe bench ps dense`, `sparse`, `flat` and `snapshot`.
//!
//! Servers and trainers run as threads of this process and communicate over sockets, so the process's CPU time is that
//! of both sides. The figures of other systems were measured with the same workloads:
//!
//! - [`dense`] (W3): a model of 25 million values, 2 trainers, 2 servers; one round = every trainer pushes and pulls
//!   all of it. Compared with a plain TCP stream in the same run ([`stream`]).
//! - [`sparse`] (W4): 10 million rows of 16, AdaGrad on the server, 2 trainers; per step, each pulls and pushes 100,000
//!   distinct Zipf(1.05) rows.
//! - [`snapshot`]: the same steps with and without snapshots.
//! - [`restore`]: a job continues from a snapshot of a large table.
//! - [`flat`]: the same in tables of several sizes, alternately.
//! - [`scale`]: the time of a step on many hosts, computed from such costs; [`predicted`] holds it against real steps.
//! - [`wide`]: a small model, many trainers and servers: what a pair of them costs per step.
//!
//! Between hosts there is TCP or TLS, on one host shared memory: [`Transport`] chooses.

pub mod dense;
pub mod flat;
pub mod keys;
pub mod predicted;
pub mod restore;
mod rig;
mod rows;
pub mod scale;
pub mod snapshot;
pub mod sparse;
pub mod stream;
pub mod wide;

pub use rig::{BenchError, Transport};

use std::time::Duration;

/// CPU time that this process has used, user and system.
pub(crate) fn cpu_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.try_into().unwrap_or_default()
}

/// The median of some times, in seconds.
pub(crate) fn median(times: &mut [f64]) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}
