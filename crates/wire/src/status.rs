//! What a process reports about itself, for progress displays and dashboards.

use serde::{Deserialize, Serialize};

/// The state of a trainer or a server at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerStatus {
    /// `trainer` or `pserver`.
    pub role: String,
    /// Trainer or server id, from 0.
    pub id: u32,
    /// Pass, from 0.
    pub pass: u64,
    /// Batch inside the pass, from 0.
    pub batch: u64,
    /// Steps applied since the start of the job.
    pub step: u64,
    /// Samples since the start of the job.
    pub samples: u64,
    /// Recent samples per second.
    pub samples_per_second: f64,
    /// Recent cost per sample.
    pub cost: f64,
    /// The processes or the work that it waits for, as a sentence; empty while it computes.
    pub waits_for: String,
}
