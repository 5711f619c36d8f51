//! What a cluster is: the typed content of `cluster.yaml`.
//!
//! [`fields`] is the one table that documents every key: the commented file that `init` writes, the
//! JSON schema and the check for unknown keys all come from it. [`read()`] turns text into a
//! [`ClusterSpec`], or into every [`SpecProblem`] at once, each with its line and the way out.

pub mod check;
pub mod fields;
pub mod lasting;
mod problem;
pub mod read;
pub mod write;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cidr::Cidr;

pub use problem::{Severity, SpecProblem, has_errors};
pub use read::{UsableSpec, read};

/// The version of the file format.
pub(crate) const API_VERSION: &str = "canoe/v1";

/// A cluster, as the user describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterSpec {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// Prefix of everything that is made.
    pub name: String,
    /// UUID that everything of the cluster carries as a tag; see [`crate::ownership`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// AWS region.
    pub region: String,
    /// One to three zones for workers and storage.
    pub zones: Vec<String>,
    /// Minor version, such as `1.34`.
    pub kubernetes_version: String,
    /// Who runs the API server, and who may reach it.
    pub control_plane: ControlPlane,
    /// The machines that train.
    pub workers: Workers,
    /// Addresses and the way out to the Internet.
    #[serde(default)]
    pub network: VpcSpec,
    /// The shared file system.
    #[serde(default)]
    pub storage: Storage,
    /// EC2 key pair for SSH; none by default, because Session Manager needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_key_name: Option<String>,
    /// KMS key to use; one is made when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kms_key_arn: Option<String>,
    /// Whether the cluster gets an ECR repository for images.
    #[serde(default)]
    pub image_repository: bool,
    /// Whether CloudFormation acts by a role of its own instead of the caller's rights.
    #[serde(default)]
    pub service_role: bool,
    /// Name of the API server in a zone of your own.
    #[serde(default)]
    pub dns: Dns,
    /// EKS add-ons that the stack installs.
    #[serde(default = "default_addons")]
    pub addons: Vec<String>,
    /// Versions of add-ons; those without one have EKS's default at the time they are installed.
    #[serde(default)]
    pub addon_versions: BTreeMap<String, String>,
    /// Tags on everything.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

/// Who runs the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlPlaneMode {
    /// EKS: AWS runs it.
    Eks,
    /// An EC2 instance of ours, set up by kubeadm.
    SelfManaged,
}

/// The API server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ControlPlane {
    /// Who runs it.
    pub mode: ControlPlaneMode,
    /// Networks that may reach the API; empty means only from inside the VPC.
    #[serde(default)]
    pub allowed_cidrs: Vec<String>,
    /// Colleagues: ARN of a user or role, and what they may do ([`ACCESS_LEVELS`]).
    #[serde(default)]
    pub access: BTreeMap<String, String>,
    /// Must be true before `0.0.0.0/0` is accepted above.
    #[serde(default)]
    pub allow_world: bool,
    /// Second zone that EKS needs for its own interfaces when `zones` has only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_zone: Option<String>,
    /// Machine of the self-managed controller.
    #[serde(default = "default_controller")]
    pub instance_type: String,
    /// Days that control-plane logs are kept.
    #[serde(default = "default_log_days")]
    pub log_days: u32,
    /// Disk with the etcd of an earlier self-managed controller, such as one that `down` kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_volume_id: Option<String>,
}

/// What a colleague may be allowed on an EKS cluster, with AWS's name of the access policy.
pub(crate) const ACCESS_LEVELS: [(&str, &str); 3] = [
    ("admin", "AmazonEKSClusterAdminPolicy"),
    ("edit", "AmazonEKSEditPolicy"),
    ("view", "AmazonEKSViewPolicy"),
];

/// How the workers are paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capacity {
    /// Fixed price, never taken away.
    OnDemand,
    /// Cheaper, may be taken away; training survives it.
    Spot,
}

/// The machines that train.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Workers {
    /// How many.
    pub count: u32,
    /// Upper bound for `scale`.
    #[serde(default = "default_max")]
    pub max: u32,
    /// How many of `count` are on demand although `capacity` is spot.
    #[serde(default)]
    pub on_demand: u32,
    /// Kubernetes version of the workers while an upgrade has not come to them yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Types, in order of preference; more than one makes sense for spot.
    pub instance_types: Vec<String>,
    /// On demand or spot.
    #[serde(default = "default_capacity")]
    pub capacity: Capacity,
    /// Root disk.
    #[serde(default = "default_disk")]
    pub disk_gib: u32,
    /// Further groups of machines.
    #[serde(default)]
    pub groups: Vec<WorkerGroup>,
}

/// A further group of machines, beside those that `workers` itself describes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkerGroup {
    /// Lower-case letters, digits and hyphens; nodes carry it as the label `canoe.group`.
    pub name: String,
    /// Number of machines.
    pub count: u32,
    /// Upper bound; `count` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// Types, in order of preference.
    pub instance_types: Vec<String>,
    /// On demand or spot.
    #[serde(default = "default_capacity")]
    pub capacity: Capacity,
    /// Root disk.
    #[serde(default = "default_disk")]
    pub disk_gib: u32,
}

/// How workers reach the Internet, for images and packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Egress {
    /// Private subnets behind one NAT gateway.
    Nat,
    /// Private subnets, one NAT gateway per zone.
    NatPerZone,
    /// Public subnets; nothing may come in, but no NAT gateway has to be paid.
    Public,
    /// No way to the Internet: private subnets that reach the services of AWS through VPC endpoints.
    Endpoints,
}

/// Addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct VpcSpec {
    /// Range of the whole VPC in CIDR notation.
    pub vpc_cidr: String,
    /// Pods of a self-managed cluster (EKS pods have VPC addresses).
    pub pod_cidr: String,
    /// Services.
    pub service_cidr: String,
    /// The way out.
    pub egress: Egress,
    /// A VPC that is there already; its subnets are named below, and nothing in it is changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpc_id: Option<String>,
    /// Private subnets of that VPC, one per zone in the order of `zones` (for EKS at least two).
    pub private_subnet_ids: Vec<String>,
    /// Public subnets of that VPC, for load balancers; may be empty.
    pub public_subnet_ids: Vec<String>,
}

/// How EFS is paid for and how fast it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Throughput {
    /// Pay per byte moved, always fast.
    Elastic,
    /// Speed grows with the bytes stored.
    Bursting,
}

/// The shared file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Storage {
    /// Size mode.
    pub throughput: Throughput,
    /// Encryption at rest.
    pub encrypted: bool,
    /// User and group that own the job directory.
    pub uid: u32,
    /// Directory on the file system that jobs see as their root.
    pub directory: String,
    /// Daily backups.
    pub backup: bool,
    /// A file system that is there already, such as one that `down` kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_system_id: Option<String>,
    /// S3 buckets that pods with the service account `canoe-s3` may read and write (EKS).
    pub buckets: Vec<String>,
}

/// A name for the API server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Dns {
    /// Name, such as `paddle.example.com`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_name: Option<String>,
    /// Route 53 zone that gets the record; without it you make the record yourself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosted_zone_id: Option<String>,
    /// Seconds.
    pub ttl: u32,
}

/// The add-ons that a usable EKS cluster with EFS needs.
pub(crate) fn default_addons() -> Vec<String> {
    [
        "vpc-cni",
        "kube-proxy",
        "eks-pod-identity-agent",
        "coredns",
        "aws-efs-csi-driver",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn default_controller() -> String {
    "t3.medium".to_owned()
}

fn default_log_days() -> u32 {
    30
}

fn default_max() -> u32 {
    10
}

fn default_capacity() -> Capacity {
    Capacity::OnDemand
}

fn default_disk() -> u32 {
    50
}

impl Default for VpcSpec {
    fn default() -> Self {
        Self {
            vpc_cidr: "10.0.0.0/16".to_owned(),
            pod_cidr: "10.244.0.0/16".to_owned(),
            service_cidr: "172.20.0.0/16".to_owned(),
            egress: Egress::Nat,
            vpc_id: None,
            private_subnet_ids: Vec::new(),
            public_subnet_ids: Vec::new(),
        }
    }
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            throughput: Throughput::Elastic,
            encrypted: true,
            uid: 10001,
            directory: "/canoe".to_owned(),
            backup: false,
            file_system_id: None,
            buckets: Vec::new(),
        }
    }
}

impl Default for Dns {
    fn default() -> Self {
        Self {
            external_name: None,
            hosted_zone_id: None,
            ttl: 300,
        }
    }
}

impl ClusterSpec {
    /// A cluster with every default: three on-demand workers in two zones, reachable from nowhere
    /// outside until `allowed_cidrs` is filled in.
    pub fn new(name: &str, region: &str) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            name: name.to_owned(),
            id: None,
            region: region.to_owned(),
            zones: vec![format!("{region}a"), format!("{region}b")],
            kubernetes_version: crate::catalog::DEFAULT_VERSION.to_owned(),
            control_plane: ControlPlane {
                mode: ControlPlaneMode::Eks,
                allowed_cidrs: Vec::new(),
                allow_world: false,
                extra_zone: None,
                instance_type: default_controller(),
                log_days: default_log_days(),
                access: BTreeMap::new(),
                etcd_volume_id: None,
            },
            workers: Workers {
                count: 3,
                max: default_max(),
                kubernetes_version: None,
                instance_types: vec!["m5.large".to_owned()],
                capacity: Capacity::OnDemand,
                on_demand: 0,
                disk_gib: default_disk(),
                groups: Vec::new(),
            },
            network: VpcSpec::default(),
            storage: Storage::default(),
            ssh_key_name: None,
            kms_key_arn: None,
            image_repository: false,
            service_role: false,
            dns: Dns::default(),
            addons: default_addons(),
            addon_versions: BTreeMap::new(),
            tags: BTreeMap::new(),
        }
    }

    /// Zones that get subnets: those of the workers, and for EKS at least two.
    pub(crate) fn subnet_zones(&self) -> Vec<String> {
        let mut zones = self.zones.clone();
        if self.control_plane.mode == ControlPlaneMode::Eks && zones.len() == 1 {
            zones.push(self.second_zone());
        }
        zones
    }

    /// Kubernetes version of the workers.
    pub(crate) fn worker_version(&self) -> &str {
        let behind = self.workers.kubernetes_version.as_deref();
        behind.unwrap_or(&self.kubernetes_version)
    }

    /// Whether the cluster stands in a VPC that it did not make.
    pub(crate) fn has_given_vpc(&self) -> bool {
        self.network.vpc_id.is_some()
    }

    /// Number of machines in all groups.
    pub fn all_workers(&self) -> u32 {
        let more = self.workers.groups.iter().map(|group| group.count);
        more.fold(self.workers.count, u32::saturating_add)
    }

    /// Instance types of all groups, each once.
    pub(crate) fn all_instance_types(&self) -> Vec<String> {
        let mut types = self.workers.instance_types.clone();
        types.extend(
            self.workers
                .groups
                .iter()
                .flat_map(|group| group.instance_types.clone()),
        );
        let mut seen = std::collections::BTreeSet::new();
        types.retain(|name| seen.insert(name.clone()));
        types
    }

    /// The zone that EKS gets beside the only one of the workers.
    pub(crate) fn second_zone(&self) -> String {
        if let Some(zone) = &self.control_plane.extra_zone {
            return zone.clone();
        }
        let a = format!("{}a", self.region);
        if self.zones.first() == Some(&a) {
            format!("{}b", self.region)
        } else {
            a
        }
    }

    /// Name of the image repository; ECR takes lower-case letters only, two at least.
    pub(crate) fn repository_name(&self) -> String {
        format!("canoe/{}", self.name.to_ascii_lowercase())
    }

    /// Whether the workers stand in private subnets.
    pub(crate) fn workers_are_private(&self) -> bool {
        self.network.egress != Egress::Public
    }

    /// Whether the stack installs this EKS add-on.
    pub(crate) fn has_addon(&self, name: &str) -> bool {
        self.control_plane.mode == ControlPlaneMode::Eks
            && self.addons.iter().any(|addon| addon == name)
    }

    /// The VPC network; the spec has been checked.
    pub(crate) fn vpc(&self) -> Cidr {
        self.network
            .vpc_cidr
            .parse()
            .expect("a checked spec has a valid vpcCidr")
    }

    /// The first service address, which is the API server's inside the cluster.
    pub(crate) fn api_service_ip(&self) -> String {
        let services: Cidr = self
            .network
            .service_cidr
            .parse()
            .expect("a checked spec has a valid serviceCidr");
        services
            .address(1)
            .expect("a service network has more than one address")
            .to_string()
    }

    /// The fixed private address of the self-managed controller, in the subnet in which it stands.
    pub(crate) fn controller_ip(&self) -> String {
        let subnet = if self.workers_are_private() {
            crate::template::network::private_subnet(self, 0)
        } else {
            crate::template::network::public_subnet(self, 0)
        };
        subnet
            .address(10)
            .expect("a subnet has more than ten addresses")
            .to_string()
    }

    /// The name by which the API server is reached from outside, if one is given.
    pub fn external_name(&self) -> Option<&str> {
        self.dns.external_name.as_deref()
    }
}
