//! Submitting: a first time, or again under the same name.

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::TargetJob;
use super::apply::{Applied, ApplyMode};
use super::client::{Cluster, if_allowed};
use super::difference::differences;
use super::error::ClusterError;
use crate::objects::{FILES_COMPONENT, KEYS_ANNOTATION, QUEUE_LABEL};

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    /// Objects were made; a warning about pod security means that no pod will be made.
    New(Applied),
    /// The same job is there already.
    Unchanged,
}

/// What to do with a Job of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Leave it and say what differs.
    Compare,
    /// Remove it first, and wait until it is gone. What is on the volume stays.
    Replace,
}

/// Applies the objects of a job unless a Job of this name is there: then says whether it is the same.
pub async fn submit(
    cluster: &Cluster,
    target: &TargetJob,
    objects: &[Value],
    mode: ApplyMode,
    again: Again,
    tell: &mut dyn FnMut(String),
) -> Result<Submitted, ClusterError> {
    if let Some(job) = cluster.job(target).await? {
        let replaces = again == Again::Replace && mode == ApplyMode::Real;
        if job.metadata.deletion_timestamp.is_some() && !replaces {
            return Err(ClusterError::BeingDeleted {
                job: target.job.clone(),
                status: target.command("status"),
            });
        }
        let wanted = comparable(objects);
        let differences = differences(&wanted, &cluster.same_objects(&wanted).await?);
        if replaces {
            cluster.delete_jobs(target, tell).await?;
        } else if differences.is_empty() {
            return Ok(Submitted::Unchanged);
        } else {
            return Err(ClusterError::Differs {
                job: target.job.clone(),
                differences,
            });
        }
    }
    if mode == ApplyMode::Real {
        if_allowed(cluster.delete_keys(target).await)?;
    }
    Ok(Submitted::New(cluster.apply(objects, mode).await?))
}

/// It repeats the job file, whose differences the other objects show with their places.
fn is_files_map(object: &Value) -> bool {
    object["metadata"]["labels"]["app.kubernetes.io/component"] == FILES_COMPONENT
}

/// Everything but the secrets and what tells them apart: whoever may not read them has made new ones, and no message should show them.
fn comparable(objects: &[Value]) -> Vec<Value> {
    let mut wanted: Vec<Value> = objects
        .iter()
        .filter(|object| object["kind"] != "Secret" && !is_files_map(object))
        .cloned()
        .collect();
    for object in &mut wanted {
        let annotations = object.pointer_mut("/spec/template/metadata/annotations");
        if let Some(Value::Object(annotations)) = annotations {
            annotations.remove(KEYS_ANNOTATION);
        }
    }
    wanted
}

impl Cluster {
    /// The queue of Kueue that decides when a Job runs, if there is one.
    pub async fn queue(&self, target: &TargetJob) -> Result<Option<String>, ClusterError> {
        let job = self.job(target).await?;
        let labels = job.and_then(|job| job.metadata.labels);
        Ok(labels.and_then(|mut labels| labels.remove(QUEUE_LABEL)))
    }

    /// Suspends the Job or lets it run; `false` if it is so already.
    pub async fn suspend(&self, target: &TargetJob, suspend: bool) -> Result<bool, ClusterError> {
        let job = self.job(target).await?;
        let spec = job.as_ref().and_then(|job| job.spec.as_ref());
        if spec.and_then(|spec| spec.suspend).unwrap_or_default() == suspend {
            return Ok(false);
        }
        let api: Api<Job> = Api::namespaced(self.client.clone(), &target.namespace);
        let change = Patch::Merge(json!({"spec": {"suspend": suspend}}));
        let params = PatchParams::default();
        let word = if suspend { "suspend" } else { "resume" };
        let action = format!("{word} job {}", target.job);
        self.ask(&action, || api.patch(&target.job, &params, &change))
            .await?;
        Ok(true)
    }
}
