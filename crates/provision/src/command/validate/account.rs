//! What the caller may do, and how much of it.

use super::{Check, CheckVerdict, check};
use crate::cloud::{Caller, Cloud, CloudError};
use crate::command::counted;
use crate::command::own::{self, StackOwner};
use crate::spec::{Capacity, ClusterSpec, ControlPlaneMode, Egress};
use crate::template::{StackLayer, groups};
use crate::{catalog, policy};

/// Quotas that AWS gives a new account: VPCs in a region, elastic addresses in a region.
const DEFAULT_VPCS: f64 = 5.0;
const DEFAULT_ADDRESSES: f64 = 5.0;

pub(super) async fn permissions(cloud: &impl Cloud, spec: &ClusterSpec, caller: &Caller) -> Check {
    if caller.arn.ends_with(":root") {
        let text = "this is the root user, who may do everything; better work as a user with the policy that `canoe cluster policy` prints";
        return Check {
            what: "permissions",
            verdict: CheckVerdict::Unknown,
            text: text.to_owned(),
        };
    }
    let simulations = policy::simulations(spec, &caller.account);
    let count: usize = simulations
        .iter()
        .map(|simulation| simulation.actions.len())
        .sum();
    let context = policy::simulation_context(spec, &caller.account);
    let result = cloud
        .denied_actions(&principal(cloud, &caller.arn).await, &simulations, &context)
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

/// Whose policies count: users as they are, and the role behind a session. The session's ARN lacks the
/// role's path, which roles of SSO have and without which IAM does not find them, so IAM is asked.
pub(crate) async fn principal(cloud: &impl Cloud, arn: &str) -> String {
    let Some(SessionRole { bare, name }) = role_of_session(arn) else {
        return arn.to_owned();
    };
    match cloud.role_arn(&name).await {
        Ok(Some(full)) => full,
        _ => bare,
    }
}

/// The role behind a session.
#[derive(Debug, PartialEq)]
struct SessionRole {
    /// Its ARN, without the path.
    bare: String,
    name: String,
}

/// The role of `arn:aws:sts::1:assumed-role/NAME/SESSION`.
fn role_of_session(arn: &str) -> Option<SessionRole> {
    let (head, tail) = arn.split_once(":assumed-role/")?;
    let name = tail.split('/').next().unwrap_or_default();
    let bare = format!("{}:role/{name}", head.replacen(":sts:", ":iam:", 1));
    let name = name.to_owned();
    Some(SessionRole { bare, name })
}

/// EKS makes whoever creates a cluster its administrator, with an entry of its own; AWS refuses a second one for the same principal,
/// ten minutes later. Somebody else may have created a cluster that is there.
pub(crate) async fn second_entry(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    caller: &Caller,
) -> Result<Option<String>, CloudError> {
    let access = &spec.control_plane.access;
    if access.is_empty() || spec.service_role || spec.control_plane.mode != ControlPlaneMode::Eks {
        return Ok(None);
    }
    let me = principal(cloud, &caller.arn).await;
    if !access.contains_key(&me) || cloud.eks_cluster(&spec.name).await?.is_some() {
        return Ok(None);
    }
    Ok(Some(format!(
        "controlPlane.access names {me}, which is you: EKS makes whoever creates the cluster its administrator, and AWS refuses a \
         second entry; remove that line"
    )))
}

/// Whether somebody is named who becomes administrator anyway.
pub(super) async fn access(cloud: &impl Cloud, spec: &ClusterSpec, caller: &Caller) -> Check {
    let result = second_entry(cloud, spec, caller).await;
    let count = spec.control_plane.access.len();
    check(
        "access",
        result.map(|found| found.map_or(Ok(counted(count, "colleague")), Err)),
    )
}

/// Quota on running vCPUs: on demand standard families, or spot.
pub(super) async fn machines(cloud: &impl Cloud, spec: &ClusterSpec) -> Check {
    let code = match spec.workers.capacity {
        Capacity::OnDemand => "L-1216C47A",
        Capacity::Spot => "L-34B43A08",
    };
    // Machines on demand in the place of spot ones count against the other quota.
    let mine = groups::all(spec);
    let mine = mine
        .iter()
        .filter(|group| group.capacity == spec.workers.capacity);
    let needed: Option<u32> = mine
        .map(|group| {
            let first = group.instance_types.first()?;
            Some(catalog::instance_type(first)?.cpus * group.count)
        })
        .sum();
    let Some(cpus) = needed else {
        let text = "the type's number of CPUs is not known here".to_owned();
        return Check {
            what: "vCPU quota",
            verdict: CheckVerdict::Unknown,
            text,
        };
    };
    let wanted = f64::from(cpus);
    let result = cloud.quota("ec2", code).await.map(|quota| match quota {
        Some(quota) if quota < wanted => {
            Err(format!("{wanted} vCPUs are wanted, the quota is {quota}; ask for more in Service Quotas ({code})"))
        }
        Some(quota) => Ok(format!("{wanted} of {quota} vCPUs")),
        None => Ok(format!("{wanted} vCPUs wanted; the account has the default quota")),
    });
    check("vCPU quota", result)
}

/// Quotas on VPCs and elastic addresses: five each in a new account, and often used up.
pub(super) async fn network(cloud: &impl Cloud, spec: &ClusterSpec) -> Check {
    check("network quota", network_room(cloud, spec).await)
}

async fn network_room(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
) -> Result<Result<String, String>, CloudError> {
    if spec.has_given_vpc() {
        return Ok(Ok("not needed: the VPC is given".to_owned()));
    }
    if let StackOwner::Ours(_) = own::find(cloud, spec, StackLayer::Base).await? {
        return Ok(Ok("the network exists".to_owned()));
    }
    let gateways = match spec.network.egress {
        Egress::Nat => 1,
        Egress::NatPerZone => spec.zones.len(),
        Egress::Public | Egress::Endpoints => 0,
    };
    let present = cloud.network_use().await?;
    let most_vpcs = cloud.quota("vpc", "L-F678F1CE").await?;
    let most_addresses = cloud.quota("ec2", "L-0263D0A3").await?;
    let parts = [
        QuotaUse {
            what: "VPCs",
            wanted: present.vpcs + 1,
            most: most_vpcs.unwrap_or(DEFAULT_VPCS),
        },
        QuotaUse {
            what: "elastic addresses",
            wanted: present.addresses + gateways,
            most: most_addresses.unwrap_or(DEFAULT_ADDRESSES),
        },
    ];
    Ok(room(&parts))
}

/// How much of a quota would be in use.
struct QuotaUse {
    what: &'static str,
    wanted: usize,
    most: f64,
}

/// Whether each wanted number fits under its quota.
#[allow(
    clippy::cast_precision_loss,
    reason = "numbers of VPCs are small; quotas come as floats"
)]
fn room(parts: &[QuotaUse]) -> Result<String, String> {
    let short: Vec<String> = parts
        .iter()
        .filter(|part| part.wanted as f64 > part.most)
        .map(|QuotaUse { what, wanted, most }| {
            format!("{wanted} {what} would be in use, the quota of the region is {most}")
        })
        .collect();
    if !short.is_empty() {
        return Err(format!(
            "{}; remove what you no longer need, or ask for more in Service Quotas",
            short.join("; ")
        ));
    }
    let words = parts
        .iter()
        .map(|QuotaUse { what, wanted, most }| format!("{wanted} of {most} {what}"));
    Ok(words.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::Double;

    #[test]
    fn a_session_is_traced_to_its_role() {
        let session = "arn:aws-cn:sts::123456789012:assumed-role/Admin/me@example.com";
        let SessionRole { bare, name } = role_of_session(session).unwrap();
        assert_eq!(bare, "arn:aws-cn:iam::123456789012:role/Admin");
        assert_eq!(name, "Admin");
        assert_eq!(role_of_session("arn:aws:iam::123456789012:user/me"), None);
    }

    /// Roles of SSO have a path; without it the simulation failed and permissions stayed unknown.
    #[tokio::test]
    async fn the_path_of_a_role_is_kept() {
        let cloud = Double::default();
        let name = "AWSReservedSSO_Admin_0123456789abcdef";
        let path = "aws-reserved/sso.amazonaws.com/eu-west-1";
        let full = format!("arn:aws:iam::1:role/{path}/{name}");
        cloud.with(|account| account.roles.insert(name.to_owned(), full.clone()));
        let session = format!("arn:aws:sts::1:assumed-role/{name}/me");
        assert_eq!(principal(&cloud, &session).await, full);
        let other = principal(&cloud, "arn:aws:sts::1:assumed-role/Plain/me").await;
        assert_eq!(other, "arn:aws:iam::1:role/Plain");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let wanted = |what, wanted| QuotaUse {
            what,
            wanted,
            most: 5.0,
        };
        assert_eq!(
            room(&[wanted("VPCs", 5), wanted("elastic addresses", 1)]),
            Ok("5 of 5 VPCs, 1 of 5 elastic addresses".to_owned())
        );
        let text = room(&[wanted("VPCs", 6), wanted("elastic addresses", 1)]).unwrap_err();
        assert!(text.starts_with("6 VPCs would be in use") && !text.contains("1 elastic"));
    }
}
