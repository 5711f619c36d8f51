//! The data Job: downloads, checks and splits, once, with the same binary as on a laptop.

use serde_json::{Value, json};

use super::training_job::failure_policy;
use super::{JOB_NAME_LABEL, data_job_name, labels, metadata, pod};
use crate::k8s::job::{Data, JobFile};

/// The Job, if the job file asks for one.
pub fn object(job: &JobFile) -> Option<Value> {
    let data = job.data.as_ref()?;
    let name = data_job_name(&job.name);
    let mut labels = labels(job);
    labels["app.kubernetes.io/component"] = json!("data");
    labels[JOB_NAME_LABEL] = json!(name);
    let mut spec = json!({
        "automountServiceAccountToken": false,
        "containers": [split(job, data)],
        "enableServiceLinks": false,
        "restartPolicy": "Never",
        "securityContext": pod::security(job),
        "volumes": [pod::job_volume(job), pod::tmp_volume()],
    });
    if let Some(url) = &data.url {
        spec["initContainers"] = json!([fetch(job, data, url)]);
    }
    pod::place(&mut spec, job);
    Some(json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(job, &name),
        "spec": {
            "backoffLimit": 3,
            "completions": 1,
            "parallelism": 1,
            // Whichever of its containers says so; 2 is a wrong flag in `splitArgs`.
            "podFailurePolicy": failure_policy(None, &[2, 64, 78]),
            "podReplacementPolicy": "Failed",
            "template": {"metadata": {"labels": labels}, "spec": spec},
            "ttlSecondsAfterFinished": job.ttl_seconds,
        },
    }))
}

fn folder(job: &JobFile) -> String {
    format!("{}/{}", pod::JOB_PATH, job.name)
}

fn fetch(job: &JobFile, data: &Data, url: &str) -> Value {
    let mut args = vec![
        "data".to_owned(),
        "fetch".to_owned(),
        url.to_owned(),
        format!("--out={}/data/", folder(job)),
        "--unpack".to_owned(),
    ];
    args.extend(data.sha256.as_ref().map(|sum| format!("--sha256={sum}")));
    container(job, "fetch", args)
}

fn split(job: &JobFile, data: &Data) -> Value {
    let mut args = vec![
        "data".to_owned(),
        "split".to_owned(),
        folder(job),
        format!("--shards={}", job.nodes),
    ];
    args.extend(data.split_args.iter().cloned());
    container(job, "split", args)
}

fn container(job: &JobFile, name: &str, args: Vec<String>) -> Value {
    json!({
        "name": name,
        "image": job.image,
        "command": ["canoe"],
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
