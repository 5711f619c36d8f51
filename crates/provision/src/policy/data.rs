//! Files, keys, and the bucket for large templates.

use serde_json::json;

use super::bucket_name;
use super::grant::{Grant, PolicyScope, made_by, through_stacks};
use crate::spec::ControlPlaneMode;

/// What is done with a file system, whoever made it.
const MOUNT: [&str; 5] = [
    "elasticfilesystem:CreateAccessPoint",
    "elasticfilesystem:CreateMountTarget",
    "elasticfilesystem:DeleteMountTarget",
    "elasticfilesystem:DescribeMountTargetSecurityGroups",
    "elasticfilesystem:ModifyMountTargetSecurityGroups",
];

/// With one that the stack makes.
const FILES: [&str; 9] = [
    "elasticfilesystem:DeleteFileSystemPolicy",
    "elasticfilesystem:DescribeBackupPolicy",
    "elasticfilesystem:DescribeFileSystemPolicy",
    "elasticfilesystem:DescribeLifecycleConfiguration",
    "elasticfilesystem:DescribeReplicationConfigurations",
    "elasticfilesystem:PutBackupPolicy",
    "elasticfilesystem:PutFileSystemPolicy",
    "elasticfilesystem:PutLifecycleConfiguration",
    "elasticfilesystem:UpdateFileSystem",
];

pub(super) fn files(scope: PolicyScope<'_>) -> Vec<Grant> {
    let systems = scope.arn("elasticfilesystem", "file-system/*");
    let points = scope.arn("elasticfilesystem", "access-point/*");
    let mut own = vec![
        "elasticfilesystem:DeleteAccessPoint",
        "elasticfilesystem:DeleteFileSystem",
        "elasticfilesystem:DescribeAccessPoints",
        "elasticfilesystem:ListTagsForResource",
        "elasticfilesystem:TagResource",
        "elasticfilesystem:UntagResource",
    ];
    let mut makers = vec!["CreateAccessPoint"];
    let mut all = Vec::new();
    match &scope.spec.storage.file_system_id {
        Some(id) => {
            let mut used = MOUNT.to_vec();
            used.push("elasticfilesystem:DescribeAccessPoints");
            let given = scope.arn("elasticfilesystem", &format!("file-system/{id}"));
            all.push(Grant::allow("GivenFileSystem", &used, vec![given]));
        }
        None => {
            own.extend(MOUNT);
            own.extend(FILES);
            makers.push("CreateFileSystem");
            let make = ["elasticfilesystem:CreateFileSystem"];
            all.push(Grant::anywhere("MakeFileSystem", &make).when(scope.asked()));
        }
    }
    let places = vec![systems, points];
    all.push(
        Grant::allow(
            "TagNewFiles",
            &["elasticfilesystem:TagResource"],
            places.clone(),
        )
        .when(made_by("elasticfilesystem:CreateAction", &makers))
        .when(scope.asked()),
    );
    all.push(Grant::allow("OwnFiles", &own, places).when(scope.owned()));
    all
}

pub(super) fn bucket(scope: PolicyScope<'_>) -> Option<Grant> {
    let bucket = bucket_name(scope.spec.id.as_deref()?);
    let actions = [
        "s3:CreateBucket",
        "s3:DeleteBucket",
        "s3:DeleteObject",
        "s3:GetBucketTagging",
        "s3:GetObject",
        "s3:ListBucket",
        "s3:PutBucketPublicAccessBlock",
        "s3:PutBucketTagging",
        "s3:PutObject",
    ];
    let places = vec![
        scope.plain_arn(&format!("s3:::{bucket}")),
        scope.plain_arn(&format!("s3:::{bucket}/*")),
    ];
    Some(Grant::allow("BucketForLargeTemplates", &actions, places))
}

/// What EFS, EKS and ECR do with the key in the caller's name.
fn used_in_name(scope: PolicyScope<'_>) -> Vec<&'static str> {
    let mut actions = vec!["kms:CreateGrant", "kms:GenerateDataKeyWithoutPlaintext"];
    if scope.spec.image_repository {
        actions.push("kms:RetireGrant");
    }
    actions
}

/// The key goes last, by `down --delete-data`.
pub(super) fn own_key(scope: PolicyScope<'_>) -> Grant {
    let any = scope.arn("kms", "key/*");
    Grant::allow("OwnKey", &["kms:ScheduleKeyDeletion"], vec![any]).when(scope.owned())
}

/// TLS assets of a self-managed cluster.
pub(super) fn encrypt_assets(scope: PolicyScope<'_>) -> Grant {
    let given = scope.spec.kms_key_arn.clone();
    let used = given.unwrap_or_else(|| scope.arn("kms", "key/*"));
    let context = json!({"StringEquals": {"kms:EncryptionContext:canoe": scope.spec.name}});
    Grant::allow("EncryptAssets", &["kms:Encrypt"], vec![used]).when(context)
}

/// KMS may take five minutes until it goes by the tags of a new key. All that stacks do with keys is therefore
/// allowed to stacks, and what `canoe` does itself later goes by the tag.
pub(super) fn keys(scope: PolicyScope<'_>) -> Vec<Grant> {
    let any = scope.arn("kms", "key/*");
    let mut all = vec![own_key(scope)];
    if scope.spec.control_plane.mode == ControlPlaneMode::SelfManaged {
        all.push(encrypt_assets(scope));
    }
    if let Some(used) = scope.spec.kms_key_arn.clone() {
        all.push(
            Grant::allow("UseGivenKey", &used_in_name(scope), vec![used]).when(through_stacks()),
        );
        return all;
    }
    let mut actions = vec![
        "kms:EnableKeyRotation",
        "kms:GetKeyPolicy",
        "kms:GetKeyRotationStatus",
        "kms:ListResourceTags",
        "kms:PutKeyPolicy",
        "kms:ScheduleKeyDeletion",
        "kms:TagResource",
        "kms:UntagResource",
        "kms:UpdateKeyDescription",
    ];
    actions.extend(used_in_name(scope));
    let alias = scope.arn("kms", &format!("alias/canoe/{}", scope.spec.name));
    all.push(Grant::anywhere("MakeKey", &["kms:CreateKey"]).when(scope.asked()));
    all.push(Grant::allow("KeyOfStack", &actions, vec![any.clone()]).when(through_stacks()));
    all.push(Grant::allow(
        "KeyAlias",
        &["kms:CreateAlias", "kms:DeleteAlias", "kms:UpdateAlias"],
        vec![any, alias],
    ));
    all
}
