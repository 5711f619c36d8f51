//! Who else may use the cluster, and which buckets its pods may use.

use super::named;
use crate::names;
use crate::partition::Partition;
use crate::spec::{ACCESS_LEVELS, ClusterSpec, ControlPlaneMode, SpecProblem};

pub(super) fn colleagues(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    let field = "controlPlane.access";
    let access = &spec.control_plane.access;
    if !access.is_empty() && spec.control_plane.mode == ControlPlaneMode::SelfManaged {
        out.push(SpecProblem::error(
            field,
            "a self-managed cluster does not know people of AWS",
            "remove it, and give colleagues a certificate of the cluster's CA",
        ));
    }
    for (principal, level) in access {
        let iam = Partition::of(&spec.region).arn("iam::");
        let rest = principal
            .strip_prefix(&iam)
            .and_then(|rest| rest.split_once(':'));
        let good = rest.is_some_and(|(account, name)| {
            account.len() == 12
                && account.bytes().all(|b| b.is_ascii_digit())
                && (name.starts_with("user/") || name.starts_with("role/"))
        });
        if !good {
            out.push(SpecProblem::error(
                field,
                format!("{principal:?} is not the ARN of a user or role"),
                format!("write {iam}ACCOUNT:role/NAME"),
            ));
        }
        if !ACCESS_LEVELS.iter().any(|(name, _)| name == level) {
            let words: Vec<&str> = ACCESS_LEVELS.iter().map(|(name, _)| *name).collect();
            out.push(SpecProblem::error(
                field,
                format!("{level:?} is not what somebody may do"),
                format!("write one of {}", words.join(", ")),
            ));
        }
    }
}

/// EKS makes whoever creates a cluster its administrator, and with a service role that is CloudFormation.
pub(super) fn service_role(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    let known = spec.control_plane.access.values().any(|l| l == "admin");
    if spec.service_role && spec.control_plane.mode == ControlPlaneMode::Eks && !known {
        out.push(SpecProblem::error(
            "controlPlane.access",
            "names no administrator, and with serviceRole whoever runs `up` is none",
            "add your user or role, such as {\"arn:aws:iam::123456789012:role/me\": admin}",
        ));
    }
}

/// Kubelets outside EKS have no login for ECR.
pub(super) fn images(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    if spec.image_repository && spec.control_plane.mode == ControlPlaneMode::SelfManaged {
        out.push(SpecProblem::error(
            "imageRepository",
            "only machines of eks have a login for ECR",
            "remove it, or use mode eks",
        ));
    }
}

pub(super) fn buckets(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    let field = "storage.buckets";
    for (index, bucket) in spec.storage.buckets.iter().enumerate() {
        named(out, &format!("{field}[{index}]"), names::BUCKET, bucket);
    }
    if spec.storage.buckets.is_empty() {
        return;
    }
    if spec.control_plane.mode == ControlPlaneMode::SelfManaged {
        out.push(SpecProblem::error(
            field,
            "needs Pod Identity, which only eks has",
            "remove it, or use mode eks",
        ));
    } else if !spec.has_addon("eks-pod-identity-agent") {
        out.push(SpecProblem::error(
            field,
            "pods get their permissions through eks-pod-identity-agent, which is missing",
            "add eks-pod-identity-agent to addons",
        ));
    }
}
