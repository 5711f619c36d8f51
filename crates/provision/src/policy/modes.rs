//! What each kind of control plane needs.

use super::grant::{Grant, PolicyScope, made_by, through_stacks};
use crate::template::eks::log_group;
use crate::template::groups::declared;
use crate::template::roles::role_name;

/// EKS checks most of these against the cluster, its node groups or its add-ons, which carry our tag.
const CLUSTER: [&str; 23] = [
    "eks:AssociateAccessPolicy",
    "eks:CreateAccessEntry",
    "eks:CreateAddon",
    "eks:CreateNodegroup",
    "eks:CreatePodIdentityAssociation",
    "eks:DeleteAccessEntry",
    "eks:DeleteAddon",
    "eks:DeleteCluster",
    "eks:DeleteNodegroup",
    "eks:DescribeUpdate",
    "eks:DisassociateAccessPolicy",
    "eks:ListUpdates",
    "eks:TagResource",
    "eks:UntagResource",
    "eks:UpdateAccessEntry",
    "eks:UpdateAddon",
    "eks:UpdateClusterConfig",
    "eks:UpdateClusterVersion",
    "eks:UpdateNodegroupConfig",
    "eks:UpdateNodegroupVersion",
    "eks:ListAccessEntries",
    "eks:ListAddons",
    "eks:ListPodIdentityAssociations",
];

pub(super) fn eks(scope: PolicyScope<'_>) -> Vec<Grant> {
    let name = &scope.spec.name;
    let cluster = scope.arn("eks", &format!("cluster/{name}"));
    let parts = ["nodegroup", "addon", "access-entry"]
        .map(|kind| scope.arn("eks", &format!("{kind}/{name}/*")));
    let identities = scope.arn("eks", &format!("podidentityassociation/{name}/*"));
    let mut places = vec![cluster];
    places.extend(parts);
    let looks = [
        "eks:DescribeAccessEntry",
        "eks:DescribeAddon",
        "eks:DescribeCluster",
        "eks:DescribeNodegroup",
        "eks:ListAssociatedAccessPolicies",
        "eks:ListNodegroups",
    ];
    let roles = scope.iam("role/aws-service-role/eks*");
    let mut all = vec![
        Grant::anywhere("MakeEksCluster", &["eks:CreateCluster"]).when(scope.asked()),
        Grant::allow("TagEksCluster", &["eks:TagResource"], places.clone())
            .when(through_stacks())
            .when(scope.asked()),
        Grant::allow("OwnEksCluster", &CLUSTER, places.clone()).when(scope.owned()),
        Grant::allow("LookAtEksCluster", &looks, places),
        Grant::allow(
            "PodIdentities",
            &[
                "eks:CreateAddon",
                "eks:DeleteAddon",
                "eks:DeletePodIdentityAssociation",
                "eks:DescribePodIdentityAssociation",
                "eks:TagResource",
                "eks:UntagResource",
                "eks:UpdateAddon",
                "eks:UpdatePodIdentityAssociation",
            ],
            vec![identities],
        )
        .when(through_stacks()),
        // EKS looks whether its own roles are there.
        Grant::allow("RolesOfEks", &["iam:GetRole"], vec![roles]),
    ];
    all.extend(logs(scope));
    all
}

/// What `canoe` itself asks of EKS and its logs.
pub(super) fn person_of_eks(scope: PolicyScope<'_>) -> Vec<Grant> {
    let cluster = scope.arn("eks", &format!("cluster/{}", scope.spec.name));
    let group = format!("log-group:{}", log_group(scope.spec));
    let places = vec![
        scope.arn("logs", &group),
        scope.arn("logs", &format!("{group}:*")),
    ];
    vec![
        Grant::allow("LookAtEksCluster", &["eks:DescribeCluster"], vec![cluster]),
        Grant::allow("OwnLogs", &["logs:DeleteLogGroup"], places.clone()).when(scope.owned()),
        Grant::allow("LookAtLogs", &["logs:ListTagsForResource"], places),
    ]
}

fn logs(scope: PolicyScope<'_>) -> Vec<Grant> {
    let group = format!("log-group:{}", log_group(scope.spec));
    let places = vec![
        scope.arn("logs", &group),
        scope.arn("logs", &format!("{group}:*")),
    ];
    let own = [
        "logs:AssociateKmsKey",
        "logs:DeleteLogGroup",
        "logs:DisassociateKmsKey",
        "logs:GetDataProtectionPolicy",
        "logs:PutRetentionPolicy",
        "logs:TagResource",
        "logs:UntagResource",
    ];
    vec![
        Grant::allow(
            "MakeLogs",
            &["logs:CreateLogGroup", "logs:TagResource"],
            places.clone(),
        )
        .when(through_stacks())
        .when(scope.asked()),
        Grant::allow("OwnLogs", &own, places.clone()).when(scope.owned()),
        Grant::allow("LookAtLogs", &["logs:ListTagsForResource"], places),
    ]
}

/// The newest image of Debian.
pub(super) fn find_image(scope: PolicyScope<'_>) -> Grant {
    let region = &scope.spec.region;
    let images = scope.plain_arn(&format!("ssm:{region}::parameter/aws/service/debian/*"));
    Grant::allow("FindImage", &["ssm:GetParameters"], vec![images])
}

/// ARNs of the instance profiles.
fn profiles(scope: PolicyScope<'_>) -> Vec<String> {
    let names = ["controller", "workers"].map(|purpose| role_name(scope.spec, purpose));
    let arns = names.map(|name| scope.iam(&format!("instance-profile/{name}")));
    arns.to_vec()
}

/// What `canoe` itself asks about a self-managed cluster's profiles: whether somebody else has their names.
pub(super) fn look_at_profiles(scope: PolicyScope<'_>) -> Grant {
    Grant::allow(
        "LookAtProfiles",
        &["iam:GetInstanceProfile"],
        profiles(scope),
    )
}

pub(super) fn self_managed(scope: PolicyScope<'_>) -> Vec<Grant> {
    let mut all = vec![
        Grant::allow(
            "InstanceProfiles",
            &[
                "iam:AddRoleToInstanceProfile",
                "iam:CreateInstanceProfile",
                "iam:DeleteInstanceProfile",
                "iam:RemoveRoleFromInstanceProfile",
            ],
            profiles(scope),
        ),
        find_image(scope),
    ];
    all.extend(workers(scope));
    all.extend(load_balancer(scope));
    all
}

fn workers(scope: PolicyScope<'_>) -> Vec<Grant> {
    let groups = declared(scope.spec).into_iter().map(|group| {
        let name = group.resource_name();
        let group = format!(
            "autoScalingGroup:*:autoScalingGroupName/{}-{name}",
            scope.spec.name
        );
        scope.arn("autoscaling", &group)
    });
    let group: Vec<String> = groups.collect();
    let own = [
        "autoscaling:CreateOrUpdateTags",
        "autoscaling:DeleteAutoScalingGroup",
        "autoscaling:DeleteTags",
        "autoscaling:UpdateAutoScalingGroup",
    ];
    vec![
        Grant::allow(
            "MakeWorkers",
            &[
                "autoscaling:CreateAutoScalingGroup",
                "autoscaling:CreateOrUpdateTags",
            ],
            group.clone(),
        )
        .when(through_stacks())
        .when(scope.asked()),
        Grant::allow("OwnWorkers", &own, group).when(scope.owned()),
    ]
}

fn load_balancer(scope: PolicyScope<'_>) -> Vec<Grant> {
    let make = [
        "elasticloadbalancing:CreateLoadBalancer",
        "elasticloadbalancing:CreateTargetGroup",
    ];
    let own = [
        "elasticloadbalancing:AddTags",
        "elasticloadbalancing:CreateListener",
        "elasticloadbalancing:DeleteListener",
        "elasticloadbalancing:DeleteLoadBalancer",
        "elasticloadbalancing:DeleteTargetGroup",
        "elasticloadbalancing:DeregisterTargets",
        "elasticloadbalancing:ModifyListener",
        "elasticloadbalancing:ModifyLoadBalancerAttributes",
        "elasticloadbalancing:ModifyTargetGroup",
        "elasticloadbalancing:RegisterTargets",
        "elasticloadbalancing:RemoveTags",
        "elasticloadbalancing:SetSubnets",
    ];
    let makers = ["CreateListener", "CreateLoadBalancer", "CreateTargetGroup"];
    vec![
        Grant::anywhere("MakeLoadBalancer", &make).when(scope.asked()),
        Grant::anywhere("TagLoadBalancer", &["elasticloadbalancing:AddTags"])
            .when(made_by("elasticloadbalancing:CreateAction", &makers))
            .when(scope.asked()),
        Grant::anywhere("OwnLoadBalancer", &own).when(scope.owned()),
    ]
}
