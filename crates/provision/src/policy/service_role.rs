//! A role by which CloudFormation acts, so that the person needs few rights (`serviceRole` in the cluster file).
//!
//! An administrator makes it once. It may do what the operator may do through stacks, under the same conditions; only
//! CloudFormation can take it on, so what is granted elsewhere to calls through stacks alone is granted here without
//! that condition. The person keeps what `canoe` calls itself: stacks, reads, and at the end the data.

use serde_json::{Value, json};

use super::grant::{Grant, PolicyScope};
use super::{data, document, full, images, modes, network, packed, stacks};
use crate::spec::{ClusterSpec, ControlPlaneMode};
use crate::template::roles::role_name;

const CALLED_VIA: &str = "ForAnyValue:StringEquals";

/// Name of the role.
pub fn service_role_name(spec: &ClusterSpec) -> String {
    role_name(spec, "stacks")
}

/// ARN of the role in this account, whether it exists or not.
pub fn service_role_arn(spec: &ClusterSpec, account: &str) -> String {
    arn(PolicyScope { spec, account })
}

fn arn(scope: PolicyScope<'_>) -> String {
    scope.iam(&format!("role/{}", service_role_name(scope.spec)))
}

/// Who may take the role on.
pub fn service_role_trust() -> Value {
    document(vec![json!({
        "Effect": "Allow",
        "Principal": {"Service": "cloudformation.amazonaws.com"},
        "Action": "sts:AssumeRole",
    })])
}

/// The policies of the role, each small enough for IAM.
pub fn service_role_documents(spec: &ClusterSpec, account: &str) -> Vec<Value> {
    let grants = of_stacks(PolicyScope { spec, account });
    packed(grants.iter().map(Grant::statement).collect())
}

/// Statements for what `canoe` calls itself and CloudFormation never does.
const ONLY_PERSON: [&str; 12] = [
    "BucketForLargeTemplates",
    "EncryptAssets",
    "ImageLogin",
    "InterfacesThatAreLeft",
    "LookAtBoundary",
    "MadeByItsController",
    "MadeByKubernetes",
    "OwnKey",
    "PlanStacks",
    "PushImages",
    "Stacks",
    "StacksOfOthers",
];

/// Actions of other statements that CloudFormation never needs, by mode where it matters.
fn only_person(action: &str, sid: &str, mode: ControlPlaneMode) -> bool {
    match sid {
        "LookAround" => {
            let own = [
                "cloudformation:BatchDescribeTypeConfigurations",
                "cloudformation:DescribeStackDriftDetectionStatus",
                "cloudformation:ListExports",
                "eks:DescribeAddonVersions",
                "eks:DescribeClusterVersions",
                "iam:SimulatePrincipalPolicy",
                "servicequotas:GetServiceQuota",
                "sts:GetCallerIdentity",
                "tag:GetResources",
            ];
            own.contains(&action)
                || (action == "elasticloadbalancing:Describe*" && mode == ControlPlaneMode::Eks)
        }
        "OwnNetwork" => action == "ec2:DeleteVolume" && mode == ControlPlaneMode::Eks,
        _ => false,
    }
}

fn of_stacks(scope: PolicyScope<'_>) -> Vec<Grant> {
    let all = full(scope).into_iter();
    let kept = all.filter(|grant| !ONLY_PERSON.contains(&grant.sid));
    let mode = scope.spec.control_plane.mode;
    kept.map(|mut grant| {
        let sid = grant.sid;
        grant
            .actions
            .retain(|action| !only_person(action, sid, mode));
        if let Some(operators) = grant.condition.as_object_mut() {
            operators.remove(CALLED_VIA);
            if operators.is_empty() {
                grant.condition = Value::Null;
            }
        }
        grant
    })
    .collect()
}

/// What the person needs when CloudFormation acts by the role.
pub(super) fn person(scope: PolicyScope<'_>) -> Vec<Grant> {
    let role = vec![arn(scope)];
    let mut all = stacks::stacks(scope);
    all.push(
        Grant::allow("HandRoleToStacks", &["iam:PassRole"], role.clone()).when(json!({
            "StringEquals": {"iam:PassedToService": "cloudformation.amazonaws.com"},
        })),
    );
    let mut roles = stacks::own_roles(scope);
    roles.extend(role);
    all.push(Grant::allow("LookAtRoles", &["iam:GetRole"], roles));
    all.push(stacks::look_at_boundary(scope));
    all.push(look(scope));
    all.extend(network::left_by_kubernetes(scope));
    all.push(data(scope));
    all.push(data::own_key(scope));
    all.extend(data::bucket(scope));
    match scope.spec.control_plane.mode {
        ControlPlaneMode::Eks => all.extend(modes::person_of_eks(scope)),
        ControlPlaneMode::SelfManaged => {
            all.push(data::encrypt_assets(scope));
            all.push(modes::find_image(scope));
            all.push(modes::look_at_profiles(scope));
        }
    }
    if scope.spec.image_repository {
        all.extend(images::push(scope));
    }
    if let Some(zone) = &scope.spec.dns.hosted_zone_id {
        let place = scope.plain_arn(&format!("route53:::hostedzone/{zone}"));
        all.push(Grant::allow(
            "Name",
            &["route53:GetHostedZone"],
            vec![place],
        ));
    }
    all
}

/// Data that `down --delete-data` deletes, and a machine that an upgrade replaces.
fn data(scope: PolicyScope<'_>) -> Grant {
    let mut actions = vec!["ec2:DeleteVolume", "elasticfilesystem:DeleteFileSystem"];
    if scope.spec.control_plane.mode == ControlPlaneMode::SelfManaged {
        actions.push("ec2:TerminateInstances");
    }
    Grant::anywhere("OwnData", &actions).when(scope.owned())
}

fn look(scope: PolicyScope<'_>) -> Grant {
    let mut actions = vec![
        "cloudformation:BatchDescribeTypeConfigurations",
        "cloudformation:DescribeStackDriftDetectionStatus",
        "cloudformation:ListExports",
        "ec2:Describe*",
        "elasticfilesystem:DescribeFileSystems",
        "elasticfilesystem:DescribeMountTargets",
        "elasticloadbalancing:DescribeLoadBalancers",
        "elasticloadbalancing:DescribeTags",
        "iam:SimulatePrincipalPolicy",
        "kms:DescribeKey",
        "servicequotas:GetServiceQuota",
        "sts:GetCallerIdentity",
        "tag:GetResources",
    ];
    actions.extend(match scope.spec.control_plane.mode {
        ControlPlaneMode::Eks => vec![
            "eks:DescribeAddonVersions",
            "eks:DescribeClusterVersions",
            "logs:DescribeLogGroups",
        ],
        ControlPlaneMode::SelfManaged => vec!["autoscaling:DescribeAutoScalingGroups"],
    });
    Grant::anywhere("LookAround", &actions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix;

    /// Nobody but CloudFormation takes the role on, and it may do no more than the operator through stacks.
    #[test]
    fn the_role_has_statements_of_the_operator_only() {
        for (name, spec) in matrix::cases() {
            let scope = PolicyScope {
                spec: &spec,
                account: "123456789012",
            };
            let operator = full(scope);
            for grant in of_stacks(scope) {
                let same = operator.iter().find(|other| other.sid == grant.sid);
                let same = same.unwrap();
                assert_eq!(same.resources, grant.resources, "{name}: {}", grant.sid);
                assert!(grant.actions.iter().all(|a| same.actions.contains(a)));
                let mut condition = same.condition.clone();
                if let Some(operators) = condition.as_object_mut() {
                    operators.remove(CALLED_VIA);
                }
                let empty = condition.as_object().is_none_or(|all| all.is_empty());
                assert!(
                    condition == grant.condition || (empty && grant.condition.is_null()),
                    "{name}: {}",
                    grant.sid
                );
            }
        }
        assert_eq!(
            service_role_trust()["Statement"][0]["Principal"],
            json!({"Service": "cloudformation.amazonaws.com"})
        );
    }

    #[test]
    fn the_person_needs_little() {
        for (name, mut spec) in matrix::cases() {
            spec.service_role = true;
            let account = "123456789012";
            let text = super::super::operator(&spec, account).to_string();
            assert!(
                text.len() <= super::super::MAX_POLICY,
                "{name}: {}",
                text.len()
            );
            for verb in [
                "ec2:Create",
                "ec2:RunInstances",
                "iam:CreateRole",
                "iam:PutRole",
                "eks:Create",
            ] {
                assert!(!text.contains(verb), "{name}: {verb}");
            }
            assert!(service_role_documents(&spec, account).len() <= 4, "{name}");
        }
    }
}
