//! VPC, subnets, routes: the part of the base stack that carries packets.
//!
//! With a VPC that is given (`network.vpcId`) nothing is made here: the ids are exported as they are, so the other
//! stacks do not see the difference.
//!
//! The VPC is cut into eight equal blocks: the first four for private subnets (one per zone), the
//! last four for public ones. Control-plane interfaces and mount targets always stand in private
//! subnets; workers do so unless `network.egress` is `public`.

use serde_json::{Value, json};

use super::{Builder, attribute, reference, sub, tags};
use crate::cidr::Cidr;
use crate::spec::{ClusterSpec, ControlPlaneMode, Egress};

/// Services that nodes without a way to the Internet call, each through an interface endpoint ("Deploy private
/// clusters with limited internet access", EKS User Guide); S3 has a gateway, which costs nothing.
pub(crate) const ENDPOINT_SERVICES: [&str; 11] = [
    "ec2",
    "ec2messages",
    "ecr.api",
    "ecr.dkr",
    "eks",
    "eks-auth",
    "elasticfilesystem",
    "logs",
    "ssm",
    "ssmmessages",
    "sts",
];

/// Id of the VPC in the base stack.
pub(crate) fn vpc(spec: &ClusterSpec) -> Value {
    match &spec.network.vpc_id {
        Some(id) => json!(id),
        None => reference("Vpc"),
    }
}

/// The network of the private subnet in the `index`-th zone.
pub(crate) fn private_subnet(spec: &ClusterSpec, index: u32) -> Cidr {
    block(spec, index)
}

/// The network of the public subnet in the `index`-th zone.
pub(crate) fn public_subnet(spec: &ClusterSpec, index: u32) -> Cidr {
    block(spec, 4 + index)
}

fn block(spec: &ClusterSpec, index: u32) -> Cidr {
    let vpc = spec.vpc();
    vpc.subnet(vpc.prefix() + 3, index)
        .expect("eight blocks fit into the network, and there are at most three zones")
}

/// Logical ids (and export names) of the subnets that the workers stand in.
pub(crate) fn worker_subnets(spec: &ClusterSpec) -> Vec<String> {
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
pub(crate) fn private_subnets(spec: &ClusterSpec) -> Vec<String> {
    (1..=spec.subnet_zones().len())
        .map(|number| format!("PrivateSubnet{number}"))
        .collect()
}

/// Logical ids of all public subnets; a private cluster and a given VPC may have none.
pub(crate) fn public_subnets(spec: &ClusterSpec) -> Vec<String> {
    let count = match spec.network.egress {
        _ if spec.has_given_vpc() => spec.network.public_subnet_ids.len(),
        Egress::Endpoints => 0,
        _ => spec.subnet_zones().len(),
    };
    (1..=count)
        .map(|number| format!("PublicSubnet{number}"))
        .collect()
}

/// Exports the ids of a network that is there already.
fn given(spec: &ClusterSpec, out: &mut Builder, vpc: &str) {
    out.export(spec, "VpcId", "The VPC, given in cluster.yaml", json!(vpc));
    let network = &spec.network;
    for (kind, ids) in [
        ("Private", &network.private_subnet_ids),
        ("Public", &network.public_subnet_ids),
    ] {
        for (number, id) in (1..).zip(ids) {
            let name = format!("{kind}Subnet{number}");
            out.export(spec, &name, "Subnet, given in cluster.yaml", json!(id));
        }
    }
}

pub(crate) fn add(spec: &ClusterSpec, out: &mut Builder) {
    if let Some(id) = &spec.network.vpc_id {
        return given(spec, out, id);
    }
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
    out.export(spec, "VpcId", "The VPC", reference("Vpc"));
    if spec.network.egress == Egress::Endpoints {
        private_side(spec, out);
        return endpoints(spec, out);
    }
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
}

/// The way to AWS's services for nodes that have none to the Internet.
fn endpoints(spec: &ClusterSpec, out: &mut Builder) {
    let tables: Vec<Value> = (1..=spec.subnet_zones().len())
        .map(|number| reference(&format!("PrivateRoutes{number}")))
        .collect();
    out.resource(
        "S3Endpoint",
        "AWS::EC2::VPCEndpoint",
        json!({
            "VpcId": reference("Vpc"),
            "VpcEndpointType": "Gateway",
            "ServiceName": sub("com.amazonaws.${AWS::Region}.s3"),
            "RouteTableIds": tables,
            "Tags": tags(spec, "s3"),
        }),
    );
    out.resource(
        "EndpointSecurityGroup",
        "AWS::EC2::SecurityGroup",
        json!({
            "GroupDescription": format!("{}: endpoints of AWS services", spec.name),
            "VpcId": reference("Vpc"),
            "SecurityGroupIngress": [{
                "IpProtocol": "tcp", "FromPort": 443, "ToPort": 443,
                "CidrIp": spec.network.vpc_cidr, "Description": "AWS over TLS from inside the VPC",
            }],
            "SecurityGroupEgress": [{
                "IpProtocol": "tcp", "FromPort": 443, "ToPort": 443,
                "CidrIp": spec.network.vpc_cidr, "Description": "replies inside the VPC",
            }],
            "Tags": tags(spec, "endpoints"),
        }),
    );
    let subnets: Vec<Value> = (1..=spec.zones.len())
        .map(|number| reference(&format!("PrivateSubnet{number}")))
        .collect();
    for service in ENDPOINT_SERVICES {
        let id = super::groups::pascal(&service.replace('.', "-"));
        out.resource(
            &format!("{id}Endpoint"),
            "AWS::EC2::VPCEndpoint",
            json!({
                "VpcId": reference("Vpc"),
                "VpcEndpointType": "Interface",
                "ServiceName": sub(format!("com.amazonaws.${{AWS::Region}}.{service}")),
                "PrivateDnsEnabled": true,
                "SubnetIds": subnets,
                "SecurityGroupIds": [attribute("EndpointSecurityGroup", "GroupId")],
                "Tags": tags(spec, service),
            }),
        );
    }
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
        Egress::Public | Egress::Endpoints => 0,
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
    if let (ControlPlaneMode::Eks, Value::Array(list)) = (spec.control_plane.mode, &mut all) {
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
