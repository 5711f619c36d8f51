//! Address blocks, and the API server's name.

use super::named;
use crate::cidr::Cidr;
use crate::names;
use crate::partition::Partition;
use crate::spec::{ClusterSpec, ControlPlaneMode, Egress, SpecProblem};

pub(super) fn network(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    let network = &spec.network;
    let vpc = block(out, "network.vpcCidr", &network.vpc_cidr, (16, 22));
    let services = block(out, "network.serviceCidr", &network.service_cidr, (12, 24));
    let shared: Option<Cidr> = "100.64.0.0/10".parse().ok();
    if spec.control_plane.mode == ControlPlaneMode::Eks
        && let (Some(shared), Some(services)) = (shared, services)
        && shared.contains(services)
    {
        out.push(SpecProblem::error(
            "network.serviceCidr",
            format!("{services} is in {shared}, which EKS does not take for services"),
            "write a block inside 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16",
        ));
    }
    let pods = match spec.control_plane.mode {
        ControlPlaneMode::SelfManaged => block(out, "network.podCidr", &network.pod_cidr, (12, 20)),
        ControlPlaneMode::Eks => None,
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

/// A network of the user's own, and one without the Internet.
pub(super) fn given(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    let network = &spec.network;
    let eks = spec.control_plane.mode == ControlPlaneMode::Eks;
    if network.egress == Egress::Endpoints {
        let field = "network.egress";
        if !eks {
            let message = "a self-managed cluster fetches packages and images from the Internet";
            out.push(SpecProblem::error(
                field,
                message,
                "write nat or public, or use mode eks",
            ));
        }
        if Partition::of(&spec.region).name == "aws-cn" {
            let message = "endpoints in China have other names, which are not known here";
            out.push(SpecProblem::error(field, message, "write nat or public"));
        }
        if !spec.control_plane.allowed_cidrs.is_empty() && !spec.has_given_vpc() {
            out.push(SpecProblem::warning(
                field,
                "the API server is reachable from controlPlane.allowedCidrs although the nodes have no Internet",
                "set allowedCidrs to [] for a cluster that nobody outside sees",
            ));
        }
    }
    let Some(id) = &network.vpc_id else {
        if !network.private_subnet_ids.is_empty() || !network.public_subnet_ids.is_empty() {
            out.push(SpecProblem::error(
                "network.vpcId",
                "subnets are given but no VPC",
                "add the VPC that they are in, or remove them",
            ));
        }
        return;
    };
    if !names::is_ec2_id("vpc", id) {
        let remedy = "write one such as vpc-0123456789abcdef0";
        out.push(SpecProblem::error(
            "network.vpcId",
            format!("{id:?} is not a VPC"),
            remedy,
        ));
    }
    if !eks {
        out.push(SpecProblem::error(
            "network.vpcId",
            "the self-managed controller needs an address in a subnet that is its own",
            "remove it, or use mode eks",
        ));
    }
    if network.egress != Egress::Nat {
        out.push(SpecProblem::warning(
            "network.egress",
            "is not used: the routes of the VPC decide",
            "remove it",
        ));
    }
    subnets(spec, out);
}

fn subnets(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    let network = &spec.network;
    let zones = spec.subnet_zones();
    if network.private_subnet_ids.len() != zones.len() {
        out.push(SpecProblem::error(
            "network.privateSubnetIds",
            format!("{} subnets are given", network.private_subnet_ids.len()),
            format!("write one for each of {}, in this order", zones.join(", ")),
        ));
    }
    if network.public_subnet_ids.len() > zones.len() {
        out.push(SpecProblem::error(
            "network.publicSubnetIds",
            format!("{} subnets are given", network.public_subnet_ids.len()),
            format!("write at most one for each of {}", zones.join(", ")),
        ));
    }
    for (key, list) in [
        ("privateSubnetIds", &network.private_subnet_ids),
        ("publicSubnetIds", &network.public_subnet_ids),
    ] {
        for (index, id) in list.iter().enumerate() {
            if !names::is_ec2_id("subnet", id) {
                out.push(SpecProblem::error(
                    &format!("network.{key}[{index}]"),
                    format!("{id:?} is not a subnet"),
                    "write one such as subnet-0123456789abcdef0",
                ));
            }
        }
    }
}

fn block(
    out: &mut Vec<SpecProblem>,
    field: &str,
    text: &str,
    (low, high): (u8, u8),
) -> Option<Cidr> {
    let cidr = match text.parse::<Cidr>() {
        Ok(cidr) => cidr,
        Err(error) => {
            out.push(SpecProblem::error(
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
        out.push(SpecProblem::error(
            field,
            format!("{cidr} is not /{low} to /{high}"),
            "write a block of that size",
        ));
        return None;
    }
    if !is_private {
        let remedy = "write a block inside 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16";
        out.push(SpecProblem::error(
            field,
            format!("{cidr} are not private addresses"),
            remedy,
        ));
    }
    Some(cidr)
}

fn disjoint(out: &mut Vec<SpecProblem>, a: (&str, Option<Cidr>), b: (&str, Option<Cidr>)) {
    if let (Some(left), Some(right)) = (a.1, b.1)
        && left.overlaps(right)
    {
        let message = format!("{left} overlaps {}, which is {right}", b.0);
        out.push(SpecProblem::error(
            a.0,
            message,
            "write a block that shares no address with it",
        ));
    }
}

pub(super) fn dns(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    match (&spec.dns.external_name, &spec.dns.hosted_zone_id) {
        (None, Some(_)) => out.push(SpecProblem::error(
            "dns.hostedZoneId",
            "a zone is given but no name for it",
            "add dns.externalName, or remove the zone",
        )),
        (Some(_), None) => out.push(SpecProblem::warning(
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
