//! The data Job: downloads, checks and splits, once, with the same binary as on a laptop.

use serde_json::{Value, json};

use super::training_job::failure_policy;
use super::{JOB_NAME_LABEL, data_job_name, labels, metadata, pod, program};
use crate::job::{Data, JobFile};
use crate::program::Program;

/// The Job, if the job file asks for one.
pub(super) fn object(job: &JobFile, own: Option<&Program>) -> Option<Value> {
    let data = job.data.as_ref()?;
    let name = data_job_name(&job.name);
    let mut labels = labels(job);
    labels["app.kubernetes.io/component"] = json!("data");
    labels[JOB_NAME_LABEL] = json!(name);
    let command = program::command(own);
    let mut spec = json!({
        "automountServiceAccountToken": false,
        "containers": [split(job, data, &command)],
        "enableServiceLinks": false,
        "restartPolicy": "Never",
        "securityContext": pod::security(job),
        "volumes": [pod::job_volume(job), pod::tmp_volume()],
    });
    if let Some(url) = &data.url {
        spec["initContainers"] = json!([fetch(job, data, url, &command)]);
    }
    if let Some(account) = &data.service_account {
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
            "backoffLimit": 3,
            "completions": 1,
            "parallelism": 1,
            // Any of its containers may exit with these codes; 2 is a wrong flag in `splitArgs`.
            "podFailurePolicy": failure_policy(None, &[2, 64, 78]),
            "podReplacementPolicy": "Failed",
            "template": {"metadata": {"labels": labels}, "spec": spec},
            "ttlSecondsAfterFinished": job.ttl_seconds,
        },
    }))
}

fn folder(job: &JobFile) -> String {
    format!("{}/{}", run::node::pod::JOB_PATH, job.name)
}

fn fetch(job: &JobFile, data: &Data, url: &str, command: &str) -> Value {
    let mut args = vec![
        "data".to_owned(),
        "fetch".to_owned(),
        url.to_owned(),
        format!("--out={}/data/", folder(job)),
        "--unpack".to_owned(),
    ];
    args.extend(data.sha256.as_ref().map(|sum| format!("--sha256={sum}")));
    let mut container = container(job, "fetch", command, args);
    if let Some(secret) = &data.environment {
        container["envFrom"] = json!([{"secretRef": {"name": secret}}]);
    }
    container
}

fn split(job: &JobFile, data: &Data, command: &str) -> Value {
    let mut args = vec![
        "data".to_owned(),
        "split".to_owned(),
        folder(job),
        format!("--shards={}", job.nodes),
    ];
    args.extend(data.split_args.iter().cloned());
    container(job, "split", command, args)
}

fn container(job: &JobFile, name: &str, command: &str, args: Vec<String>) -> Value {
    json!({
        "name": name,
        "image": job.pod_image(),
        "command": [command],
        "args": args,
        "env": [pod::variable("HOME", "/tmp")],
        "resources": {
            "limits": {"memory": "1Gi"},
            "requests": {"cpu": "500m", "memory": "512Mi"},
        },
        "securityContext": pod::container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [pod::job_mount(), pod::tmp_mount()],
    })
}
