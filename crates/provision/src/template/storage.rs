//! The storage stack: an encrypted file system, a mount target per zone, one access point.
//!
//! One mount target in every zone that has workers, in the private subnet, with the group that lets
//! in NFS from workers only. The access point pins user and directory, so a pod cannot be root on the
//! volume whatever it claims. Where the CSI driver mounts (EKS) connections without TLS are denied.
//! The etcd of a self-managed controller has a disk of its own here, which outlives the machine: it is attached to
//! whatever machine is the controller. A file system that is there already (`storage.fileSystemId`) keeps its own settings and is not
//! part of the stack, so removing the stack leaves it.

use serde_json::{Value, json};

use super::{Builder, KEEP, import, reference, tags};
use crate::spec::{ClusterSpec, ControlPlaneMode, Throughput};

/// Size of the disk for etcd, whose database is 2 GiB at most by default.
pub(crate) const ETCD_GIB: u32 = 8;

pub(crate) fn template(spec: &ClusterSpec) -> Value {
    let mut out = Builder::default();
    let file_system = match &spec.storage.file_system_id {
        Some(id) => json!(id),
        None => {
            make_file_system(spec, &mut out);
            reference("FileSystem")
        }
    };
    for number in 1..=spec.zones.len() {
        out.resource(
            &format!("MountTarget{number}"),
            "AWS::EFS::MountTarget",
            json!({
                "FileSystemId": file_system,
                "SubnetId": import(spec, &format!("PrivateSubnet{number}")),
                "SecurityGroups": [import(spec, "StorageSecurityGroup")],
            }),
        );
    }
    access_point(spec, &mut out, &file_system);
    if spec.control_plane.mode == ControlPlaneMode::SelfManaged {
        etcd_volume(spec, &mut out);
    }
    out.export(spec, "FileSystemId", "The shared file system", file_system);
    out.export(
        spec,
        "AccessPointId",
        "The directory that jobs see as root",
        reference("AccessPoint"),
    );
    out.finish(&format!("Canoe cluster {}: shared file system", spec.name))
}

fn make_file_system(spec: &ClusterSpec, out: &mut Builder) {
    let storage = &spec.storage;
    let mut properties = json!({
        "Encrypted": storage.encrypted,
        "PerformanceMode": "generalPurpose",
        "ThroughputMode": match storage.throughput {
            Throughput::Elastic => "elastic",
            Throughput::Bursting => "bursting",
        },
        "LifecyclePolicies": [
            {"TransitionToIA": "AFTER_30_DAYS"},
            {"TransitionToPrimaryStorageClass": "AFTER_1_ACCESS"},
        ],
        "BackupPolicy": {"Status": if storage.backup { "ENABLED" } else { "DISABLED" }},
        "FileSystemPolicy": file_system_policy(spec),
        "FileSystemTags": tags(spec, "files"),
    });
    if storage.encrypted {
        properties["KmsKeyId"] = import(spec, "KeyArn");
    }
    let resource = out.resource("FileSystem", "AWS::EFS::FileSystem", properties);
    resource.insert("DeletionPolicy".to_owned(), json!(KEEP));
    resource.insert("UpdateReplacePolicy".to_owned(), json!("Retain"));
}

fn etcd_volume(spec: &ClusterSpec, out: &mut Builder) {
    let about = "Disk with the controller's etcd";
    if let Some(id) = &spec.control_plane.etcd_volume_id {
        return out.export(spec, "EtcdVolumeId", about, json!(id));
    }
    let properties = json!({
        "AvailabilityZone": spec.zones[0],
        "Size": ETCD_GIB,
        "VolumeType": "gp3",
        "Encrypted": true,
        "Tags": tags(spec, "etcd"),
    });
    let resource = out.resource("EtcdVolume", "AWS::EC2::Volume", properties);
    resource.insert("DeletionPolicy".to_owned(), json!(KEEP));
    resource.insert("UpdateReplacePolicy".to_owned(), json!("Retain"));
    out.export(spec, "EtcdVolumeId", about, reference("EtcdVolume"));
}

fn file_system_policy(spec: &ClusterSpec) -> Value {
    let mut statements = vec![json!({
        "Sid": "MountFromInsideOnly",
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"],
        "Condition": {"Bool": {"elasticfilesystem:AccessedViaMountTarget": "true"}},
    })];
    match spec.control_plane.mode {
        ControlPlaneMode::Eks => statements.push(json!({
            "Sid": "NoPlainText",
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": "*",
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        })),
        // Plain NFS: a worker makes the directory once, as root; pods mount below it.
        ControlPlaneMode::SelfManaged => {
            statements[0]["Action"] = json!([
                "elasticfilesystem:ClientMount",
                "elasticfilesystem:ClientRootAccess",
                "elasticfilesystem:ClientWrite",
            ]);
        }
    }
    json!({"Version": "2012-10-17", "Statement": statements})
}

fn access_point(spec: &ClusterSpec, out: &mut Builder, file_system: &Value) {
    let id = spec.storage.uid.to_string();
    out.resource(
        "AccessPoint",
        "AWS::EFS::AccessPoint",
        json!({
            "FileSystemId": file_system,
            "PosixUser": {"Uid": id, "Gid": id},
            "RootDirectory": {
                "Path": spec.storage.directory,
                "CreationInfo": {"OwnerUid": id, "OwnerGid": id, "Permissions": "0750"},
            },
            "AccessPointTags": tags(spec, "jobs"),
        }),
    );
}
