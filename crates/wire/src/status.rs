//! What a process tells about itself, for progress displays and dashboards.

use serde::{Deserialize, Serialize};

/// The state of a trainer or a server at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// `trainer` or `pserver`.
    pub role: String,
    /// Its number.
    pub id: u32,
    /// Pass, from 0.
    pub pass: u64,
    /// Batch inside the pass, from 0.
    pub batch: u64,
    /// Steps applied since the job began.
    pub step: u64,
    /// Samples since the job began.
    pub samples: u64,
    /// Samples in a second, lately.
    pub samples_per_second: f64,
    /// Cost of a sample, lately.
    pub cost: f64,
    /// Whom or what it waits for, as a sentence; empty while it works.
    pub waits_for: String,
}
