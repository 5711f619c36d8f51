//! Lists all jobs of a namespace or of the cluster: existing Jobs, and jobs of which only the files are left.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};

use super::client::Cluster;
use super::error::ClusterError;
use super::files::FilesPod;
use crate::explain::{JobState, JobSummary, NodeCounts, summary};
use crate::objects::{FILES_COMPONENT, MANAGER, claim_name, copy_job_name, data_job_name};

const INSTANCE: &str = "app.kubernetes.io/instance";

/// A job that submit has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedJob {
    /// The namespace that its objects are in.
    pub namespace: String,
    /// The name of its Job.
    pub name: String,
    /// Its state; [`JobState::Absent`] if only its files are left.
    pub state: JobState,
    /// The numbers of the summary.
    pub counts: NodeCounts,
    /// When the Job was made.
    pub since: Option<String>,
    /// The claim of its files, if submit has noted it.
    pub claim: Option<String>,
    /// Whether a person or a queue holds it back.
    pub is_suspended: bool,
}

impl Cluster {
    /// All of a namespace; of the whole cluster without one.
    pub async fn jobs(&self, namespace: Option<&str>) -> Result<Vec<ListedJob>, ClusterError> {
        let ours = format!("app.kubernetes.io/managed-by={MANAGER}");
        let files = format!("{ours},app.kubernetes.io/component={FILES_COMPONENT}");
        let jobs: Vec<Job> = match namespace {
            Some(namespace) => self.list(namespace, &ours).await?,
            None => self.list_everywhere(&ours).await?,
        };
        let maps: Vec<ConfigMap> = match namespace {
            Some(namespace) => self.list(namespace, &files).await?,
            None => self.list_everywhere(&files).await?,
        };
        Ok(listed(&jobs, &maps))
    }

    /// The objects of all namespaces that have these labels.
    pub async fn list_everywhere<K: super::client::KnownObject>(
        &self,
        labels: &str,
    ) -> Result<Vec<K>, ClusterError> {
        let api: Api<K> = Api::all(self.client.clone());
        self.list_of(&api, labels, " in all namespaces").await
    }
}

/// Combines both lists, in the order of namespaces and names. Pure.
fn listed(jobs: &[Job], maps: &[ConfigMap]) -> Vec<ListedJob> {
    let mut found: BTreeMap<(String, String), ListedJob> = BTreeMap::new();
    for map in maps {
        let (Some(namespace), Some(name)) = (map.namespace(), map.labels().get(INSTANCE)) else {
            continue;
        };
        let files = FilesPod::read(&map.name_any(), map).ok();
        let listed = ListedJob {
            namespace: namespace.clone(),
            name: name.clone(),
            state: JobState::Absent,
            counts: NodeCounts::default(),
            since: None,
            claim: files.map(|files| claim_name(&files.job)),
            is_suspended: false,
        };
        found.insert((namespace, name.clone()), listed);
    }
    for job in jobs {
        let (Some(namespace), Some(instance)) = (job.namespace(), job.labels().get(INSTANCE))
        else {
            continue;
        };
        let name = job.name_any();
        if name == data_job_name(instance) || name == copy_job_name(instance) {
            continue;
        }
        let JobSummary { state, counts } = summary(job);
        let known = found.remove(&(namespace.clone(), name.clone()));
        let since = job.metadata.creation_timestamp.as_ref();
        let listed = ListedJob {
            namespace: namespace.clone(),
            name: name.clone(),
            state,
            counts,
            since: since.map(|time| time.0.to_string()),
            claim: known.and_then(|known| known.claim),
            is_suspended: job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true),
        };
        found.insert((namespace, name), listed);
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::job::{JobFile, Volume};

    #[test]
    fn jobs_and_files_without_jobs_are_listed_once() {
        let job = |name: &str, instance: &str| -> Job {
            serde_json::from_value(json!({
                "metadata": {"name": name, "namespace": "team", "labels": {INSTANCE: instance}},
                "spec": {"completions": 3, "suspend": true, "template": {"spec": {"containers": []}}},
            }))
            .unwrap()
        };
        let map = |name: &str| -> ConfigMap {
            let mut file = JobFile::new(name, Volume::Claim { name: "efs".into() });
            file.namespace = "team".into();
            serde_json::from_value(crate::objects::files(&file, None, None)).unwrap()
        };
        let helpers = [job("b-copy", "b"), job("b-data", "b")];
        let jobs = [[job("b", "b"), job("c", "c")], helpers].concat();
        let found = listed(&jobs, &[map("a"), map("b")]);
        let shown: Vec<_> = found
            .iter()
            .map(|one| (one.name.as_str(), one.state, one.claim.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [
                ("a", JobState::Absent, Some("efs")),
                ("b", JobState::Starting, Some("efs")),
                ("c", JobState::Starting, None),
            ]
        );
        assert!(found[1].is_suspended && found[1].counts.nodes == 3);
    }
}
