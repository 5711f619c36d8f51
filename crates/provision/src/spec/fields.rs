//! Every key of `cluster.yaml`, in the order in which it is written, with its type and meaning.
//!
//! One table, three uses: the comments of the file that `init` writes, the JSON schema for editors,
//! and the check of keys and types before the content is looked at. A test holds it against the
//! typed structures, so no documented key is silently ignored and no key is undocumented.

use serde_json::{Map, Value, json};

use super::API_VERSION;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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
}

impl Kind {
    /// What to write, in words.
    pub fn words(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Number(low, high) => format!("a whole number from {low} to {high}"),
            Self::Switch => "true or false".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::List => "a list of texts, such as [a, b]".to_owned(),
            Self::Table => "keys with texts, such as {team: ads}".to_owned(),
        }
    }
}

/// A key.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Path, such as `workers.count`.
    pub path: &'static str,
    /// Type.
    pub kind: Kind,
    /// Whether the file must have it.
    pub required: bool,
    /// What stands in the comment when the value is not set.
    pub example: &'static str,
    /// Comment lines.
    pub about: &'static str,
}

const fn field(
    path: &'static str,
    kind: Kind,
    required: bool,
    example: &'static str,
    about: &'static str,
) -> Field {
    Field {
        path,
        kind,
        required,
        example,
        about,
    }
}

/// The table.
pub const FIELDS: &[Field] = &[
    field(
        "apiVersion",
        Kind::Choice(&[API_VERSION]),
        true,
        API_VERSION,
        "Format of this file.",
    ),
    field(
        "name",
        Kind::Text,
        true,
        "demo",
        "Name of the cluster; every stack, role and key alias begins with it.\nA letter, then letters, digits and hyphens, at most 32.",
    ),
    field("region", Kind::Text, true, "us-west-2", "AWS region."),
    field(
        "zones",
        Kind::List,
        true,
        "[us-west-2a]",
        "One to three availability zones. Workers and the file system are in each of them.\nTraffic between zones is billed; one zone is the cheapest and the fastest for training.",
    ),
    field(
        "kubernetesVersion",
        Kind::Text,
        true,
        "\"1.34\"",
        "Kubernetes minor version, in quotes. Check `canoe cluster upgrade` for what is on offer.",
    ),
    field(
        "controlPlane.mode",
        Kind::Choice(&["eks", "self-managed"]),
        true,
        "eks",
        "eks: AWS runs the API server. self-managed: one EC2 instance of yours, set up by kubeadm.",
    ),
    field(
        "controlPlane.allowedCidrs",
        Kind::List,
        false,
        "[203.0.113.7/32]",
        "Who may reach the API server from outside. `init` fills in your own address.\nEmpty: only from inside the VPC.",
    ),
    field(
        "controlPlane.allowWorld",
        Kind::Switch,
        false,
        "false",
        "0.0.0.0/0 in allowedCidrs is refused unless this is true.",
    ),
    field(
        "controlPlane.extraZone",
        Kind::Text,
        false,
        "us-west-2b",
        "EKS needs two zones for its own interfaces even if the workers are in one. Default: the region's a or b.",
    ),
    field(
        "controlPlane.instanceType",
        Kind::Text,
        false,
        "t3.medium",
        "Machine of the controller (self-managed only; kubeadm needs 2 CPUs and 2 GiB).",
    ),
    field(
        "controlPlane.logDays",
        Kind::Number(1, 3653),
        false,
        "30",
        "How long control-plane logs are kept. A number that CloudWatch knows: 1, 3, 5, 7, 14, 30, 60, 90, …",
    ),
    field(
        "workers.count",
        Kind::Number(1, 1000),
        true,
        "3",
        "How many machines. A job with N nodes wants N workers.",
    ),
    field(
        "workers.max",
        Kind::Number(1, 1000),
        false,
        "10",
        "The most that `canoe cluster scale` may ask for.",
    ),
    field(
        "workers.instanceTypes",
        Kind::List,
        true,
        "[m5.large]",
        "Instance types in order of preference. Give several of the same size for spot.",
    ),
    field(
        "workers.capacity",
        Kind::Choice(&["on-demand", "spot"]),
        false,
        "on-demand",
        "spot costs about a third and may be taken away; a job then resumes from its snapshot.",
    ),
    field(
        "workers.diskGib",
        Kind::Number(20, 16384),
        false,
        "50",
        "Root disk in GiB, encrypted gp3.",
    ),
    field(
        "network.vpcCidr",
        Kind::Text,
        false,
        "10.0.0.0/16",
        "Network of the VPC, /16 to /22.",
    ),
    field(
        "network.podCidr",
        Kind::Text,
        false,
        "10.244.0.0/16",
        "Network of the pods (self-managed only; on EKS pods have VPC addresses).",
    ),
    field(
        "network.serviceCidr",
        Kind::Text,
        false,
        "172.20.0.0/16",
        "Network of Kubernetes services, /12 to /24.",
    ),
    field(
        "network.egress",
        Kind::Choice(&["nat", "nat-per-zone", "public"]),
        false,
        "nat",
        "How workers reach the Internet for images and packages.\nnat: private subnets, one NAT gateway. nat-per-zone: one for each zone.\npublic: public subnets with no way in, and no NAT gateway to pay for.",
    ),
    field(
        "storage.throughput",
        Kind::Choice(&["elastic", "bursting"]),
        false,
        "elastic",
        "elastic: pay for bytes moved, fast from the first byte.\nbursting: speed grows with what is stored; slow while the file system is small.",
    ),
    field(
        "storage.encrypted",
        Kind::Switch,
        false,
        "true",
        "Encryption at rest with the cluster's key.",
    ),
    field(
        "storage.uid",
        Kind::Number(1, 65535),
        false,
        "10001",
        "User and group id that own the jobs' files; pods run as it.",
    ),
    field(
        "storage.directory",
        Kind::Text,
        false,
        "/canoe",
        "Directory of the file system that jobs see as its root.",
    ),
    field(
        "storage.backup",
        Kind::Switch,
        false,
        "false",
        "Daily backups by AWS Backup (billed).",
    ),
    field(
        "storage.fileSystemId",
        Kind::Text,
        false,
        "fs-0123456789abcdef0",
        "Use this file system instead of making one; `down --keep-data` writes it here.\nIt must be in this region and have no mount targets yet.",
    ),
    field(
        "sshKeyName",
        Kind::Text,
        false,
        "my-key",
        "EC2 key pair for SSH. Not needed: `aws ssm start-session` reaches every machine without an open port.",
    ),
    field(
        "kmsKeyArn",
        Kind::Text,
        false,
        "arn:aws:kms:us-west-2:123456789012:key/00000000-0000-0000-0000-000000000000",
        "Your own KMS key for secrets, disks and files. Without it one is made (1 USD a month).",
    ),
    field(
        "dns.externalName",
        Kind::Text,
        false,
        "paddle.example.com",
        "Name of the API server.",
    ),
    field(
        "dns.hostedZoneId",
        Kind::Text,
        false,
        "Z0123456789ABCDEFGHIJ",
        "Route 53 zone that gets the record. Without it the record is yours to make.",
    ),
    field(
        "dns.ttl",
        Kind::Number(1, 86400),
        false,
        "300",
        "Seconds that resolvers may keep the record.",
    ),
    field(
        "addons",
        Kind::List,
        false,
        "[vpc-cni, coredns]",
        "EKS add-ons that the stack installs. Empty: you install network and storage drivers yourself;\nthe volume is then mounted by plain NFS.",
    ),
    field(
        "tags",
        Kind::Table,
        false,
        "{team: ads}",
        "Tags on everything that is made, for your bill.",
    ),
];

/// The field with this path.
pub fn find(path: &str) -> Option<&'static Field> {
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

fn kind_schema(field: &Field) -> Value {
    let mut schema = match field.kind {
        Kind::Text => json!({"type": "string"}),
        Kind::Number(low, high) => json!({"type": "integer", "minimum": low, "maximum": high}),
        Kind::Switch => json!({"type": "boolean"}),
        Kind::Choice(words) => json!({"enum": words}),
        Kind::List => json!({"type": "array", "items": {"type": "string"}}),
        Kind::Table => json!({"type": "object", "additionalProperties": {"type": "string"}}),
    };
    schema["description"] = Value::from(field.about.replace('\n', " "));
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::ClusterSpec;

    fn full_spec() -> ClusterSpec {
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        spec.ssh_key_name = Some("key".to_owned());
        spec.kms_key_arn = Some("arn".to_owned());
        spec.control_plane.extra_zone = Some("us-west-2b".to_owned());
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
            1
        );
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
