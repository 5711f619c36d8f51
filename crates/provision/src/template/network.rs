//! VPC, subnets, routes: the part of the base stack that carries packets.
//!
//! The VPC is cut into eight equal blocks: the first four for private subnets (one per zone), the
//! last four for public ones. Control-plane interfaces and mount targets always stand in private
//! subnets; workers do so unless `network.egress` is `public`.

use serde_json::{Value, json};

use super::{Builder, attribute, reference, tags};
use crate::cidr::Cidr;
use crate::spec::{ClusterSpec, Egress, Mode};

/// The network of the private subnet in the `index`-th zone.
pub fn private_subnet(spec: &ClusterSpec, index: u32) -> Cidr {
    block(spec, index)
}

/// The network of the public subnet in the `index`-th zone.
pub fn public_subnet(spec: &ClusterSpec, index: u32) -> Cidr {
    block(spec, 4 + index)
}

fn block(spec: &ClusterSpec, index: u32) -> Cidr {
    let vpc = spec.vpc();
    vpc.subnet(vpc.prefix() + 3, index)
        .expect("eight blocks fit into the network, and there are at most three zones")
}

/// Logical ids (and export names) of the subnets that the workers stand in.
pub fn worker_subnets(spec: &ClusterSpec) -> Vec<String> {
    let kind = if spec.workers_are_private() {
        "PrivateSubnet"
    } else {
        "PublicSubnet"
    };
    (1..=spec.zones.len())
        .map(|number| format!("{kind}{number}"))
        .collect()
}

/// Logical ids of all private subnets.
pub fn private_subnets(spec: &ClusterSpec) -> Vec<String> {
    (1..=spec.subnet_zones().len())
        .map(|number| format!("PrivateSubnet{number}"))
        .collect()
}

/// Logical ids of all public subnets.
pub fn public_subnets(spec: &ClusterSpec) -> Vec<String> {
    (1..=spec.subnet_zones().len())
        .map(|number| format!("PublicSubnet{number}"))
        .collect()
}

pub(crate) fn add(spec: &ClusterSpec, out: &mut Builder) {
    out.resource(
        "Vpc",
        "AWS::EC2::VPC",
        json!({
            "CidrBlock": spec.network.vpc_cidr,
            "EnableDnsHostnames": true,
            "EnableDnsSupport": true,
            "Tags": tags(spec, "vpc"),
        }),
    );
    out.resource(
        "InternetGateway",
        "AWS::EC2::InternetGateway",
        json!({"Tags": tags(spec, "internet")}),
    );
    out.resource(
        "GatewayAttachment",
        "AWS::EC2::VPCGatewayAttachment",
        json!({"VpcId": reference("Vpc"), "InternetGatewayId": reference("InternetGateway")}),
    );
    public_side(spec, out);
    private_side(spec, out);
    out.export(spec, "VpcId", "The VPC", reference("Vpc"));
}

fn public_side(spec: &ClusterSpec, out: &mut Builder) {
    route_table(spec, out, "PublicRoutes", "public");
    out.resource(
        "PublicDefaultRoute",
        "AWS::EC2::Route",
        json!({
            "RouteTableId": reference("PublicRoutes"),
            "DestinationCidrBlock": "0.0.0.0/0",
            "GatewayId": reference("InternetGateway"),
        }),
    )
    .insert("DependsOn".to_owned(), json!("GatewayAttachment"));
    for (index, zone) in (0u32..).zip(spec.subnet_zones()) {
        let id = format!("PublicSubnet{}", index + 1);
        let network = public_subnet(spec, index);
        subnet(spec, out, &id, &zone, network, "kubernetes.io/role/elb");
        associate(out, &id, "PublicRoutes");
    }
}

fn private_side(spec: &ClusterSpec, out: &mut Builder) {
    let gateways = match spec.network.egress {
        Egress::Nat => 1,
        Egress::NatPerZone => spec.zones.len(),
        Egress::Public => 0,
    };
    for number in 1..=gateways {
        nat_gateway(spec, out, number);
    }
    for (index, zone) in (0u32..).zip(spec.subnet_zones()) {
        let number = index as usize + 1;
        let id = format!("PrivateSubnet{number}");
        subnet(
            spec,
            out,
            &id,
            &zone,
            private_subnet(spec, index),
            "kubernetes.io/role/internal-elb",
        );
        let routes = format!("PrivateRoutes{number}");
        route_table(spec, out, &routes, &format!("private-{number}"));
        associate(out, &id, &routes);
        if gateways > 0 {
            out.resource(
                &format!("PrivateDefaultRoute{number}"),
                "AWS::EC2::Route",
                json!({
                    "RouteTableId": reference(&routes),
                    "DestinationCidrBlock": "0.0.0.0/0",
                    "NatGatewayId": reference(&format!("NatGateway{}", number.min(gateways))),
                }),
            );
        }
    }
}

fn nat_gateway(spec: &ClusterSpec, out: &mut Builder, number: usize) {
    let address = format!("NatAddress{number}");
    out.resource(
        &address,
        "AWS::EC2::EIP",
        json!({"Domain": "vpc", "Tags": tags(spec, &format!("nat-{number}"))}),
    )
    .insert("DependsOn".to_owned(), json!("GatewayAttachment"));
    out.resource(
        &format!("NatGateway{number}"),
        "AWS::EC2::NatGateway",
        json!({
            "AllocationId": attribute(&address, "AllocationId"),
            "SubnetId": reference(&format!("PublicSubnet{number}")),
            "Tags": tags(spec, &format!("nat-{number}")),
        }),
    );
}

fn subnet(
    spec: &ClusterSpec,
    out: &mut Builder,
    id: &str,
    zone: &str,
    network: Cidr,
    role_tag: &str,
) {
    let public = id.starts_with("Public");
    let mut all = tags(
        spec,
        &format!("{}-{zone}", if public { "public" } else { "private" }),
    );
    if let (Mode::Eks, Value::Array(list)) = (spec.control_plane.mode, &mut all) {
        list.push(json!({"Key": role_tag, "Value": "1"}));
    }
    let mut properties = json!({
        "VpcId": reference("Vpc"),
        "AvailabilityZone": zone,
        "CidrBlock": network.to_string(),
        "Tags": all,
    });
    if public && !spec.workers_are_private() {
        properties["MapPublicIpOnLaunch"] = json!(true);
    }
    out.resource(id, "AWS::EC2::Subnet", properties);
    out.export(spec, id, &format!("Subnet in {zone}"), reference(id));
}

fn route_table(spec: &ClusterSpec, out: &mut Builder, id: &str, name: &str) {
    out.resource(
        id,
        "AWS::EC2::RouteTable",
        json!({"VpcId": reference("Vpc"), "Tags": tags(spec, name)}),
    );
}

fn associate(out: &mut Builder, subnet: &str, routes: &str) {
    out.resource(
        &format!("{subnet}Routes"),
        "AWS::EC2::SubnetRouteTableAssociation",
        json!({"SubnetId": reference(subnet), "RouteTableId": reference(routes)}),
    );
}
