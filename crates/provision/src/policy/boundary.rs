//! The permissions boundary: the most that any role of a cluster can do, whatever is put into it.
//!
//! The operator may make roles and attach policies to them; without a limit that would be as good as being an
//! administrator. So every role must have this boundary, and the operator cannot change it: an administrator
//! makes it once. It lets through what AWS's managed policies for the roles grant, in the cluster's region, and of that
//! what changes or deletes something only on things that carry the cluster's id or Kubernetes' own marks; the id can be
//! put only on what is being made. (The marks cannot be guarded: Kubernetes sets them after the making, too.)
//! `e2e/aws/policy.py` compares it with the managed policies, action by action, and attacks it.

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
            all.extend(changes(scope));
            if spec.has_addon("aws-ebs-csi-driver") {
                actions.extend(DISKS);
                let driver =
                    json!({"StringEquals": {"aws:ResourceTag/ebs.csi.aws.com/cluster": "true"}});
                all.push(Grant::anywhere("OfDiskDriver", &CHANGES_OF_DISKS).when(driver));
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

/// What may be changed, and deleted: things with the cluster's id, and those that Kubernetes has marked.
fn changes(scope: PolicyScope<'_>) -> Vec<Grant> {
    let [provider, _, network] = scope.of_kubernetes();
    let mut no_id = Grant::anywhere(
        "NoIdOnWhatIsThere",
        &["ec2:CreateTags", "elasticloadbalancing:AddTags"],
    )
    .when(scope.gives_id())
    .when(
        json!({"Null": {"ec2:CreateAction": "true", "elasticloadbalancing:CreateAction": "true"}}),
    );
    no_id.deny = true;
    vec![
        no_id,
        Grant::anywhere("OwnThings", &CHANGES_OF_OWN).when(scope.owned()),
        Grant::anywhere("OfKubernetes", &CHANGES_OF_MARKED).when(provider),
        Grant::anywhere("OfNetworkDriver", &CHANGES_OF_INTERFACES).when(network),
    ]
}

/// EKS itself, and the kubelet: what looks, and what makes.
const CONTROL_PLANE: [&str; 19] = [
    "autoscaling:DescribeAutoScalingGroups",
    "ec2:CreateSecurityGroup",
    "ec2:CreateTags",
    "ec2:CreateVolume",
    "ec2:Describe*",
    "eks-auth:AssumeRoleForPodIdentity",
    "eks:DescribeCluster",
    // Kubernetes makes target groups and listeners without its mark, and only then sets it.
    "elasticloadbalancing:AddTags",
    "elasticloadbalancing:Apply*",
    "elasticloadbalancing:Attach*",
    "elasticloadbalancing:Configure*",
    "elasticloadbalancing:Create*",
    "elasticloadbalancing:Deregister*",
    "elasticloadbalancing:Describe*",
    "elasticloadbalancing:Detach*",
    "elasticloadbalancing:Modify*",
    "elasticloadbalancing:Register*",
    "elasticloadbalancing:Set*",
    "kms:DescribeKey",
];

/// The drivers for network and files.
const DRIVERS: [&str; 9] = [
    "ec2:AssignPrivateIpAddresses",
    "ec2:AttachNetworkInterface",
    "ec2:CreateNetworkInterface",
    "ec2:ModifyNetworkInterfaceAttribute",
    "ec2:UnassignPrivateIpAddresses",
    "elasticfilesystem:CreateAccessPoint",
    "elasticfilesystem:DeleteAccessPoint",
    "elasticfilesystem:Describe*",
    "elasticfilesystem:TagResource",
];

/// The driver for disks, beside what the control plane has.
const DISKS: [&str; 3] = [
    "ec2:CopyVolumes",
    "ec2:CreateSnapshot",
    "ec2:EnableFastSnapshotRestores",
];

/// On what carries the id: machines, groups, route tables and disks of the stacks and of claims.
const CHANGES_OF_OWN: [&str; 12] = [
    "ec2:AttachVolume",
    "ec2:AuthorizeSecurityGroupIngress",
    "ec2:CreateRoute",
    "ec2:DeleteRoute",
    "ec2:DeleteSecurityGroup",
    "ec2:DeleteVolume",
    "ec2:DetachNetworkInterface",
    "ec2:DetachVolume",
    "ec2:ModifyInstanceAttribute",
    "ec2:ModifyVolume",
    "ec2:RevokeSecurityGroupIngress",
    "elasticloadbalancing:Delete*",
];

/// On what Kubernetes has marked as its own.
const CHANGES_OF_MARKED: [&str; 9] = [
    "autoscaling:UpdateAutoScalingGroup",
    "ec2:AttachVolume",
    "ec2:AuthorizeSecurityGroupIngress",
    "ec2:DeleteSecurityGroup",
    "ec2:DeleteVolume",
    "ec2:DetachVolume",
    "ec2:ModifyVolume",
    "ec2:RevokeSecurityGroupIngress",
    "elasticloadbalancing:Delete*",
];

/// On interfaces that the network driver has marked.
const CHANGES_OF_INTERFACES: [&str; 2] =
    ["ec2:DeleteNetworkInterface", "ec2:DetachNetworkInterface"];

/// On disks and snapshots that the driver for disks has marked.
const CHANGES_OF_DISKS: [&str; 7] = [
    "ec2:AttachVolume",
    "ec2:DeleteSnapshot",
    "ec2:DeleteTags",
    "ec2:DeleteVolume",
    "ec2:DetachVolume",
    "ec2:LockSnapshot",
    "ec2:ModifyVolume",
];
