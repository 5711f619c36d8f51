//! Submits, observes, reads and deletes jobs on a cluster, through its API server. `canoe cluster` uses the same client
//! for its own clusters.
//!
//! The crate `kube` knows every form of a kubeconfig (certificates, tokens, exec plugins, proxies), so
//! nothing here needs kubectl. Decisions about a refusal use its typed `Status`, never its text.
//!
//! # Map, in reading order
//!
//! - [`access`]: the cluster and the user, from kubeconfig files.
//! - [`error`]: why a request failed, with the remedy.
//! - [`client`]: one request with its limits, and reading objects.
//! - [`apply`], [`mod@submit`], [`difference`]: create objects.
//! - [`delete`]: removes them, with progress.
//! - [`observe`]: reads everything that the status of a job is made from.
//! - [`files`]: finds its files.
//! - [`listing`]: lists all jobs.
//! - [`pod`]: logs and ports of a pod.
//! - [`exec`]: commands in a pod.
//! - [`machine`]: drains and removes machines.
//! - [`in_cluster`]: lists the pods of a job from inside a pod.

pub(crate) mod access;
pub mod apply;
pub mod client;
pub(crate) mod delete;
pub(crate) mod difference;
pub(crate) mod error;
pub mod exec;
pub mod files;
pub(crate) mod in_cluster;
pub mod listing;
mod machine;
pub(crate) mod observe;
pub mod pod;
pub mod submit;

pub use access::ClusterAccess;
pub use apply::{Applied, ApplyMode};
pub use client::Cluster;
pub use delete::DeleteScope;
pub use error::ClusterError;
pub use files::FilesPod;
pub use in_cluster::InCluster;
pub use listing::ListedJob;
pub use pod::LogOptions;
pub use submit::{Again, Submitted, submit};

use std::collections::BTreeMap;

/// Identifies a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetJob {
    /// The namespace that its objects are in.
    pub namespace: String,
    /// Name of the Job object.
    pub job: String,
}

impl TargetJob {
    /// The label selector of everything that submit has made for this job, and of nothing else.
    pub fn selector(&self) -> String {
        format!(
            "app.kubernetes.io/managed-by={},app.kubernetes.io/instance={}",
            crate::objects::MANAGER,
            self.job
        )
    }

    /// Whether something with these labels was made by submit for this job: what [`TargetJob::selector`] selects.
    pub(crate) fn is_ours(&self, labels: &BTreeMap<String, String>) -> bool {
        let has = |key: &str, value: &str| labels.get(key).is_some_and(|found| found == value);
        has("app.kubernetes.io/managed-by", crate::objects::MANAGER)
            && has("app.kubernetes.io/instance", &self.job)
    }

    /// The label selector of the pods of the Job.
    pub fn pods(&self) -> String {
        format!("{}={}", crate::objects::JOB_NAME_LABEL, self.job)
    }

    /// The Job that splits this job's data.
    pub fn data(&self) -> Self {
        Self {
            namespace: self.namespace.clone(),
            job: crate::objects::data_job_name(&self.job),
        }
    }

    /// A canoe command about this job, for hints.
    pub fn command(&self, verb: &str) -> String {
        format!("canoe job {verb} {} -n {}", self.job, self.namespace)
    }
}
