//! Reads everything that the status of a job is made from, with concurrent requests.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    ConfigMap, Event, Namespace, Node, PersistentVolumeClaim, Pod, Secret,
};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt};

use super::TargetJob;
use super::client::{Cluster, if_allowed};
use super::error::ClusterError;
use super::files::FilesPod;
use crate::explain::Observed;
use crate::fit::{self, Room};
use crate::job::JobFile;
use crate::objects::files_name;

impl Cluster {
    /// The Job, if it is there.
    pub async fn job(&self, target: &TargetJob) -> Result<Option<Job>, ClusterError> {
        self.get(&target.namespace, &target.job).await
    }

    /// The Job, if it exists and was created by canoe; a Job of others with this name is an error.
    pub async fn own_job(&self, target: &TargetJob) -> Result<Option<Job>, ClusterError> {
        match self.job(target).await? {
            Some(job) if !target.is_ours(job.labels()) => Err(ClusterError::NotOurs {
                job: target.job.clone(),
                namespace: target.namespace.clone(),
            }),
            job => Ok(job),
        }
    }

    /// Whether the namespace exists; `None` if the user may not read it.
    pub async fn has_namespace(&self, name: &str) -> Result<Option<bool>, ClusterError> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let action = format!("get namespace {name}");
        let found = if_allowed(self.ask(&action, || api.get_opt(name)).await)?;
        Ok(found.map(|found| found.is_some()))
    }

    /// The pods of a Job.
    pub async fn pods(&self, target: &TargetJob) -> Result<Vec<Pod>, ClusterError> {
        self.list(&target.namespace, &target.pods()).await
    }

    /// Everything about a job. Events, claims and machines are left out if the user may not read them.
    pub async fn observe(&self, target: &TargetJob) -> Result<Observed, ClusterError> {
        let data = target.data();
        let (job, pods, data_job, data_pods) = tokio::try_join!(
            self.job(target),
            self.pods(target),
            self.job(&data),
            self.pods(&data),
        )?;
        let claims = self.list::<PersistentVolumeClaim>(&target.namespace, "");
        let (events, claims, machines) = tokio::join!(
            self.events(&target.namespace),
            claims,
            self.list_all::<Node>("")
        );
        let prefix = format!("{}-", target.job);
        let mut events = if_allowed(events)?.unwrap_or_default();
        events.retain(|event| {
            let name = event.involved_object.name.as_deref().unwrap_or_default();
            // The claim may have another name than the job.
            let is_claim = event.involved_object.kind.as_deref() == Some("PersistentVolumeClaim");
            is_claim || name == target.job || name.starts_with(&prefix)
        });
        Ok(Observed {
            job,
            pods,
            events,
            claims: if_allowed(claims)?.unwrap_or_default(),
            machines: if_allowed(machines)?,
            data_job,
            data_pods,
            now: Timestamp::now(),
        })
    }

    /// The room for a job's nodes; `None` if the user may not read the machines.
    pub async fn room(&self, job: &JobFile) -> Result<Option<Room>, ClusterError> {
        let Some(machines) = if_allowed(self.list_all::<Node>("").await)? else {
            return Ok(None);
        };
        let pods = if_allowed(self.list_everywhere::<Pod>("").await)?;
        // A cluster that adds machines on demand may have none now.
        Ok((!machines.is_empty()).then(|| fit::room(job, &machines, pods.as_deref())))
    }

    /// The keys of a job, if the user may read them.
    pub async fn keys(&self, target: &TargetJob) -> Result<Option<Secret>, ClusterError> {
        let found = self.get::<Secret>(&target.namespace, &target.job).await;
        Ok(if_allowed(found)?.flatten())
    }

    /// Where the files of a job are, as submit noted it; also after the Job is gone.
    pub async fn files(&self, target: &TargetJob) -> Result<Option<FilesPod>, ClusterError> {
        let name = files_name(&target.job);
        match self.get::<ConfigMap>(&target.namespace, &name).await? {
            Some(map) => FilesPod::read(&name, &map).map(Some),
            None => Ok(self
                .own_job(target)
                .await?
                .as_ref()
                .and_then(FilesPod::of_job)),
        }
    }

    /// One pod that belongs to no Job, with the events about it.
    pub async fn observe_pod(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Observed>, ClusterError> {
        let Some(pod) = self.get::<Pod>(namespace, name).await? else {
            return Ok(None);
        };
        let mut events = if_allowed(self.events(namespace).await)?.unwrap_or_default();
        events.retain(|event| event.involved_object.uid == pod.uid());
        let machines = if_allowed(self.list_all::<Node>("").await)?;
        let claims = self.list::<PersistentVolumeClaim>(namespace, "").await;
        Ok(Some(Observed {
            job: None,
            pods: vec![pod],
            events,
            claims: if_allowed(claims)?.unwrap_or_default(),
            machines,
            data_job: None,
            data_pods: Vec::new(),
            now: Timestamp::now(),
        }))
    }

    async fn events(&self, namespace: &str) -> Result<Vec<Event>, ClusterError> {
        self.list(namespace, "").await
    }
}
