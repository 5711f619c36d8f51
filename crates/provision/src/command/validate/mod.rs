//! `validate`: everything that can be found wrong before it costs money.
//!
//! [`offline`] needs no account: the template rules and sizes. [`online`] asks the account who calls
//! and what it may do ([`account`]), what region and zones offer ([`offer`]), whether names are
//! free ([`taken`]) and what the cluster file brings along is there ([`belongings`]).

pub(crate) mod account;
mod belongings;
mod offer;
pub(super) mod taken;

use crate::cloud::{Cloud, CloudError};
use crate::partition::Partition;
use crate::spec::ClusterSpec;
use crate::template::{MAX_BODY, Render, render};
use crate::{catalog, names, policy, rules};

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckVerdict {
    /// Good.
    Pass,
    /// Must be corrected.
    Fail,
    /// AWS would not say; continue at your own risk.
    Unknown,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Check {
    /// What was looked at.
    pub what: &'static str,
    /// How it came out.
    pub verdict: CheckVerdict,
    /// In words.
    pub text: String,
}

/// Faults of the rendered templates, in words.
pub fn offline(spec: &ClusterSpec) -> Vec<String> {
    let stacks = render(spec, &Render::default());
    let mut faults: Vec<String> = rules::check(&stacks, spec.control_plane.allow_world)
        .into_iter()
        .map(|finding| format!("{} [{}]: {}", finding.place, finding.rule, finding.message))
        .collect();
    for stack in stacks {
        let size = stack.compact().len();
        if size > MAX_BODY * 20 {
            faults.push(format!(
                "template {} has {size} bytes; CloudFormation takes 1 MB",
                stack.name
            ));
        }
    }
    let boundary = policy::boundary(spec).to_string().len();
    if boundary > policy::MAX_POLICY {
        faults.push(format!(
            "policy {} has {boundary} characters; IAM takes {}: name fewer storage.buckets",
            policy::boundary_name(spec),
            policy::MAX_POLICY
        ));
    }
    faults
}

/// Asks the account. Every check is made, whatever the others say.
pub async fn online(cloud: &impl Cloud, spec: &ClusterSpec) -> Vec<Check> {
    let caller = match cloud.caller().await {
        Ok(caller) => caller,
        Err(error) => {
            return vec![Check {
                what: "credentials",
                verdict: CheckVerdict::Fail,
                text: nobody(spec, &error),
            }];
        }
    };
    let text = format!("account {}, {}", caller.account, caller.arn);
    let mut checks = vec![Check {
        what: "credentials",
        verdict: CheckVerdict::Pass,
        text,
    }];
    checks.push(account::permissions(cloud, spec, &caller).await);
    checks.extend(offer::services(cloud, spec).await);
    checks.push(offer::zones(cloud, spec).await);
    checks.push(offer::types(cloud, spec).await);
    checks.push(account::machines(cloud, spec).await);
    checks.push(account::network(cloud, spec).await);
    checks.push(belongings::names(cloud, spec).await);
    checks.push(belongings::data(cloud, spec).await);
    checks.push(belongings::standing(cloud, spec).await);
    if !spec.control_plane.access.is_empty() {
        checks.push(account::access(cloud, spec, &caller).await);
    }
    checks.push(belongings::template_bucket(cloud, spec).await);
    checks.extend(belongings::brought(cloud, spec).await);
    checks
}

/// Why nobody could be asked; a region that does not exist looks like a lost network.
fn nobody(spec: &ClusterSpec, error: &CloudError) -> String {
    let known =
        catalog::region_factor(&spec.region).is_some() || !Partition::of(&spec.region).is_common();
    if !error.is_absent_service() || known {
        return format!("{error}; {}", error.advice());
    }
    let all = catalog::REGIONS.iter().map(|(name, _)| *name);
    let hint = match names::nearest(&spec.region, all) {
        Some(name) => format!("did you mean {name}?"),
        None => "write one such as us-west-2".to_owned(),
    };
    format!(
        "{error}; {} is no region that is known here: {hint}",
        spec.region
    )
}

fn check(what: &'static str, result: Result<Result<String, String>, CloudError>) -> Check {
    let (verdict, text) = match result {
        Ok(Ok(text)) => (CheckVerdict::Pass, text),
        Ok(Err(text)) => (CheckVerdict::Fail, text),
        Err(error) => (CheckVerdict::Unknown, error.to_string()),
    };
    Check {
        what,
        verdict,
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_that_does_not_exist_is_said_to_be_one() {
        let error = CloudError::Unreachable {
            action: "sts:GetCallerIdentity".to_owned(),
            endpoint: "https://sts.us-wset-2.amazonaws.com".to_owned(),
            reason: "no such host".to_owned(),
            connecting: true,
        };
        let text = nobody(&ClusterSpec::new("demo", "us-wset-2"), &error);
        assert!(text.contains("did you mean us-west-2?"), "{text}");
        let text = nobody(&ClusterSpec::new("demo", "us-gov-west-1"), &error);
        assert!(!text.contains("did you mean"), "{text}");
        let text = nobody(&ClusterSpec::new("demo", "us-west-2"), &error);
        assert!(text.contains("check the network"), "{text}");
    }

    /// IAM refused the policy when `up` made it.
    #[test]
    fn a_boundary_that_is_too_long_is_a_fault() {
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        let bucket = |number| format!("a-bucket-with-a-name-of-the-usual-length-{number:02}");
        spec.storage.buckets = (0..40).map(bucket).collect();
        let faults = offline(&spec);
        assert!(faults[0].contains("fewer storage.buckets"), "{faults:?}");
    }

    #[test]
    fn a_good_cluster_has_no_faults() {
        assert_eq!(
            offline(&ClusterSpec::new("demo", "us-west-2")),
            Vec::<String>::new()
        );
    }
}
