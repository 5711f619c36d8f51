//! Rules about who may do or reach what.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::model::TemplateModel;
use crate::cidr::Cidr;

type Report<'r> = &'r mut dyn FnMut(&str, String);

/// Whether a rule's source is the whole Internet.
fn from_world(rule: &Value) -> bool {
    let v4 = rule["CidrIp"]
        .as_str()
        .and_then(|text| text.parse::<Cidr>().ok())
        .is_some_and(Cidr::is_world);
    v4 || rule["CidrIpv6"].as_str() == Some("::/0")
}

/// The ports that a rule opens.
fn ports(rule: &Value) -> RangeInclusive<i64> {
    if rule["IpProtocol"] == "-1" {
        return 0..=65535;
    }
    rule["FromPort"].as_i64().unwrap_or(0)..=rule["ToPort"].as_i64().unwrap_or(65535)
}

fn ingress<'a>(model: &TemplateModel<'a>) -> Vec<(&'a str, &'a Value)> {
    let inline = model
        .of_kind("AWS::EC2::SecurityGroup")
        .flat_map(|(id, group)| {
            let rules = group.body["Properties"]["SecurityGroupIngress"].as_array();
            rules.into_iter().flatten().map(move |rule| (id, rule))
        });
    let separate = model
        .of_kind("AWS::EC2::SecurityGroupIngress")
        .map(|(id, rule)| (id, &rule.body["Properties"]));
    inline.chain(separate).collect()
}

pub(super) fn nfs_from_world(model: &TemplateModel<'_>, report: Report<'_>) {
    for (id, rule) in ingress(model) {
        if from_world(rule) && ports(rule).contains(&2049) {
            report(
                id,
                "NFS (2049) is open to the whole Internet; let in the workers' group only"
                    .to_owned(),
            );
        }
    }
}

pub(super) fn storage_wider_than_nfs(model: &TemplateModel<'_>, report: Report<'_>) {
    let groups = model.storage_groups();
    for (id, rule) in ingress(model) {
        let group = model.target(&rule["GroupId"]).unwrap_or(id);
        let ports = ports(rule);
        if groups.contains(&group) && !from_world(rule) && ports != (2049..=2049) {
            let (low, high) = ports.into_inner();
            report(
                id,
                format!("the file system's group opens ports {low} to {high}; it needs 2049 only"),
            );
        }
    }
}

pub(super) fn metadata_hop_limit(model: &TemplateModel<'_>, report: Report<'_>) {
    let templates = model
        .of_kind("AWS::EC2::LaunchTemplate")
        .map(|(id, template)| (id, template.property("/LaunchTemplateData/MetadataOptions")));
    let machines = model
        .of_kind("AWS::EC2::Instance")
        .map(|(id, machine)| (id, machine.property("/MetadataOptions")));
    for (id, options) in templates.chain(machines) {
        if options["HttpPutResponseHopLimit"].as_i64().unwrap_or(1) > 1 {
            report(
                id,
                "pods can reach the instance metadata; set HttpPutResponseHopLimit to 1".to_owned(),
            );
        }
    }
}

/// The add-on of the network driver, without the switch that makes it enforce policies.
pub(super) fn network_policy_not_enforced(model: &TemplateModel<'_>, report: Report<'_>) {
    for (id, addon) in model.of_kind("AWS::EKS::Addon") {
        let values = addon.property("/ConfigurationValues").as_str();
        let values = values.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let on = values.is_some_and(|values| values["enableNetworkPolicy"] == "true");
        if addon.property("/AddonName") == "vpc-cni" && !on {
            report(
                id,
                "network policies are accepted and not enforced; set enableNetworkPolicy in ConfigurationValues"
                    .to_owned(),
            );
        }
    }
}

/// EKS bills six times as much after standard support unless the cluster asks to be upgraded instead.
pub(super) fn extended_support(model: &TemplateModel<'_>, report: Report<'_>) {
    for (id, cluster) in model.of_kind("AWS::EKS::Cluster") {
        if cluster.property("/UpgradePolicy/SupportType") != "STANDARD" {
            report(
                id,
                "will be billed as extended support when standard support ends; set UpgradePolicy.SupportType to STANDARD"
                    .to_owned(),
            );
        }
    }
}

/// The controller would be replaced, and its fixed address is in use until it has gone.
pub(super) fn controller_from_template(model: &TemplateModel<'_>, report: Report<'_>) {
    for (id, machine) in model.of_kind("AWS::EC2::Instance") {
        if !machine.property("/LaunchTemplate").is_null() {
            report(
                id,
                "is replaced whenever its launch template changes; set its properties directly"
                    .to_owned(),
            );
        }
    }
}

pub(super) fn disk_not_encrypted(model: &TemplateModel<'_>, report: Report<'_>) {
    for (id, machine) in model.of_kind("AWS::EC2::Instance") {
        let mappings = machine.property("/BlockDeviceMappings").as_array();
        if mappings.is_none_or(|m| m.iter().any(|mapping| mapping["Ebs"]["Encrypted"] != true)) {
            report(
                id,
                "a disk is not encrypted; set Ebs.Encrypted to true".to_owned(),
            );
        }
    }
    for (id, disk) in model.of_kind("AWS::EC2::Volume") {
        if disk.property("/Encrypted") != true {
            report(
                id,
                "the disk is not encrypted; set Encrypted to true".to_owned(),
            );
        }
    }
    for (id, template) in model.of_kind("AWS::EC2::LaunchTemplate") {
        let mappings = template
            .property("/LaunchTemplateData/BlockDeviceMappings")
            .as_array();
        if mappings.is_none_or(|m| m.iter().any(|mapping| mapping["Ebs"]["Encrypted"] != true)) {
            report(
                id,
                "a disk is not encrypted; set Ebs.Encrypted to true on every mapping".to_owned(),
            );
        }
    }
}

pub(super) fn administrator_role(model: &TemplateModel<'_>, report: Report<'_>) {
    for (id, role) in model.of_kind("AWS::IAM::Role") {
        if role
            .property("/ManagedPolicyArns")
            .to_string()
            .contains("policy/AdministratorAccess")
        {
            report(
                id,
                "the role may do everything in the account; attach the policies that it needs"
                    .to_owned(),
            );
        }
    }
}

pub(super) fn api_open_to_world(model: &TemplateModel<'_>, report: Report<'_>) {
    for (id, cluster) in model.of_kind("AWS::EKS::Cluster") {
        let access = cluster.property("/ResourcesVpcConfig");
        if access["EndpointPublicAccess"] == false {
            continue;
        }
        let networks = access["PublicAccessCidrs"].as_array();
        let open = networks
            .is_none_or(|list| list.is_empty() || list.iter().any(|cidr| cidr == "0.0.0.0/0"));
        if open {
            report(
                id,
                "the API server is open to the whole Internet; name networks in PublicAccessCidrs"
                    .to_owned(),
            );
        }
    }
    for (id, rule) in ingress(model) {
        if from_world(rule) && ports(rule).contains(&6443) {
            report(
                id,
                "the API server (6443) is open to the whole Internet; name networks".to_owned(),
            );
        }
    }
}

pub(super) fn no_control_plane_logs(model: &TemplateModel<'_>, report: Report<'_>) {
    for (id, cluster) in model.of_kind("AWS::EKS::Cluster") {
        let enabled = cluster
            .property("/Logging/ClusterLogging/EnabledTypes")
            .to_string();
        let missing: Vec<&str> = ["api", "audit", "authenticator"]
            .into_iter()
            .filter(|t| !enabled.contains(&format!("\"{t}\"")))
            .collect();
        if !missing.is_empty() {
            report(
                id,
                format!(
                    "control-plane logs are off: {}; enable them",
                    missing.join(", ")
                ),
            );
        }
    }
}

pub(super) fn no_posix_user(model: &TemplateModel<'_>, report: Report<'_>) {
    for (id, point) in model.of_kind("AWS::EFS::AccessPoint") {
        let user = point
            .property("/PosixUser/Uid")
            .as_str()
            .unwrap_or_default();
        if user.is_empty() || user == "0" {
            report(
                id,
                "pods keep whatever user they claim, root included; set PosixUser".to_owned(),
            );
        }
    }
}
