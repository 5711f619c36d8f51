//! `validate`: everything that can be found wrong before it costs money.
//!
//! [`offline`] needs no account: the template rules and sizes. [`online`] asks the account who calls,
//! what it may do, what the zones offer, what the quotas are and whether the names are free.

use crate::cloud::{Cloud, CloudError};
use crate::lifecycle::next::StackState;
use crate::spec::{Capacity, ClusterSpec};
use crate::template::{Layer, MAX_BODY, Render, render};
use crate::{catalog, policy, rules};

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Good.
    Pass,
    /// Must be corrected.
    Fail,
    /// AWS would not say; go on at your own risk.
    Unknown,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Check {
    /// What was looked at.
    pub what: &'static str,
    /// How it came out.
    pub verdict: Verdict,
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
    faults
}

/// Asks the account. Every check is made, whatever the others say.
pub async fn online(cloud: &impl Cloud, spec: &ClusterSpec) -> Vec<Check> {
    let caller = match cloud.caller().await {
        Ok(caller) => caller,
        Err(error) => {
            let text = format!("{error}; {}", error.advice());
            return vec![Check {
                what: "credentials",
                verdict: Verdict::Fail,
                text,
            }];
        }
    };
    let text = format!("account {}, {}", caller.account, caller.arn);
    let mut checks = vec![Check {
        what: "credentials",
        verdict: Verdict::Pass,
        text,
    }];
    checks.push(permissions(cloud, spec, &caller.account, &caller.arn).await);
    checks.push(zones(cloud, spec).await);
    checks.push(types(cloud, spec).await);
    checks.push(quota(cloud, spec).await);
    checks.push(names(cloud, spec).await);
    if let Some(key) = &spec.ssh_key_name {
        checks.push(key_pair(cloud, key).await);
    }
    if let Some(arn) = &spec.kms_key_arn {
        checks.push(key(cloud, arn).await);
    }
    checks
}

fn check(what: &'static str, result: Result<Result<String, String>, CloudError>) -> Check {
    match result {
        Ok(Ok(text)) => Check {
            what,
            verdict: Verdict::Pass,
            text,
        },
        Ok(Err(text)) => Check {
            what,
            verdict: Verdict::Fail,
            text,
        },
        Err(error) => Check {
            what,
            verdict: Verdict::Unknown,
            text: error.to_string(),
        },
    }
}

async fn permissions(cloud: &impl Cloud, spec: &ClusterSpec, account: &str, arn: &str) -> Check {
    if arn.ends_with(":root") {
        let text = "the root user may do everything and should do nothing; make a user with `canoe cluster policy`";
        return Check {
            what: "permissions",
            verdict: Verdict::Unknown,
            text: text.to_owned(),
        };
    }
    let simulations = policy::simulations(spec, account);
    let count: usize = simulations
        .iter()
        .map(|simulation| simulation.actions.len())
        .sum();
    let context = policy::simulation_context(spec);
    let result = cloud
        .denied_actions(&principal(arn), &simulations, &context)
        .await
        .map(|denied| {
            if denied.is_empty() {
                Ok(format!("all {count} actions of the policy are allowed"))
            } else {
                Err(format!(
                    "missing: {}; attach what `canoe cluster policy` prints",
                    denied.join(", ")
                ))
            }
        });
    check("permissions", result)
}

/// The role behind `arn:aws:sts::1:assumed-role/NAME/SESSION`; users as they are.
fn principal(arn: &str) -> String {
    match arn.split_once(":assumed-role/") {
        Some((head, tail)) => {
            let role = tail.split('/').next().unwrap_or_default();
            format!("{}:role/{role}", head.replacen(":sts:", ":iam:", 1))
        }
        None => arn.to_owned(),
    }
}

async fn zones(cloud: &impl Cloud, spec: &ClusterSpec) -> Check {
    let result = cloud.zones().await.map(|offered| {
        let missing: Vec<String> = spec
            .subnet_zones()
            .into_iter()
            .filter(|zone| !offered.contains(zone))
            .collect();
        if missing.is_empty() {
            Ok(spec.subnet_zones().join(", "))
        } else {
            Err(format!(
                "{} not open to this account; choose from {}",
                missing.join(", "),
                offered.join(", ")
            ))
        }
    });
    check("zones", result)
}

async fn types(cloud: &impl Cloud, spec: &ClusterSpec) -> Check {
    let types = &spec.workers.instance_types;
    let result = cloud.offered_types(types).await.map(|offers| {
        let offered =
            |zone: &String, name: &String| offers.iter().any(|(z, n)| z == zone && n == name);
        let mut missing = Vec::new();
        for zone in &spec.zones {
            missing.extend(
                types
                    .iter()
                    .filter(|name| !offered(zone, name))
                    .map(|name| format!("{name} in {zone}")),
            );
        }
        if missing.is_empty() {
            Ok(format!("{} in every zone", types.join(", ")))
        } else {
            Err(format!(
                "not on offer: {}; choose other types or zones",
                missing.join(", ")
            ))
        }
    });
    check("instance types", result)
}

/// Quota on running vCPUs: on demand standard families, or spot.
async fn quota(cloud: &impl Cloud, spec: &ClusterSpec) -> Check {
    let code = match spec.workers.capacity {
        Capacity::OnDemand => "L-1216C47A",
        Capacity::Spot => "L-34B43A08",
    };
    let needed = spec
        .workers
        .instance_types
        .first()
        .and_then(|name| catalog::instance_type(name));
    let Some(kind) = needed else {
        let text = "the type's number of CPUs is not known here".to_owned();
        return Check {
            what: "quotas",
            verdict: Verdict::Unknown,
            text,
        };
    };
    let wanted = f64::from(kind.cpus * spec.workers.count);
    let result = cloud.quota("ec2", code).await.map(|quota| match quota {
        Some(quota) if quota < wanted => {
            Err(format!("{wanted} vCPUs are wanted, the quota is {quota}; ask for more in Service Quotas ({code})"))
        }
        Some(quota) => Ok(format!("{wanted} of {quota} vCPUs")),
        None => Ok(format!("{wanted} vCPUs wanted; the account has the default quota")),
    });
    check("quotas", result)
}

/// A stack of one of our names must be ours.
async fn names(cloud: &impl Cloud, spec: &ClusterSpec) -> Check {
    let mut there = Vec::new();
    for layer in Layer::ALL {
        let name = layer.stack_name(&spec.name);
        match cloud.stack(&name).await {
            Ok(Some(view)) if StackState::from_status(&view.status) != StackState::Absent => {
                there.push((layer, name))
            }
            Ok(_) => {}
            Err(error) => return check("names", Err(error)),
        }
    }
    let orphan = there
        .first()
        .is_some_and(|(layer, _)| *layer != Layer::Base);
    let listed: Vec<String> = there.into_iter().map(|(_, name)| name).collect();
    let result = if orphan {
        Err(format!(
            "{} exist without their base; another tool's? choose another name",
            listed.join(", ")
        ))
    } else if listed.is_empty() {
        Ok("free".to_owned())
    } else {
        Ok(format!("{} exist and will be updated", listed.join(", ")))
    };
    check("names", Ok(result))
}

async fn key_pair(cloud: &impl Cloud, name: &str) -> Check {
    let result = cloud.key_pair_exists(name).await.map(|exists| {
        if exists {
            Ok(name.to_owned())
        } else {
            Err(format!(
                "{name} does not exist in this region; make or import it"
            ))
        }
    });
    check("key pair", result)
}

async fn key(cloud: &impl Cloud, arn: &str) -> Check {
    let result = cloud.key_state(arn).await.map(|state| {
        if state == "Enabled" {
            Ok("enabled".to_owned())
        } else {
            Err(format!("the key is {state}; enable it or use another"))
        }
    });
    check("KMS key", result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_simulated_as_its_role() {
        let session = "arn:aws:sts::123456789012:assumed-role/Admin/me@example.com";
        assert_eq!(principal(session), "arn:aws:iam::123456789012:role/Admin");
        assert_eq!(
            principal("arn:aws:iam::123456789012:user/me"),
            "arn:aws:iam::123456789012:user/me"
        );
    }

    #[test]
    fn a_good_cluster_has_no_faults() {
        assert_eq!(
            offline(&ClusterSpec::new("demo", "us-west-2")),
            Vec::<String>::new()
        );
    }
}
