//! Drains machines of the cluster (Kubernetes' nodes) before they are removed, and deletes their Node objects.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::client::Cluster;
use super::error::ClusterError;

/// Interval between two checks of a machine that is being drained.
const LOOK: Duration = Duration::from_secs(1);
/// A pod with this note was made by the machine itself, from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// What happens to a pod when its machine is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PodFate {
    /// It belongs to the machine and ends with it: a mirror pod, or one of a DaemonSet.
    Stays,
    /// It is evicted, and its controller starts another one elsewhere.
    Leaves,
    /// It has no controller that would start it elsewhere.
    Bare,
}

impl PodFate {
    fn of(pod: &Pod) -> Self {
        let owner = pod
            .owner_references()
            .iter()
            .find(|owner| owner.controller == Some(true));
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        match owner {
            _ if pod.annotations().contains_key(MIRROR) => Self::Stays,
            _ if matches!(phase, Some("Succeeded" | "Failed")) => Self::Leaves,
            Some(owner) if owner.kind == "DaemonSet" => Self::Stays,
            Some(_) => Self::Leaves,
            // A pod that is being deleted need not be started elsewhere.
            None if pod.metadata.deletion_timestamp.is_some() => Self::Leaves,
            None => Self::Bare,
        }
    }
}

fn named(pods: &[Pod], fate: PodFate) -> Vec<String> {
    let chosen = pods.iter().filter(|pod| PodFate::of(pod) == fate);
    let name = |pod: &Pod| format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    chosen.map(name).collect()
}

impl Cluster {
    /// Every machine, also those that run the control plane.
    pub async fn machines(&self) -> Result<Vec<Node>, ClusterError> {
        self.list_all("").await
    }

    /// Cordons a machine, evicts its pods and waits until they have ended: pods of jobs take a snapshot first. Disruption
    /// budgets are respected.
    pub async fn drain(&self, machine: &str, patience: Duration) -> Result<(), ClusterError> {
        self.close_to_pods(machine).await?;
        let begun = Instant::now();
        loop {
            let pods = self.pods_on(machine).await?;
            let bare = named(&pods, PodFate::Bare);
            if !bare.is_empty() {
                return Err(ClusterError::Bare {
                    machine: machine.to_owned(),
                    pods: bare,
                });
            }
            let left = named(&pods, PodFate::Leaves);
            if left.is_empty() {
                return Ok(());
            }
            if begun.elapsed() >= patience {
                return Err(ClusterError::Stays {
                    seconds: begun.elapsed().as_secs(),
                    left: format!("pods {} on machine {machine}", left.join(", ")),
                });
            }
            for pod in &pods {
                if PodFate::of(pod) == PodFate::Leaves && pod.metadata.deletion_timestamp.is_none()
                {
                    self.evict(pod).await?;
                }
            }
            sleep(LOOK).await;
        }
    }

    async fn close_to_pods(&self, machine: &str) -> Result<(), ClusterError> {
        let api: Api<Node> = Api::all(self.client.clone());
        let change = Patch::Merge(json!({"spec": {"unschedulable": true}}));
        let params = PatchParams::default();
        let action = format!("let no new pods onto machine {machine}");
        let asked = self.ask(&action, || api.patch(machine, &params, &change));
        asked.await.map(drop)
    }

    async fn pods_on(&self, machine: &str) -> Result<Vec<Pod>, ClusterError> {
        let api: Api<Pod> = Api::all(self.client.clone());
        let params = ListParams::default().fields(&format!("spec.nodeName={machine}"));
        let action = format!("list the pods of machine {machine}");
        let found = self.ask(&action, || api.list(&params)).await?;
        Ok(found.items)
    }

    /// Evicts a pod. While its disruption budget does not allow that, the server returns 429, and the next check tries
    /// again.
    async fn evict(&self, pod: &Pod) -> Result<(), ClusterError> {
        let name = pod.name_any();
        let api = self.pod_api(&pod.namespace().unwrap_or_default());
        let action = format!("evict pod {name}");
        let params = EvictParams::default();
        match self.ask_once(&action, api.evict(&name, &params)).await {
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) if error.status().is_some_and(|status| status.code == 429) => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Deletes the Node object of a machine, if it exists; pods on the machine are not touched.
    pub async fn forget_machine(&self, machine: &str) -> Result<(), ClusterError> {
        let api: Api<Node> = Api::all(self.client.clone());
        let params = DeleteParams::default();
        let action = format!("take machine {machine} out of the list");
        match self.ask(&action, || api.delete(machine, &params)).await {
            Err(error) if error.is_not_found() => Ok(()),
            answer => answer.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pods_that_come_again_elsewhere_are_asked_to_leave() {
        let pod = |metadata: serde_json::Value, phase: &str| -> Pod {
            serde_json::from_value(json!({"metadata": metadata, "status": {"phase": phase}}))
                .unwrap()
        };
        let owned = |kind: &str| json!({"name": "a", "namespace": "team", "ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "controller": true}]});
        let bare = json!({"name": "b", "namespace": "team"});
        let mirror = json!({"annotations": {MIRROR: "x"}});
        let going = json!({"name": "c", "deletionTimestamp": "2026-11-16T11:11:25Z"});
        for (metadata, phase, fate) in [
            (owned("Job"), "Running", PodFate::Leaves),
            (owned("ReplicaSet"), "Pending", PodFate::Leaves),
            (owned("DaemonSet"), "Running", PodFate::Stays),
            (owned("DaemonSet"), "Failed", PodFate::Leaves),
            (mirror, "Running", PodFate::Stays),
            (bare.clone(), "Running", PodFate::Bare),
            (bare.clone(), "Succeeded", PodFate::Leaves),
            (going, "Running", PodFate::Leaves),
        ] {
            assert_eq!(
                PodFate::of(&pod(metadata.clone(), phase)),
                fate,
                "{metadata} {phase}"
            );
        }
        let pods = [pod(owned("Job"), "Running"), pod(bare, "Running")];
        assert_eq!(named(&pods, PodFate::Leaves), ["team/a"]);
        assert_eq!(named(&pods, PodFate::Bare), ["team/b"]);
    }
}
