//! The least IAM policy that an operator of one cluster needs.
//!
//! It replaces the ten `FullAccess` policies that such a set-up used to ask for. Where AWS lets an
//! action be limited to named resources, it is: stacks, roles, log groups, buckets, clusters and key
//! aliases by the cluster's name. Where creation cannot be limited by name (EC2, EFS, KMS), it is
//! limited to the region, and what changes or removes things is limited to things that carry the
//! cluster's tag.

mod grants;

use serde_json::{Value, json};

use grants::{eks, identity, keys, network, roles, self_managed, stacks, storage};

use crate::names::BUCKET;
use crate::spec::{ClusterSpec, Mode};
use crate::template::CLUSTER_TAG;

/// One statement: a short name, actions, resources, condition.
struct Grant {
    sid: &'static str,
    actions: Vec<&'static str>,
    resources: Vec<String>,
    condition: Option<Value>,
}

/// The largest managed policy that IAM takes; spaces do not count.
const MAX_POLICY: usize = 6144;

/// The whole policy for the person who runs `canoe cluster`, in the account `account`.
pub fn operator(spec: &ClusterSpec, account: &str) -> Value {
    document(statements(spec, account))
}

/// The same in as few documents as IAM's limit on the size of a managed policy allows.
pub fn operator_documents(spec: &ClusterSpec, account: &str) -> Vec<Value> {
    let mut packs: Vec<Vec<Value>> = vec![Vec::new()];
    for statement in statements(spec, account) {
        let last = packs.last_mut().expect("there is at least one pack");
        last.push(statement);
        if document(last.clone()).to_string().len() > MAX_POLICY {
            let statement = last.pop().expect("just pushed");
            packs.push(vec![statement]);
        }
    }
    packs.into_iter().map(document).collect()
}

fn document(statements: Vec<Value>) -> Value {
    json!({"Version": "2012-10-17", "Statement": statements})
}

fn statements(spec: &ClusterSpec, account: &str) -> Vec<Value> {
    grants(spec, account)
        .into_iter()
        .map(|grant| {
            let mut statement = json!({
                "Sid": grant.sid,
                "Effect": "Allow",
                "Action": grant.actions,
                "Resource": grant.resources,
            });
            if let Some(condition) = grant.condition {
                statement["Condition"] = condition;
            }
            statement
        })
        .collect()
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
    grants(spec, account)
        .into_iter()
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

/// What is true of the requests that are simulated: region, tag, and the service that gets a role.
pub fn simulation_context(spec: &ClusterSpec) -> Vec<(String, String)> {
    vec![
        ("aws:RequestedRegion".to_owned(), spec.region.clone()),
        (format!("aws:ResourceTag/{CLUSTER_TAG}"), spec.name.clone()),
        (
            format!("aws:ResourceTag/kubernetes.io/cluster/{}", spec.name),
            "owned".to_owned(),
        ),
        (
            "iam:PassedToService".to_owned(),
            "ec2.amazonaws.com".to_owned(),
        ),
        (
            "iam:AWSServiceName".to_owned(),
            "eks.amazonaws.com".to_owned(),
        ),
    ]
}

fn grants(spec: &ClusterSpec, account: &str) -> Vec<Grant> {
    let mut all = vec![stacks(spec, account), identity()];
    all.extend(network(spec));
    all.extend(storage(spec, account));
    all.extend(keys(spec, account));
    all.extend(roles(spec, account));
    match spec.control_plane.mode {
        Mode::Eks => all.extend(eks(spec, account)),
        Mode::SelfManaged => all.extend(self_managed(spec, account)),
    }
    if let Some(zone) = &spec.dns.hosted_zone_id {
        all.push(Grant {
            sid: "Name",
            actions: vec![
                "route53:ChangeResourceRecordSets",
                "route53:GetHostedZone",
                "route53:ListResourceRecordSets",
            ],
            resources: vec![format!("arn:aws:route53:::hostedzone/{zone}")],
            condition: None,
        });
        all.push(Grant {
            sid: "NameChange",
            actions: vec!["route53:GetChange"],
            resources: vec!["arn:aws:route53:::change/*".to_owned()],
            condition: None,
        });
    }
    all
}

/// Name of the bucket that is made only when a template is too large to be sent.
pub fn bucket_name(spec: &ClusterSpec, account: &str) -> String {
    let rest = format!(
        "{}-{account}-{}",
        spec.name.to_ascii_lowercase(),
        spec.region.replace('-', "")
    );
    let full = format!("canoe-{rest}");
    if full.len() <= BUCKET.length.1 {
        full
    } else {
        format!("c-{rest}") // a long name in a region with a long one
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix;

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
                    let reads = ["Describe", "List", "Get", "Validate", "Simulate"]
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
                documents.len() <= 2,
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

    #[test]
    fn passing_roles_is_limited_to_own_roles_and_named_services() {
        let spec = ClusterSpec::new("demo", "us-west-2");
        let policy = operator(&spec, "123456789012");
        let pass = policy["Statement"]
            .as_array()
            .unwrap()
            .iter()
            .find(|s| s["Action"] == json!(["iam:PassRole"]))
            .unwrap();
        assert_eq!(
            pass["Resource"],
            json!(["arn:aws:iam::123456789012:role/demo-us-west-2-*"])
        );
        assert!(pass["Condition"]["StringEquals"]["iam:PassedToService"].is_array());
    }

    #[test]
    fn the_bucket_name_is_one() {
        for (name, region) in [
            ("Paddle-Cluster".to_owned(), "us-west-2"),
            ("x".repeat(32), "ap-northeast-1"),
            ("x".repeat(32), "us-gov-west-1"),
        ] {
            let bucket = bucket_name(&ClusterSpec::new(&name, region), "123456789012");
            assert_eq!(BUCKET.complaint(&bucket), None);
        }
    }
}
