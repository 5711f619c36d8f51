//! A pod that does nothing but mount the volume, so that files can be brought there from a laptop, and back.

use serde_json::{Value, json};

use super::{labels, metadata, pod, program};
use crate::job::JobFile;
use crate::program::Program;

/// Nobody forgets it for longer than this. Whoever made it removes it, on Ctrl-C too.
const SECONDS: u32 = 6 * 3600;
/// The program of a job is on the volume when files are read from there, or it is gone.
const PATIENCE: u32 = 10;

/// What it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// Files come in. There is one per job; what an interrupted upload left is replaced.
    Upload,
    /// Files go out, or are removed. Several may be there at once, each with a suffix of its own.
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

/// The pod. It ends by itself if nobody removes it. A reader of a job that brought its program along has it from the volume.
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
        // `sleep` does not hear SIGTERM as the first process of a container.
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
