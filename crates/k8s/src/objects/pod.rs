//! What both kinds of pod share: identity, security, mounts.

use serde_json::{Value, json};

use super::claim_name;
use crate::job::JobFile;
use run::node::pod::JOB_PATH;

/// The pod's part of the restricted standard.
pub(super) fn security(job: &JobFile) -> Value {
    json!({
        "fsGroup": job.user,
        "fsGroupChangePolicy": "OnRootMismatch",
        "runAsGroup": job.user,
        "runAsNonRoot": true,
        "runAsUser": job.user,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// The container's part of the restricted standard.
pub(super) fn container_security() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": true,
    })
}

/// The job's volume.
pub(super) fn job_volume(job: &JobFile) -> Value {
    json!({"name": "job", "persistentVolumeClaim": {"claimName": claim_name(job)}})
}

/// Where it is mounted.
pub(super) fn job_mount() -> Value {
    json!({"name": "job", "mountPath": JOB_PATH})
}

/// Space for temporary files.
pub(super) fn tmp_volume() -> Value {
    json!({"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}})
}

/// Where it is mounted.
pub(super) fn tmp_mount() -> Value {
    json!({"name": "tmp", "mountPath": "/tmp"})
}

/// An environment variable.
pub(super) fn variable(name: &str, value: impl ToString) -> Value {
    json!({"name": name, "value": value.to_string()})
}

/// The taints that clouds put on spot machines.
const SPOT_TAINTS: [(&str, &str); 4] = [
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("karpenter.sh/capacity-type", "spot"),
    ("cloud.google.com/gke-spot", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
];

/// Sets the optional fields of the job file.
pub(super) fn place(spec: &mut Value, job: &JobFile) {
    if !job.image_pull_secrets.is_empty() {
        spec["imagePullSecrets"] = job
            .image_pull_secrets
            .iter()
            .map(|name| json!({"name": name}))
            .collect();
    }
    if !job.node_selector.is_empty() {
        spec["nodeSelector"] = json!(job.node_selector);
    }
    let spot = SPOT_TAINTS.iter().filter(|_| job.spot).map(
        |(key, value)| json!({"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}),
    );
    let tolerations: Vec<Value> = job
        .tolerations
        .iter()
        .map(|toleration| json!(toleration))
        .chain(spot)
        .collect();
    if !tolerations.is_empty() {
        spec["tolerations"] = json!(tolerations);
    }
    if let Some(policy) = &job.image_pull_policy {
        for part in ["initContainers", "containers"] {
            let containers = spec.get_mut(part).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                container["imagePullPolicy"] = json!(policy);
            }
        }
    }
    if let Some(class) = &job.priority_class {
        spec["priorityClassName"] = json!(class);
    }
}
