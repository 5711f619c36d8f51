//! What a cluster costs an hour, part by part.
//!
//! List prices of a dated table ([`catalog::PRICES_AS_OF`]) times a factor for the region. An
//! estimate, good for choosing and for a warning; what is used (storage, traffic) is named with its
//! unit price, because nobody can know the amount beforehand.

use serde::Serialize;

use crate::catalog;
use crate::spec::{Capacity, ClusterSpec, Egress, Mode, Throughput};

const HOURS_PER_MONTH: f64 = 730.0;
/// EKS control plane, USD an hour; versions past standard support cost six times as much.
const EKS: f64 = 0.10;
const NAT_GATEWAY: f64 = 0.045;
const PUBLIC_ADDRESS: f64 = 0.005;
const LOAD_BALANCER: f64 = 0.0225;
const DISK_GIB_MONTH: f64 = 0.08;
const KEY_MONTH: f64 = 1.0;
/// Share of the on-demand price that spot capacity is taken to cost.
const SPOT_SHARE: f64 = 0.35;

/// One line of the estimate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// What is paid for.
    pub what: String,
    /// How many of it.
    pub count: u32,
    /// USD an hour for all of them; `None` when the price is not known.
    pub hourly: Option<f64>,
}

/// The estimate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// What is paid by the hour.
    pub parts: Vec<Part>,
    /// What is paid by use, in words.
    pub by_use: Vec<String>,
    /// Where the numbers are from, and what they leave out.
    pub notes: Vec<String>,
}

impl Estimate {
    /// Sum of the known prices, USD an hour.
    pub fn hourly(&self) -> f64 {
        self.parts.iter().filter_map(|part| part.hourly).sum()
    }

    /// The same for a month of 730 hours.
    pub fn monthly(&self) -> f64 {
        self.hourly() * HOURS_PER_MONTH
    }

    /// Whether a price is missing, so that the sum is too low.
    pub fn is_partial(&self) -> bool {
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
            "{least}{:.4} USD an hour, {:.0} USD a month",
            self.hourly(),
            self.monthly()
        );
        lines.push(format!("total: {total}"));
        lines.extend(self.by_use.iter().map(|line| format!("by use: {line}")));
        lines.extend(self.notes.iter().map(|line| format!("note: {line}")));
        lines
    }
}

/// Estimates a cluster.
pub fn estimate(spec: &ClusterSpec) -> Estimate {
    let factor = catalog::region_factor(&spec.region);
    let mut parts = Vec::new();
    let mut notes = vec![format!(
        "an estimate: list prices of us-east-1 as of {}, before tax and discounts",
        catalog::PRICES_AS_OF
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
    control_plane(spec, factor, &mut parts, &mut notes);
    workers(spec, factor, &mut parts, &mut notes);
    network(spec, factor, &mut parts);
    if spec.kms_key_arn.is_none() {
        parts.push(Part {
            what: "KMS key".to_owned(),
            count: 1,
            hourly: Some(KEY_MONTH / HOURS_PER_MONTH),
        });
    }
    Estimate {
        parts,
        by_use: by_use(spec, factor),
        notes,
    }
}

/// What a cluster that has run for `hours` has cost so far.
pub fn so_far(estimate: &Estimate, hours: f64) -> f64 {
    estimate.hourly() * hours.max(0.0)
}

fn control_plane(spec: &ClusterSpec, factor: f64, parts: &mut Vec<Part>, notes: &mut Vec<String>) {
    match spec.control_plane.mode {
        Mode::Eks => {
            parts.push(Part {
                what: "EKS control plane".to_owned(),
                count: 1,
                hourly: Some(EKS),
            });
            notes.push(
                "a version past its standard support makes EKS cost 0.60 USD an hour".to_owned(),
            );
        }
        Mode::SelfManaged => {
            parts.push(machines(
                "controller",
                &spec.control_plane.instance_type,
                1,
                factor,
                notes,
            ));
            parts.push(disks("controller disk", 1, 30, factor));
            parts.push(Part {
                what: "load balancer".to_owned(),
                count: 1,
                hourly: Some(LOAD_BALANCER * factor),
            });
        }
    }
}

fn workers(spec: &ClusterSpec, factor: f64, parts: &mut Vec<Part>, notes: &mut Vec<String>) {
    let workers = &spec.workers;
    let Some(first) = workers.instance_types.first() else {
        return;
    };
    let mut part = machines("worker", first, workers.count, factor, notes);
    if workers.capacity == Capacity::Spot {
        part.what.push_str(", spot");
        part.hourly = part.hourly.map(|usd| usd * SPOT_SHARE);
        notes.push(format!(
            "spot prices move; {:.0} % of on demand is taken",
            SPOT_SHARE * 100.0
        ));
    }
    parts.push(part);
    parts.push(disks(
        "worker disk",
        workers.count,
        workers.disk_gib,
        factor,
    ));
}

fn machines(role: &str, name: &str, count: u32, factor: f64, notes: &mut Vec<String>) -> Part {
    let known = catalog::instance_type(name);
    if known.is_none() {
        notes.push(format!(
            "the price of {name} is not in the list; the total leaves it out"
        ));
    }
    Part {
        what: format!("{role} {name}"),
        count,
        hourly: known.map(|kind| kind.price * factor * f64::from(count)),
    }
}

fn disks(what: &str, count: u32, gib: u32, factor: f64) -> Part {
    let hourly = f64::from(count) * f64::from(gib) * DISK_GIB_MONTH * factor / HOURS_PER_MONTH;
    Part {
        what: format!("{what} {gib} GiB"),
        count,
        hourly: Some(hourly),
    }
}

fn network(spec: &ClusterSpec, factor: f64, parts: &mut Vec<Part>) {
    let zones = u32::try_from(spec.zones.len()).expect("there are at most three zones");
    let gateways = match spec.network.egress {
        Egress::Nat => 1,
        Egress::NatPerZone => zones,
        Egress::Public => 0,
    };
    if gateways > 0 {
        let hourly = f64::from(gateways) * (NAT_GATEWAY * factor + PUBLIC_ADDRESS);
        parts.push(Part {
            what: "NAT gateway with address".to_owned(),
            count: gateways,
            hourly: Some(hourly),
        });
        return;
    }
    let controllers = u32::from(spec.control_plane.mode == Mode::SelfManaged);
    let count = spec.workers.count + controllers;
    let hourly = f64::from(count) * PUBLIC_ADDRESS;
    parts.push(Part {
        what: "public IPv4 address".to_owned(),
        count,
        hourly: Some(hourly),
    });
}

fn by_use(spec: &ClusterSpec, factor: f64) -> Vec<String> {
    let mut lines = vec![format!(
        "EFS storage {:.2} USD per GiB and month",
        0.30 * factor
    )];
    if spec.storage.throughput == Throughput::Elastic {
        lines.push(format!(
            "EFS reads {:.3}, writes {:.3} USD per GiB",
            0.03 * factor,
            0.06 * factor
        ));
    }
    if spec.network.egress != Egress::Public {
        lines.push(format!("NAT gateway {:.3} USD per GiB", 0.045 * factor));
    }
    if spec.zones.len() > 1 {
        lines.push("traffic between zones 0.01 USD per GiB in each direction".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn region_spot_and_mode_count() {
        let mut spec = ClusterSpec::new("demo", "us-west-1");
        spec.workers.capacity = Capacity::Spot;
        spec.control_plane.mode = Mode::SelfManaged;
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
