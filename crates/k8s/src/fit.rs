//! Checks, before a job is submitted, whether the cluster has room for all its nodes at once. Pure.
//!
//! A job needs all its nodes: those that start first wait for the others, and hold their cores while they wait.
//! Schedulers that know this (Kueue, Volcano) hold the whole job back; the default scheduler places one pod after the
//! other. So the room is counted here. The result is a note and not a refusal: machines may be added, and other pods
//! may end.

use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

use crate::check::amount;
use crate::job::{JobFile, Toleration};

/// The room that the cluster has for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// Nodes of the job.
    pub wanted: u32,
    /// How many of them fit at once.
    pub found: u32,
    /// Machines on which pods of this job may run.
    pub machines: usize,
    /// Whether the requests of other pods could be read; if not, machines were counted as if they were empty.
    pub is_exact: bool,
}

impl Room {
    /// A sentence for the user if not all nodes fit.
    pub fn words(&self) -> Option<String> {
        if self.found >= self.wanted {
            return None;
        }
        let now = if self.is_exact {
            "at the moment"
        } else {
            "even if they were empty"
        };
        Some(format!(
            "only {} of {} nodes fit at once: {} machines take pods of this job and have no more room {now}; the job trains when all have a place (lower `nodes` or `resources`, or add machines)",
            self.found, self.wanted, self.machines
        ))
    }
}

/// Counts the room. `pods` are those of all namespaces, if the user may read them.
pub fn room(job: &JobFile, machines: &[Node], pods: Option<&[Pod]>) -> Room {
    let usable: Vec<&Node> = machines.iter().filter(|node| takes(node, job)).collect();
    let counted = usable.iter().map(|node| places(node, job, pods));
    let found: u64 = counted.map(u64::from).sum();
    Room {
        wanted: job.nodes,
        found: u32::try_from(found.min(u64::from(job.nodes))).unwrap_or(job.nodes),
        machines: usable.len(),
        is_exact: pods.is_some(),
    }
}

fn takes(node: &Node, job: &JobFile) -> bool {
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let mut wanted = job.node_selector.iter();
    let has_labels = wanted.all(|(key, value)| labels.get(key) == Some(value));
    let spec = node.spec.clone().unwrap_or_default();
    let conditions = node.status.as_ref().and_then(|it| it.conditions.as_ref());
    let is_ready = conditions.is_none_or(|conditions| {
        let mut ready = conditions.iter().filter(|it| it.type_ == "Ready");
        ready.all(|it| it.status == "True")
    });
    let mut taints = spec.taints.iter().flatten();
    let is_open = taints.all(|taint| {
        taint.effect == "PreferNoSchedule"
            || job.spot
            || job.tolerations.iter().any(|it| tolerates(it, taint))
    });
    has_labels && is_ready && is_open && spec.unschedulable != Some(true)
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.as_ref().is_none_or(|key| *key == taint.key);
    let exists = toleration.operator.as_deref() == Some("Exists");
    let value = exists || toleration.value == taint.value;
    let effect = toleration.effect.as_ref();
    key && value && effect.is_none_or(|effect| *effect == taint.effect)
}

/// How many pods of the job a machine has room for.
fn places(node: &Node, job: &JobFile, pods: Option<&[Pod]>) -> u32 {
    let empty = BTreeMap::new();
    let status = node.status.as_ref();
    let has = status
        .and_then(|it| it.allocatable.as_ref())
        .unwrap_or(&empty);
    let name = node.metadata.name.as_deref();
    let here: Vec<&Pod> = pods
        .into_iter()
        .flatten()
        .filter(|pod| is_on(pod, name))
        .collect();
    let resources = &job.resources;
    let wanted = [
        ("cpu", resources.cpu.as_str()),
        ("memory", resources.memory.as_str()),
        ("ephemeral-storage", resources.disk.as_str()),
    ];
    let has = |kind: &str| has.get(kind).and_then(|quantity| amount(&quantity.0));
    let mut most = u128::from(job.nodes);
    for (kind, wanted) in wanted {
        let (Some(has), Some(wanted)) = (has(kind), amount(wanted)) else {
            continue;
        };
        let taken: u128 = here.iter().map(|pod| reserved(pod, kind)).sum();
        most = most.min(has.saturating_sub(taken) / wanted.max(1));
    }
    if let Some(limit) = has("pods") {
        // Quantities are counted in thousandths.
        most = most.min((limit / 1000).saturating_sub(here.len() as u128));
    }
    u32::try_from(most).unwrap_or(job.nodes)
}

fn is_on(pod: &Pod, machine: Option<&str>) -> bool {
    let spec = pod.spec.as_ref();
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    let is_over = matches!(phase, Some("Succeeded" | "Failed"));
    !is_over && machine.is_some() && spec.and_then(|it| it.node_name.as_deref()) == machine
}

fn reserved(pod: &Pod, kind: &str) -> u128 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let requests = containers.filter_map(|it| it.resources.as_ref()?.requests.as_ref());
    let of_kind = requests.filter_map(|all: &BTreeMap<String, Quantity>| all.get(kind));
    of_kind.filter_map(|quantity| amount(&quantity.0)).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::job::Volume;

    fn machine(name: &str, spec: Value) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"pool": name}},
            "spec": spec,
            "status": {
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", "ephemeral-storage": "100Gi"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }))
        .unwrap()
    }

    fn job(nodes: u32, cpu: &str) -> JobFile {
        let mut job = JobFile::new("ctr", Volume::default());
        job.nodes = nodes;
        job.resources.cpu = cpu.into();
        job
    }

    #[test]
    fn cores_that_others_hold_are_not_counted() {
        let machines = [machine("a", json!({})), machine("b", json!({}))];
        assert_eq!(room(&job(8, "1"), &machines, None).found, 8);
        assert_eq!(room(&job(3, "1500m"), &machines, None).words(), None);
        let other: Pod = serde_json::from_value(json!({
            "spec": {"nodeName": "a", "containers": [{"name": "x", "resources": {"requests": {"cpu": "3500m"}}}]},
            "status": {"phase": "Running"},
        }))
        .unwrap();
        let seen = room(&job(3, "2"), &machines, Some(std::slice::from_ref(&other)));
        assert_eq!((seen.found, seen.machines), (2, 2));
        let text = seen.words().unwrap();
        assert!(
            text.starts_with("only 2 of 3 nodes fit at once") && text.contains("at the moment"),
            "{text}"
        );
        let mut over = other;
        over.status.as_mut().unwrap().phase = Some("Succeeded".into());
        assert_eq!(room(&job(4, "2"), &machines, Some(&[over])).found, 4);
        let large = room(&job(1, "64"), &machines, None).words().unwrap();
        assert!(large.contains("only 0 of 1") && large.contains("even if they were empty"));
    }

    #[test]
    fn machines_that_do_not_take_the_pods_are_left_out() {
        let taint = json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]);
        let machines = [
            machine("a", json!({"unschedulable": true})),
            machine("b", json!({"taints": taint})),
            machine("c", json!({})),
        ];
        let mut wanted = job(5, "4");
        assert_eq!(room(&wanted, &machines, None).machines, 1);
        wanted.tolerations = vec![Toleration {
            key: Some("gpu".into()),
            operator: Some("Exists".into()),
            value: None,
            effect: None,
        }];
        assert_eq!(room(&wanted, &machines, None).machines, 2);
        wanted.node_selector = [("pool".to_owned(), "b".to_owned())].into();
        assert_eq!(room(&wanted, &machines, None).found, 1);
        assert_eq!(room(&wanted, &[], None).found, 0);
    }
}
