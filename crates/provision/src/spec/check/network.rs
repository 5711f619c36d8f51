//! Address blocks, and the API server's name.

use super::named;
use crate::cidr::Cidr;
use crate::names;
use crate::spec::{ClusterSpec, Mode, Problem};

pub(super) fn network(spec: &ClusterSpec, out: &mut Vec<Problem>) {
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

pub(super) fn dns(spec: &ClusterSpec, out: &mut Vec<Problem>) {
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
