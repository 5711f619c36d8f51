//! The Job that copies models and records to an object store while the training Job runs. It has a pod of its own, so
//! that training pods need neither rights for the store nor connections out of the cluster.

use serde_json::{Value, json};

use super::training_job::failure_policy;
use super::{JOB_NAME_LABEL, copy_job_name, labels, metadata, pod, program};
use crate::job::{CopyAt, JobFile};
use crate::program::Program;
use run::node::pod::{JOB_PATH, SECRET_PATH};

/// The Job, if the job file asks for one.
pub(super) fn object(job: &JobFile, own: Option<&Program>) -> Option<Value> {
    let copies = job.copies.as_ref()?;
    let name = copy_job_name(&job.name);
    let mut labels = labels(job);
    labels["app.kubernetes.io/component"] = json!("copy");
    labels[JOB_NAME_LABEL] = json!(name);
    let at = match copies.at {
        CopyAt::Passes => "passes",
        CopyAt::End => "end",
    };
    let mut container = json!({
        "name": "copy",
        "image": job.pod_image(),
        "command": [program::command(own)],
        "args": [
            "data", "follow", format!("{JOB_PATH}/{}/output", job.name), copies.to,
            format!("--nodes={}", job.nodes), format!("--token-file={SECRET_PATH}/token"),
            format!("--at={at}"), format!("--patience={}", job.patience_seconds),
        ],
        "env": [pod::variable("HOME", "/tmp")],
        "resources": {
            "limits": {"memory": "512Mi"},
            "requests": {"cpu": "100m", "memory": "128Mi"},
        },
        "securityContext": pod::container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            pod::job_mount(), pod::tmp_mount(),
            {"name": "secret", "mountPath": SECRET_PATH, "readOnly": true},
        ],
    });
    if let Some(secret) = &copies.environment {
        container["envFrom"] = json!([{"secretRef": {"name": secret}}]);
    }
    let token = json!([{"key": "token", "path": "token"}]);
    let mut spec = json!({
        "automountServiceAccountToken": false,
        "containers": [container],
        "enableServiceLinks": false,
        "restartPolicy": "Never",
        "securityContext": pod::security(job),
        "volumes": [
            pod::job_volume(job), pod::tmp_volume(),
            {"name": "secret", "secret": {"secretName": job.name, "defaultMode": 0o440, "items": token}},
        ],
    });
    if let Some(account) = &copies.service_account {
        spec["serviceAccountName"] = json!(account);
        spec["automountServiceAccountToken"] = json!(true);
    }
    pod::place(&mut spec, job);
    program::add(&mut spec, job, own, job.patience_seconds);
    Some(json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(job, &name),
        "spec": {
            "backoffLimit": job.retries,
            "completions": 1,
            "parallelism": 1,
            // 2 is a wrong flag.
            "podFailurePolicy": failure_policy(None, &[2, 64, 78]),
            "podReplacementPolicy": "Failed",
            "template": {"metadata": {"labels": labels}, "spec": spec},
            "ttlSecondsAfterFinished": job.ttl_seconds,
        },
    }))
}
