//! The nodes of the cluster, as far as `up`, `status` and `upgrade` want to know: how many can work, with which version.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use tokio::time::{Instant, sleep};

use super::api_server::{ApiServer, ApiServerError};
use super::{Sink, Talk};

/// What Kubernetes calls the nodes of the control plane, as a label and as a taint.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

impl ApiServer {
    /// Every node, workers and controllers.
    pub async fn nodes(&self) -> Result<Vec<ClusterNode>, ApiServerError> {
        let nodes = self.machines().await?;
        Ok(nodes.iter().map(ClusterNode::read).collect())
    }

    /// How many nodes are Ready and may run pods.
    pub async fn ready_nodes(&self) -> Result<usize, ApiServerError> {
        Ok(count_ready(&self.machines().await?))
    }

    async fn machines(&self) -> Result<Vec<Node>, ApiServerError> {
        let machines = self.cluster().await?.machines().await;
        machines.map_err(|error| self.judged(error))
    }

    /// Waits until `wanted` nodes are Ready, and until the API server responds.
    pub async fn wait_for_nodes(
        &self,
        wanted: usize,
        patience: Duration,
        poll: Duration,
        sink: &mut impl Sink,
    ) -> Result<(), ApiServerError> {
        let begin = Instant::now();
        let mut said = String::new();
        loop {
            let (ready, words) = match self.ready_nodes().await {
                Ok(ready) => (ready, format!("{ready} of {wanted} nodes are Ready")),
                Err(ApiServerError::Passing(words)) => (0, format!("not yet: {words}")),
                Err(error) => return Err(error),
            };
            if words != said {
                sink.talk(Talk::Detail(words.clone()));
                said = words;
            }
            if ready >= wanted {
                return Ok(());
            }
            if begin.elapsed() >= patience {
                return Err(ApiServerError::Patience {
                    ready,
                    wanted,
                    minutes: patience.as_secs() / 60,
                });
            }
            sleep(poll).await;
        }
    }
}

/// A node, as far as an upgrade wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// Minor version of its kubelet, such as `1.35`.
    pub version: String,
    /// Id of its machine, if it says so.
    pub machine: Option<String>,
    /// It runs the control plane.
    pub controller: bool,
    /// It is Ready.
    pub ready: bool,
}

impl ClusterNode {
    fn read(node: &Node) -> Self {
        let info = node
            .status
            .as_ref()
            .and_then(|status| status.node_info.as_ref());
        let version = info.map_or("", |info| info.kubelet_version.as_str());
        let parts: Vec<&str> = version.trim_start_matches('v').split('.').take(2).collect();
        let provider = node
            .spec
            .as_ref()
            .and_then(|spec| spec.provider_id.as_deref());
        let machine = provider.and_then(|provider| provider.rsplit('/').next());
        let labels = node.metadata.labels.as_ref();
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            version: parts.join("."),
            machine: machine.filter(|id| id.starts_with("i-")).map(str::to_owned),
            controller: labels.is_some_and(|labels| labels.contains_key(CONTROL_PLANE)),
            ready: is_ready(node),
        }
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Nodes that are Ready and may run pods. A controller (tainted) does not count.
fn count_ready(nodes: &[Node]) -> usize {
    let may_work = |node: &&Node| {
        let spec = node.spec.as_ref();
        let taints = spec.and_then(|spec| spec.taints.as_ref());
        let is_controller = taints
            .into_iter()
            .flatten()
            .any(|taint| taint.key == CONTROL_PLANE);
        let is_closed = spec.and_then(|spec| spec.unschedulable) == Some(true);
        is_ready(node) && !is_controller && !is_closed
    };
    nodes.iter().filter(may_work).count()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::double::api_server::node_info;

    fn node(value: Value) -> Node {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn counts_nodes_that_can_work() {
        let tainted = |ready: &str, taint: &str| {
            node(
                json!({"metadata": {}, "spec": {"taints": [{"key": taint, "effect": "NoSchedule"}]},
                        "status": {"conditions": [{"type": "Ready", "status": ready}]}}),
            )
        };
        let nodes = [
            tainted("True", "other"),
            tainted("False", "other"),
            tainted("True", CONTROL_PLANE),
            node(
                json!({"metadata": {}, "spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
            ),
        ];
        assert_eq!(count_ready(&nodes), 1);
        assert_eq!(count_ready(&[]), 0);
    }

    #[test]
    fn nodes_are_read_with_version_and_machine() {
        let there = json!({"metadata": {"name": "a", "labels": {CONTROL_PLANE: ""}},
            "spec": {"providerID": "aws:///us-west-2a/i-0abc"},
            "status": {"nodeInfo": node_info("v1.35.2-eks-1"), "conditions": [{"type": "Ready", "status": "True"}]}});
        let read = ClusterNode::read(&node(there));
        assert_eq!(
            (read.version.as_str(), read.machine.as_deref()),
            ("1.35", Some("i-0abc"))
        );
        assert!(read.controller && read.ready);
        assert_eq!(ClusterNode::read(&Node::default()).machine, None);
    }
}
