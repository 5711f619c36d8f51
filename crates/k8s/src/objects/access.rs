//! Namespace, and the rights that `podlist` needs: to list pods, in one namespace, nothing else.

use serde_json::{Value, json};

use super::{labels, metadata};
use crate::job::JobFile;

/// A namespace that admits only pods of the restricted standard.
pub(super) fn namespace(job: &JobFile) -> Value {
    let mut labels = labels(job);
    for mode in ["audit", "enforce", "warn"] {
        labels[format!("pod-security.kubernetes.io/{mode}")] = json!("restricted");
    }
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": job.namespace, "labels": labels},
    })
}

/// ServiceAccount, Role and RoleBinding.
pub(super) fn pod_reader(job: &JobFile) -> [Value; 3] {
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(job, &job.name),
        "automountServiceAccountToken": false,
    });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata(job, &job.name),
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata(job, &job.name),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": job.name},
        "subjects": [{"kind": "ServiceAccount", "name": job.name, "namespace": job.namespace}],
    });
    [account, role, binding]
}
