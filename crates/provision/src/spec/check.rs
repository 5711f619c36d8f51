//! Whether a cluster makes sense, as far as can be known without asking AWS.
//!
//! Every rule is a function of the spec that adds to a list; none stops the others.

use super::{ClusterSpec, Mode, Problem};
use crate::catalog;
use crate::cidr::Cidr;
use crate::names::{self, NameRule};

/// All problems, in no particular order.
pub fn check(spec: &ClusterSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    let out = &mut problems;
    identity(spec, out);
    zones(spec, out);
    version(spec, out);
    control_plane(spec, out);
    workers(spec, out);
    network(spec, out);
    storage_and_keys(spec, out);
    dns(spec, out);
    addons(spec, out);
    tags(spec, out);
    problems
}

fn named(out: &mut Vec<Problem>, field: &str, rule: NameRule, value: &str) {
    if let Some(complaint) = rule.complaint(value) {
        out.push(Problem::error(
            field,
            complaint,
            format!("write {}", rule.form),
        ));
    }
}

fn identity(spec: &ClusterSpec, out: &mut Vec<Problem>) {
    named(out, "name", names::CLUSTER, &spec.name);
    if !catalog::is_region_form(&spec.region) {
        out.push(Problem::error(
            "region",
            format!("{:?} is not a region", spec.region),
            "write one such as us-west-2",
        ));
    } else if catalog::region_factor(&spec.region).is_none() {
        let near = names::nearest(&spec.region, catalog::REGIONS.iter().map(|(name, _)| *name));
        let remedy = match near {
            Some(name) => {
                format!("did you mean {name}? If not, `canoe cluster validate` asks the account")
            }
            None => "`canoe cluster validate` asks the account".to_owned(),
        };
        out.push(Problem::warning(
            "region",
            format!("{} is not in the built-in list", spec.region),
            remedy,
        ));
    }
}

fn zones(spec: &ClusterSpec, out: &mut Vec<Problem>) {
    if spec.zones.is_empty() || spec.zones.len() > 3 {
        let message = format!("{} zones are given", spec.zones.len());
        out.push(Problem::error(
            "zones",
            message,
            format!("write one to three, such as [{}a]", spec.region),
        ));
    }
    for (index, zone) in spec.zones.iter().enumerate() {
        let field = format!("zones[{index}]");
        zone_of_region(spec, out, &field, zone);
        if spec.zones[..index].contains(zone) {
            out.push(Problem::error(
                &field,
                format!("{zone} is given twice"),
                "name each zone once",
            ));
        }
    }
    if let Some(zone) = &spec.control_plane.extra_zone {
        let field = "controlPlane.extraZone";
        zone_of_region(spec, out, field, zone);
        if spec.control_plane.mode == Mode::SelfManaged {
            out.push(Problem::warning(field, "is used by eks only", "remove it"));
        } else if spec.zones.contains(zone) {
            out.push(Problem::error(
                field,
                format!("{zone} is already in zones"),
                "name another zone, or remove it",
            ));
        }
    }
}

fn zone_of_region(spec: &ClusterSpec, out: &mut Vec<Problem>, field: &str, zone: &str) {
    let letter = zone.strip_prefix(spec.region.as_str());
    let good =
        letter.is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_lowercase()));
    if !good {
        let message = format!("{zone:?} is not a zone of {}", spec.region);
        out.push(Problem::error(
            field,
            message,
            format!("write the region and a letter, such as {}a", spec.region),
        ));
    }
}

fn version(spec: &ClusterSpec, out: &mut Vec<Problem>) {
    let field = "kubernetesVersion";
    let text = &spec.kubernetes_version;
    let (oldest, newest) = catalog::VERSIONS;
    match catalog::minor(text) {
        None => out.push(Problem::error(
            field,
            format!("{text:?} is not a minor version"),
            format!(
                "write one in quotes, such as \"{}\"",
                catalog::DEFAULT_VERSION
            ),
        )),
        Some(minor) if minor < oldest => out.push(Problem::error(
            field,
            format!("{text} is no longer supported"),
            format!("write \"1.{oldest}\" to \"1.{newest}\""),
        )),
        Some(minor) if minor > newest => out.push(Problem::warning(
            field,
            format!("{text} is newer than the built-in list"),
            "`canoe cluster validate` asks the account",
        )),
        Some(_) => {}
    }
}

fn control_plane(spec: &ClusterSpec, out: &mut Vec<Problem>) {
    let plane = &spec.control_plane;
    for (index, text) in plane.allowed_cidrs.iter().enumerate() {
        let field = format!("controlPlane.allowedCidrs[{index}]");
        match text.parse::<Cidr>() {
            Err(error) => out.push(Problem::error(&field, error.to_string(), "write your own address with /32")),
            Ok(cidr) if cidr.is_world() && !plane.allow_world => out.push(Problem::error(
                &field,
                "0.0.0.0/0 lets the whole Internet reach the API server",
                "write your own address with /32, or set controlPlane.allowWorld: true if you mean it",
            )),
            Ok(cidr) if cidr.prefix() < 8 && !cidr.is_world() => out.push(Problem::warning(
                &field,
                format!("{cidr} has {} addresses", cidr.size()),
                "write the networks you really use",
            )),
            Ok(_) => {}
        }
    }
    if plane.allowed_cidrs.is_empty() {
        out.push(Problem::warning(
            "controlPlane.allowedCidrs",
            "is empty, so the API server can only be reached from inside the VPC",
            "add your own address with /32 if you work from outside",
        ));
    }
    if !catalog::LOG_DAYS.contains(&plane.log_days) {
        let days: Vec<String> = catalog::LOG_DAYS
            .iter()
            .take(9)
            .map(u32::to_string)
            .collect();
        out.push(Problem::error(
            "controlPlane.logDays",
            format!(
                "CloudWatch does not know a retention of {} days",
                plane.log_days
            ),
            format!("write {}, …", days.join(", ")),
        ));
    }
    if plane.mode == Mode::SelfManaged {
        let field = "controlPlane.instanceType";
        instance_type(out, field, &plane.instance_type);
        if catalog::instance_type(&plane.instance_type)
            .is_some_and(|t| t.cpus < 2 || t.memory_gib < 2)
        {
            out.push(Problem::error(
                field,
                "is too small for kubeadm",
                "write t3.medium or larger",
            ));
        }
        let mixed = spec
            .workers
            .instance_types
            .first()
            .is_some_and(|t| catalog::is_arm(t));
        if catalog::is_arm(&plane.instance_type) != mixed {
            out.push(Problem::error(
                field,
                "has another processor architecture than the workers",
                "use x86 types or ARM types for both, so that one image runs everywhere",
            ));
        }
    }
}

fn instance_type(out: &mut Vec<Problem>, field: &str, name: &str) {
    if !names::is_instance_type(name) {
        let near = names::nearest(name, catalog::INSTANCE_TYPES.iter().map(|t| t.name));
        let hint = near.map_or("write one such as m5.large".to_owned(), |n| {
            format!("did you mean {n}?")
        });
        out.push(Problem::error(
            field,
            format!("{name:?} is not an instance type"),
            hint,
        ));
    } else if catalog::instance_type(name).is_none() {
        out.push(Problem::warning(
            field,
            format!("{name} is not in the built-in price list"),
            "the cost estimate leaves it out; `canoe cluster validate` asks whether the zones offer it",
        ));
    }
}

fn workers(spec: &ClusterSpec, out: &mut Vec<Problem>) {
    let workers = &spec.workers;
    if workers.count > workers.max {
        out.push(Problem::error(
            "workers.count",
            format!(
                "{} is more than workers.max, which is {}",
                workers.count, workers.max
            ),
            "raise workers.max or lower the count",
        ));
    }
    if workers.instance_types.is_empty() {
        out.push(Problem::error(
            "workers.instanceTypes",
            "is empty",
            "write one such as [m5.large]",
        ));
    }
    for (index, name) in workers.instance_types.iter().enumerate() {
        let field = format!("workers.instanceTypes[{index}]");
        instance_type(out, &field, name);
        if catalog::is_arm(name) != catalog::is_arm(&workers.instance_types[0]) {
            out.push(Problem::error(
                &field,
                format!(
                    "{name} has another processor architecture than {}",
                    workers.instance_types[0]
                ),
                "use x86 types or ARM types, not both",
            ));
        }
    }
    if workers.capacity == super::Capacity::Spot && workers.instance_types.len() == 1 {
        out.push(Problem::warning(
            "workers.instanceTypes",
            "has one type only, and spot capacity of one type runs out often",
            "add types of the same size, such as m5.large, m6i.large, m7i.large",
        ));
    }
}

fn network(spec: &ClusterSpec, out: &mut Vec<Problem>) {
    let network = &spec.network;
    let vpc = block(out, "network.vpcCidr", &network.vpc_cidr, (16, 22));
    let services = block(out, "network.serviceCidr", &network.service_cidr, (12, 24));
    let pods = match spec.control_plane.mode {
        Mode::SelfManaged => block(out, "network.podCidr", &network.pod_cidr, (12, 20)),
        Mode::Eks => None,
    };
    disjoint(
        out,
        ("network.serviceCidr", services),
        ("network.vpcCidr", vpc),
    );
    disjoint(out, ("network.podCidr", pods), ("network.vpcCidr", vpc));
    disjoint(
        out,
        ("network.podCidr", pods),
        ("network.serviceCidr", services),
    );
}

fn block(out: &mut Vec<Problem>, field: &str, text: &str, (low, high): (u8, u8)) -> Option<Cidr> {
    let cidr = match text.parse::<Cidr>() {
        Ok(cidr) => cidr,
        Err(error) => {
            out.push(Problem::error(
                field,
                error.to_string(),
                format!("write a block of /{low} to /{high}"),
            ));
            return None;
        }
    };
    let private = [
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
    ];
    let is_private = private
        .iter()
        .any(|p| p.parse::<Cidr>().is_ok_and(|p| p.contains(cidr)));
    if !(low..=high).contains(&cidr.prefix()) {
        out.push(Problem::error(
            field,
            format!("{cidr} is not /{low} to /{high}"),
            "write a block of that size",
        ));
        return None;
    }
    if !is_private {
        let remedy = "write a block inside 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16";
        out.push(Problem::error(
            field,
            format!("{cidr} are not private addresses"),
            remedy,
        ));
    }
    Some(cidr)
}

fn disjoint(out: &mut Vec<Problem>, a: (&str, Option<Cidr>), b: (&str, Option<Cidr>)) {
    if let (Some(left), Some(right)) = (a.1, b.1)
        && left.overlaps(right)
    {
        let message = format!("{left} overlaps {}, which is {right}", b.0);
        out.push(Problem::error(
            a.0,
            message,
            "write a block that shares no address with it",
        ));
    }
}

fn storage_and_keys(spec: &ClusterSpec, out: &mut Vec<Problem>) {
    named(
        out,
        "storage.directory",
        names::DIRECTORY,
        &spec.storage.directory,
    );
    if !spec.storage.encrypted {
        let remedy = "set it to true; encryption costs nothing and cannot be added later";
        out.push(Problem::warning(
            "storage.encrypted",
            "the data will be stored in the clear",
            remedy,
        ));
    }
    if let Some(name) = &spec.ssh_key_name {
        named(out, "sshKeyName", names::KEY_PAIR, name);
    }
    if let Some(arn) = &spec.kms_key_arn {
        let form = format!("write arn:aws:kms:{}:ACCOUNT:key/ID", spec.region);
        match names::kms_key_region(arn) {
            None => out.push(Problem::error(
                "kmsKeyArn",
                format!("{arn:?} is not the ARN of a KMS key"),
                form,
            )),
            Some(region) if region != spec.region => {
                let message = format!("the key is in {region}, the cluster in {}", spec.region);
                out.push(Problem::error(
                    "kmsKeyArn",
                    message,
                    "use a key of the cluster's region",
                ));
            }
            Some(_) => {}
        }
    }
}

fn dns(spec: &ClusterSpec, out: &mut Vec<Problem>) {
    match (&spec.dns.external_name, &spec.dns.hosted_zone_id) {
        (None, Some(_)) => out.push(Problem::error(
            "dns.hostedZoneId",
            "a zone is given but no name for it",
            "add dns.externalName, or remove the zone",
        )),
        (Some(_), None) => out.push(Problem::warning(
            "dns.externalName",
            "no zone is given, so no record is made",
            "add dns.hostedZoneId, or make the record yourself after `up` has printed its target",
        )),
        _ => {}
    }
    if let Some(name) = &spec.dns.external_name {
        named(out, "dns.externalName", names::DNS, name);
    }
    if let Some(zone) = &spec.dns.hosted_zone_id {
        named(out, "dns.hostedZoneId", names::HOSTED_ZONE, zone);
    }
}

fn addons(spec: &ClusterSpec, out: &mut Vec<Problem>) {
    if spec.control_plane.mode == Mode::SelfManaged {
        return;
    }
    for (index, name) in spec.addons.iter().enumerate() {
        if catalog::ADDONS.contains(&name.as_str()) {
            continue;
        }
        let field = format!("addons[{index}]");
        let near = names::nearest(name, catalog::ADDONS.iter().copied());
        let hint = near.map_or(
            format!("write some of {}", catalog::ADDONS.join(", ")),
            |n| format!("did you mean {n}?"),
        );
        out.push(Problem::error(
            &field,
            format!("{name:?} is not a known add-on"),
            hint,
        ));
    }
    let needs_agent = ["vpc-cni", "aws-efs-csi-driver", "aws-ebs-csi-driver"]
        .iter()
        .any(|name| spec.has_addon(name));
    if needs_agent && !spec.has_addon("eks-pod-identity-agent") {
        out.push(Problem::error(
            "addons",
            "the network and storage drivers get their permissions through eks-pod-identity-agent, which is missing",
            "add eks-pod-identity-agent",
        ));
    }
}

fn tags(spec: &ClusterSpec, out: &mut Vec<Problem>) {
    if spec.tags.len() > 40 {
        out.push(Problem::error(
            "tags",
            format!("{} tags are given", spec.tags.len()),
            "AWS takes 50 in all; keep 40",
        ));
    }
    for (key, value) in &spec.tags {
        let field = format!("tags.{key}");
        named(out, &field, names::TAG_KEY, key);
        named(out, &field, names::TAG_VALUE, value);
        if key == "canoe:cluster" {
            out.push(Problem::error(
                &field,
                "is set by canoe itself",
                "use another key",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Severity, read, write::write};

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
}
