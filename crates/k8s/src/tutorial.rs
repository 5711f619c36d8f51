//! The same job in the layout of v1's Kubernetes tutorial: four files to create one after the other.
//!
//! For people who follow that text. The names of files and objects are the tutorial's; inside, the
//! image runs `canoe` instead of shell scripts, and what today's clusters refuse is left out (host
//! ports, root) or put in (a token, the right to list pods).

use serde_json::{Value, json};

use super::job::{JobFile, Volume};
use super::objects::{self, ObjectInputs};
use run::node::pod::Discovery;

/// File names and contents, in the order in which the tutorial creates them.
pub fn files(inputs: &ObjectInputs) -> Vec<(&'static str, String)> {
    let inputs = as_in_the_tutorial(inputs);
    let objects = objects::all(&inputs);
    let of_kind = |kinds: &[&str]| -> Vec<Value> {
        objects
            .iter()
            .filter(|object| kinds.iter().any(|kind| object["kind"] == *kind))
            .cloned()
            .collect()
    };
    let data_name = objects::data_job_name(&inputs.job.name);
    let jobs = of_kind(&["Job"]);
    let (data, mut training): (Vec<Value>, Vec<Value>) = jobs
        .into_iter()
        .partition(|job| job["metadata"]["name"] == *data_name);
    training.iter_mut().for_each(plain_job);
    let mut cluster = of_kind(&[
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ConfigMap",
        "Secret",
    ]);
    cluster.extend(training);
    vec![
        ("pv.yaml", yaml::documents(&of_kind(&["PersistentVolume"]))),
        (
            "pvc.yaml",
            yaml::documents(&of_kind(&["PersistentVolumeClaim"])),
        ),
        ("paddle-data-job.yaml", yaml::documents(&data)),
        ("paddle-cluster-job.yaml", yaml::documents(&cluster)),
    ]
}

/// All files as one stream of documents with the names as comments.
pub fn stream(inputs: &ObjectInputs) -> String {
    let files = files(inputs);
    let parts: Vec<String> = files
        .iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| format!("# {name}\n{text}"))
        .collect();
    parts.join("---\n")
}

/// Changes the job to v1's way: pods are listed, a job always splits the data, and traffic is not encrypted.
fn as_in_the_tutorial(inputs: &ObjectInputs) -> ObjectInputs {
    let job = JobFile {
        discovery: Discovery::Podlist,
        network_policy: false,
        create_namespace: false,
        data: Some(inputs.job.data.clone().unwrap_or_default()),
        ..inputs.job.clone()
    };
    ObjectInputs {
        job,
        ..inputs.clone()
    }
}

/// Three pods that run and end, without an index.
fn plain_job(job: &mut Value) {
    if let Some(spec) = job["spec"].as_object_mut() {
        spec.remove("completionMode");
    }
    if let Some(pod) = job["spec"]["template"]["spec"].as_object_mut() {
        pod.remove("subdomain");
    }
    job["spec"]["template"]["metadata"]["name"] = json!(job["metadata"]["name"].clone());
}

/// The tutorial's job, for `render --v1` without a job file.
pub fn job(server: &str) -> JobFile {
    let volume = Volume::Nfs {
        server: server.to_owned(),
        path: "/".to_owned(),
        size: "100Gi".to_owned(),
    };
    JobFile {
        config_dir: Some("quick_start".to_owned()),
        trainer_count: 3,
        passes: Some(10),
        ..JobFile::new("paddle-cluster-job", volume)
    }
}
