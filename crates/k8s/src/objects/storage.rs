//! The volume: a claim that all nodes mount for reading and writing, and for NFS and EFS the volume behind it.

use serde_json::{Value, json};

use super::{labels, metadata};
use crate::job::{JobFile, Volume};

/// The claim that pods mount.
pub fn claim_name(job: &JobFile) -> String {
    match &job.volume {
        Volume::Claim { name } => name.clone(),
        _ => format!("{}-volume", job.name),
    }
}

/// Nothing, a claim, or a volume and its claim.
pub(super) fn objects(job: &JobFile) -> Vec<Value> {
    match &job.volume {
        Volume::Claim { .. } => Vec::new(),
        Volume::StorageClass { name, size } => {
            vec![claim(job, size, json!({"storageClassName": name}))]
        }
        Volume::Nfs { server, path, size } => {
            let source = json!({
                // Nodes wait for files of other nodes, so the client must not cache for long that a file does not exist.
                "mountOptions": ["nfsvers=4.1", "hard", "lookupcache=positive"],
                "nfs": {"server": server, "path": path},
            });
            static_volume(job, size, source)
        }
        Volume::Efs {
            file_system,
            access_point,
            size,
        } => {
            let handle = match access_point {
                Some(point) => format!("{file_system}::{point}"),
                None => file_system.clone(),
            };
            static_volume(
                job,
                size,
                json!({"csi": {"driver": "efs.csi.aws.com", "volumeHandle": handle}}),
            )
        }
    }
}

/// A volume on an existing file server, kept when its claim is deleted, and the only claim that may use it.
fn static_volume(job: &JobFile, size: &str, source: Value) -> Vec<Value> {
    // Volumes belong to no namespace, so the name has the namespace in it. Neither part can have a dot.
    let name = format!("{}.{}", job.namespace, claim_name(job));
    let mut spec = json!({
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": size},
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "name": claim_name(job),
            "namespace": job.namespace,
        },
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        "volumeMode": "Filesystem",
    });
    merge(&mut spec, source);
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels(job)},
        "spec": spec,
    });
    vec![
        volume,
        claim(
            job,
            size,
            json!({"storageClassName": "", "volumeName": name}),
        ),
    ]
}

fn claim(job: &JobFile, size: &str, more: Value) -> Value {
    let mut spec = json!({
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": size}},
    });
    merge(&mut spec, more);
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(job, &claim_name(job)),
        "spec": spec,
    })
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}
