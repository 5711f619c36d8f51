//! Every object of a job, as plain values. Pure: the same inputs give the same bytes.
//!
//! | object | when | file |
//! |---|---|---|
//! | Namespace, ServiceAccount, Role, RoleBinding | asked for; `podlist` | [`access`] |
//! | PersistentVolume, PersistentVolumeClaim | unless a claim exists | [`storage`] |
//! | ConfigMap, Secret | always a Secret | [`content`] |
//! | Service, NetworkPolicy, PodDisruptionBudget | | [`network`] |
//! | ConfigMap `-files` | always; outlives the Job | [`content`] |
//! | data Job | asked for | [`data_job`] |
//! | a Job that copies to an object store | asked for | [`copy_job`] |
//! | training Job | always | [`training_job`] |
//! | a pod that takes files in, or out | `submit --data`, `get` | [`helper_pod`] |
//! | an init step in every pod | without `image` | [`program`] |
//!
//! [`pod`] has what both kinds of pod share; it passes the restricted pod security standard.

mod access;
mod content;
mod copy_job;
mod data_job;
pub mod helper_pod;
mod network;
mod pod;
pub mod program;
mod storage;
mod training_job;

use std::path::PathBuf;

use serde_json::{Value, json};

use super::credentials::Credentials;
use super::folder::Files;
use super::job::{ConfigFrom, JobFile};
use super::program::Program;
use run::node::pod::Discovery;

pub(crate) use content::DATA_NOTE;
pub use content::{DataNote, files, secret};
pub use storage::claim_name;

/// The label that the Job controller gives to pods; Services and policies select by it.
pub(crate) const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";
/// The name that server-side apply and the labels carry.
pub const MANAGER: &str = "canoe";

/// The value of `app.kubernetes.io/component` of the ConfigMap that says where a job's files are.
pub(crate) const FILES_COMPONENT: &str = "files";
/// Which keys a Secret has, and which ones a Job began with: a fingerprint.
pub const KEYS_ANNOTATION: &str = "canoe/keys";
/// The label by which a Job names its queue of Kueue.
pub(crate) const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

/// Everything from which the objects are rendered.
#[derive(Debug, Clone)]
pub struct ObjectInputs {
    /// The job file.
    pub job: JobFile,
    /// The configuration folder, if it is put into a ConfigMap.
    pub config: Files,
    /// The configuration file, relative to its folder.
    pub config_file: String,
    /// Where that folder is on this machine.
    pub config_folder: PathBuf,
    /// Token and keys.
    pub credentials: Credentials,
    /// The binary to upload, if the image has none.
    pub program: Option<Program>,
    /// What is on the volume as the job's data, if we have brought it there.
    pub data_note: Option<DataNote>,
}

/// What must be there before a file can be brought to the volume: its namespace and its claim.
pub fn ground(job: &JobFile) -> Vec<Value> {
    let namespace = job.create_namespace.then(|| access::namespace(job));
    namespace.into_iter().chain(storage::objects(job)).collect()
}

/// All objects, in the order in which they should be made.
pub fn all(inputs: &ObjectInputs) -> Vec<Value> {
    let job = &inputs.job;
    let mut objects = ground(job);
    if job.discovery == Discovery::Podlist {
        objects.extend(access::pod_reader(job));
    }
    if job.config_from == ConfigFrom::ConfigMap {
        objects.push(content::config_map(job, &inputs.config));
    }
    objects.push(files(
        job,
        inputs.program.as_ref(),
        inputs.data_note.as_ref(),
    ));
    objects.push(secret(job, &inputs.credentials));
    objects.push(network::service(job));
    if job.network_policy {
        objects.push(network::policy(job));
    }
    objects.extend(network::disruption_budget(job));
    objects.extend(data_job::object(job, inputs.program.as_ref()));
    objects.extend(copy_job::object(job, inputs.program.as_ref()));
    objects.push(training_job::object(inputs));
    objects
}

/// `metadata` of an object in the job's namespace.
fn metadata(job: &JobFile, name: &str) -> Value {
    json!({"name": name, "namespace": job.namespace, "labels": labels(job)})
}

/// Labels of everything that belongs to the job.
fn labels(job: &JobFile) -> Value {
    json!({
        "app.kubernetes.io/instance": job.name,
        "app.kubernetes.io/managed-by": MANAGER,
        "app.kubernetes.io/name": "canoe",
    })
}

/// The name of the ConfigMap that says where a job's files are.
pub fn files_name(job: &str) -> String {
    format!("{job}-files")
}

/// The name of the data job.
pub(crate) fn data_job_name(job: &str) -> String {
    format!("{job}-data")
}

/// The name of the job that copies to an object store.
pub fn copy_job_name(job: &str) -> String {
    format!("{job}-copy")
}

/// Every port of a parameter server with a name.
fn data_ports(job: &JobFile) -> Vec<(String, u16)> {
    let ports = job.ports;
    let dense = (0..ports.dense).map(|index| (format!("dense-{index}"), ports.first + index));
    let first_sparse = ports.first + ports.dense;
    let sparse =
        (0..ports.sparse).map(move |index| (format!("sparse-{index}"), first_sparse + index));
    dense.chain(sparse).collect()
}
