//! The Kubernetes side of the file system: a volume and a claim that jobs use as they are.
//!
//! Static provisioning: the volume names the file system and the access point, the claim names the
//! volume. The capacity is a form that must be filled in; EFS has no size.

use serde_json::{Value, json};

use crate::partition::Partition;
use crate::spec::{ClusterSpec, ControlPlaneMode};

/// Name of the claim that `canoe job submit` mounts.
pub const CLAIM: &str = "canoe-files";

/// Service account of pods that may use the buckets of the cluster file.
pub(crate) const S3_ACCOUNT: &str = "canoe-s3";

/// The service account itself, if there are buckets.
pub(crate) fn bucket_account(spec: &ClusterSpec, namespace: &str) -> Option<Value> {
    let labels = json!({"app.kubernetes.io/managed-by": "canoe", "canoe.cluster": spec.name});
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": S3_ACCOUNT, "namespace": namespace, "labels": labels},
        "automountServiceAccountToken": false,
    });
    (!spec.storage.buckets.is_empty()).then_some(account)
}

/// Name by which machines in the VPC reach a file system.
pub(crate) fn files_host(spec: &ClusterSpec, file_system: &str) -> String {
    let suffix = Partition::of(&spec.region).suffix;
    format!("{file_system}.efs.{}.{suffix}", spec.region)
}

/// Volume and claim.
pub fn volume(
    spec: &ClusterSpec,
    file_system: &str,
    access_point: &str,
    namespace: &str,
) -> Vec<Value> {
    let name = format!("canoe-{}-files", spec.name.to_ascii_lowercase());
    let labels = json!({"app.kubernetes.io/managed-by": "canoe", "canoe.cluster": spec.name});
    let mut volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "capacity": {"storage": "100Gi"},
            "volumeMode": "Filesystem",
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "claimRef": {"namespace": namespace, "name": CLAIM},
        },
    });
    match spec.control_plane.mode {
        ControlPlaneMode::Eks => {
            volume["spec"]["csi"] = json!({"driver": "efs.csi.aws.com", "volumeHandle": format!("{file_system}::{access_point}")});
        }
        ControlPlaneMode::SelfManaged => {
            volume["spec"]["mountOptions"] = json!([
                "nfsvers=4.1",
                "hard",
                "timeo=600",
                "retrans=2",
                "noresvport"
            ]);
            volume["spec"]["nfs"] = json!({
                "server": files_host(spec, file_system),
                "path": spec.storage.directory,
            });
        }
    }
    let claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM, "namespace": namespace, "labels": labels},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": name,
            "resources": {"requests": {"storage": "100Gi"}},
        },
    });
    vec![volume, claim]
}

/// Objects as one list, for the file that other tools can apply.
pub(crate) fn list(objects: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": objects})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_and_volume_name_each_other() {
        for mode in [ControlPlaneMode::Eks, ControlPlaneMode::SelfManaged] {
            let mut spec = ClusterSpec::new("Demo", "us-west-2");
            spec.control_plane.mode = mode;
            let objects = volume(&spec, "fs-1", "fsap-2", "default");
            let [volume, claim] = &objects[..] else {
                panic!("two objects")
            };
            assert_eq!(claim["spec"]["volumeName"], volume["metadata"]["name"]);
            assert_eq!(
                volume["spec"]["claimRef"]["name"],
                claim["metadata"]["name"]
            );
            assert_eq!(
                volume["spec"]["claimRef"]["namespace"],
                claim["metadata"]["namespace"]
            );
            assert_eq!(volume["spec"]["accessModes"], claim["spec"]["accessModes"]);
            assert_eq!(
                volume["spec"]["csi"]["volumeHandle"].as_str(),
                (mode == ControlPlaneMode::Eks).then_some("fs-1::fsap-2")
            );
            assert_eq!(
                volume["metadata"]["name"], "canoe-demo-files",
                "object names are lower case"
            );
        }
    }
}
