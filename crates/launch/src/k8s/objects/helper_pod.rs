//! A pod that does nothing but mount the volume, so that files can be brought there from a laptop.

use serde_json::{Value, json};

use super::{labels, metadata, pod};
use crate::k8s::job::JobFile;

/// Nobody forgets it for longer than this.
const SECONDS: u32 = 6 * 3600;

/// Its name.
pub fn name(job: &JobFile) -> String {
    format!("{}-upload", job.name)
}

/// The pod. It ends by itself if nobody removes it.
pub fn object(job: &JobFile) -> Value {
    let mut labels = labels(job);
    labels["app.kubernetes.io/component"] = json!("upload");
    let mut metadata = metadata(job, &name(job));
    metadata["labels"] = labels;
    let mut spec = json!({
        "activeDeadlineSeconds": SECONDS,
        "automountServiceAccountToken": false,
        "containers": [{
            "name": "upload",
            "image": job.image,
            "command": ["sleep", SECONDS.to_string()],
            "env": [pod::variable("HOME", "/tmp")],
            "resources": {
                "limits": {"memory": "256Mi"},
                "requests": {"cpu": "100m", "memory": "64Mi"},
            },
            "securityContext": pod::container_security(),
            "volumeMounts": [pod::job_mount(), pod::tmp_mount()],
        }],
        "enableServiceLinks": false,
        "restartPolicy": "Never",
        "securityContext": pod::security(job),
        // `sleep` does not hear SIGTERM as the first process of a container.
        "terminationGracePeriodSeconds": 1,
        "volumes": [pod::job_volume(job), pod::tmp_volume()],
    });
    pod::place(&mut spec, job);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}
