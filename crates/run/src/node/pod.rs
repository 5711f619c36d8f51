//! Paths, ports and the user of a pod, and how nodes find each other: the `k8s` crate writes them into manifests, and
//! `canoe node` relies on them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the volume is mounted; v1's JOB_PATH.
pub const JOB_PATH: &str = "/home/jobpath";
/// Where the ConfigMap is mounted.
pub const CONFIG_PATH: &str = "/etc/canoe/config";
/// Where the Secret is mounted.
pub const SECRET_PATH: &str = "/etc/canoe/secret";
/// Local disk of a node.
pub const WORK_PATH: &str = "/work";
/// Where a pod keeps the canoe binary of a job without an image; Canoe's own image has the binary on its PATH.
pub const PROGRAM_PATH: &str = "/program";
/// Where the node replies to probes.
pub const HEALTH_PORT: u16 = 8471;
/// Where the node serves the metrics of its processes, unless the job file says otherwise.
pub const METRICS_PORT: u16 = 8472;
/// Where the node serves the job's page, on loopback.
pub const PAGE_PORT: u16 = 7272;
/// User and group of all processes, and of the files on the volume, unless the job file says otherwise.
pub const USER: u32 = 10001;

/// How nodes find each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Discovery {
    /// By completion index and host name; needs no access to the API server.
    #[default]
    Indexed,
    /// By listing the job's pods and ranking them by address, as v1 did.
    Podlist,
}
