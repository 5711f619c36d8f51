//! Each field wrong in turn: named, with its line and the way out.

use super::check;
use crate::spec::{ClusterSpec, Mode, Severity, read, write::write};

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
        "\"1.34\"",
        "\"1.21\"",
        "kubernetesVersion",
        "no longer supported",
    ),
    ("\"1.34\"", "latest", "kubernetesVersion", "minor version"),
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
    ("count: 3", "count: 0", "workers.count", "1 to 1000"),
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
    ("workers:\n", "workers: 3\nworker:\n", "workers", "keys"),
];

fn good() -> String {
    let mut spec = ClusterSpec::new("demo", "us-west-2");
    spec.control_plane.allowed_cidrs = vec!["203.0.113.7/32".to_owned()];
    write(&spec)
}

#[test]
fn a_good_file_has_no_problems() {
    assert_eq!(read(&good()).unwrap().1, []);
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
            assert!(line.contains(last.trim()), "{sentence} points at {line:?}");
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
    spec.control_plane.mode = Mode::SelfManaged;
    spec.control_plane.instance_type = "m7g.large".to_owned();
    spec.network.pod_cidr = "10.0.0.0/16".to_owned();
    let fields: Vec<String> = check(&spec)
        .into_iter()
        .filter(|p| p.severity == Severity::Error)
        .map(|p| p.field)
        .collect();
    assert_eq!(fields, ["controlPlane.instanceType", "network.podCidr"]);
}
