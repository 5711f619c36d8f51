//! Submits a job for the first time, or again under the same name.

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::TargetJob;
use super::apply::{Applied, ApplyMode};
use super::client::{Cluster, if_allowed};
use super::difference::differences;
use super::error::ClusterError;
use crate::objects::{DATA_NOTE, DataNote, FILES_COMPONENT, KEYS_ANNOTATION, QUEUE_LABEL};

/// The result of a submit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    /// Objects were created; a warning about pod security means that no pod will be.
    New(Applied),
    /// The same job exists already.
    Unchanged,
}

/// What to do with a Job of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Leave it, and report the differences.
    Compare,
    /// Remove it first, and wait until it is gone. What is on the volume stays.
    Replace,
}

/// Applies the objects of a job. If a Job of this name exists, compares or replaces it, as `again` says.
pub async fn submit(
    cluster: &Cluster,
    target: &TargetJob,
    objects: &[Value],
    mode: ApplyMode,
    again: Again,
    tell: &mut dyn FnMut(String),
) -> Result<Submitted, ClusterError> {
    if let Some(job) = cluster.own_job(target).await? {
        let replaces = again == Again::Replace && mode == ApplyMode::Real;
        if job.metadata.deletion_timestamp.is_some() && !replaces {
            return Err(ClusterError::BeingDeleted {
                job: target.job.clone(),
                status: target.command("status"),
            });
        }
        let wanted = comparable(objects);
        let mut differences = differences(&wanted, &cluster.same_objects(&wanted).await?);
        if let Some(note) = data_note(objects) {
            let there = cluster.files(target).await?;
            let there = there.and_then(|files| files.data_note);
            differences.extend(other_data(there.as_ref(), &note));
        }
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

/// Whether this is the ConfigMap with the job file: its differences are reported by the other objects.
fn is_files_map(object: &Value) -> bool {
    object["metadata"]["labels"]["app.kubernetes.io/component"] == FILES_COMPONENT
}

/// The note about uploaded data in these objects.
fn data_note(objects: &[Value]) -> Option<DataNote> {
    let map = objects.iter().find(|object| is_files_map(object))?;
    serde_json::from_str(map["data"][DATA_NOTE].as_str()?).ok()
}

/// A sentence if the data on the volume differ from those that would be uploaded.
fn other_data(there: Option<&DataNote>, wanted: &DataNote) -> Option<String> {
    let words = |note: &DataNote| {
        let plural = if note.files == 1 { "" } else { "s" };
        format!(
            "{} file{plural}, {} bytes, SHA-256 {}…",
            note.files,
            note.bytes,
            note.sha256.get(..12).unwrap_or_default()
        )
    };
    match there {
        Some(there) if there == wanted => None,
        Some(there) => Some(format!(
            "data: {} are on the volume, {} are in the folder of --data",
            words(there),
            words(wanted)
        )),
        None => Some(format!(
            "data: it is not known which are on the volume, {} are in the folder of --data",
            words(wanted)
        )),
    }
}

/// The objects without secrets and their fingerprints: a user who may not read them has generated new ones, and no
/// message may show them.
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
        let job = self.own_job(target).await?;
        let labels = job.and_then(|job| job.metadata.labels);
        Ok(labels.and_then(|mut labels| labels.remove(QUEUE_LABEL)))
    }

    /// Suspends or resumes the Job; `false` if it already is in that state.
    pub async fn suspend(&self, target: &TargetJob, suspend: bool) -> Result<bool, ClusterError> {
        let job = self.own_job(target).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_data_are_noticed() {
        let note = |files, sha256: &str| DataNote {
            files,
            bytes: 2048,
            sha256: sha256.repeat(32),
        };
        let wanted = note(1, "ab");
        assert_eq!(other_data(Some(&wanted), &wanted), None);
        let text = other_data(Some(&note(3, "cd")), &wanted).unwrap();
        assert_eq!(
            text,
            "data: 3 files, 2048 bytes, SHA-256 cdcdcdcdcdcd… are on the volume, 1 file, 2048 bytes, SHA-256 abababababab… are in the folder of --data"
        );
        assert!(other_data(None, &wanted).is_some());
    }
}
