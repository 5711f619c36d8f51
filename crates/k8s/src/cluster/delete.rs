//! Removes the objects that submit has created, waits until they are gone, and reports what it waits for.

use std::time::{Duration, Instant};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, PropagationPolicy};
use kube::{Api, ResourceExt};

use super::TargetJob;
use super::apply::Address;
use super::client::{Cluster, KnownObject, if_allowed};
use super::error::ClusterError;
use crate::objects::{FILES_COMPONENT, MANAGER, files_name, helper_pod};

/// Time limit of the wait; pods need time for a last snapshot.
const PATIENCE: Duration = Duration::from_secs(600);
/// Interval between two checks of the remaining objects.
const LOOK: Duration = Duration::from_millis(500);

/// What `delete` removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteScope {
    /// Everything but the volume and its claim.
    KeepVolume,
    /// The claim and the volume object too. Files on an NFS or EFS server stay there nevertheless.
    WithVolume,
}

/// One kind of object, and which of them are removed.
struct Sweep {
    resource: ApiResource,
    namespace: Option<String>,
    labels: String,
}

/// An object whose deletion was requested.
struct Leaving {
    address: Address,
    uid: Option<String>,
}

fn sweeps(target: &TargetJob, scope: DeleteScope) -> Vec<Sweep> {
    let mut kinds = vec![
        ApiResource::erase::<Job>(&()),
        ApiResource::erase::<Service>(&()),
        ApiResource::erase::<NetworkPolicy>(&()),
        ApiResource::erase::<PodDisruptionBudget>(&()),
        ApiResource::erase::<ConfigMap>(&()),
        ApiResource::erase::<Secret>(&()),
        ApiResource::erase::<ServiceAccount>(&()),
        ApiResource::erase::<Role>(&()),
        ApiResource::erase::<RoleBinding>(&()),
    ];
    if scope == DeleteScope::WithVolume {
        kinds.push(ApiResource::erase::<PersistentVolumeClaim>(&()));
    }
    let of_namespace = |resource, labels| Sweep {
        resource,
        namespace: Some(target.namespace.clone()),
        labels,
    };
    let labels = |kind: &ApiResource| match (kind.kind.as_str(), scope) {
        // The ConfigMap that says where the files are stays as long as the files do.
        ("ConfigMap", DeleteScope::KeepVolume) => format!(
            "{},app.kubernetes.io/component!={FILES_COMPONENT}",
            target.selector()
        ),
        _ => target.selector(),
    };
    let mut sweeps: Vec<Sweep> = kinds
        .into_iter()
        .map(|kind| of_namespace(kind.clone(), labels(&kind)))
        .collect();
    // Pods of an interrupted upload, or of a user who reads files.
    for component in helper_pod::COMPONENTS {
        let helpers = format!(
            "{},app.kubernetes.io/component={component}",
            target.selector()
        );
        sweeps.push(of_namespace(ApiResource::erase::<Pod>(&()), helpers));
    }
    if scope == DeleteScope::WithVolume {
        sweeps.push(Sweep {
            resource: ApiResource::erase::<PersistentVolume>(&()),
            namespace: None,
            labels: target.selector(),
        });
    }
    sweeps
}

impl Cluster {
    pub(super) fn dynamic(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
    ) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        }
    }

    /// Removes what submit has created and waits until it is gone. Calls `tell` for each object, and with what it waits
    /// for.
    pub async fn delete(
        &self,
        target: &TargetJob,
        scope: DeleteScope,
        tell: &mut dyn FnMut(String),
    ) -> Result<(), ClusterError> {
        self.sweep(target, sweeps(target, scope), tell).await
    }

    /// Removes the training Job and the data Job and waits until they are gone.
    pub(crate) async fn delete_jobs(
        &self,
        target: &TargetJob,
        tell: &mut dyn FnMut(String),
    ) -> Result<(), ClusterError> {
        let mut jobs = sweeps(target, DeleteScope::KeepVolume);
        jobs.truncate(1);
        self.sweep(target, jobs, tell).await
    }

    /// Removes the Secret of a Job that is gone, if submit created it: a new Job gets new keys, and a Secret cannot be
    /// changed.
    pub(super) async fn delete_keys(&self, target: &TargetJob) -> Result<(), ClusterError> {
        let Some(secret) = self.get::<Secret>(&target.namespace, &target.job).await? else {
            return Ok(());
        };
        let is_ours = |entry: &ManagedFieldsEntry| entry.manager.as_deref() == Some(MANAGER);
        if secret.managed_fields().iter().any(is_ours) {
            let address = Address {
                resource: ApiResource::erase::<Secret>(&()),
                namespace: Some(target.namespace.clone()),
                name: target.job.clone(),
            };
            self.ask_to_go(&address).await?;
        }
        Ok(())
    }

    /// Removes the ConfigMap that says where the files of a job are, after the files have been removed.
    pub async fn delete_files_map(&self, target: &TargetJob) -> Result<(), ClusterError> {
        let address = Address {
            resource: ApiResource::erase::<ConfigMap>(&()),
            namespace: Some(target.namespace.clone()),
            name: files_name(&target.job),
        };
        self.ask_to_go(&address).await.map(drop)
    }

    /// Removes a pod without waiting; it may be gone already.
    pub async fn delete_pod(&self, namespace: &str, name: &str) -> Result<(), ClusterError> {
        let address = Address {
            resource: ApiResource::erase::<Pod>(&()),
            namespace: Some(namespace.to_owned()),
            name: name.to_owned(),
        };
        self.ask_to_go(&address).await.map(drop)
    }

    /// Removes an object of any maker and waits until it is gone, and with it what Kubernetes made for it, such as a load balancer.
    pub async fn remove<K>(
        &self,
        namespace: &str,
        name: &str,
        patience: Duration,
    ) -> Result<(), ClusterError>
    where
        K: KnownObject<Scope = NamespaceResourceScope>,
    {
        let Some(found) = self.get::<K>(namespace, name).await? else {
            return Ok(());
        };
        let leaving = Leaving {
            address: Address {
                resource: ApiResource::erase::<K>(&()),
                namespace: Some(namespace.to_owned()),
                name: name.to_owned(),
            },
            uid: found.uid(),
        };
        self.ask_to_go(&leaving.address).await?;
        let begun = Instant::now();
        while self.is_there(&leaving).await? {
            if begun.elapsed() > patience {
                return Err(ClusterError::Stays {
                    seconds: begun.elapsed().as_secs(),
                    left: format!("{} {namespace}/{name}", leaving.address.kind()),
                });
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    async fn sweep(
        &self,
        target: &TargetJob,
        sweeps: Vec<Sweep>,
        tell: &mut dyn FnMut(String),
    ) -> Result<(), ClusterError> {
        let mut leaving = Vec::new();
        for sweep in sweeps {
            for found in self.chosen(&sweep).await? {
                let address = Address {
                    resource: sweep.resource.clone(),
                    namespace: sweep.namespace.clone(),
                    name: found.name_any(),
                };
                if self.ask_to_go(&address).await? {
                    tell(format!("{} \"{}\" deleted", address.kind(), address.name));
                }
                leaving.push(Leaving {
                    address,
                    uid: found.uid(),
                });
            }
        }
        self.until_gone(target, leaving, tell).await
    }

    /// The objects to remove. If the user may not read a kind, the user has not created any of it.
    async fn chosen(&self, sweep: &Sweep) -> Result<Vec<DynamicObject>, ClusterError> {
        let api = self.dynamic(&sweep.resource, sweep.namespace.as_deref());
        let params = ListParams::default().labels(&sweep.labels);
        let action = format!("list {}", sweep.resource.plural);
        let found = if_allowed(self.ask(&action, || api.list(&params)).await)?;
        Ok(found.map_or(Vec::new(), |list| list.items))
    }

    /// Requests the deletion of an object; `false` if it did not exist.
    async fn ask_to_go(&self, address: &Address) -> Result<bool, ClusterError> {
        let api = self.dynamic(&address.resource, address.namespace.as_deref());
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Foreground),
            ..DeleteParams::default()
        };
        let action = format!("delete {} {}", address.kind(), address.name);
        match self
            .ask(&action, || api.delete(&address.name, &params))
            .await
        {
            Err(error) if error.is_not_found() => Ok(false),
            answer => answer.map(|_| true),
        }
    }

    async fn until_gone(
        &self,
        target: &TargetJob,
        mut leaving: Vec<Leaving>,
        tell: &mut dyn FnMut(String),
    ) -> Result<(), ClusterError> {
        let begun = Instant::now();
        let mut told = String::new();
        loop {
            let mut left = Vec::new();
            for one in leaving {
                if self.is_there(&one).await? {
                    left.push(one);
                }
            }
            leaving = left;
            if leaving.is_empty() {
                return Ok(());
            }
            let names: Vec<String> = leaving
                .iter()
                .map(|one| format!("{} {}", one.address.kind(), one.address.name))
                .collect();
            if begun.elapsed() > PATIENCE {
                return Err(ClusterError::Stays {
                    seconds: begun.elapsed().as_secs(),
                    left: names.join(", "),
                });
            }
            let text = self.what_holds(target, &names).await?;
            if text != told && begun.elapsed() > LOOK {
                tell(text.clone());
                told = text;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn is_there(&self, one: &Leaving) -> Result<bool, ClusterError> {
        let address = &one.address;
        let api = self.dynamic(&address.resource, address.namespace.as_deref());
        let action = format!("get {} {}", address.kind(), address.name);
        let found = self
            .ask(&action, || api.get_metadata_opt(&address.name))
            .await?;
        Ok(found.is_some_and(|found| found.uid() == one.uid))
    }

    /// Why remaining objects are not gone yet. A deleted Job waits for its pods, so the reason is that of a pod.
    async fn what_holds(
        &self,
        target: &TargetJob,
        names: &[String],
    ) -> Result<String, ClusterError> {
        let mut observed = self.observe(target).await?;
        if let Some(job) = &mut observed.job
            && job.metadata.deletion_timestamp.is_none()
        {
            // The list may have been read before the deletion arrived everywhere.
            job.metadata.deletion_timestamp = job.metadata.creation_timestamp.clone();
        }
        let diagnosis = crate::explain::diagnose(&observed);
        let findings: Vec<String> = diagnosis.findings.iter().map(ToString::to_string).collect();
        if observed.job.is_some() && !findings.is_empty() {
            return Ok(format!("waiting: {}", findings.join("; ")));
        }
        Ok(format!("waiting for the end of {}", names.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_deleted_that_is_not_the_jobs_own() {
        let target = TargetJob {
            namespace: "team-a".into(),
            job: "ctr".into(),
        };
        let own = "app.kubernetes.io/managed-by=canoe,app.kubernetes.io/instance=ctr";
        for scope in [DeleteScope::KeepVolume, DeleteScope::WithVolume] {
            for sweep in sweeps(&target, scope) {
                assert!(sweep.labels.starts_with(own), "{}", sweep.labels);
            }
        }
        let plurals = |scope| -> Vec<String> {
            let sweeps = sweeps(&target, scope).into_iter();
            sweeps.map(|sweep| sweep.resource.plural).collect()
        };
        let kept = plurals(DeleteScope::KeepVolume);
        assert!(
            !kept
                .iter()
                .any(|kind| kind.contains("volume") || kind == "namespaces")
        );
        let all = plurals(DeleteScope::WithVolume);
        assert!(all.contains(&"persistentvolumes".to_owned()), "{all:?}");
        assert_eq!(kept[0], "jobs", "delete_jobs takes the first");
        let maps = |scope| -> String {
            let sweeps = sweeps(&target, scope).into_iter();
            let of_maps = |sweep: &Sweep| sweep.resource.plural == "configmaps";
            sweeps.filter(of_maps).map(|sweep| sweep.labels).collect()
        };
        assert!(maps(DeleteScope::KeepVolume).ends_with("component!=files"));
        assert!(maps(DeleteScope::WithVolume).ends_with("instance=ctr"));
    }
}
