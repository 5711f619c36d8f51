//! What each part of a cluster needs, grant by grant.

use serde_json::{Value, json};

use super::{Grant, bucket_name};
use crate::spec::{ClusterSpec, Mode};
use crate::template::CLUSTER_TAG;
use crate::template::roles::role_name;

fn in_region(spec: &ClusterSpec) -> Option<Value> {
    Some(json!({"StringEquals": {"aws:RequestedRegion": spec.region}}))
}

fn tagged(spec: &ClusterSpec) -> Option<Value> {
    Some(json!({"StringEquals": {format!("aws:ResourceTag/{CLUSTER_TAG}"): spec.name}}))
}

pub(super) fn stacks(spec: &ClusterSpec, account: &str) -> Grant {
    let (name, region) = (&spec.name, &spec.region);
    Grant {
        sid: "Stacks",
        actions: vec![
            "cloudformation:CreateChangeSet",
            "cloudformation:DeleteChangeSet",
            "cloudformation:DeleteStack",
            "cloudformation:DescribeChangeSet",
            "cloudformation:DescribeStackEvents",
            "cloudformation:DescribeStackResources",
            "cloudformation:DescribeStacks",
            "cloudformation:DetectStackDrift",
            "cloudformation:ExecuteChangeSet",
            "cloudformation:GetTemplate",
            "cloudformation:TagResource",
        ],
        resources: vec![format!(
            "arn:aws:cloudformation:{region}:{account}:stack/{name}-*/*"
        )],
        condition: None,
    }
}

/// Calls that AWS does not limit to resources, and that only read.
pub(super) fn identity() -> Grant {
    Grant {
        sid: "LookAround",
        actions: vec![
            "cloudformation:DescribeStackDriftDetectionStatus",
            "cloudformation:ListExports",
            "cloudformation:ValidateTemplate",
            "ec2:Describe*",
            "elasticfilesystem:DescribeFileSystems",
            "elasticfilesystem:DescribeMountTargets",
            "iam:SimulatePrincipalPolicy",
            "servicequotas:GetServiceQuota",
            "sts:GetCallerIdentity",
            "tag:GetResources",
        ],
        resources: vec!["*".to_owned()],
        condition: None,
    }
}

pub(super) fn network(spec: &ClusterSpec) -> Vec<Grant> {
    vec![
        Grant {
            sid: "MakeNetworkAndMachines",
            actions: vec![
                "ec2:AllocateAddress",
                "ec2:AssociateRouteTable",
                "ec2:AttachInternetGateway",
                "ec2:CreateInternetGateway",
                "ec2:CreateLaunchTemplate",
                "ec2:CreateLaunchTemplateVersion",
                "ec2:CreateNatGateway",
                "ec2:CreateNetworkInterface",
                "ec2:CreateRoute",
                "ec2:CreateRouteTable",
                "ec2:CreateSecurityGroup",
                "ec2:CreateSubnet",
                "ec2:CreateTags",
                "ec2:CreateVpc",
                "ec2:ModifySubnetAttribute",
                "ec2:ModifyVpcAttribute",
                "ec2:RunInstances",
            ],
            resources: vec!["*".to_owned()],
            condition: in_region(spec),
        },
        Grant {
            sid: "ChangeAndRemoveOwnNetwork",
            actions: vec![
                "ec2:AuthorizeSecurityGroupEgress",
                "ec2:AuthorizeSecurityGroupIngress",
                "ec2:DeleteInternetGateway",
                "ec2:DeleteLaunchTemplate",
                "ec2:DeleteNatGateway",
                "ec2:DeleteRoute",
                "ec2:DeleteRouteTable",
                "ec2:DeleteSecurityGroup",
                "ec2:DeleteSubnet",
                "ec2:DeleteTags",
                "ec2:DeleteVpc",
                "ec2:DetachInternetGateway",
                "ec2:DisassociateRouteTable",
                "ec2:ReleaseAddress",
                "ec2:RevokeSecurityGroupEgress",
                "ec2:RevokeSecurityGroupIngress",
                "ec2:TerminateInstances",
            ],
            resources: vec!["*".to_owned()],
            condition: tagged(spec),
        },
        Grant {
            sid: "RemoveWhatKubernetesMade",
            actions: vec!["ec2:DeleteSecurityGroup", "ec2:DeleteVolume"],
            resources: vec!["*".to_owned()],
            condition: Some(json!({"StringEquals": {
                format!("aws:ResourceTag/kubernetes.io/cluster/{}", spec.name): "owned",
            }})),
        },
        Grant {
            sid: "RemoveInterfacesThatEksLeaves",
            actions: vec!["ec2:DeleteNetworkInterface"],
            resources: vec![format!("arn:aws:ec2:{}:*:network-interface/*", spec.region)],
            condition: in_region(spec),
        },
    ]
}

pub(super) fn storage(spec: &ClusterSpec, account: &str) -> Vec<Grant> {
    let region = &spec.region;
    let given = spec.storage.file_system_id.as_ref().map(|id| Grant {
        sid: "GivenFileSystem",
        actions: vec![
            "elasticfilesystem:CreateAccessPoint",
            "elasticfilesystem:CreateMountTarget",
            "elasticfilesystem:DeleteMountTarget",
        ],
        resources: vec![format!(
            "arn:aws:elasticfilesystem:{region}:{account}:file-system/{id}"
        )],
        condition: None,
    });
    let mut all = vec![
        Grant {
            sid: "MakeFileSystem",
            actions: vec!["elasticfilesystem:CreateFileSystem"],
            resources: vec!["*".to_owned()],
            condition: in_region(spec),
        },
        Grant {
            sid: "OwnFileSystem",
            actions: vec![
                "elasticfilesystem:CreateAccessPoint",
                "elasticfilesystem:CreateMountTarget",
                "elasticfilesystem:DeleteAccessPoint",
                "elasticfilesystem:DeleteFileSystem",
                "elasticfilesystem:DeleteFileSystemPolicy",
                "elasticfilesystem:DeleteMountTarget",
                "elasticfilesystem:DescribeAccessPoints",
                "elasticfilesystem:DescribeBackupPolicy",
                "elasticfilesystem:DescribeFileSystemPolicy",
                "elasticfilesystem:DescribeLifecycleConfiguration",
                "elasticfilesystem:DescribeMountTargetSecurityGroups",
                "elasticfilesystem:PutBackupPolicy",
                "elasticfilesystem:PutFileSystemPolicy",
                "elasticfilesystem:PutLifecycleConfiguration",
                "elasticfilesystem:TagResource",
                "elasticfilesystem:UpdateFileSystem",
            ],
            resources: vec![
                format!("arn:aws:elasticfilesystem:{region}:{account}:file-system/*"),
                format!("arn:aws:elasticfilesystem:{region}:{account}:access-point/*"),
            ],
            condition: tagged(spec),
        },
        Grant {
            sid: "BucketForLargeTemplates",
            actions: vec![
                "s3:CreateBucket",
                "s3:DeleteBucket",
                "s3:DeleteObject",
                "s3:GetBucketLocation",
                "s3:GetObject",
                "s3:ListBucket",
                "s3:PutBucketPublicAccessBlock",
                "s3:PutBucketTagging",
                "s3:PutObject",
            ],
            resources: vec![
                format!("arn:aws:s3:::{}", bucket_name(spec, account)),
                format!("arn:aws:s3:::{}/*", bucket_name(spec, account)),
            ],
            condition: None,
        },
    ];
    all.extend(given);
    all
}

pub(super) fn keys(spec: &ClusterSpec, account: &str) -> Vec<Grant> {
    let region = &spec.region;
    let mut actions = vec![
        "kms:CreateGrant",
        "kms:Decrypt",
        "kms:DescribeKey",
        "kms:Encrypt",
        "kms:GenerateDataKeyWithoutPlaintext",
    ];
    if let Some(arn) = &spec.kms_key_arn {
        let kept = Grant {
            sid: "RemoveKeptKey",
            actions: vec!["kms:ScheduleKeyDeletion"],
            resources: vec![format!("arn:aws:kms:{region}:{account}:key/*")],
            condition: tagged(spec),
        };
        let used = Grant {
            sid: "UseOwnKey",
            actions,
            resources: vec![arn.clone()],
            condition: None,
        };
        return vec![used, kept];
    }
    actions.extend([
        "kms:EnableKeyRotation",
        "kms:GetKeyPolicy",
        "kms:GetKeyRotationStatus",
        "kms:ListResourceTags",
        "kms:PutKeyPolicy",
        "kms:ScheduleKeyDeletion",
        "kms:TagResource",
        "kms:UpdateKeyDescription",
    ]);
    let any_key = format!("arn:aws:kms:{region}:{account}:key/*");
    vec![
        Grant {
            sid: "MakeKey",
            actions: vec!["kms:CreateKey", "kms:ListAliases"],
            resources: vec!["*".to_owned()],
            condition: in_region(spec),
        },
        Grant {
            sid: "OwnKey",
            actions,
            resources: vec![any_key.clone()],
            condition: tagged(spec),
        },
        Grant {
            sid: "KeyAlias",
            actions: vec!["kms:CreateAlias", "kms:DeleteAlias", "kms:UpdateAlias"],
            resources: vec![
                any_key,
                format!("arn:aws:kms:{region}:{account}:alias/canoe/{}", spec.name),
            ],
            condition: None,
        },
    ]
}

pub(super) fn roles(spec: &ClusterSpec, account: &str) -> Vec<Grant> {
    let roles = format!("arn:aws:iam::{account}:role/{}", role_name(spec, "*"));
    let services = match spec.control_plane.mode {
        Mode::Eks => json!([
            "ec2.amazonaws.com",
            "eks.amazonaws.com",
            "pods.eks.amazonaws.com"
        ]),
        Mode::SelfManaged => json!(["ec2.amazonaws.com"]),
    };
    vec![
        Grant {
            sid: "OwnRoles",
            actions: vec![
                "iam:AttachRolePolicy",
                "iam:CreateRole",
                "iam:DeleteRole",
                "iam:DeleteRolePolicy",
                "iam:DetachRolePolicy",
                "iam:GetRole",
                "iam:GetRolePolicy",
                "iam:ListAttachedRolePolicies",
                "iam:ListRolePolicies",
                "iam:PutRolePolicy",
                "iam:TagRole",
            ],
            resources: vec![roles.clone()],
            condition: None,
        },
        Grant {
            sid: "HandRolesToAws",
            actions: vec!["iam:PassRole"],
            resources: vec![roles],
            condition: Some(json!({"StringEquals": {"iam:PassedToService": services}})),
        },
        Grant {
            sid: "RolesThatAwsMakes",
            actions: vec!["iam:CreateServiceLinkedRole"],
            resources: vec![format!("arn:aws:iam::{account}:role/aws-service-role/*")],
            condition: Some(json!({"StringEquals": {"iam:AWSServiceName": [
                "autoscaling.amazonaws.com", "eks-nodegroup.amazonaws.com", "eks.amazonaws.com",
                "elasticfilesystem.amazonaws.com", "elasticloadbalancing.amazonaws.com", "spot.amazonaws.com",
            ]}})),
        },
    ]
}

pub(super) fn eks(spec: &ClusterSpec, account: &str) -> Vec<Grant> {
    let (name, region) = (&spec.name, &spec.region);
    let eks = |kind: &str| format!("arn:aws:eks:{region}:{account}:{kind}");
    vec![
        Grant {
            sid: "OwnEksCluster",
            actions: vec![
                "eks:CreateAddon",
                "eks:CreateCluster",
                "eks:CreateNodegroup",
                "eks:CreatePodIdentityAssociation",
                "eks:DeleteAddon",
                "eks:DeleteCluster",
                "eks:DeleteNodegroup",
                "eks:DeletePodIdentityAssociation",
                "eks:DescribeAddon",
                "eks:DescribeCluster",
                "eks:DescribeNodegroup",
                "eks:DescribePodIdentityAssociation",
                "eks:DescribeUpdate",
                "eks:ListNodegroups",
                "eks:TagResource",
                "eks:UpdateAddon",
                "eks:UpdateClusterConfig",
                "eks:UpdateClusterVersion",
                "eks:UpdateNodegroupConfig",
                "eks:UpdateNodegroupVersion",
            ],
            resources: vec![
                eks(&format!("cluster/{name}")),
                eks(&format!("nodegroup/{name}/*")),
                eks(&format!("addon/{name}/*")),
                eks(&format!("podidentityassociation/{name}/*")),
            ],
            condition: None,
        },
        Grant {
            sid: "EksVersions",
            actions: vec!["eks:DescribeAddonVersions", "eks:DescribeClusterVersions"],
            resources: vec!["*".to_owned()],
            condition: None,
        },
        Grant {
            sid: "ControlPlaneLogs",
            actions: vec![
                "logs:AssociateKmsKey",
                "logs:CreateLogGroup",
                "logs:DeleteLogGroup",
                "logs:ListTagsForResource",
                "logs:PutRetentionPolicy",
                "logs:TagResource",
            ],
            resources: vec![format!(
                "arn:aws:logs:{region}:{account}:log-group:/aws/eks/{name}/cluster*"
            )],
            condition: None,
        },
        Grant {
            sid: "FindLogs",
            actions: vec!["logs:DescribeLogGroups"],
            resources: vec![format!("arn:aws:logs:{region}:{account}:log-group:*")],
            condition: None,
        },
        Grant {
            sid: "RemoveLoadBalancersThatKubernetesMade",
            actions: vec![
                "elasticloadbalancing:DeleteLoadBalancer",
                "elasticloadbalancing:DeleteTargetGroup",
                "elasticloadbalancing:DescribeLoadBalancers",
                "elasticloadbalancing:DescribeTags",
                "elasticloadbalancing:DescribeTargetGroups",
            ],
            resources: vec!["*".to_owned()],
            condition: in_region(spec),
        },
    ]
}

pub(super) fn self_managed(spec: &ClusterSpec, account: &str) -> Vec<Grant> {
    let (name, region) = (&spec.name, &spec.region);
    vec![
        Grant {
            sid: "InstanceProfiles",
            actions: vec![
                "iam:AddRoleToInstanceProfile",
                "iam:CreateInstanceProfile",
                "iam:DeleteInstanceProfile",
                "iam:GetInstanceProfile",
                "iam:RemoveRoleFromInstanceProfile",
            ],
            resources: vec![format!(
                "arn:aws:iam::{account}:instance-profile/{}",
                role_name(spec, "*")
            )],
            condition: None,
        },
        Grant {
            sid: "Workers",
            actions: vec![
                "autoscaling:CreateAutoScalingGroup",
                "autoscaling:CreateOrUpdateTags",
                "autoscaling:DeleteAutoScalingGroup",
                "autoscaling:UpdateAutoScalingGroup",
            ],
            resources: vec![format!(
                "arn:aws:autoscaling:{region}:{account}:autoScalingGroup:*:autoScalingGroupName/{name}-workers"
            )],
            condition: None,
        },
        Grant {
            sid: "LookAtWorkers",
            actions: vec![
                "autoscaling:DescribeAutoScalingGroups",
                "autoscaling:DescribeScalingActivities",
            ],
            resources: vec!["*".to_owned()],
            condition: None,
        },
        Grant {
            sid: "LoadBalancer",
            actions: vec![
                "elasticloadbalancing:AddTags",
                "elasticloadbalancing:CreateListener",
                "elasticloadbalancing:CreateLoadBalancer",
                "elasticloadbalancing:CreateTargetGroup",
                "elasticloadbalancing:DeleteListener",
                "elasticloadbalancing:DeleteLoadBalancer",
                "elasticloadbalancing:DeleteTargetGroup",
                "elasticloadbalancing:DeregisterTargets",
                "elasticloadbalancing:DescribeListeners",
                "elasticloadbalancing:DescribeLoadBalancers",
                "elasticloadbalancing:DescribeTags",
                "elasticloadbalancing:DescribeTargetGroups",
                "elasticloadbalancing:DescribeTargetHealth",
                "elasticloadbalancing:ModifyLoadBalancerAttributes",
                "elasticloadbalancing:RegisterTargets",
            ],
            resources: vec!["*".to_owned()],
            condition: in_region(spec),
        },
        Grant {
            sid: "FindImage",
            actions: vec!["ssm:GetParameters"],
            resources: vec![format!(
                "arn:aws:ssm:{region}::parameter/aws/service/debian/*"
            )],
            condition: None,
        },
    ]
}
