//! A pod that only mounts the volume, so that files can be copied between it and a laptop.

use serde_json::{Value, json};

use super::{labels, metadata, pod, program};
use crate::job::JobFile;
use crate::program::Program;

/// The pod ends by itself after this time, if the command that created it could not remove it.
const SECONDS: u32 = 6 * 3600;
/// Seconds to wait for the job's program on the volume: when files are read, it is there or was deleted.
const PATIENCE: u32 = 10;

/// What it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// Receives files. There is one per job; the pod of an interrupted upload is replaced.
    Upload,
    /// Sends or removes files. Several may run at once, each with a suffix of its own.
    Reader(String),
}

impl Purpose {
    fn word(&self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Reader(_) => "reader",
        }
    }
}

/// Labels of `app.kubernetes.io/component` that such pods have.
pub(crate) const COMPONENTS: [&str; 2] = ["upload", "reader"];

/// Name of the pod: there is one upload pod per job, and a reader has a suffix of its own.
pub fn name(job: &JobFile, purpose: &Purpose) -> String {
    match purpose {
        Purpose::Upload => format!("{}-upload", job.name),
        Purpose::Reader(suffix) => format!("{}-reader-{suffix}", job.name),
    }
}

/// The pod, which ends by itself if it is not removed. In a reader of a job without an image, the program comes from the
/// volume.
pub fn object(job: &JobFile, own: Option<&Program>, purpose: &Purpose) -> Value {
    let mut labels = labels(job);
    labels["app.kubernetes.io/component"] = json!(purpose.word());
    let mut metadata = metadata(job, &name(job, purpose));
    metadata["labels"] = labels;
    let mut spec = json!({
        "activeDeadlineSeconds": SECONDS,
        "automountServiceAccountToken": false,
        "containers": [{
            "name": purpose.word(),
            "image": job.pod_image(),
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
        // As the first process of a container, `sleep` would ignore SIGTERM.
        "terminationGracePeriodSeconds": 1,
        "volumes": [pod::job_volume(job), pod::tmp_volume()],
    });
    pod::place(&mut spec, job);
    match (purpose, own) {
        (Purpose::Upload, Some(own)) => program::carry(&mut spec, own),
        (Purpose::Reader(_), own) => program::add(&mut spec, job, own, PATIENCE),
        (Purpose::Upload, None) => {}
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}
