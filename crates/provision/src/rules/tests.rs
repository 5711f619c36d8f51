//! Each rule: silent on every good render, and the only one to speak when its fault is seeded.

use serde_json::{Value, json};

use super::*;
use crate::matrix;
use crate::spec::ClusterSpec;
use crate::template::{Render, render};

/// Stack index, JSON pointer, value to put there (or null to remove).
type Fault = (&'static str, usize, &'static str, fn() -> Value);

const BASE: usize = 0;
const STORAGE: usize = 1;
const CLUSTER: usize = 2;

fn import(name: &str) -> Value {
    json!({"Fn::ImportValue": format!("demo-{name}")})
}

const FAULTS: [Fault; 20] = [
    (
        "nfs-from-world",
        BASE,
        "/Resources/StorageSecurityGroup/Properties/SecurityGroupIngress/1",
        || json!({"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049, "CidrIp": "0.0.0.0/0"}),
    ),
    (
        "storage-wider-than-nfs",
        BASE,
        "/Resources/StorageSecurityGroup/Properties/SecurityGroupIngress/1",
        || {
            json!({"IpProtocol": "tcp", "FromPort": 0, "ToPort": 65535,
               "SourceSecurityGroupId": {"Fn::GetAtt": ["WorkerSecurityGroup", "GroupId"]}})
        },
    ),
    (
        "metadata-hop-limit",
        CLUSTER,
        "/Resources/WorkerTemplate/Properties/LaunchTemplateData/MetadataOptions/HttpPutResponseHopLimit",
        || json!(2),
    ),
    (
        "disk-not-encrypted",
        CLUSTER,
        "/Resources/WorkerTemplate/Properties/LaunchTemplateData/BlockDeviceMappings/0/Ebs/Encrypted",
        || json!(false),
    ),
    (
        "administrator-role",
        CLUSTER,
        "/Resources/WorkerRole/Properties/ManagedPolicyArns/0",
        || json!("arn:aws:iam::aws:policy/AdministratorAccess"),
    ),
    (
        "api-open-to-world",
        CLUSTER,
        "/Resources/Cluster/Properties/ResourcesVpcConfig/PublicAccessCidrs/0",
        || json!("0.0.0.0/0"),
    ),
    (
        "no-control-plane-logs",
        CLUSTER,
        "/Resources/Cluster/Properties/Logging",
        || Value::Null,
    ),
    (
        "no-posix-user",
        STORAGE,
        "/Resources/AccessPoint/Properties/PosixUser",
        || Value::Null,
    ),
    (
        "dead-version",
        CLUSTER,
        "/Resources/Cluster/Properties/Version",
        || json!("1.21"),
    ),
    (
        "control-plane-in-one-zone",
        CLUSTER,
        "/Resources/Cluster/Properties/ResourcesVpcConfig/SubnetIds",
        || json!([import("PrivateSubnet1"), import("PublicSubnet1")]),
    ),
    (
        "two-mount-targets-in-zone",
        STORAGE,
        "/Resources/MountTarget9",
        || {
            json!({"Type": "AWS::EFS::MountTarget", "Properties": {
            "SubnetId": import("PublicSubnet1"), "SecurityGroups": [import("StorageSecurityGroup")]}})
        },
    ),
    (
        "zone-without-mount-target",
        STORAGE,
        "/Resources/MountTarget2",
        || Value::Null,
    ),
    (
        "mount-target-group",
        STORAGE,
        "/Resources/MountTarget1/Properties/SecurityGroups",
        || json!([import("WorkerSecurityGroup")]),
    ),
    (
        "instance-type",
        CLUSTER,
        "/Resources/Workers/Properties/InstanceTypes/0",
        || json!("m5.lrage"),
    ),
    (
        "desired-over-max",
        CLUSTER,
        "/Resources/Workers/Properties/ScalingConfig/DesiredSize",
        || json!(99),
    ),
    (
        "route-before-attachment",
        BASE,
        "/Resources/PublicDefaultRoute/DependsOn",
        || Value::Null,
    ),
    (
        "unknown-addon",
        CLUSTER,
        "/Resources/AddonCoredns/Properties/AddonName",
        || json!("cordns"),
    ),
    (
        "network-policy-not-enforced",
        CLUSTER,
        "/Resources/AddonVpcCni/Properties/ConfigurationValues",
        || Value::Null,
    ),
    (
        "extended-support",
        CLUSTER,
        "/Resources/Cluster/Properties/UpgradePolicy",
        || Value::Null,
    ),
    (
        "controller-from-template",
        CLUSTER,
        "/Resources/Machine",
        || {
            json!({"Type": "AWS::EC2::Instance", "Properties": {
            "LaunchTemplate": {"Version": "1"}, "BlockDeviceMappings": [{"Ebs": {"Encrypted": true}}]}})
        },
    ),
];

fn good() -> Vec<Stack> {
    let mut spec = ClusterSpec::new("demo", "us-west-2");
    spec.control_plane.allowed_cidrs = vec!["203.0.113.7/32".to_owned()];
    render(&spec, &Render::default())
}

fn seed(stack: &mut Stack, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = stack
        .body
        .pointer_mut(parent)
        .unwrap_or_else(|| panic!("{pointer} has no parent"));
    match parent {
        Value::Object(entries) if value.is_null() => {
            assert!(entries.remove(key).is_some(), "{pointer} is not there");
        }
        Value::Object(entries) => {
            entries.insert(key.to_owned(), value);
        }
        Value::Array(items) => {
            let index: usize = key.parse().unwrap();
            if index < items.len() {
                items[index] = value
            } else {
                items.push(value)
            }
        }
        other => panic!("{pointer}: {other}"),
    }
}

#[test]
fn good_renders_have_no_findings() {
    for (name, spec) in matrix::cases() {
        assert_eq!(
            check(&render(&spec, &Render::default()), false),
            [],
            "{name}"
        );
    }
}

#[test]
fn each_seeded_fault_is_found_by_its_rule_alone() {
    for (rule, stack, pointer, value) in FAULTS {
        let mut stacks = good();
        seed(&mut stacks[stack], pointer, value());
        let findings = check(&stacks, false);
        let rules: Vec<&str> = findings.iter().map(|finding| finding.rule).collect();
        assert_eq!(rules, [rule], "{findings:?}");
        assert!(findings[0].place.contains('/'), "{findings:?}");
    }
    let mut tested: Vec<&str> = FAULTS.iter().map(|(rule, ..)| *rule).collect();
    let mut known: Vec<&str> = RULES.iter().map(|(rule, _)| *rule).collect();
    tested.sort_unstable();
    known.sort_unstable();
    assert_eq!(tested, known);
}

#[test]
fn the_user_may_open_the_api_on_purpose() {
    let mut stacks = good();
    seed(
        &mut stacks[CLUSTER],
        "/Resources/Cluster/Properties/ResourcesVpcConfig/PublicAccessCidrs/0",
        json!("0.0.0.0/0"),
    );
    assert_eq!(check(&stacks, true), []);
}

#[test]
fn self_managed_faults_are_found_too() {
    let spec = matrix::cases()
        .into_iter()
        .find(|(name, _)| name == "self-managed-spot-new-key-no-dns-2")
        .unwrap()
        .1;
    let faults: [(&str, usize, &str, Value); 4] = [
        (
            "api-open-to-world",
            BASE,
            "/Resources/ControllerSecurityGroup/Properties/SecurityGroupIngress/4/CidrIp",
            json!("0.0.0.0/0"),
        ),
        (
            "desired-over-max",
            CLUSTER,
            "/Resources/Workers/Properties/DesiredCapacity",
            json!("11"),
        ),
        (
            "zone-without-mount-target",
            STORAGE,
            "/Resources/MountTarget1",
            Value::Null,
        ),
        (
            "instance-type",
            CLUSTER,
            "/Resources/Workers/Properties/MixedInstancesPolicy/LaunchTemplate/Overrides/1/InstanceType",
            json!("m6i.big"),
        ),
    ];
    for (rule, stack, pointer, value) in faults {
        let mut stacks = render(&spec, &Render::default());
        seed(&mut stacks[stack], pointer, value);
        let rules: Vec<&str> = check(&stacks, false)
            .iter()
            .map(|finding| finding.rule)
            .collect();
        assert_eq!(rules, [rule]);
    }
}
