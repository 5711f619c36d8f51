//! What is brought along: file system, keys, add-ons, tags.

use super::named;
use crate::catalog;
use crate::names;
use crate::partition::Partition;
use crate::spec::{ClusterSpec, ControlPlaneMode, SpecProblem};

pub(super) fn storage_and_keys(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    named(
        out,
        "storage.directory",
        names::DIRECTORY,
        &spec.storage.directory,
    );
    if let Some(id) = &spec.storage.file_system_id {
        named(out, "storage.fileSystemId", names::FILE_SYSTEM, id);
    } else if !spec.storage.encrypted {
        let remedy = "set it to true; encryption costs nothing and cannot be added later";
        out.push(SpecProblem::warning(
            "storage.encrypted",
            "the data will be stored in the clear",
            remedy,
        ));
    }
    if let Some(id) = &spec.control_plane.etcd_volume_id {
        let field = "controlPlane.etcdVolumeId";
        if !names::is_ec2_id("vol", id) {
            let message = format!("{id:?} is not a disk");
            out.push(SpecProblem::error(
                field,
                message,
                "write one such as vol-0123456789abcdef0",
            ));
        }
    }
    if let Some(name) = &spec.ssh_key_name {
        named(out, "sshKeyName", names::KEY_PAIR, name);
    }
    if let Some(arn) = &spec.kms_key_arn {
        let form = format!(
            "write {}",
            Partition::of(&spec.region).arn(&format!("kms:{}:ACCOUNT:key/ID", spec.region))
        );
        match names::kms_key_region(arn) {
            None => out.push(SpecProblem::error(
                "kmsKeyArn",
                format!("{arn:?} is not the ARN of a KMS key"),
                form,
            )),
            Some(region) if region != spec.region => {
                let message = format!("the key is in {region}, the cluster in {}", spec.region);
                out.push(SpecProblem::error(
                    "kmsKeyArn",
                    message,
                    "use a key of the cluster's region",
                ));
            }
            Some(_) => {}
        }
    }
}

pub(super) fn addons(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    if spec.control_plane.mode == ControlPlaneMode::SelfManaged {
        return;
    }
    for (index, name) in spec.addons.iter().enumerate() {
        let field = format!("addons[{index}]");
        if spec.addons[..index].contains(name) {
            let message = format!("{name} is named twice");
            out.push(SpecProblem::error(&field, message, "keep one of the two"));
        }
        if catalog::ADDONS.contains(&name.as_str()) {
            continue;
        }
        let near = names::nearest(name, catalog::ADDONS.iter().copied());
        let hint = near.map_or(
            format!("write some of {}", catalog::ADDONS.join(", ")),
            |n| format!("did you mean {n}?"),
        );
        out.push(SpecProblem::error(
            &field,
            format!("{name:?} is not a known add-on"),
            hint,
        ));
    }
    let needs_agent = ["vpc-cni", "aws-efs-csi-driver", "aws-ebs-csi-driver"]
        .iter()
        .any(|name| spec.has_addon(name));
    if needs_agent && !spec.has_addon("eks-pod-identity-agent") {
        out.push(SpecProblem::error(
            "addons",
            "the network and storage drivers get their permissions through eks-pod-identity-agent, which is missing",
            "add eks-pod-identity-agent",
        ));
    }
}

pub(super) fn addon_versions(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    for (name, version) in &spec.addon_versions {
        if !spec.addons.contains(name) {
            out.push(SpecProblem::warning(
                "addonVersions",
                format!("{name} is not in addons"),
                "remove it, or add the add-on",
            ));
        }
        if !version.starts_with('v') {
            out.push(SpecProblem::error(
                "addonVersions",
                format!("{version:?} is not the version of an add-on"),
                "write one such as v1.20.4-eksbuild.2",
            ));
        }
    }
}

/// Whether Kubernetes tells by such a tag what is a cluster's, so that it may change and delete it.
fn is_mark_of_kubernetes(key: &str) -> bool {
    let marks = [
        "kubernetes.io/cluster/",
        "elbv2.k8s.aws/",
        "cluster.k8s.amazonaws.com/",
    ];
    marks.iter().any(|mark| key.starts_with(mark))
}

pub(super) fn tags(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    if spec.tags.len() > 40 {
        out.push(SpecProblem::error(
            "tags",
            format!("{} tags are given", spec.tags.len()),
            "AWS takes 50 in all; keep 40",
        ));
    }
    for (key, value) in &spec.tags {
        let field = format!("tags.{key}");
        named(out, &field, names::TAG_KEY, key);
        named(out, &field, names::TAG_VALUE, value);
        let lower = key.to_lowercase();
        // To IAM, keys that differ only in their letters' case are the same one.
        let ours = lower == "name" || lower.starts_with("canoe:");
        if ours || is_mark_of_kubernetes(&lower) {
            let whose = if ours { "canoe" } else { "Kubernetes" };
            out.push(SpecProblem::error(
                &field,
                format!("is set by {whose} itself"),
                "use another key",
            ));
        }
        let twin = spec.tags.keys().find(|other| other.to_lowercase() == lower);
        if let Some(twin) = twin.filter(|twin| *twin != key) {
            out.push(SpecProblem::error(
                &field,
                format!("differs from {twin} only in the case of its letters, which IAM does not tell apart"),
                "keep one of the two",
            ));
        }
    }
}
