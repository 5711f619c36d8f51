//! The program of a job whose image has none: an init container copies it from the volume, and `canoe job submit` copies
//! it to the volume.
//!
//! The image only needs python3, which checks the program before it runs for the first time.

use serde_json::{Value, json};

use super::pod;
use crate::job::JobFile;
use crate::program::{FILE, Program};
use run::node::pod::{JOB_PATH, PROGRAM_PATH};

/// Name of the init container; the failure policy refers to it.
pub(crate) const CONTAINER: &str = "program";

const INSTALL: &str = include_str!("install.py");
const RECEIVE: &str = include_str!("receive.py");

/// The path or name of canoe in the pods of this job.
pub fn command(program: Option<&Program>) -> String {
    match program {
        None => FILE.to_owned(),
        Some(_) => format!("{PROGRAM_PATH}/{FILE}"),
    }
}

fn python(script: &str, arguments: &[String]) -> Vec<String> {
    let head = ["python3", "-I", "-B", "-c", script].map(str::to_owned);
    head.into_iter().chain(arguments.iter().cloned()).collect()
}

/// The command of the init container: waits for the program on the volume, copies it to the pod's own disk, checks it,
/// and runs it once.
pub fn install(job: &JobFile, program: &Program, patience: u32) -> Vec<String> {
    python(
        INSTALL,
        &[
            format!("{}/{FILE}", folder(job, program)),
            format!("{PROGRAM_PATH}/{FILE}"),
            program.sha256.clone(),
            patience.to_string(),
        ],
    )
}

/// The command that receives the program on the volume, with the protocol of `canoe data receive`.
pub fn receive(job: &JobFile, program: &Program) -> Vec<String> {
    python(RECEIVE, &[folder(job, program)])
}

fn folder(job: &JobFile, program: &Program) -> String {
    format!("{JOB_PATH}/{}/{}", job.name, program.folder())
}

/// The volume mount of the program.
pub fn mount() -> Value {
    json!({"name": "program", "mountPath": PROGRAM_PATH})
}

/// Puts the program into a pod: a volume, an init step before all others, a mount in every container, and machines that can run it.
/// The step waits `patience` seconds until the program is on the volume.
pub fn add(spec: &mut Value, job: &JobFile, program: Option<&Program>, patience: u32) {
    let Some(program) = program else { return };
    carry(spec, program);
    let step = json!({
        "name": CONTAINER,
        "image": job.pod_image(),
        "command": install(job, program, patience),
        "resources": {
            "limits": {"memory": "128Mi"},
            "requests": {"cpu": "100m", "memory": "64Mi"},
        },
        "securityContext": pod::container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [pod::job_mount(), pod::tmp_mount(), mount()],
    });
    let others = spec.get("initContainers").and_then(Value::as_array);
    let others = others.into_iter().flatten().cloned();
    spec["initContainers"] = std::iter::once(step).chain(others).collect();
}

/// The same without the init container, for the pod that receives the program.
pub fn carry(spec: &mut Value, program: &Program) {
    for part in ["initContainers", "containers"] {
        let containers = spec.get_mut(part).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if let Some(mounts) = container["volumeMounts"].as_array_mut() {
                mounts.push(mount());
            }
        }
    }
    if let Some(volumes) = spec["volumes"].as_array_mut() {
        volumes.push(json!({"name": "program", "emptyDir": {"sizeLimit": "1Gi"}}));
    }
    spec["nodeSelector"]["kubernetes.io/arch"] = json!(program.architecture.label());
}
