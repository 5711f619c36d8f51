//! The permissions boundary: the most that any role of a cluster can do, whatever is put into it.
//!
//! The operator may make roles and attach policies to them; without a limit that would be as good as being an
//! administrator. So every role must have this boundary, and the operator cannot change it: an administrator
//! makes it once. It lets through what AWS's managed policies for the roles grant, in the cluster's region;
//! `e2e/aws/policy.py` compares it with them, action by action.

use serde_json::{Value, json};

use super::document;
use super::grant::{Grant, PolicyScope};
use crate::spec::{ClusterSpec, ControlPlaneMode};
use crate::template::roles::{BOUNDARY, role_name};

/// The whole document.
pub fn boundary(spec: &ClusterSpec) -> Value {
    let scope = PolicyScope { spec, account: "" };
    let mut actions = MACHINES.to_vec();
    let mut all = Vec::new();
    match spec.control_plane.mode {
        ControlPlaneMode::Eks => {
            actions.extend(CONTROL_PLANE);
            actions.extend(DRIVERS);
            if spec.has_addon("aws-ebs-csi-driver") {
                actions.extend(DISKS);
            }
            all.push(
                Grant::anywhere("LoadBalancerRole", &["iam:CreateServiceLinkedRole"]).when(json!({
                    "StringEquals": {"iam:AWSServiceName": "elasticloadbalancing.amazonaws.com"},
                })),
            );
        }
        ControlPlaneMode::SelfManaged => {
            actions.extend([
                "ec2:DescribeAvailabilityZones",
                "ec2:DescribeInstances",
                "ec2:DescribeRegions",
            ]);
            all.push(
                Grant::anywhere("OwnTlsAssets", &["kms:Decrypt"])
                    .when(json!({"StringEquals": {"kms:EncryptionContext:canoe": spec.name}})),
            );
            let bucket = super::bucket_name(spec.id.as_deref().unwrap_or("none"));
            let objects = scope.plain_arn(&format!("s3:::{bucket}/*"));
            let actions = ["s3:GetObject", "s3:PutObject"];
            all.push(Grant::allow("OwnBucket", &actions, vec![objects]));
        }
    }
    if !spec.storage.buckets.is_empty() {
        let buckets = spec.storage.buckets.iter();
        let arns = buckets.map(|bucket| scope.plain_arn(&format!("s3:::{bucket}")));
        let arns: Vec<String> = arns.collect();
        let objects = arns.iter().map(|arn| format!("{arn}/*")).collect();
        all.push(Grant::allow("ListBuckets", &["s3:ListBucket"], arns));
        all.push(Grant::allow("ObjectsInBuckets", &OBJECTS, objects));
    }
    all.push(Grant::anywhere("InTheRegion", &actions).when(scope.in_region()));
    document(all.iter().map(Grant::statement).collect())
}

/// Name of the managed policy.
pub fn boundary_name(spec: &ClusterSpec) -> String {
    role_name(spec, BOUNDARY)
}

pub(super) fn arn(scope: PolicyScope<'_>) -> String {
    scope.iam(&format!("policy/{}", boundary_name(scope.spec)))
}

/// What pods do in the buckets of the cluster file.
const OBJECTS: [&str; 4] = [
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:GetObject",
    "s3:PutObject",
];

/// Every machine: images, and a shell through Systems Manager.
const MACHINES: [&str; 21] = [
    "ec2messages:*",
    "ecr:BatchGetImage",
    "ecr:BatchImportUpstreamImage",
    "ecr:GetAuthorizationToken",
    "ecr:GetDownloadUrlForLayer",
    "ssm:DescribeAssociation",
    "ssm:DescribeDocument",
    "ssm:GetDeployablePatchSnapshotForInstance",
    "ssm:GetDocument",
    "ssm:GetManifest",
    "ssm:GetParameter",
    "ssm:GetParameters",
    "ssm:ListAssociations",
    "ssm:ListInstanceAssociations",
    "ssm:PutComplianceItems",
    "ssm:PutConfigurePackageResult",
    "ssm:PutInventory",
    "ssm:UpdateAssociationStatus",
    "ssm:UpdateInstanceAssociationStatus",
    "ssm:UpdateInstanceInformation",
    "ssmmessages:*",
];

/// EKS itself, and the kubelet.
const CONTROL_PLANE: [&str; 20] = [
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:UpdateAutoScalingGroup",
    "ec2:AttachVolume",
    "ec2:AuthorizeSecurityGroupIngress",
    "ec2:CreateRoute",
    "ec2:CreateSecurityGroup",
    "ec2:CreateTags",
    "ec2:CreateVolume",
    "ec2:DeleteRoute",
    "ec2:DeleteSecurityGroup",
    "ec2:DeleteVolume",
    "ec2:Describe*",
    "ec2:DetachVolume",
    "ec2:ModifyInstanceAttribute",
    "ec2:ModifyVolume",
    "ec2:RevokeSecurityGroupIngress",
    "eks-auth:AssumeRoleForPodIdentity",
    "eks:DescribeCluster",
    "elasticloadbalancing:*",
    "kms:DescribeKey",
];

/// The drivers for network and files.
const DRIVERS: [&str; 11] = [
    "ec2:AssignPrivateIpAddresses",
    "ec2:AttachNetworkInterface",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DetachNetworkInterface",
    "ec2:ModifyNetworkInterfaceAttribute",
    "ec2:UnassignPrivateIpAddresses",
    "elasticfilesystem:CreateAccessPoint",
    "elasticfilesystem:DeleteAccessPoint",
    "elasticfilesystem:Describe*",
    "elasticfilesystem:TagResource",
];

/// The driver for disks, beside what the control plane has.
const DISKS: [&str; 6] = [
    "ec2:CopyVolumes",
    "ec2:CreateSnapshot",
    "ec2:DeleteSnapshot",
    "ec2:DeleteTags",
    "ec2:EnableFastSnapshotRestores",
    "ec2:LockSnapshot",
];
