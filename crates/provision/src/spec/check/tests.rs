//! Each field wrong in turn: named, with its line and the way out.

use super::check;
use crate::spec::{ClusterSpec, ControlPlaneMode, Severity, read, write::write};

/// One replacement in the file of a good cluster, the field that must be named, words of the message.
const WRONG: &[(&str, &str, &str, &str)] = &[
    (
        "apiVersion: canoe/v1",
        "apiVersion: canoe/v9",
        "apiVersion",
        "canoe/v1",
    ),
    ("name: demo", "name: de_mo", "name", "cluster name"),
    ("name: demo", "name: 7", "name", "does not fit"),
    ("name: demo", "name: ''", "name", "characters"),
    ("name: demo", "nmae: demo", "nmae", "did you mean name"),
    ("name: demo", "", "name", "missing"),
    ("6f1c2f6e-5b0e", "6F1C2F6E-5b0e", "id", "UUID"),
    (
        "region: us-west-2",
        "region: us_west_2",
        "region",
        "not a region",
    ),
    (
        "[us-west-2a, us-west-2b]",
        "[us-east-1a]",
        "zones[0]",
        "us-west-2a",
    ),
    (
        "[us-west-2a, us-west-2b]",
        "[us-west-2a, us-west-2a]",
        "zones[1]",
        "twice",
    ),
    ("[us-west-2a, us-west-2b]", "[]", "zones", "one to three"),
    ("[us-west-2a, us-west-2b]", "us-west-2a", "zones", "list"),
    (
        "\"1.35\"",
        "\"1.21\"",
        "kubernetesVersion",
        "no longer supported",
    ),
    ("\"1.35\"", "latest", "kubernetesVersion", "minor version"),
    (
        "mode: eks",
        "mode: ecs",
        "controlPlane.mode",
        "did you mean eks",
    ),
    (
        "[203.0.113.7/32]",
        "[0.0.0.0/0]",
        "controlPlane.allowedCidrs[0]",
        "whole Internet",
    ),
    (
        "[203.0.113.7/32]",
        "[203.0.113.7/32, 10.0.0.0/8]",
        "controlPlane.allowedCidrs[1]",
        "EKS refuses",
    ),
    (
        "serviceCidr: 172.20.0.0/16",
        "serviceCidr: 100.64.0.0/16",
        "network.serviceCidr",
        "does not take",
    ),
    (
        "[203.0.113.7/32]",
        "[203.0.113.7]",
        "controlPlane.allowedCidrs[0]",
        "CIDR",
    ),
    (
        "[203.0.113.7/32]",
        "[203.0.113.7/24]",
        "controlPlane.allowedCidrs[0]",
        "203.0.113.0/24",
    ),
    (
        "allowWorld: false",
        "allowWorld: maybe",
        "controlPlane.allowWorld",
        "true or false",
    ),
    (
        "  # extraZone: us-west-2b",
        "  extraZone: us-west-2b",
        "controlPlane.extraZone",
        "already",
    ),
    (
        "  instanceType: t3.medium",
        "  instanceType: 3",
        "controlPlane.instanceType",
        "text",
    ),
    (
        "logDays: 30",
        "logDays: 31",
        "controlPlane.logDays",
        "retention",
    ),
    ("count: 3", "count: -1", "workers.count", "0 to 1000"),
    ("count: 3", "count: 11", "workers.count", "workers.max"),
    ("count: 3", "count: three", "workers.count", "whole number"),
    ("max: 10", "max: 1001", "workers.max", "1 to 1000"),
    (
        "[m5.large]",
        "[m5.lrage]",
        "workers.instanceTypes[0]",
        "did you mean m5.large",
    ),
    (
        "[m5.large]",
        "[m5.large, m7g.large]",
        "workers.instanceTypes[1]",
        "architecture",
    ),
    ("[m5.large]", "[]", "workers.instanceTypes", "empty"),
    (
        "capacity: on-demand",
        "capacity: ondemand",
        "workers.capacity",
        "did you mean on-demand",
    ),
    ("diskGib: 50", "diskGib: 5", "workers.diskGib", "20 to"),
    (
        "vpcCidr: 10.0.0.0/16",
        "vpcCidr: 10.0.0.0/8",
        "network.vpcCidr",
        "/16 to /22",
    ),
    (
        "vpcCidr: 10.0.0.0/16",
        "vpcCidr: 8.8.0.0/16",
        "network.vpcCidr",
        "private",
    ),
    (
        "podCidr: 10.244.0.0/16",
        "podCidr: [a]",
        "network.podCidr",
        "text",
    ),
    (
        "serviceCidr: 172.20.0.0/16",
        "serviceCidr: 10.0.64.0/18",
        "network.serviceCidr",
        "overlaps",
    ),
    (
        "egress: nat",
        "egress: none",
        "network.egress",
        "one of nat",
    ),
    (
        "throughput: elastic",
        "throughput: fast",
        "storage.throughput",
        "elastic, bursting",
    ),
    (
        "encrypted: true",
        "encrypted: 1",
        "storage.encrypted",
        "true or false",
    ),
    ("uid: 10001", "uid: 0", "storage.uid", "1 to 65535"),
    (
        "directory: /canoe",
        "directory: canoe",
        "storage.directory",
        "/canoe",
    ),
    (
        "backup: false",
        "backup: daily",
        "storage.backup",
        "true or false",
    ),
    (
        "  # fileSystemId: fs-0123456789abcdef0",
        "  fileSystemId: vol-0123456789abcdef0",
        "storage.fileSystemId",
        "fs-0123456789abcdef0",
    ),
    (
        "# sshKeyName: my-key",
        "sshKeyName: schlüssel",
        "sshKeyName",
        "ASCII",
    ),
    (
        "# kmsKeyArn: arn:aws:kms:us-west-2",
        "kmsKeyArn: arn:aws:kms:us-east-1",
        "kmsKeyArn",
        "us-east-1",
    ),
    (
        "# kmsKeyArn: arn:aws:kms",
        "kmsKeyArn: alias/x #",
        "kmsKeyArn",
        "ARN",
    ),
    (
        "  # externalName: paddle.example.com",
        "  externalName: paddle",
        "dns.externalName",
        "paddle.example.com",
    ),
    (
        "  # hostedZoneId: Z",
        "  hostedZoneId: Z",
        "dns.hostedZoneId",
        "dns.externalName",
    ),
    ("ttl: 300", "ttl: 0", "dns.ttl", "1 to 86400"),
    (
        "aws-efs-csi-driver]",
        "aws-efs-csi-diver]",
        "addons[4]",
        "did you mean aws-efs-csi-driver",
    ),
    (
        "eks-pod-identity-agent, ",
        "",
        "addons",
        "eks-pod-identity-agent",
    ),
    ("tags: {}", "tags: {'aws:x': y}", "tags.aws:x", "tag key"),
    ("tags: {}", "tags: {x: 1}", "tags", "texts"),
    ("tags: {}", "tags: {name: x}", "tags.name", "canoe itself"),
    (
        "tags: {}",
        "tags: {Name: mine}",
        "tags.Name",
        "canoe itself",
    ),
    (
        "tags: {}",
        "tags: {Team: a, team: b}",
        "tags.team",
        "Team only in the case",
    ),
    (
        "tags: {}",
        "tags: {'kubernetes.io/cluster/demo': owned}",
        "tags.kubernetes.io/cluster/demo",
        "Kubernetes itself",
    ),
    (
        "aws-efs-csi-driver]",
        "aws-efs-csi-driver, vpc-cni]",
        "addons[5]",
        "twice",
    ),
    ("workers:\n", "workers: 3\nworker:\n", "workers", "keys"),
    (
        "access: {}",
        "access: {me: edit}",
        "controlPlane.access",
        "role/NAME",
    ),
    (
        "access: {}",
        "access: {\"arn:aws:iam::123456789012:role/a\": everything}",
        "controlPlane.access",
        "admin, edit, view",
    ),
    (
        "# etcdVolumeId: vol-0123456789abcdef0",
        "etcdVolumeId: fs-1",
        "controlPlane.etcdVolumeId",
        "vol-0123456789abcdef0",
    ),
    (
        "onDemand: 0",
        "onDemand: 4",
        "workers.onDemand",
        "workers.count",
    ),
    (
        "# kubernetesVersion: \"1.34\"",
        "kubernetesVersion: \"1.36\"",
        "workers.kubernetesVersion",
        "only an upgrade",
    ),
    (
        "groups: []",
        "groups: [{name: A, count: 1, instanceTypes: [m5.large]}]",
        "workers.groups[0]",
        "lower-case",
    ),
    (
        "groups: []",
        "groups: [{name: a, cuont: 1, instanceTypes: [m5.large]}]",
        "workers.groups[0]",
        "did you mean count?",
    ),
    (
        "groups: []",
        "groups: [{name: a, count: 1, instanceTypes: [m7g.large]}]",
        "workers.groups[0]",
        "x86",
    ),
    ("groups: []", "groups: 3", "workers.groups", "a list"),
    (
        "# vpcId: vpc-0123456789abcdef0",
        "vpcId: vpc-x",
        "network.vpcId",
        "vpc-0123456789abcdef0",
    ),
    (
        "privateSubnetIds: []",
        "privateSubnetIds: [subnet-01234567]",
        "network.vpcId",
        "no VPC",
    ),
    (
        "  # vpcId: vpc-0123456789abcdef0",
        "  vpcId: vpc-01234567",
        "network.privateSubnetIds",
        "us-west-2a, us-west-2b",
    ),
    (
        "publicSubnetIds: []",
        "publicSubnetIds: 1",
        "network.publicSubnetIds",
        "a list",
    ),
    (
        "buckets: []",
        "buckets: [My_Bucket]",
        "storage.buckets[0]",
        "lower-case",
    ),
    (
        "addonVersions: {}",
        "addonVersions: {coredns: latest}",
        "addonVersions",
        "v1.20.4",
    ),
    (
        "imageRepository: false",
        "imageRepository: yes please",
        "imageRepository",
        "true or false",
    ),
    (
        "serviceRole: false",
        "serviceRole: stacks",
        "serviceRole",
        "true or false",
    ),
];

fn good() -> String {
    let mut spec = ClusterSpec::new("demo", "us-west-2");
    spec.id = Some("6f1c2f6e-5b0e-4c8e-9d55-0d8f4f2a7b11".to_owned());
    spec.control_plane.allowed_cidrs = vec!["203.0.113.7/32".to_owned()];
    write(&spec)
}

#[test]
fn a_good_file_has_no_problems() {
    assert_eq!(read(&good()).unwrap().warnings, []);
}

#[test]
fn each_field_wrong_in_turn_is_named_with_line_and_way_out() {
    for (from, to, field, words) in WRONG {
        let text = good();
        assert!(text.contains(from), "{from} is not in the file");
        let text = text.replacen(from, to, 1);
        let problems = read(&text).expect_err(to);
        let problem = problems
            .iter()
            .find(|p| p.field == *field && p.severity == Severity::Error);
        let problem =
            problem.unwrap_or_else(|| panic!("{to:?}: no error for {field} in {problems:?}"));
        let sentence = problem.text("cluster.yaml");
        assert!(sentence.contains(words), "{sentence}");
        assert!(!problem.remedy.is_empty());
        if !to.is_empty() && !problem.message.contains("missing") {
            let line = text.lines().nth(problem.line.unwrap() - 1).unwrap();
            let last = to.lines().next().unwrap();
            let elsewhere =
                last.contains("vpcId: vpc-01234567") || last.contains("subnet-01234567");
            assert!(
                elsewhere || line.contains(last.trim()),
                "{sentence} points at {line:?}"
            );
        }
    }
    for documented in crate::spec::fields::FIELDS {
        let covered = WRONG.iter().any(|(_, _, field, _)| {
            *field == documented.path || field.starts_with(&format!("{}[", documented.path))
        });
        assert!(
            covered || documented.path == "tags",
            "{} has no bad example",
            documented.path
        );
    }
}

/// EKS makes the creator of a cluster its administrator: with a service role nobody could have used the cluster.
#[test]
fn with_a_service_role_an_administrator_is_named() {
    let text = good().replace("serviceRole: false", "serviceRole: true");
    let problems = read(&text).unwrap_err();
    assert_eq!(problems[0].field, "controlPlane.access");
    let team = "access: {\"arn:aws:iam::123456789012:role/team\": admin}";
    assert!(read(&text.replace("access: {}", team)).is_ok());
}

#[test]
fn all_problems_come_together_in_order_of_lines() {
    let text = good()
        .replace("name: demo", "name: de_mo")
        .replace("count: 3", "count: 11");
    let problems = read(&text).unwrap_err();
    let fields: Vec<&str> = problems.iter().map(|p| p.field.as_str()).collect();
    assert_eq!(fields, ["name", "workers.count"]);
}

#[test]
fn the_world_may_be_let_in_only_on_purpose() {
    let text = good()
        .replace("203.0.113.7/32", "0.0.0.0/0")
        .replace("allowWorld: false", "allowWorld: true");
    assert!(read(&text).is_ok());
}

#[test]
fn self_managed_has_rules_of_its_own() {
    let mut spec = ClusterSpec::new("demo", "us-west-2");
    spec.control_plane.mode = ControlPlaneMode::SelfManaged;
    spec.control_plane.instance_type = "m7g.large".to_owned();
    spec.network.pod_cidr = "10.0.0.0/16".to_owned();
    let fields: Vec<String> = check(&spec)
        .into_iter()
        .filter(|p| p.severity == Severity::Error)
        .map(|p| p.field)
        .collect();
    assert_eq!(fields, ["controlPlane.instanceType", "network.podCidr"]);
}
