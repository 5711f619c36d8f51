//! Whether names are free, and whether what the cluster file brings along is there and fits.

use super::{Check, check};
use crate::cloud::{Caller, Cloud, CloudError};
use crate::lifecycle::next::StackState;
use crate::names::BUCKET;
use crate::spec::{ClusterSpec, Mode};
use crate::template::roles::role_name;
use crate::template::{Layer, MAX_BODY, Render, render};

type Finding = Result<Result<String, String>, CloudError>;

/// A stack of one of our names must be ours; what has no stack must not exist.
pub(super) async fn names(cloud: &impl Cloud, spec: &ClusterSpec) -> Check {
    check("names", free_names(cloud, spec).await)
}

async fn free_names(cloud: &impl Cloud, spec: &ClusterSpec) -> Finding {
    let mut there = Vec::new();
    for layer in Layer::ALL {
        let name = layer.stack_name(&spec.name);
        let view = cloud.stack(&name).await?;
        if view.is_some_and(|view| StackState::from_status(&view.status) != StackState::Absent) {
            there.push((layer, name));
        }
    }
    let has = |layer: Layer| there.iter().any(|(other, _)| *other == layer);
    let listed: Vec<&str> = there.iter().map(|(_, name)| name.as_str()).collect();
    if !there.is_empty() && !has(Layer::Base) {
        return Ok(Err(format!(
            "{} exist without their base; another tool's? choose another name",
            listed.join(", ")
        )));
    }
    if !has(Layer::Cluster)
        && let Some(taken) = taken_name(cloud, spec).await?
    {
        return Ok(Err(taken));
    }
    Ok(Ok(if listed.is_empty() {
        "free".to_owned()
    } else {
        format!("{} exist and will be updated", listed.join(", "))
    }))
}

/// Something of a name that the cluster stack will want to make.
async fn taken_name(cloud: &impl Cloud, spec: &ClusterSpec) -> Result<Option<String>, CloudError> {
    let role = role_name(spec, "workers");
    if cloud.role_exists(&role).await? {
        return Ok(Some(format!(
            "a role {role} exists that no stack of this cluster made; choose another name, or remove it"
        )));
    }
    if spec.control_plane.mode == Mode::SelfManaged {
        return Ok(None);
    }
    if cloud.eks_cluster_exists(&spec.name).await? {
        return Ok(Some(format!(
            "an EKS cluster {} exists that no stack of this cluster made; choose another name, or remove it",
            spec.name
        )));
    }
    let group = crate::template::eks::log_group(spec);
    let groups = cloud.log_groups(&group).await?;
    Ok(groups.contains(&group).then(|| {
        format!(
            "log group {group} is left from an earlier cluster; `canoe cluster down` removes it, or choose another name"
        )
    }))
}

/// The bucket is needed only for large templates; its name must be one, and free or ours.
pub(super) async fn bucket(cloud: &impl Cloud, spec: &ClusterSpec, caller: &Caller) -> Check {
    let stacks = render(spec, &Render::default());
    let largest = stacks.iter().map(|stack| stack.compact().len()).max();
    let largest = largest.unwrap_or(0);
    if largest <= MAX_BODY {
        let text = format!("not needed: the largest template has {largest} of {MAX_BODY} bytes");
        return check("bucket", Ok(Ok(text)));
    }
    let name = crate::policy::bucket_name(spec, &caller.account);
    if let Some(complaint) = BUCKET.complaint(&name) {
        let text = format!("{complaint}; choose a shorter cluster name");
        return check("bucket", Ok(Err(text)));
    }
    let found = match cloud.bucket_exists(&name).await {
        Ok(true) => Ok(Ok(format!("{name} is there"))),
        Ok(false) => Ok(Ok(format!("{name} is free and will be made"))),
        Err(error) if error.is_denied() => Ok(Err(format!(
            "{name} belongs to somebody else; choose another cluster name"
        ))),
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
    if let Some(id) = &spec.dns.hosted_zone_id {
        checks.push(check("hosted zone", zone(cloud, spec, id).await));
    }
    checks
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
    let state = cloud.key_state(arn).await?;
    Ok(if state == "Enabled" {
        Ok("enabled".to_owned())
    } else {
        Err(format!("the key is {state}; enable it or use another"))
    })
}

/// A file system can have mount targets in one VPC only, and ours is a new one.
async fn file_system(cloud: &impl Cloud, spec: &ClusterSpec, id: &str) -> Finding {
    let storage = Layer::Storage.stack_name(&spec.name);
    let count = match cloud.mount_targets(id).await {
        Ok(count) => count,
        Err(error) if error.is_missing() => {
            return Ok(Err(format!(
                "{id} does not exist in {}; remove storage.fileSystemId to have one made",
                spec.region
            )));
        }
        Err(error) => return Err(error),
    };
    if count > 0 && cloud.stack(&storage).await?.is_none() {
        return Ok(Err(format!(
            "{id} has {count} mount target(s) already; remove them first, it can be in one VPC only"
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
