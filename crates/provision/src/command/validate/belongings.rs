//! Whether names are free, and whether what the cluster file brings along is there and fits.

use super::{Check, check, taken};
use crate::cidr::Cidr;
use crate::cloud::{Cloud, CloudError};
use crate::command::bucket::{self, BucketOwner};
use crate::command::own::{self, StackOwner};
use crate::command::{CommandError, standing, up};
use crate::ownership::missing_id;
use crate::spec::ClusterSpec;
use crate::statuses::KeyState;
use crate::template::{MAX_BODY, StackLayer};

type Finding = Result<Result<String, String>, CloudError>;

/// A stack of one of our names must be ours; what has no stack must not exist.
pub(super) async fn names(cloud: &impl Cloud, spec: &ClusterSpec) -> Check {
    check("names", free_names(cloud, spec).await)
}

async fn free_names(cloud: &impl Cloud, spec: &ClusterSpec) -> Finding {
    let found = taken::in_use(cloud, spec).await?;
    if !found.taken.is_empty() {
        return Ok(Err(found.taken.join("; ")));
    }
    let mut words = if found.there.is_empty() {
        "free".to_owned()
    } else {
        format!("{} exist and will be updated", found.there.join(", "))
    };
    if let Some(group) = found.left_logs {
        words.push_str(&format!(
            "; log group {group} is left from this cluster, and `canoe cluster up` deletes it"
        ));
    }
    Ok(Ok(words))
}

/// What a `down` left must be named in the cluster file, or `up` refuses.
pub(super) async fn data(cloud: &impl Cloud, spec: &ClusterSpec) -> Check {
    let found = up::orphans(cloud, spec).await;
    let free = || "nothing of this cluster is kept that cluster.yaml does not name".to_owned();
    check(
        "data",
        asked(found.map(|words| words.map_or_else(|| Ok(free()), Err))),
    )
}

/// The running cluster must not need a change that AWS cannot make, or `up` refuses.
pub(super) async fn standing(cloud: &impl Cloud, spec: &ClusterSpec) -> Check {
    let found = standing::refuse_unchangeable(cloud, spec).await;
    let good = "cluster.yaml asks for no change that AWS cannot make".to_owned();
    check("running cluster", asked(found.map(|()| Ok(good))))
}

/// A refusal is a finding, and only a call that fails leaves the question open.
fn asked(result: Result<Result<String, String>, CommandError>) -> Finding {
    match result {
        Ok(found) => Ok(found),
        Err(CommandError::Cloud(error)) => Err(error),
        Err(other) => Ok(Err(other.to_string())),
    }
}

/// The bucket is needed only for large templates; it must be free or ours.
pub(super) async fn template_bucket(cloud: &impl Cloud, spec: &ClusterSpec) -> Check {
    if !bucket::is_needed(spec) {
        let largest = bucket::largest_template(spec);
        let text = format!("not needed: the largest template has {largest} of {MAX_BODY} bytes");
        return check("bucket", Ok(Ok(text)));
    }
    let Some(id) = &spec.id else {
        return check("bucket", Ok(Err(missing_id())));
    };
    let name = crate::policy::bucket_name(id);
    let found = match bucket::find(cloud, spec, &name).await {
        Ok(BucketOwner::Ours) => Ok(Ok(format!("{name} is there"))),
        Ok(BucketOwner::Unfinished) => Ok(Ok(format!("{name} is empty and will be used"))),
        Ok(BucketOwner::Nothing) => {
            Ok(Ok(format!("{name} does not exist yet and will be created")))
        }
        Ok(BucketOwner::Stranger(words)) => Ok(Err(words)),
        Err(error) if error.is_denied() => Ok(Err(format!("{name} belongs to another account"))),
        Err(error) => Err(error),
    };
    check("bucket", found)
}

/// Key pair, KMS key, file system and zone, as far as the cluster file names them.
pub(super) async fn brought(cloud: &impl Cloud, spec: &ClusterSpec) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(name) = &spec.ssh_key_name {
        checks.push(check("key pair", key_pair(cloud, name).await));
    }
    if let Some(arn) = &spec.kms_key_arn {
        checks.push(check("KMS key", key(cloud, arn).await));
    }
    if let Some(id) = &spec.storage.file_system_id {
        checks.push(check("file system", file_system(cloud, spec, id).await));
    }
    if spec.service_role {
        checks.push(check("service role", service_role(cloud, spec).await));
    }
    if spec.has_given_vpc() {
        checks.push(check("subnets", given_subnets(cloud, spec).await));
    }
    if let Some(id) = &spec.dns.hosted_zone_id {
        checks.push(check("hosted zone", zone(cloud, spec, id).await));
    }
    checks
}

/// Subnets of the user's own VPC: there, in that VPC, in our zones, inside its network.
async fn given_subnets(cloud: &impl Cloud, spec: &ClusterSpec) -> Finding {
    let network = &spec.network;
    let vpc = network.vpc_id.as_deref().unwrap_or_default();
    let ids = [&network.private_subnet_ids[..], &network.public_subnet_ids].concat();
    let found = cloud.subnets(&ids).await?;
    let mut wrong = Vec::new();
    for list in [&network.private_subnet_ids, &network.public_subnet_ids] {
        for (id, zone) in list.iter().zip(spec.subnet_zones()) {
            let inside = |cidr: &str| {
                let (outer, inner) = (network.vpc_cidr.parse::<Cidr>(), cidr.parse::<Cidr>());
                matches!((outer, inner), (Ok(outer), Ok(inner)) if outer.contains(inner))
            };
            match found.iter().find(|subnet| subnet.id == *id) {
                None => wrong.push(format!("{id} does not exist in {}", spec.region)),
                Some(subnet) if subnet.vpc != vpc => {
                    wrong.push(format!("{id} is in {}, not in {vpc}", subnet.vpc));
                }
                Some(subnet) if subnet.zone != zone => {
                    wrong.push(format!(
                        "{id} is in {}, but it stands in the place of {zone}",
                        subnet.zone
                    ));
                }
                Some(subnet) if !inside(&subnet.cidr) => wrong.push(format!(
                    "{id} has the network {}, which is not in network.vpcCidr {}",
                    subnet.cidr, network.vpc_cidr
                )),
                Some(_) => {}
            }
        }
    }
    Ok(if wrong.is_empty() {
        Ok(format!("{} of {vpc}", ids.join(", ")))
    } else {
        Err(wrong.join("; "))
    })
}

async fn service_role(cloud: &impl Cloud, spec: &ClusterSpec) -> Finding {
    let name = crate::policy::service_role_name(spec);
    Ok(match cloud.role_arn(&name).await? {
        Some(_) => Ok(name),
        None => Err(format!(
            "{name} does not exist; an administrator runs what `canoe cluster policy --write` prints"
        )),
    })
}

async fn key_pair(cloud: &impl Cloud, name: &str) -> Finding {
    Ok(if cloud.key_pair_exists(name).await? {
        Ok(name.to_owned())
    } else {
        Err(format!(
            "{name} does not exist in this region; make or import it"
        ))
    })
}

async fn key(cloud: &impl Cloud, arn: &str) -> Finding {
    let state = match cloud.key_state(arn).await {
        Err(error) if error.is_missing() => {
            let words = format!("{arn} does not exist; remove kmsKeyArn to have a key made");
            return Ok(Err(words));
        }
        other => other?,
    };
    Ok(if state == KeyState::Enabled {
        Ok("enabled".to_owned())
    } else {
        Err(format!("the key is {state}; enable it or use another"))
    })
}

/// A file system can have mount targets in one VPC only, and ours is a new one.
async fn file_system(cloud: &impl Cloud, spec: &ClusterSpec, id: &str) -> Finding {
    let absent = || {
        let region = &spec.region;
        format!("{id} does not exist in {region}; remove storage.fileSystemId to have one made")
    };
    let count = match cloud.mount_targets(id).await {
        Err(error) if error.is_missing() => return Ok(Err(absent())),
        other => other?,
    };
    let systems = cloud.file_systems().await?;
    if !systems.iter().any(|system| system.id == id) {
        return Ok(Err(absent()));
    }
    let ours = matches!(
        own::find(cloud, spec, StackLayer::Storage).await?,
        StackOwner::Ours(_)
    );
    if count > 0 && !ours {
        return Ok(Err(format!(
            "{id} has mount targets already ({count}); remove them first: a file system can be in one VPC only"
        )));
    }
    Ok(Ok(id.to_owned()))
}

async fn zone(cloud: &impl Cloud, spec: &ClusterSpec, id: &str) -> Finding {
    let wanted = spec.external_name().unwrap_or_default();
    Ok(match cloud.hosted_zone(id).await? {
        None => Err(format!(
            "{id} does not exist; look at `aws route53 list-hosted-zones`"
        )),
        Some(zone) if wanted == zone || wanted.ends_with(&format!(".{zone}")) => {
            Ok(format!("{id} is {zone}"))
        }
        Some(zone) => Err(format!(
            "{id} is the zone {zone}, which cannot hold {wanted}; write a name that ends in .{zone}"
        )),
    })
}
