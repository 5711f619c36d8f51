//! Every key of `cluster.yaml`, in the order in which it is written, with its type and meaning.
//!
//! One table, three uses: the comments of the file that `init` writes, the JSON schema for editors,
//! and the check of keys and types before the content is looked at. A test holds it against the
//! typed structures, so no documented key is silently ignored and no key is undocumented.

use serde_json::{Map, Value, json};

use super::API_VERSION;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// Any text.
    Text,
    /// A whole number in a range, both ends included.
    Number(i64, i64),
    /// `true` or `false`.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of texts.
    List,
    /// Text by text.
    Table,
    /// A list of groups of machines, each with keys of its own ([`GROUP_KEYS`]).
    Groups,
}

/// Keys of an entry of `workers.groups`: name, type, whether it must be there.
pub(crate) const GROUP_KEYS: [(&str, ValueKind, bool); 6] = [
    ("name", ValueKind::Text, true),
    ("count", ValueKind::Number(0, 1000), true),
    ("max", ValueKind::Number(1, 1000), false),
    ("instanceTypes", ValueKind::List, true),
    ("capacity", ValueKind::Choice(&["on-demand", "spot"]), false),
    ("diskGib", ValueKind::Number(20, 16384), false),
];

impl ValueKind {
    /// What to write, in words.
    pub fn words(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Number(low, high) => format!("a whole number from {low} to {high}"),
            Self::Switch => "true or false".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::List => "a list of texts, such as [a, b]".to_owned(),
            Self::Table => "keys with texts, such as {team: ads}".to_owned(),
            Self::Groups => {
                "a list such as [{name: large, count: 2, instanceTypes: [m5.4xlarge]}]".to_owned()
            }
        }
    }
}

/// A key.
#[derive(Debug, Clone, Copy)]
pub struct SpecField {
    /// Path, such as `workers.count`.
    pub path: &'static str,
    /// Type.
    pub kind: ValueKind,
    /// Whether the file must have it.
    pub required: bool,
    /// What stands in the comment when the value is not set.
    pub example: &'static str,
    /// Comment lines.
    pub about: &'static str,
}

const fn field(
    path: &'static str,
    kind: ValueKind,
    required: bool,
    example: &'static str,
    about: &'static str,
) -> SpecField {
    SpecField {
        path,
        kind,
        required,
        example,
        about,
    }
}

/// The table.
pub(crate) const FIELDS: &[SpecField] = &[
    field(
        "apiVersion",
        ValueKind::Choice(&[API_VERSION]),
        true,
        API_VERSION,
        "Format of this file.",
    ),
    field(
        "name",
        ValueKind::Text,
        true,
        "demo",
        "Name of the cluster; every stack, role and key alias begins with it.\nA letter, then letters, digits and hyphens, at most 32.",
    ),
    field(
        "id",
        ValueKind::Text,
        false,
        "\"6f1c2f6e-5b0e-4c8e-9d55-0d8f4f2a7b11\"",
        "What belongs to this cluster: everything that is made carries this id, and nothing without it is\nchanged or deleted, whatever its name. Do not edit it, and do not use it twice.",
    ),
    field("region", ValueKind::Text, true, "us-west-2", "AWS region."),
    field(
        "zones",
        ValueKind::List,
        true,
        "[us-west-2a]",
        "One to three availability zones. Workers and the file system are in each of them.\nTraffic between zones is billed; one zone is the cheapest and the fastest for training.",
    ),
    field(
        "kubernetesVersion",
        ValueKind::Text,
        true,
        "\"1.35\"",
        "Kubernetes minor version, in quotes. `canoe cluster upgrade` lists what is on offer and until when.",
    ),
    field(
        "controlPlane.mode",
        ValueKind::Choice(&["eks", "self-managed"]),
        true,
        "eks",
        "eks: AWS runs the API server. self-managed: one EC2 instance of yours, set up by kubeadm.",
    ),
    field(
        "controlPlane.allowedCidrs",
        ValueKind::List,
        false,
        "[203.0.113.7/32]",
        "Who may reach the API server from outside. `init` fills in your own address.\nEmpty: only from inside the VPC.",
    ),
    field(
        "controlPlane.access",
        ValueKind::Table,
        false,
        "{\"arn:aws:iam::123456789012:role/team\": edit}",
        "Colleagues who may use the cluster (eks only): ARN of their user or role, and admin, edit or view.\nWhoever runs `up` is an administrator without an entry, unless serviceRole is true.",
    ),
    field(
        "controlPlane.allowWorld",
        ValueKind::Switch,
        false,
        "false",
        "0.0.0.0/0 in allowedCidrs is refused unless this is true.",
    ),
    field(
        "controlPlane.extraZone",
        ValueKind::Text,
        false,
        "us-west-2b",
        "EKS needs two zones for its own interfaces even if the workers are in one. Default: the region's a or b.",
    ),
    field(
        "controlPlane.instanceType",
        ValueKind::Text,
        false,
        "t3.medium",
        "Machine of the controller (self-managed only; kubeadm needs 2 CPUs and 2 GiB).",
    ),
    field(
        "controlPlane.logDays",
        ValueKind::Number(1, 3653),
        false,
        "30",
        "How long control-plane logs are kept. A number that CloudWatch knows: 1, 3, 5, 7, 14, 30, 60, 90, …",
    ),
    field(
        "controlPlane.etcdVolumeId",
        ValueKind::Text,
        false,
        "vol-0123456789abcdef0",
        "Disk with the etcd of an earlier controller (self-managed only); `down` writes the one that it keeps here.\nIt must be in the first zone.",
    ),
    field(
        "workers.count",
        ValueKind::Number(0, 1000),
        true,
        "3",
        "How many machines. A job with N nodes wants N workers. 0: control plane, network, key and files\nare still paid for.",
    ),
    field(
        "workers.max",
        ValueKind::Number(1, 1000),
        false,
        "10",
        "The most that `canoe cluster scale` may ask for.",
    ),
    field(
        "workers.instanceTypes",
        ValueKind::List,
        true,
        "[m5.large]",
        "Instance types in order of preference. Give several of the same size for spot.",
    ),
    field(
        "workers.capacity",
        ValueKind::Choice(&["on-demand", "spot"]),
        false,
        "on-demand",
        "spot costs about a third and may be taken away; a job then resumes from its snapshot.",
    ),
    field(
        "workers.onDemand",
        ValueKind::Number(0, 1000),
        false,
        "0",
        "With capacity spot: how many of count are on demand, because there is no spot capacity.\n`up` and `scale` offer to set it when spot machines do not come.",
    ),
    field(
        "workers.kubernetesVersion",
        ValueKind::Text,
        false,
        "\"1.34\"",
        "Only during an upgrade: the version of workers that are still behind. `canoe cluster upgrade` writes and removes it.",
    ),
    field(
        "workers.diskGib",
        ValueKind::Number(20, 16384),
        false,
        "50",
        "Root disk in GiB, encrypted gp3.",
    ),
    field(
        "workers.groups",
        ValueKind::Groups,
        false,
        "[{name: large, count: 2, max: 4, instanceTypes: [m5.4xlarge], capacity: spot, diskGib: 100}]",
        "Further groups of machines. Nodes carry the group's name as the label canoe.group.",
    ),
    field(
        "network.vpcCidr",
        ValueKind::Text,
        false,
        "10.0.0.0/16",
        "Network of the VPC, /16 to /22.",
    ),
    field(
        "network.podCidr",
        ValueKind::Text,
        false,
        "10.244.0.0/16",
        "Network of the pods (self-managed only; on EKS pods have VPC addresses).",
    ),
    field(
        "network.serviceCidr",
        ValueKind::Text,
        false,
        "172.20.0.0/16",
        "Network of Kubernetes services, /12 to /24.",
    ),
    field(
        "network.egress",
        ValueKind::Choice(&["nat", "nat-per-zone", "public", "endpoints"]),
        false,
        "nat",
        "How workers reach the Internet for images and packages.\nnat: private subnets, one NAT gateway. nat-per-zone: one for each zone.\npublic: public subnets with no way in, and no NAT gateway to pay for.\nendpoints: no Internet at all; the services of AWS through VPC endpoints, images from ECR (eks only).",
    ),
    field(
        "network.vpcId",
        ValueKind::Text,
        false,
        "vpc-0123456789abcdef0",
        "Use this VPC instead of making one: vpcCidr is its network, zones and the subnets below are in it.\nIts routes decide how workers reach the Internet; nothing of it is changed or deleted.",
    ),
    field(
        "network.privateSubnetIds",
        ValueKind::List,
        false,
        "[subnet-0123456789abcdef0, subnet-0123456789abcdef1]",
        "With vpcId: private subnets, one per zone in the order of zones; EKS needs two zones.",
    ),
    field(
        "network.publicSubnetIds",
        ValueKind::List,
        false,
        "[]",
        "With vpcId: public subnets in the same order, for load balancers that the Internet reaches.",
    ),
    field(
        "storage.throughput",
        ValueKind::Choice(&["elastic", "bursting"]),
        false,
        "elastic",
        "elastic: pay for bytes moved, fast from the first byte.\nbursting: speed grows with what is stored; slow while the file system is small.",
    ),
    field(
        "storage.encrypted",
        ValueKind::Switch,
        false,
        "true",
        "Encryption at rest with the cluster's key.",
    ),
    field(
        "storage.uid",
        ValueKind::Number(1, 65535),
        false,
        "10001",
        "User and group id that own the jobs' files; pods run as it.",
    ),
    field(
        "storage.directory",
        ValueKind::Text,
        false,
        "/canoe",
        "Directory of the file system that jobs see as its root.",
    ),
    field(
        "storage.backup",
        ValueKind::Switch,
        false,
        "false",
        "Daily backups by AWS Backup (billed).",
    ),
    field(
        "storage.fileSystemId",
        ValueKind::Text,
        false,
        "fs-0123456789abcdef0",
        "Use this file system instead of making one; `down` writes the one that it keeps here.\nIt must be in this region and have no mount targets yet.",
    ),
    field(
        "storage.buckets",
        ValueKind::List,
        false,
        "[]",
        "S3 buckets that pods with the service account canoe-s3 may read and write, for data in and models out (eks only).",
    ),
    field(
        "sshKeyName",
        ValueKind::Text,
        false,
        "my-key",
        "EC2 key pair for SSH; port 22 is then open to the VPC and to controlPlane.allowedCidrs.\nNot needed: `aws ssm start-session` reaches every machine without an open port.",
    ),
    field(
        "kmsKeyArn",
        ValueKind::Text,
        false,
        "arn:aws:kms:us-west-2:123456789012:key/00000000-0000-0000-0000-000000000000",
        "Your own KMS key for secrets and files (disks use the account's key of EBS). Without it one is made (1 USD a month).",
    ),
    field(
        "imageRepository",
        ValueKind::Switch,
        false,
        "false",
        "true: an ECR repository with the cluster's name, for `canoe image push` (eks only). It goes with the cluster,\nwith its images.",
    ),
    field(
        "serviceRole",
        ValueKind::Switch,
        false,
        "false",
        "true: CloudFormation acts by the role NAME-REGION-stacks, which an administrator makes once, so that whoever runs\nthe commands needs few rights. `canoe cluster policy --write` prints how.",
    ),
    field(
        "dns.externalName",
        ValueKind::Text,
        false,
        "paddle.example.com",
        "Name of the API server.",
    ),
    field(
        "dns.hostedZoneId",
        ValueKind::Text,
        false,
        "Z0123456789ABCDEFGHIJ",
        "Route 53 zone that gets the record. Without it the record is yours to make.",
    ),
    field(
        "dns.ttl",
        ValueKind::Number(1, 86400),
        false,
        "300",
        "Seconds that resolvers may keep the record.",
    ),
    field(
        "addons",
        ValueKind::List,
        false,
        "[vpc-cni, coredns]",
        "EKS add-ons that the stack installs. Empty: you install network and storage drivers yourself, the EFS driver too,\nwhich the volume needs. Those that run as pods of their own are there only while there are workers.",
    ),
    field(
        "addonVersions",
        ValueKind::Table,
        false,
        "{vpc-cni: v1.20.4-eksbuild.2}",
        "Versions of add-ons. `canoe cluster upgrade` writes them; without one an add-on has EKS's default when it is\ninstalled, and keeps that.",
    ),
    field(
        "tags",
        ValueKind::Table,
        false,
        "{team: ads}",
        "Tags on everything that is made, for your bill.",
    ),
];

/// The field with this path.
pub fn find(path: &str) -> Option<&'static SpecField> {
    FIELDS.iter().find(|field| field.path == path)
}

/// Names of the sections (`workers`, `storage`, …), in order.
pub fn sections() -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for field in FIELDS {
        if let Some((section, _)) = field.path.split_once('.')
            && !names.contains(&section)
        {
            names.push(section);
        }
    }
    names
}

/// The JSON schema (draft 2020-12) of `cluster.yaml`.
pub fn json_schema() -> Value {
    let mut top = Map::new();
    let mut required = Vec::new();
    for section in sections() {
        top.insert(section.to_owned(), section_schema(section));
        if FIELDS
            .iter()
            .any(|field| field.required && field.path.starts_with(&format!("{section}.")))
        {
            required.push(section);
        }
    }
    for field in FIELDS.iter().filter(|field| !field.path.contains('.')) {
        top.insert(field.path.to_owned(), kind_schema(field));
        if field.required {
            required.push(field.path);
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Canoe cluster",
        "type": "object",
        "additionalProperties": false,
        "properties": top,
        "required": required,
    })
}

fn section_schema(section: &str) -> Value {
    let prefix = format!("{section}.");
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in FIELDS {
        let Some(name) = field.path.strip_prefix(&prefix) else {
            continue;
        };
        properties.insert(name.to_owned(), kind_schema(field));
        if field.required {
            required.push(name);
        }
    }
    json!({"type": "object", "additionalProperties": false, "properties": properties, "required": required})
}

fn groups_schema() -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, kind, needed) in GROUP_KEYS {
        properties.insert(name.to_owned(), plain_schema(kind));
        if needed {
            required.push(name);
        }
    }
    let group = json!({"type": "object", "additionalProperties": false, "properties": properties, "required": required});
    json!({"type": "array", "items": group})
}

fn kind_schema(field: &SpecField) -> Value {
    let mut schema = plain_schema(field.kind);
    schema["description"] = Value::from(field.about.replace('\n', " "));
    schema
}

fn plain_schema(kind: ValueKind) -> Value {
    match kind {
        ValueKind::Text => json!({"type": "string"}),
        ValueKind::Number(low, high) => json!({"type": "integer", "minimum": low, "maximum": high}),
        ValueKind::Switch => json!({"type": "boolean"}),
        ValueKind::Choice(words) => json!({"enum": words}),
        ValueKind::List => json!({"type": "array", "items": {"type": "string"}}),
        ValueKind::Table => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        ValueKind::Groups => groups_schema(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::ClusterSpec;

    fn full_spec() -> ClusterSpec {
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        spec.id = Some(crate::ownership::fresh_id());
        spec.ssh_key_name = Some("key".to_owned());
        spec.kms_key_arn = Some("arn".to_owned());
        spec.control_plane.extra_zone = Some("us-west-2b".to_owned());
        spec.control_plane.etcd_volume_id = Some("vol-1".to_owned());
        spec.network.vpc_id = Some("vpc-1".to_owned());
        spec.workers.kubernetes_version = Some("1.34".to_owned());
        spec.storage.file_system_id = Some("fs-1".to_owned());
        spec.dns.external_name = Some("a.example.com".to_owned());
        spec.dns.hosted_zone_id = Some("Z1".to_owned());
        spec
    }

    fn leaves(value: &Value, prefix: &str, out: &mut Vec<String>) {
        for (key, inner) in value.as_object().unwrap() {
            let path = if prefix.is_empty() {
                key.clone()
            } else {
                format!("{prefix}.{key}")
            };
            if inner.is_object() && find(&path).is_none() {
                leaves(inner, &path, out)
            } else {
                out.push(path)
            }
        }
    }

    #[test]
    fn table_and_types_have_the_same_keys() {
        let mut typed = Vec::new();
        leaves(&serde_json::to_value(full_spec()).unwrap(), "", &mut typed);
        typed.sort();
        let mut documented: Vec<String> =
            FIELDS.iter().map(|field| field.path.to_owned()).collect();
        documented.sort();
        assert_eq!(typed, documented);
    }

    #[test]
    fn schema_closes_every_object() {
        let schema = json_schema();
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(
            schema["properties"]["workers"]["additionalProperties"],
            false
        );
        assert_eq!(
            schema["properties"]["workers"]["properties"]["count"]["minimum"],
            0
        );
        let groups = &schema["properties"]["workers"]["properties"]["groups"]["items"];
        assert_eq!(groups["additionalProperties"], false);
        assert!(
            schema["required"]
                .as_array()
                .unwrap()
                .contains(&Value::from("controlPlane"))
        );
        assert!(
            !schema["required"]
                .as_array()
                .unwrap()
                .contains(&Value::from("storage"))
        );
    }
}
