//! What a cluster costs per hour, part by part.
//!
//! List prices of one dated table ([`crate::prices`]) times a factor for the region. An
//! estimate, good for choosing and for a warning; what is used (storage, traffic) is named with its
//! unit price, because nobody can know the amount beforehand. A test holds every resource type of the
//! templates against `billed` in the tests, so nothing that AWS bills is left out.

use serde::Serialize;

use crate::catalog;
use crate::prices as price;
use crate::spec::{Capacity, ClusterSpec, ControlPlaneMode, Egress, Throughput};
use crate::template::groups::{self, MachineGroup};
use crate::template::{StackLayer, network};

/// One line of the estimate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostItem {
    /// What is paid for.
    pub what: String,
    /// How many of it.
    pub count: u32,
    /// USD per hour for all of them; `None` when the price is not known.
    pub hourly: Option<f64>,
    /// The stack that it is part of.
    #[serde(rename = "stack")]
    pub layer: StackLayer,
}

/// The estimate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// What is paid by the hour.
    pub parts: Vec<CostItem>,
    /// What is paid by use, in words.
    pub by_use: Vec<String>,
    /// Where the prices are from, and what they leave out.
    pub notes: Vec<String>,
}

impl Estimate {
    /// Sum of the known prices, USD per hour.
    pub fn hourly(&self) -> f64 {
        self.parts.iter().filter_map(|part| part.hourly).sum()
    }

    /// The same for what is in one stack.
    pub(crate) fn hourly_of(&self, layer: StackLayer) -> f64 {
        let parts = self.parts.iter().filter(|part| part.layer == layer);
        parts.filter_map(|part| part.hourly).sum()
    }

    /// The same for a month of 730 hours.
    pub(crate) fn monthly(&self) -> f64 {
        self.hourly() * price::HOURS_PER_MONTH
    }

    /// Whether a price is missing, so that the sum is too low.
    pub(crate) fn is_partial(&self) -> bool {
        self.parts.iter().any(|part| part.hourly.is_none())
    }

    /// A table for people, one line per part.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .parts
            .iter()
            .map(|part| {
                let price = part
                    .hourly
                    .map_or("      unknown".to_owned(), |usd| format!("{usd:>9.4} USD"));
                format!("{:>4} × {:<40} {price}/h", part.count, part.what)
            })
            .collect();
        let least = if self.is_partial() { "at least " } else { "" };
        let total = format!(
            "{least}{:.4} USD per hour, {:.0} USD per month",
            self.hourly(),
            self.monthly()
        );
        lines.push(format!("total: {total}"));
        lines.extend(self.by_use.iter().map(|line| format!("by use: {line}")));
        lines.extend(self.notes.iter().map(|line| format!("note: {line}")));
        lines
    }
}

/// Estimates a cluster with a version in standard support.
#[cfg(test)]
pub(crate) fn estimate(spec: &ClusterSpec) -> Estimate {
    estimate_with(spec, price::EKS)
}

/// Estimates a cluster at a time: a version past its standard support costs more.
pub fn estimate_at(spec: &ClusterSpec, now: time::OffsetDateTime) -> Estimate {
    let ends = catalog::standard_support_ends(&spec.kubernetes_version);
    let extended = ends.is_some_and(|ends| ends <= now.date());
    estimate_with(
        spec,
        if extended {
            price::EKS_EXTENDED
        } else {
            price::EKS
        },
    )
}

fn estimate_with(spec: &ClusterSpec, eks: f64) -> Estimate {
    let factor = catalog::region_factor(&spec.region);
    let mut parts = Vec::new();
    let mut notes = vec![format!(
        "an estimate: list prices of us-east-1 as of {}, before tax and discounts",
        price::AS_OF
    )];
    if factor.is_none() {
        notes.push(format!(
            "no price factor is known for {}; us-east-1 is taken",
            spec.region
        ));
    }
    let factor = factor.unwrap_or(1.0);
    if (factor - 1.0).abs() > f64::EPSILON {
        notes.push(format!(
            "prices in {} are taken to be {factor} times those",
            spec.region
        ));
    }
    control_plane(spec, (factor, eks), &mut parts, &mut notes);
    for group in groups::all(spec) {
        workers(&group, factor, &mut parts, &mut notes);
    }
    network_parts(spec, factor, &mut parts);
    if spec.kms_key_arn.is_none() {
        parts.push(part(
            StackLayer::Base,
            "KMS key",
            1,
            price::KEY_MONTH / price::HOURS_PER_MONTH,
        ));
    }
    Estimate {
        parts,
        by_use: by_use(spec, factor),
        notes,
    }
}

/// How long a stack has existed.
pub(crate) struct StackAge {
    pub(crate) layer: StackLayer,
    pub(crate) hours: f64,
}

/// What stacks of these ages have cost so far, if they always had their present size.
pub(crate) fn so_far(estimate: &Estimate, ages: &[StackAge]) -> f64 {
    let cost = |age: &StackAge| estimate.hourly_of(age.layer) * age.hours.max(0.0);
    ages.iter().map(cost).sum()
}

fn part(layer: StackLayer, what: &str, count: u32, each: f64) -> CostItem {
    CostItem {
        what: what.to_owned(),
        count,
        hourly: Some(each * f64::from(count)),
        layer,
    }
}

fn control_plane(
    spec: &ClusterSpec,
    (factor, eks): (f64, f64),
    parts: &mut Vec<CostItem>,
    notes: &mut Vec<String>,
) {
    match spec.control_plane.mode {
        ControlPlaneMode::Eks => {
            parts.push(part(StackLayer::Cluster, "EKS control plane", 1, eks));
            notes.push(format!(
                "a version past its standard support makes EKS cost {:.2} USD per hour",
                price::EKS_EXTENDED
            ));
        }
        ControlPlaneMode::SelfManaged => {
            let name = &spec.control_plane.instance_type;
            parts.push(machines("controller", name, 1, factor, notes));
            parts.push(disks(StackLayer::Cluster, "controller disk", 1, 30, factor));
            let etcd = crate::template::storage::ETCD_GIB;
            parts.push(disks(StackLayer::Storage, "etcd disk", 1, etcd, factor));
            parts.push(part(
                StackLayer::Cluster,
                "load balancer",
                1,
                price::LOAD_BALANCER * factor,
            ));
        }
    }
}

fn workers(group: &MachineGroup, factor: f64, parts: &mut Vec<CostItem>, notes: &mut Vec<String>) {
    let Some(first) = group.instance_types.first().filter(|_| group.count > 0) else {
        return;
    };
    let role = match &group.name {
        Some(name) => format!("worker of group {name}:"),
        None => "worker".to_owned(),
    };
    let mut machines = machines(&role, first, group.count, factor, notes);
    if group.capacity == Capacity::Spot {
        machines.what.push_str(", spot");
        machines.hourly = machines.hourly.map(|usd| usd * price::SPOT_SHARE);
        let note = format!(
            "spot prices move; {:.0} % of on demand is taken",
            price::SPOT_SHARE * 100.0
        );
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    parts.push(machines);
    parts.push(disks(
        StackLayer::Cluster,
        "worker disk",
        group.count,
        group.disk_gib,
        factor,
    ));
}

fn machines(role: &str, name: &str, count: u32, factor: f64, notes: &mut Vec<String>) -> CostItem {
    let known = catalog::instance_type(name);
    if known.is_none() {
        notes.push(format!(
            "the price of {name} is not in the list; the total leaves it out"
        ));
    }
    CostItem {
        what: format!("{role} {name}"),
        count,
        hourly: known.map(|kind| kind.price * factor * f64::from(count)),
        layer: StackLayer::Cluster,
    }
}

fn disks(layer: StackLayer, what: &str, count: u32, gib: u32, factor: f64) -> CostItem {
    let each = f64::from(gib) * price::DISK_GIB_MONTH * factor / price::HOURS_PER_MONTH;
    part(layer, &format!("{what} {gib} GiB"), count, each)
}

fn network_parts(spec: &ClusterSpec, factor: f64, parts: &mut Vec<CostItem>) {
    if spec.has_given_vpc() {
        return; // it is there and paid for already
    }
    let zones = u32::try_from(spec.zones.len()).expect("there are at most three zones");
    let gateways = match spec.network.egress {
        Egress::Nat => 1,
        Egress::NatPerZone => zones,
        Egress::Public | Egress::Endpoints => 0,
    };
    if gateways > 0 {
        let each = price::NAT_GATEWAY * factor + price::PUBLIC_ADDRESS;
        parts.push(part(
            StackLayer::Base,
            "NAT gateway with address",
            gateways,
            each,
        ));
    }
    if spec.network.egress == Egress::Endpoints {
        let services = u32::try_from(network::ENDPOINT_SERVICES.len()).expect("a short list");
        parts.push(part(
            StackLayer::Base,
            "VPC endpoint in a zone",
            services * zones,
            price::ENDPOINT * factor,
        ));
    }
    if spec.network.egress == Egress::Public {
        let controllers = u32::from(spec.control_plane.mode == ControlPlaneMode::SelfManaged);
        let count = spec.all_workers() + controllers;
        parts.push(part(
            StackLayer::Cluster,
            "public IPv4 address",
            count,
            price::PUBLIC_ADDRESS,
        ));
    }
    if spec.control_plane.mode == ControlPlaneMode::SelfManaged
        && !spec.control_plane.allowed_cidrs.is_empty()
    {
        parts.push(part(
            StackLayer::Cluster,
            "address of the load balancer",
            zones,
            price::PUBLIC_ADDRESS,
        ));
    }
}

fn by_use(spec: &ClusterSpec, factor: f64) -> Vec<String> {
    let usd = |each: f64| each * factor;
    let cold = match spec.storage.throughput {
        Throughput::Elastic => price::FILES_COLD_GIB_MONTH,
        Throughput::Bursting => price::FILES_COLD_BURSTING_GIB_MONTH,
    };
    let mut lines = vec![format!(
        "EFS storage {:.2} USD per GiB and month; after 30 days without use {:.3}, and {:.2} per GiB when it is used again",
        usd(price::FILES_GIB_MONTH),
        usd(cold),
        usd(price::FILES_COLD_ACCESS_GIB)
    )];
    match spec.storage.throughput {
        Throughput::Elastic => lines.push(format!(
            "EFS reads {:.3}, writes {:.3} USD per GiB",
            usd(price::FILES_READ_GIB),
            usd(price::FILES_WRITE_GIB)
        )),
        Throughput::Bursting => {
            lines.push("EFS throughput is included: 50 KiB/s per GiB stored".to_owned());
        }
    }
    if spec.kms_key_arn.is_none() {
        lines.push(format!(
            "KMS key {:.0} USD per month more after its first yearly rotation, and again after the second",
            price::KEY_MONTH
        ));
    }
    if spec.storage.backup {
        lines.push(format!(
            "EFS backups {:.3} USD per GiB and month",
            usd(price::BACKUP_GIB_MONTH)
        ));
    }
    if spec.image_repository {
        lines.push(format!(
            "images {:.2} USD per GiB and month",
            usd(price::IMAGES_GIB_MONTH)
        ));
    }
    match spec.network.egress {
        Egress::Nat | Egress::NatPerZone if !spec.has_given_vpc() => {
            lines.push(format!(
                "NAT gateway {:.3} USD per GiB",
                usd(price::NAT_GIB)
            ));
        }
        Egress::Endpoints if !spec.has_given_vpc() => {
            lines.push(format!(
                "VPC endpoints {:.3} USD per GiB",
                usd(price::ENDPOINT_GIB)
            ));
        }
        _ => {}
    }
    if spec.zones.len() > 1 {
        lines.push(format!(
            "traffic between zones {:.2} USD per GiB in each direction",
            price::CROSS_ZONE_GIB
        ));
    }
    lines.push(format!(
        "traffic to the Internet {:.2} USD per GiB, after 100 GiB per month",
        usd(price::INTERNET_GIB)
    ));
    match spec.control_plane.mode {
        ControlPlaneMode::Eks => lines.push(format!(
            "control-plane logs {:.2} USD per GiB written, {:.3} per GiB and month kept",
            usd(price::LOGS_GIB),
            usd(price::LOGS_GIB_MONTH)
        )),
        ControlPlaneMode::SelfManaged => {
            lines.push(format!(
                "load balancer {:.4} USD per capacity unit and hour",
                usd(price::LOAD_BALANCER_UNIT)
            ));
            lines.push(format!(
                "etcd backups in S3 {:.3} USD per GiB and month",
                usd(price::OBJECTS_GIB_MONTH)
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How AWS bills a resource type of our templates.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Billing {
        /// It costs nothing by itself, for this reason.
        Free(&'static str),
        /// It has a line of [`Estimate::parts`] that contains this word.
        Hourly(&'static str),
        /// It has a line of [`Estimate::by_use`] that contains this word.
        ByUse(&'static str),
    }

    /// How a resource type is billed; `None` for one that nobody has thought about.
    fn billed(kind: &str) -> Option<Billing> {
        Some(match kind {
            "AWS::EKS::Cluster" => Billing::Hourly("EKS control plane"),
            "AWS::EKS::Nodegroup" | "AWS::AutoScaling::AutoScalingGroup" => {
                Billing::Hourly("worker")
            }
            "AWS::EC2::LaunchTemplate" => Billing::Hourly("worker disk"),
            "AWS::EC2::Instance" => Billing::Hourly("controller"),
            "AWS::EC2::Volume" => Billing::Hourly("etcd disk"),
            "AWS::EC2::NatGateway" | "AWS::EC2::EIP" => Billing::Hourly("NAT gateway"),
            "AWS::EC2::VPCEndpoint" => Billing::Hourly("VPC endpoint"),
            "AWS::ElasticLoadBalancingV2::LoadBalancer" => Billing::Hourly("load balancer"),
            "AWS::KMS::Key" => Billing::Hourly("KMS key"),
            "AWS::EFS::FileSystem" => Billing::ByUse("EFS storage"),
            "AWS::EFS::AccessPoint" | "AWS::EFS::MountTarget" => Billing::ByUse("EFS storage"),
            "AWS::Logs::LogGroup" => Billing::ByUse("control-plane logs"),
            "AWS::ECR::Repository" => Billing::ByUse("images"),
            "AWS::EC2::VPC"
            | "AWS::EC2::InternetGateway"
            | "AWS::EC2::VPCGatewayAttachment"
            | "AWS::EC2::Subnet"
            | "AWS::EC2::Route"
            | "AWS::EC2::RouteTable"
            | "AWS::EC2::SubnetRouteTableAssociation"
            | "AWS::EC2::SecurityGroup" => Billing::Free("traffic is billed, networks are not"),
            "AWS::EKS::AccessEntry" | "AWS::EKS::PodIdentityAssociation" => {
                Billing::Free("part of the control plane")
            }
            "AWS::EKS::Addon" => Billing::Free("add-ons of AWS run on machines that are paid for"),
            "AWS::ElasticLoadBalancingV2::Listener"
            | "AWS::ElasticLoadBalancingV2::TargetGroup" => {
                Billing::Free("part of the load balancer")
            }
            "AWS::IAM::InstanceProfile" | "AWS::IAM::Role" => Billing::Free("IAM is free"),
            "AWS::KMS::Alias" => Billing::Free("part of the key"),
            "AWS::Route53::RecordSet" => {
                Billing::Free("the hosted zone is there and paid for; records in it are not billed")
            }
            _ => return None,
        })
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn the_parts_of_the_default_cluster() {
        let spec = ClusterSpec::new("demo", "us-west-2");
        let estimate = estimate(&spec);
        let what: Vec<&str> = estimate
            .parts
            .iter()
            .map(|part| part.what.as_str())
            .collect();
        assert_eq!(
            what,
            [
                "EKS control plane",
                "worker m5.large",
                "worker disk 50 GiB",
                "NAT gateway with address",
                "KMS key"
            ]
        );
        assert!(close(
            estimate.hourly(),
            0.1 + 0.288 + 12.0 / 730.0 + 0.05 + 1.0 / 730.0
        ));
        assert!(!estimate.is_partial());
    }

    /// A lone base stack was shown at the price of the whole cluster.
    #[test]
    fn only_what_is_there_costs() {
        let estimate = estimate(&ClusterSpec::new("demo", "us-west-2"));
        let base = 0.05 + 1.0 / 730.0;
        assert!(close(estimate.hourly_of(StackLayer::Base), base));
        assert!(close(
            so_far(
                &estimate,
                &[StackAge {
                    layer: StackLayer::Base,
                    hours: 10.0
                }]
            ),
            base * 10.0
        ));
        let layers = StackLayer::ALL.map(|layer| estimate.hourly_of(layer));
        assert!(close(layers.iter().sum(), estimate.hourly()));
    }

    #[test]
    fn a_version_past_its_standard_support_costs_more() {
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        spec.kubernetes_version = "1.33".to_owned();
        let on = |day: u8| {
            let day = time::Date::from_calendar_date(2026, time::Month::July, day).unwrap();
            estimate_at(&spec, day.midnight().assume_utc()).hourly()
        };
        let (before, after) = (on(28), on(29));
        assert!(close(after - before, price::EKS_EXTENDED - price::EKS));
    }

    #[test]
    fn region_spot_and_mode_count() {
        let mut spec = ClusterSpec::new("demo", "us-west-1");
        spec.workers.capacity = Capacity::Spot;
        spec.control_plane.mode = ControlPlaneMode::SelfManaged;
        spec.network.egress = Egress::Public;
        let estimate = estimate(&spec);
        let workers = estimate
            .parts
            .iter()
            .find(|part| part.what == "worker m5.large, spot")
            .unwrap();
        assert!(close(workers.hourly.unwrap(), 3.0 * 0.096 * 1.17 * 0.35));
        let addresses = estimate
            .parts
            .iter()
            .find(|part| part.what == "public IPv4 address")
            .unwrap();
        assert_eq!(addresses.count, 4);
        assert!(!estimate.parts.iter().any(|part| part.what.contains("EKS")));
    }

    /// Control-plane logs, load-balancer units and endpoints were missing once.
    #[test]
    fn nothing_that_aws_bills_is_left_out() {
        for (name, spec) in crate::matrix::cases() {
            let estimate = estimate(&spec);
            let parts: Vec<&str> = estimate.parts.iter().map(|p| p.what.as_str()).collect();
            for stack in crate::template::render(&spec, &crate::template::Render::default()) {
                for resource in stack.body["Resources"].as_object().unwrap().values() {
                    let kind = resource["Type"].as_str().unwrap();
                    let found = match billed(kind) {
                        None => panic!("{name}: nobody has thought about the price of {kind}"),
                        Some(Billing::Free(reason)) => !reason.is_empty(),
                        Some(Billing::Hourly("worker" | "worker disk")) => {
                            spec.all_workers() == 0 || parts.iter().any(|p| p.contains("worker"))
                        }
                        Some(Billing::Hourly(word)) => parts.iter().any(|p| p.contains(word)),
                        Some(Billing::ByUse(word)) => {
                            estimate.by_use.iter().any(|line| line.contains(word))
                        }
                    };
                    assert!(found, "{name}: {kind} has no price in {parts:?}");
                }
            }
        }
    }

    /// What is paid by the hour, counted in the templates.
    fn counted(resources: &[&serde_json::Value], kind: &str) -> u32 {
        let of_kind = |it: &&&serde_json::Value| it["Type"] == kind;
        u32::try_from(resources.iter().filter(of_kind).count()).unwrap()
    }

    #[test]
    fn as_many_are_priced_as_the_templates_make() {
        for (name, spec) in crate::matrix::cases() {
            let stacks = crate::template::render(&spec, &crate::template::Render::default());
            let all = stacks.iter();
            let all = all.flat_map(|stack| stack.body["Resources"].as_object().unwrap().values());
            let all: Vec<&serde_json::Value> = all.collect();
            let estimate = estimate(&spec);
            let priced = |word: &str| {
                let parts = estimate.parts.iter();
                let found = parts.filter(|part| part.what.starts_with(word));
                found.map(|part| part.count).sum::<u32>()
            };
            let subnets = |it: &&serde_json::Value, key: &str| {
                it["Properties"][key].as_array().map_or(0, Vec::len) as u32
            };
            let with = |key: &'static str, value: &'static str| {
                let all = all.iter().copied();
                all.filter(move |it| it["Properties"][key] == value)
            };
            let endpoints = with("VpcEndpointType", "Interface");
            let open = with("Scheme", "internet-facing");
            let wanted = [
                ("EKS control plane", counted(&all, "AWS::EKS::Cluster")),
                ("NAT gateway", counted(&all, "AWS::EC2::NatGateway")),
                ("NAT gateway", counted(&all, "AWS::EC2::EIP")),
                ("KMS key", counted(&all, "AWS::KMS::Key")),
                ("controller disk", counted(&all, "AWS::EC2::Instance")),
                ("etcd disk", counted(&all, "AWS::EC2::Volume")),
                (
                    "load balancer",
                    counted(&all, "AWS::ElasticLoadBalancingV2::LoadBalancer"),
                ),
                (
                    "VPC endpoint in a zone",
                    endpoints.map(|it| subnets(&it, "SubnetIds")).sum(),
                ),
                (
                    "address of the load balancer",
                    open.map(|it| subnets(&it, "Subnets")).sum(),
                ),
                ("worker disk", spec.all_workers()),
            ];
            for (what, count) in wanted {
                assert_eq!(priced(what), count, "{name}: {what}");
            }
        }
    }

    #[test]
    fn groups_fallback_and_no_workers_are_priced() {
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        spec.workers.capacity = Capacity::Spot;
        spec.workers.on_demand = 1;
        let lines = estimate(&spec).lines().join("\n");
        assert!(lines.contains("2 × worker m5.large, spot"), "{lines}");
        assert!(lines.contains("1 × worker m5.large "), "{lines}");
        spec.workers.count = 0;
        spec.workers.on_demand = 0;
        let lines = estimate(&spec).lines().join("\n");
        assert!(!lines.contains("worker"), "{lines}");
    }

    #[test]
    fn an_unknown_type_is_said_and_left_out() {
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        spec.workers.instance_types = vec!["m9z.large".to_owned()];
        let estimate = estimate(&spec);
        assert!(estimate.is_partial());
        let text = estimate.lines().join("\n");
        assert!(
            text.contains("m9z.large is not in the list") && text.contains("at least"),
            "{text}"
        );
    }
}
