//! Rules about what stands where, and in which order it is made.

use serde_json::Value;

use super::model::TemplateModel;
use crate::{catalog, names};

type Report<'r> = &'r mut dyn FnMut(&str, String);

pub(super) fn dead_version(model: &TemplateModel<'_>, report: Report<'_>) {
    for (id, cluster) in model.of_kind("AWS::EKS::Cluster") {
        let version = cluster.property("/Version").as_str().unwrap_or_default();
        let oldest = catalog::VERSIONS.0;
        if catalog::minor(version).is_none_or(|minor| minor < oldest) {
            report(
                id,
                format!("Kubernetes {version:?} is no longer offered; use 1.{oldest} or later"),
            );
        }
    }
}

pub(super) fn control_plane_in_one_zone(model: &TemplateModel<'_>, report: Report<'_>) {
    for (id, cluster) in model.of_kind("AWS::EKS::Cluster") {
        let subnets = &cluster.body["Properties"]["ResourcesVpcConfig"]["SubnetIds"];
        if model.given(subnets) {
            continue; // `validate` asks the account where they are
        }
        let zones = model.zones(subnets);
        if zones.len() < 2 {
            report(
                id,
                format!("EKS needs subnets in two zones, these are in {zones:?}; add one"),
            );
        }
    }
}

pub(super) fn two_mount_targets_in_zone(model: &TemplateModel<'_>, report: Report<'_>) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (id, target) in model.of_kind("AWS::EFS::MountTarget") {
        let Some(zone) = model.zone(&target.body["Properties"]["SubnetId"]) else {
            continue;
        };
        match seen.iter().find(|(_, other)| *other == zone) {
            Some((first, _)) => report(
                id,
                format!("{first} is already in {zone}; EFS allows one per zone"),
            ),
            None => seen.push((id, zone)),
        }
    }
}

pub(super) fn zone_without_mount_target(model: &TemplateModel<'_>, report: Report<'_>) {
    let served: Vec<&str> = model
        .of_kind("AWS::EFS::MountTarget")
        .filter_map(|(_, target)| model.zone(&target.body["Properties"]["SubnetId"]))
        .collect();
    let groups = model
        .of_kind("AWS::EKS::Nodegroup")
        .map(|(id, group)| (id, &group.body["Properties"]["Subnets"]))
        .chain(
            model
                .of_kind("AWS::AutoScaling::AutoScalingGroup")
                .map(|(id, group)| (id, &group.body["Properties"]["VPCZoneIdentifier"])),
        );
    for (id, subnets) in groups {
        for zone in model.zones(subnets) {
            if !served.contains(&zone) {
                report(
                    id,
                    format!("workers in {zone} have no mount target there; add one"),
                );
            }
        }
    }
}

/// The group of a mount target must let in NFS from a group, and it must not be the workers' own.
pub(super) fn mount_target_group(model: &TemplateModel<'_>, report: Report<'_>) {
    for (id, target) in model.of_kind("AWS::EFS::MountTarget") {
        let groups = target.body["Properties"]["SecurityGroups"].as_array();
        let lets_in = groups
            .into_iter()
            .flatten()
            .filter_map(|group| model.get(model.target(group)?))
            .any(|group| {
                let rules = group.body["Properties"]["SecurityGroupIngress"].as_array();
                rules.into_iter().flatten().any(|rule| {
                    rule["FromPort"] == 2049 && !rule["SourceSecurityGroupId"].is_null()
                })
            });
        if !lets_in {
            report(
                id,
                "its group does not let in NFS from the workers, so mounts will hang".to_owned(),
            );
        }
    }
}

fn types_of(resource: &Value) -> Vec<&str> {
    let properties = &resource["Properties"];
    let mut found: Vec<&str> = properties["InstanceTypes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    found.extend(properties["InstanceType"].as_str());
    found.extend(properties["LaunchTemplateData"]["InstanceType"].as_str());
    let overrides = properties["MixedInstancesPolicy"]["LaunchTemplate"]["Overrides"].as_array();
    found.extend(
        overrides
            .into_iter()
            .flatten()
            .filter_map(|entry| entry["InstanceType"].as_str()),
    );
    found
}

pub(super) fn instance_type(model: &TemplateModel<'_>, report: Report<'_>) {
    let kinds = [
        "AWS::EKS::Nodegroup",
        "AWS::EC2::LaunchTemplate",
        "AWS::EC2::Instance",
        "AWS::AutoScaling::AutoScalingGroup",
    ];
    for kind in kinds {
        for (id, resource) in model.of_kind(kind) {
            for name in types_of(resource.body)
                .into_iter()
                .filter(|name| !names::is_instance_type(name))
            {
                let near = names::nearest(name, catalog::INSTANCE_TYPES.iter().map(|t| t.name));
                let hint = near.map_or("write one such as m5.large".to_owned(), |n| {
                    format!("did you mean {n}?")
                });
                report(id, format!("{name:?} is not an instance type; {hint}"));
            }
        }
    }
}

/// A number that may be written as text.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

pub(super) fn desired_over_max(model: &TemplateModel<'_>, report: Report<'_>) {
    let node_groups = model.of_kind("AWS::EKS::Nodegroup").map(|(id, group)| {
        let scaling = group.property("/ScalingConfig");
        (
            id,
            number(&scaling["MinSize"]),
            number(&scaling["DesiredSize"]),
            number(&scaling["MaxSize"]),
        )
    });
    let scaling_groups = model
        .of_kind("AWS::AutoScaling::AutoScalingGroup")
        .map(|(id, group)| {
            let value = |name: &str| number(group.property(name));
            (
                id,
                value("/MinSize"),
                value("/DesiredCapacity"),
                value("/MaxSize"),
            )
        });
    for (id, low, wanted, high) in node_groups.chain(scaling_groups) {
        let (Some(low), Some(wanted), Some(high)) = (low, wanted, high) else {
            continue;
        };
        if wanted > high || wanted < low {
            report(
                id,
                format!("{wanted} workers are wanted, but {low} to {high} are allowed"),
            );
        }
    }
}

fn depends_on(resource: &Value, id: &str) -> bool {
    match &resource["DependsOn"] {
        Value::String(one) => one == id,
        Value::Array(many) => many.iter().any(|entry| entry == id),
        _ => false,
    }
}

pub(super) fn route_before_attachment(model: &TemplateModel<'_>, report: Report<'_>) {
    let attachments: Vec<&str> = model
        .of_kind("AWS::EC2::VPCGatewayAttachment")
        .map(|(id, _)| id)
        .collect();
    for (id, route) in model.of_kind("AWS::EC2::Route") {
        let through_gateway = !route.property("/GatewayId").is_null();
        if through_gateway
            && !attachments
                .iter()
                .any(|attachment| depends_on(route.body, attachment))
        {
            report(
                id,
                "may be made before the gateway is attached, and then fails; add DependsOn"
                    .to_owned(),
            );
        }
    }
}

pub(super) fn unknown_addon(model: &TemplateModel<'_>, report: Report<'_>) {
    for (id, addon) in model.of_kind("AWS::EKS::Addon") {
        let name = addon.property("/AddonName").as_str().unwrap_or_default();
        if !catalog::ADDONS.contains(&name) {
            let near = names::nearest(name, catalog::ADDONS.iter().copied());
            let hint = near.map_or(String::new(), |n| format!("; did you mean {n}?"));
            report(id, format!("{name:?} is not a known add-on{hint}"));
        }
    }
}
