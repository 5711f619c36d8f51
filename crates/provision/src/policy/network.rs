//! Network and machines. EC2 gives things ids of its own, so they are told apart by tags.

use super::grant::{Grant, PolicyScope, made_by, through_stacks};
use crate::spec::ControlPlaneMode;

/// Calls that make something and give it our tags.
const MAKE: [&str; 8] = [
    "ec2:AllocateAddress",
    "ec2:CreateInternetGateway",
    "ec2:CreateLaunchTemplate",
    "ec2:CreateNatGateway",
    "ec2:CreateRouteTable",
    "ec2:CreateSecurityGroup",
    "ec2:CreateSubnet",
    "ec2:CreateVpc",
];

/// On things that are ours already; calls that make something inside another thing ask for that, too.
const CHANGE: [&str; 35] = [
    "ec2:AssociateRouteTable",
    "ec2:AttachInternetGateway",
    "ec2:AuthorizeSecurityGroupEgress",
    "ec2:AuthorizeSecurityGroupIngress",
    "ec2:CreateLaunchTemplateVersion",
    "ec2:CreateNatGateway",
    "ec2:CreateNetworkInterface",
    "ec2:CreateRoute",
    "ec2:CreateRouteTable",
    "ec2:CreateSecurityGroup",
    "ec2:CreateSubnet",
    "ec2:CreateTags",
    "ec2:DeleteInternetGateway",
    "ec2:DeleteLaunchTemplate",
    "ec2:DeleteNatGateway",
    "ec2:DeleteRoute",
    "ec2:DeleteRouteTable",
    "ec2:DeleteSecurityGroup",
    "ec2:DeleteSubnet",
    "ec2:DeleteTags",
    "ec2:DeleteVolume",
    "ec2:DeleteVpc",
    "ec2:DetachInternetGateway",
    "ec2:DisassociateRouteTable",
    "ec2:ModifyNetworkInterfaceAttribute",
    "ec2:ModifySubnetAttribute",
    "ec2:ModifyVpcAttribute",
    "ec2:ReleaseAddress",
    "ec2:ReplaceRoute",
    "ec2:ReplaceRouteTableAssociation",
    "ec2:RevokeSecurityGroupEgress",
    "ec2:RevokeSecurityGroupIngress",
    "ec2:RunInstances",
    "ec2:UpdateSecurityGroupRuleDescriptionsEgress",
    "ec2:UpdateSecurityGroupRuleDescriptionsIngress",
];

pub(super) fn network(scope: PolicyScope<'_>) -> Vec<Grant> {
    let mut change = CHANGE.to_vec();
    let mut make = MAKE.to_vec();
    match scope.spec.control_plane.mode {
        ControlPlaneMode::Eks => {
            make.push("ec2:CreateVpcEndpoint");
            change.extend([
                "ec2:CreateVpcEndpoint",
                "ec2:DeleteVpcEndpoints",
                "ec2:ModifyVpcEndpoint",
            ]);
        }
        ControlPlaneMode::SelfManaged => {
            make.push("ec2:CreateVolume");
            change.extend(CONTROLLER);
        }
    }
    let mut makers: Vec<&str> = make.iter().map(|call| &call["ec2:".len()..]).collect();
    makers.push("RunInstances");
    let interfaces = scope.arn("ec2", "network-interface/*");
    let mut all = given(scope);
    all.extend([
        Grant::anywhere("MakeNetwork", &make).when(scope.asked()),
        Grant::anywhere("TagWhatIsMade", &["ec2:CreateTags"])
            .when(made_by("ec2:CreateAction", &makers))
            .when(scope.asked()),
        Grant::anywhere("OwnNetwork", &change).when(scope.owned()),
        machines(scope),
        // Mount targets have interfaces that carry no tags.
        Grant::allow(
            "InterfacesOfMountTargets",
            &[
                "ec2:CreateNetworkInterface",
                "ec2:DeleteNetworkInterface",
                "ec2:ModifyNetworkInterfaceAttribute",
            ],
            vec![interfaces],
        )
        .when(through_stacks()),
    ]);
    all.extend(left_by_kubernetes(scope));
    all
}

/// What Kubernetes and EKS leave behind, which `down` removes.
pub(super) fn left_by_kubernetes(scope: PolicyScope<'_>) -> Vec<Grant> {
    let [provider, controller, network] = scope.of_kubernetes();
    let remove = [
        "ec2:DeleteNetworkInterface",
        "ec2:DeleteSecurityGroup",
        "elasticloadbalancing:DeleteLoadBalancer",
    ];
    vec![
        // One that is in use cannot be deleted.
        Grant::allow(
            "InterfacesThatAreLeft",
            &remove[..1],
            vec![scope.arn("ec2", "network-interface/*")],
        )
        .when(network),
        Grant::anywhere("MadeByKubernetes", &remove).when(provider),
        Grant::anywhere("MadeByItsController", &remove).when(controller),
    ]
}

/// The controller of a self-managed cluster and its disk.
const CONTROLLER: [&str; 11] = [
    "ec2:AssociateIamInstanceProfile",
    "ec2:AttachVolume",
    "ec2:DetachVolume",
    "ec2:DisassociateIamInstanceProfile",
    "ec2:ModifyInstanceAttribute",
    "ec2:ModifyInstanceMetadataOptions",
    "ec2:ModifyVolume",
    "ec2:ReplaceIamInstanceProfileAssociation",
    "ec2:StartInstances",
    "ec2:StopInstances",
    "ec2:TerminateInstances",
];

/// What stands in a VPC of the user's own, which does not carry our tag: by its id.
fn given(scope: PolicyScope<'_>) -> Vec<Grant> {
    let network = &scope.spec.network;
    let Some(vpc) = &network.vpc_id else {
        return Vec::new();
    };
    let subnets = network.private_subnet_ids.iter();
    let subnets: Vec<String> = subnets
        .map(|id| scope.arn("ec2", &format!("subnet/{id}")))
        .collect();
    let vpc = scope.arn("ec2", &format!("vpc/{vpc}"));
    vec![
        Grant::allow("GroupsInGivenVpc", &["ec2:CreateSecurityGroup"], vec![vpc]),
        Grant::allow(
            "MachinesInGivenSubnets",
            &["ec2:CreateNetworkInterface", "ec2:RunInstances"],
            subnets,
        ),
    ]
}

/// Machines start from any image and with any group (EKS makes one of its own), but only in our subnets.
fn machines(scope: PolicyScope<'_>) -> Grant {
    let mut parts = vec![scope.plain_arn(&format!("ec2:{}::image/*", scope.spec.region))];
    for kind in ["instance", "network-interface", "security-group", "volume"] {
        parts.push(scope.arn("ec2", &format!("{kind}/*")));
    }
    if let Some(key) = &scope.spec.ssh_key_name {
        parts.push(scope.arn("ec2", &format!("key-pair/{key}")));
    }
    if scope.spec.control_plane.mode == ControlPlaneMode::SelfManaged {
        let group = scope.arn("ec2", "security-group/*");
        parts.retain(|part| *part != group);
    }
    Grant::allow("StartMachines", &["ec2:RunInstances"], parts)
}
