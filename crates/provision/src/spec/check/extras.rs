//! What is brought along: file system, keys, add-ons, tags.

use super::named;
use crate::catalog;
use crate::names;
use crate::spec::{ClusterSpec, Mode, Problem};

pub(super) fn storage_and_keys(spec: &ClusterSpec, out: &mut Vec<Problem>) {
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
        out.push(Problem::warning(
            "storage.encrypted",
            "the data will be stored in the clear",
            remedy,
        ));
    }
    if let Some(name) = &spec.ssh_key_name {
        named(out, "sshKeyName", names::KEY_PAIR, name);
    }
    if let Some(arn) = &spec.kms_key_arn {
        let form = format!("write arn:aws:kms:{}:ACCOUNT:key/ID", spec.region);
        match names::kms_key_region(arn) {
            None => out.push(Problem::error(
                "kmsKeyArn",
                format!("{arn:?} is not the ARN of a KMS key"),
                form,
            )),
            Some(region) if region != spec.region => {
                let message = format!("the key is in {region}, the cluster in {}", spec.region);
                out.push(Problem::error(
                    "kmsKeyArn",
                    message,
                    "use a key of the cluster's region",
                ));
            }
            Some(_) => {}
        }
    }
}

pub(super) fn addons(spec: &ClusterSpec, out: &mut Vec<Problem>) {
    if spec.control_plane.mode == Mode::SelfManaged {
        return;
    }
    for (index, name) in spec.addons.iter().enumerate() {
        if catalog::ADDONS.contains(&name.as_str()) {
            continue;
        }
        let field = format!("addons[{index}]");
        let near = names::nearest(name, catalog::ADDONS.iter().copied());
        let hint = near.map_or(
            format!("write some of {}", catalog::ADDONS.join(", ")),
            |n| format!("did you mean {n}?"),
        );
        out.push(Problem::error(
            &field,
            format!("{name:?} is not a known add-on"),
            hint,
        ));
    }
    let needs_agent = ["vpc-cni", "aws-efs-csi-driver", "aws-ebs-csi-driver"]
        .iter()
        .any(|name| spec.has_addon(name));
    if needs_agent && !spec.has_addon("eks-pod-identity-agent") {
        out.push(Problem::error(
            "addons",
            "the network and storage drivers get their permissions through eks-pod-identity-agent, which is missing",
            "add eks-pod-identity-agent",
        ));
    }
}

pub(super) fn tags(spec: &ClusterSpec, out: &mut Vec<Problem>) {
    if spec.tags.len() > 40 {
        out.push(Problem::error(
            "tags",
            format!("{} tags are given", spec.tags.len()),
            "AWS takes 50 in all; keep 40",
        ));
    }
    for (key, value) in &spec.tags {
        let field = format!("tags.{key}");
        named(out, &field, names::TAG_KEY, key);
        named(out, &field, names::TAG_VALUE, value);
        if key == "canoe:cluster" {
            out.push(Problem::error(
                &field,
                "is set by canoe itself",
                "use another key",
            ));
        }
    }
}
