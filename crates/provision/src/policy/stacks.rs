//! Stacks, roles, DNS, and what only reads.

use serde_json::{Value, json};

use super::boundary;
use super::grant::{Grant, PolicyScope};
use crate::partition::Partition;
use crate::spec::ControlPlaneMode;
use crate::template::{Render, StackLayer, render};

pub(super) fn stacks(scope: PolicyScope<'_>) -> Vec<Grant> {
    let own: Vec<String> = StackLayer::ALL
        .iter()
        .map(|layer| {
            let name = layer.stack_name(&scope.spec.name);
            scope.arn("cloudformation", &format!("stack/{name}/*"))
        })
        .collect();
    let changes = [
        "cloudformation:CreateChangeSet",
        "cloudformation:DeleteChangeSet",
        "cloudformation:DeleteStack",
        "cloudformation:ExecuteChangeSet",
        "cloudformation:TagResource",
        "cloudformation:UpdateTerminationProtection",
    ];
    let mut looks = vec![
        "cloudformation:DescribeChangeSet",
        "cloudformation:DescribeStackEvents",
        "cloudformation:DescribeStacks",
        "cloudformation:DetectStackDrift",
        "cloudformation:DetectStackResourceDrift",
        "cloudformation:ListStackResources",
    ];
    looks.extend(&changes[1..]);
    let mut others = Grant::allow("StacksOfOthers", &changes, own.clone()).when(scope.of_others());
    others.deny = true;
    vec![
        Grant::allow("Stacks", &looks, own.clone()),
        // A stack that imports could lay hands on what it has not made.
        Grant::allow("PlanStacks", &changes[..1], own)
            .when(json!({"Null": {"cloudformation:ImportResourceTypes": "true"}})),
        others,
    ]
}

/// Calls that only read; most of them cannot be limited to resources.
pub(super) fn look_around(scope: PolicyScope<'_>) -> Grant {
    let mut actions = vec![
        "cloudformation:BatchDescribeTypeConfigurations",
        "cloudformation:DescribeStackDriftDetectionStatus",
        "cloudformation:ListExports",
        "ec2:Describe*",
        "elasticfilesystem:DescribeFileSystems",
        "elasticfilesystem:DescribeMountTargets",
        "elasticloadbalancing:Describe*",
        "iam:ListRoles",
        "iam:SimulatePrincipalPolicy",
        "kms:DescribeKey",
        "servicequotas:GetServiceQuota",
        "sts:GetCallerIdentity",
        "tag:GetResources",
    ];
    if scope.spec.kms_key_arn.is_none() {
        actions.extend(["kms:ListAliases", "kms:ListKeys"]);
    }
    actions.extend(match scope.spec.control_plane.mode {
        ControlPlaneMode::Eks => vec![
            "eks:DescribeAddonVersions",
            "eks:DescribeClusterVersions",
            "eks:ListClusters",
            "logs:DescribeIndexPolicies",
            "logs:DescribeLogGroups",
            "logs:DescribeResourcePolicies",
        ],
        ControlPlaneMode::SelfManaged => vec![
            "autoscaling:Describe*",
            "iam:GetInstanceProfile",
            "iam:ListInstanceProfiles",
            "ssm:DescribeAssociation",
            "ssm:ListAssociations",
        ],
    });
    if scope.spec.dns.hosted_zone_id.is_some() {
        actions.push("route53:ListHostedZones");
    }
    Grant::anywhere("LookAround", &actions)
}

/// What the templates make of roles.
struct MadeRoles {
    /// Names of all of them.
    names: Vec<String>,
    /// Names of those to which policies of AWS are attached.
    attached: Vec<String>,
    /// These policies.
    policies: Vec<String>,
}

fn made_roles(scope: PolicyScope<'_>) -> MadeRoles {
    let mut made = MadeRoles {
        names: Vec::new(),
        attached: Vec::new(),
        policies: Vec::new(),
    };
    for stack in render(scope.spec, &Render::default()) {
        let resources = stack.body["Resources"].as_object();
        for role in resources.into_iter().flat_map(|all| all.values()) {
            if role["Type"] != "AWS::IAM::Role" {
                continue;
            }
            let properties = &role["Properties"];
            let name = properties["RoleName"].as_str().map(str::to_owned);
            let attached = properties["ManagedPolicyArns"].as_array().into_iter();
            let policies: Vec<String> = attached
                .flatten()
                .filter_map(|arn| managed_policy(scope, arn))
                .collect();
            if !policies.is_empty() {
                made.attached.extend(name.clone());
            }
            made.names.extend(name);
            made.policies.extend(policies);
        }
    }
    made.names.sort();
    made.attached.sort();
    made.policies.sort();
    made.policies.dedup();
    made
}

/// ARN of one of AWS's own policies that a template attaches.
fn managed_policy(scope: PolicyScope<'_>, arn: &Value) -> Option<String> {
    let arn = arn["Fn::Sub"].as_str()?;
    let partition = Partition::of(&scope.spec.region);
    Some(arn.replace("${AWS::Partition}", partition.name))
}

/// Roles can be made and changed only with the boundary, which the operator cannot change; so nothing that is
/// put into them gets the operator further than the boundary.
pub(super) fn roles(scope: PolicyScope<'_>) -> Vec<Grant> {
    let made = made_roles(scope);
    let arns = |names: &[String]| -> Vec<String> {
        let arn = |name: &String| scope.iam(&format!("role/{name}"));
        names.iter().map(arn).collect()
    };
    let own = arns(&made.names);
    let bounded = json!({"ArnEquals": {"iam:PermissionsBoundary": boundary::arn(scope)}});
    let changes = [
        "iam:CreateRole",
        "iam:DeleteRole",
        "iam:DeleteRolePolicy",
        "iam:PutRolePermissionsBoundary",
        "iam:PutRolePolicy",
        "iam:UpdateAssumeRolePolicy",
    ];
    let mut services = match scope.spec.control_plane.mode {
        ControlPlaneMode::Eks => vec![
            "ec2.amazonaws.com",
            "eks.amazonaws.com",
            "pods.eks.amazonaws.com",
        ],
        ControlPlaneMode::SelfManaged => vec!["ec2.amazonaws.com"],
    };
    if Partition::of(&scope.spec.region).name == "aws-cn" {
        services.push("ec2.amazonaws.com.cn"); // both are in use there
    }
    let looks = [
        "iam:GetRole",
        "iam:GetRolePolicy",
        "iam:ListAttachedRolePolicies",
        "iam:ListRolePolicies",
    ];
    vec![
        Grant::allow("LookAtOwnRoles", &looks, own.clone()),
        Grant::allow("TagNewRoles", &["iam:TagRole"], own.clone()).when(scope.asked()),
        Grant::allow("OwnRoles", &["iam:TagRole", "iam:UntagRole"], own.clone())
            .when(scope.owned()),
        Grant::allow("RolesWithinTheBoundary", &changes, own.clone()).when(bounded.clone()),
        Grant::allow(
            "PoliciesOfRoles",
            &["iam:AttachRolePolicy", "iam:DetachRolePolicy"],
            arns(&made.attached),
        )
        .when(bounded)
        .when(json!({"ArnEquals": {"iam:PolicyARN": made.policies}})),
        Grant::allow("HandRolesToAws", &["iam:PassRole"], own)
            .when(json!({"StringEquals": {"iam:PassedToService": services}})),
        look_at_boundary(scope),
        service_roles(scope),
    ]
}

pub(super) fn look_at_boundary(scope: PolicyScope<'_>) -> Grant {
    Grant::allow(
        "LookAtBoundary",
        &["iam:GetPolicy", "iam:GetPolicyVersion"],
        vec![boundary::arn(scope)],
    )
}

/// ARNs of the roles that the templates make.
pub(super) fn own_roles(scope: PolicyScope<'_>) -> Vec<String> {
    let names = made_roles(scope).names.into_iter();
    names
        .map(|name| scope.iam(&format!("role/{name}")))
        .collect()
}

/// Roles that AWS makes for its services when they are first used in an account.
fn service_roles(scope: PolicyScope<'_>) -> Grant {
    let services: &[&str] = match scope.spec.control_plane.mode {
        ControlPlaneMode::Eks => &["eks-nodegroup", "eks", "elasticfilesystem", "spot"],
        ControlPlaneMode::SelfManaged => &[
            "autoscaling",
            "elasticfilesystem",
            "elasticloadbalancing",
            "spot",
        ],
    };
    let names: Vec<String> = services
        .iter()
        .map(|service| format!("{service}.amazonaws.com"))
        .collect();
    Grant::allow(
        "RolesThatAwsMakes",
        &["iam:CreateServiceLinkedRole"],
        vec![scope.iam("role/aws-service-role/*")],
    )
    .when(json!({"StringEquals": {"iam:AWSServiceName": names}}))
}

/// A record in a hosted zone that is given.
pub(super) fn dns(scope: PolicyScope<'_>, zone: &str) -> Vec<Grant> {
    let record = [
        "route53:ChangeResourceRecordSets",
        "route53:GetHostedZone",
        "route53:ListResourceRecordSets",
    ];
    vec![
        Grant::allow(
            "Name",
            &record,
            vec![scope.plain_arn(&format!("route53:::hostedzone/{zone}"))],
        ),
        Grant::allow(
            "NameChange",
            &["route53:GetChange"],
            vec![scope.plain_arn("route53:::change/*")],
        ),
    ]
}
