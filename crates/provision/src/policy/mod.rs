//! The least IAM policy that an operator of one cluster needs.
//!
//! It replaces the ten `FullAccess` policies that such a set-up used to ask for. CloudFormation acts with the
//! caller's rights, so it grants what the handlers of our resource types need, under the conditions that hold
//! when they need it, and nothing else; `e2e/aws/policy.py` proves both. What has a name that we choose is
//! limited to that name; what exists, to things that carry the cluster's id; what is made, to requests that
//! give it the id; roles, to those with the boundary.

mod boundary;
mod data;
mod grant;
mod images;
mod modes;
mod network;
mod service_role;
mod stacks;

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub use boundary::{boundary, boundary_name};
pub use service_role::{
    service_role_arn, service_role_documents, service_role_name, service_role_trust,
};

use grant::{Grant, PolicyScope};

use crate::spec::{ClusterSpec, ControlPlaneMode};
use crate::template::roles::role_name;

/// The largest managed policy that IAM takes; spaces do not count.
pub(crate) const MAX_POLICY: usize = 6144;

/// The whole policy for the person who runs `canoe cluster`, in the account `account`.
pub fn operator(spec: &ClusterSpec, account: &str) -> Value {
    document(statements(spec, account))
}

/// The same in as few documents as IAM's limit on the size of a managed policy allows.
pub fn operator_documents(spec: &ClusterSpec, account: &str) -> Vec<Value> {
    packed(statements(spec, account))
}

fn packed(statements: Vec<Value>) -> Vec<Value> {
    let mut packs: Vec<Vec<Value>> = vec![Vec::new()];
    for statement in statements {
        let last = packs.last_mut().expect("there is at least one pack");
        last.push(statement);
        if document(last.clone()).to_string().len() > MAX_POLICY {
            let statement = last.pop().expect("just pushed");
            packs.push(vec![statement]);
        }
    }
    packs.into_iter().map(document).collect()
}

/// Name of the operator's policies, before their numbers. Policies are global, so it holds the region.
pub fn operator_name(spec: &ClusterSpec) -> String {
    role_name(spec, "operator")
}

/// ARN of the boundary that every role of the cluster has.
pub fn boundary_arn(spec: &ClusterSpec, account: &str) -> String {
    boundary::arn(PolicyScope { spec, account })
}

fn document(statements: Vec<Value>) -> Value {
    json!({"Version": "2012-10-17", "Statement": statements})
}

fn statements(spec: &ClusterSpec, account: &str) -> Vec<Value> {
    let grants = grants(PolicyScope { spec, account });
    grants.iter().map(Grant::statement).collect()
}

/// Actions to be tried on one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simulation {
    /// Such as `eks:CreateCluster`.
    pub actions: Vec<String>,
    /// An ARN, or `*`.
    pub resource: String,
}

/// What `validate` asks AWS to simulate: every action of the policy on a resource that it names.
pub fn simulations(spec: &ClusterSpec, account: &str) -> Vec<Simulation> {
    let concrete = |pattern: &String| {
        if pattern == "*" {
            pattern.clone()
        } else {
            pattern.replace('*', "x")
        }
    };
    let named = |action: &&&str| !action.ends_with('*');
    grants(PolicyScope { spec, account })
        .into_iter()
        .filter(|grant| !grant.deny)
        .map(|grant| Simulation {
            actions: grant
                .actions
                .iter()
                .filter(named)
                .map(|action| (*action).to_owned())
                .collect(),
            resource: grant.resources.first().map(concrete).unwrap_or_default(),
        })
        .collect()
}

/// What is true of the requests that are simulated: for every key of a condition a value that it takes.
pub(crate) fn simulation_context(spec: &ClusterSpec, account: &str) -> Vec<(String, String)> {
    let mut context = BTreeMap::new();
    for grant in grants(PolicyScope { spec, account }) {
        let operators = grant.condition.as_object().into_iter().flatten();
        let asks = |operator: &str| !grant.deny && operator != "Null";
        for (_, keys) in operators.filter(|(operator, _)| asks(operator)) {
            for (key, wanted) in keys.as_object().into_iter().flatten() {
                let value = wanted.as_str().or_else(|| wanted[0].as_str());
                context.insert(key.clone(), value.unwrap_or_default().to_owned());
            }
        }
    }
    context.into_iter().collect()
}

fn grants(scope: PolicyScope<'_>) -> Vec<Grant> {
    if scope.spec.service_role {
        service_role::person(scope)
    } else {
        full(scope)
    }
}

/// All that the caller needs when CloudFormation acts with the caller's rights.
fn full(scope: PolicyScope<'_>) -> Vec<Grant> {
    let mut all = stacks::stacks(scope);
    all.push(stacks::look_around(scope));
    all.extend(network::network(scope));
    all.extend(data::files(scope));
    all.extend(data::bucket(scope));
    all.extend(data::keys(scope));
    all.extend(images::images(scope));
    all.extend(stacks::roles(scope));
    all.extend(match scope.spec.control_plane.mode {
        ControlPlaneMode::Eks => modes::eks(scope),
        ControlPlaneMode::SelfManaged => modes::self_managed(scope),
    });
    if let Some(zone) = &scope.spec.dns.hosted_zone_id {
        all.extend(stacks::dns(scope, zone));
    }
    all
}

/// Name of the bucket that is made only when a template is too large to be sent. The names of all
/// accounts share one space, so it is the cluster's id that makes it ours.
pub(crate) fn bucket_name(id: &str) -> String {
    format!("canoe-{id}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix;
    use crate::names::BUCKET;

    #[test]
    fn names_no_wildcard_service_and_no_unlimited_write() {
        for (name, spec) in matrix::cases() {
            let policy = operator(&spec, "123456789012");
            for statement in policy["Statement"].as_array().unwrap() {
                let free =
                    statement["Resource"] == json!(["*"]) && statement.get("Condition").is_none();
                for action in statement["Action"].as_array().unwrap() {
                    let (service, verb) = action.as_str().unwrap().split_once(':').unwrap();
                    assert!(verb != "*" && service != "*", "{name}: {action}");
                    let reads = ["BatchDescribe", "Describe", "List", "Get", "Simulate"]
                        .iter()
                        .any(|v| verb.starts_with(v));
                    assert!(reads || !free, "{name}: {action} may write anywhere");
                }
            }
        }
    }

    #[test]
    fn documents_fit_and_hold_every_statement() {
        for (name, spec) in matrix::cases() {
            let documents = operator_documents(&spec, "123456789012");
            assert!(
                documents.len() <= 3,
                "{name} needs {} policies",
                documents.len()
            );
            assert!(
                documents.iter().all(|d| d.to_string().len() <= MAX_POLICY),
                "{name}"
            );
            let count: usize = documents
                .iter()
                .map(|d| d["Statement"].as_array().unwrap().len())
                .sum();
            assert_eq!(count, statements(&spec, "123456789012").len());
        }
    }

    fn statement(spec: &ClusterSpec, sid: &str) -> Value {
        let policy = operator(spec, "123456789012");
        let mut all = policy["Statement"].as_array().unwrap().iter();
        all.find(|statement| statement["Sid"] == sid)
            .unwrap()
            .clone()
    }

    #[test]
    fn passing_roles_is_limited_to_own_roles_and_named_services() {
        let pass = statement(&ClusterSpec::new("demo", "us-west-2"), "HandRolesToAws");
        let roles = ["control-plane", "efs-csi", "vpc-cni", "workers"]
            .map(|purpose| format!("arn:aws:iam::123456789012:role/demo-us-west-2-{purpose}"));
        assert_eq!(pass["Resource"], json!(roles));
        assert!(pass["Condition"]["StringEquals"]["iam:PassedToService"].is_array());
    }

    /// In China and for governments every ARN of the policy was wrong.
    #[test]
    fn arns_are_those_of_the_partition() {
        for (_, mut spec) in matrix::cases() {
            spec.kms_key_arn = None;
            for (region, partition) in [("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")] {
                spec.region = region.to_owned();
                let text = operator(&spec, "123456789012").to_string();
                assert!(!text.contains("arn:aws:"), "{text}");
                assert!(text.contains(&format!("arn:{partition}:iam::")), "{text}");
            }
        }
    }

    #[test]
    fn roles_are_made_and_filled_only_within_the_boundary() {
        for (name, mut spec) in matrix::cases() {
            spec.service_role = false;
            let boundary = "arn:aws:iam::123456789012:policy/demo-us-west-2-boundary";
            for sid in ["RolesWithinTheBoundary", "PoliciesOfRoles"] {
                let equals = &statement(&spec, sid)["Condition"]["ArnEquals"];
                assert_eq!(equals["iam:PermissionsBoundary"], boundary, "{name}: {sid}");
            }
            let policies = &statement(&spec, "PoliciesOfRoles")["Condition"]["ArnEquals"];
            let policies = policies["iam:PolicyARN"].as_array().unwrap();
            assert!(policies.len() > 1, "{name}");
        }
    }

    /// Whoever could change a role could have it tag or delete anything in the region.
    #[test]
    fn roles_change_only_what_is_the_clusters_or_kubernetes() {
        for (name, spec) in matrix::cases() {
            let document = boundary(&spec);
            for statement in document["Statement"].as_array().unwrap() {
                let tags = statement["Condition"].to_string();
                let bound = tags.contains("aws:ResourceTag/") || statement["Effect"] == "Deny";
                for action in statement["Action"].as_array().unwrap() {
                    let verb = action.as_str().unwrap().split_once(':').unwrap().1;
                    let destroys = [
                        "DeleteV", "DeleteS", "DeleteN", "DeleteR", "Delete*", "DetachV",
                    ]
                    .iter()
                    .any(|start| verb.starts_with(start));
                    assert!(bound || !destroys, "{name}: {action}");
                }
            }
            if document.to_string().contains("ec2:CreateTags") {
                assert!(document.to_string().contains("NoIdOnWhatIsThere"), "{name}");
            }
        }
    }

    /// IAM in China knows EC2 by two names.
    #[test]
    fn roles_are_handed_to_ec2_of_china_too() {
        for (region, expected) in [("cn-north-1", true), ("us-west-2", false)] {
            let pass = statement(&ClusterSpec::new("demo", region), "HandRolesToAws");
            let services = pass["Condition"]["StringEquals"]["iam:PassedToService"].to_string();
            assert!(services.contains("\"ec2.amazonaws.com\""), "{services}");
            assert_eq!(services.contains("ec2.amazonaws.com.cn"), expected);
        }
    }

    #[test]
    fn a_simulation_knows_every_key_of_a_condition() {
        let (_, mut spec) = matrix::cases().remove(0);
        let context = BTreeMap::from_iter(simulation_context(&spec, "123456789012"));
        assert_eq!(
            context["aws:ResourceTag/canoe:cluster-id"],
            spec.id.clone().unwrap()
        );
        assert_eq!(context["aws:CalledVia"], "cloudformation.amazonaws.com");
        assert_eq!(context["ec2:CreateAction"], "AllocateAddress");
        assert!(!context.contains_key("cloudformation:ImportResourceTypes"));
        spec.id = None;
        let context = BTreeMap::from_iter(simulation_context(&spec, "123456789012"));
        assert_eq!(context["aws:RequestTag/canoe:cluster-id"], "none");
    }

    #[test]
    fn the_boundary_fits_and_lets_no_role_touch_iam() {
        for (name, spec) in matrix::cases() {
            let text = boundary(&spec).to_string();
            assert!(text.len() <= MAX_POLICY, "{name}: {}", text.len());
            let iam = text.matches("iam:").count();
            let linked = text.matches("iam:CreateServiceLinkedRole").count();
            let conditions = text.matches("iam:AWSServiceName").count();
            assert_eq!(iam, linked + conditions, "{name}");
        }
    }

    #[test]
    fn the_bucket_name_is_one() {
        let bucket = bucket_name(&crate::ownership::fresh_id());
        assert_eq!(BUCKET.complaint(&bucket), None);
    }
}
