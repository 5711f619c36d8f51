//! The headless Service, the NetworkPolicy and the PodDisruptionBudget.

use serde_json::{Value, json};

use super::{JOB_NAME_LABEL, data_ports, metadata};
use crate::job::{JobFile, Metrics};
use run::node::pod::Discovery;

fn selector(job: &JobFile) -> Value {
    json!({JOB_NAME_LABEL: job.name})
}

/// Gives pod i the name `<job>-<i>.<job>`, also before it is ready: nodes wait for each other.
pub(super) fn service(job: &JobFile) -> Value {
    let port = |(name, port): (String, u16)| json!({"name": name, "port": port, "targetPort": port, "protocol": "TCP"});
    let ports: Vec<Value> = data_ports(job).into_iter().map(port).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(job, &job.name),
        "spec": {
            "clusterIP": "None",
            "ports": ports,
            "publishNotReadyAddresses": true,
            "selector": selector(job),
        },
    })
}

/// Nodes connect to nodes of the same job and to DNS; with `podlist` also to the API server. Only they, and the
/// namespaces that may read the metrics, can connect to nodes.
pub(super) fn policy(job: &JobFile) -> Value {
    let peers = json!([{"podSelector": {"matchLabels": selector(job)}}]);
    let ports: Vec<Value> = data_ports(job)
        .into_iter()
        .map(|(_, port)| json!({"port": port, "protocol": "TCP"}))
        .collect();
    let dns = json!({"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]});
    let mut egress = vec![json!({"ports": ports, "to": peers}), dns];
    if job.discovery == Discovery::Podlist {
        // The port of the Service and the port behind it: which of them a policy sees depends on the cluster.
        let ports = [443, 6443, 8443].map(|port| json!({"port": port, "protocol": "TCP"}));
        egress.push(json!({"ports": ports}));
    }
    let mut ingress = vec![json!({"from": peers, "ports": ports})];
    ingress.extend(job.metrics.as_ref().map(readers));
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(job, &job.name),
        "spec": {
            "podSelector": {"matchLabels": selector(job)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    })
}

/// The namespaces that may read the metrics. The API server gives every namespace a label with its name.
fn readers(metrics: &Metrics) -> Value {
    let ports = json!([{"port": metrics.port, "protocol": "TCP"}]);
    if metrics.from.iter().any(|name| name == "*") {
        return json!({"ports": ports});
    }
    let namespace = |name: &String| json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}});
    let from: Vec<Value> = metrics.from.iter().map(namespace).collect();
    json!({"from": from, "ports": ports})
}

/// Allows a drain to remove only one node at a time. Two at once would also be safe, because of the snapshots,
/// but the job would stand still longer. A job with one node has no budget: it would only keep the machine
/// from being drained.
pub(super) fn disruption_budget(job: &JobFile) -> Option<Value> {
    // For pods of a Job only a whole number as `minAvailable` is allowed.
    let needed = job.nodes.checked_sub(1).filter(|needed| *needed > 0)?;
    Some(json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(job, &job.name),
        "spec": {
            "minAvailable": needed,
            "selector": {"matchLabels": selector(job)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }))
}
