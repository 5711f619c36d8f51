//! The least IAM policy that an operator of one cluster needs.
//!
//! It replaces the ten `FullAccess` policies that such a set-up used to ask for. Where AWS lets an
//! action be limited to named resources, it is: stacks, roles, log groups, buckets, clusters and key
//! aliases by the cluster's name. Where creation cannot be limited by name (EC2, EFS, KMS), it is
//! limited to the region, and what changes or removes things is limited to things that carry the
//! cluster's tag.

use serde_json::{Value, json};

use crate::spec::{ClusterSpec, Mode};
use crate::template::CLUSTER_TAG;
use crate::template::roles::role_name;

/// One statement: a short name, actions, resources, condition.
struct Grant {
    sid: &'static str,
    actions: Vec<&'static str>,
    resources: Vec<String>,
    condition: Option<Value>,
}

/// The largest managed policy that IAM takes; spaces do not count.
const MAX_POLICY: usize = 6144;

/// The whole policy for the person who runs `canoe cluster`, in the account `account`.
pub fn operator(spec: &ClusterSpec, account: &str) -> Value {
    document(statements(spec, account))
}

/// The same in as few documents as IAM's limit on the size of a managed policy allows.
pub fn operator_documents(spec: &ClusterSpec, account: &str) -> Vec<Value> {
    let mut packs: Vec<Vec<Value>> = vec![Vec::new()];
    for statement in statements(spec, account) {
        let last = packs.last_mut().expect("there is at least one pack");
        last.push(statement);
        if document(last.clone()).to_string().len() > MAX_POLICY {
            let statement = last.pop().expect("just pushed");
            packs.push(vec![statement]);
        }
    }
    packs.into_iter().map(document).collect()
}

fn document(statements: Vec<Value>) -> Value {
    json!({"Version": "2012-10-17", "Statement": statements})
}

fn statements(spec: &ClusterSpec, account: &str) -> Vec<Value> {
    grants(spec, account)
        .into_iter()
        .map(|grant| {
            let mut statement = json!({
                "Sid": grant.sid,
                "Effect": "Allow",
                "Action": grant.actions,
                "Resource": grant.resources,
            });
            if let Some(condition) = grant.condition {
                statement["Condition"] = condition;
            }
            statement
        })
        .collect()
}

/// Actions to be tried on one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simulation {
    /// Such as `eks:CreateCluster`.
    pub actions: Vec<String>,
    /// An ARN, or `*`.
    pub resource: String,
}

/// What `validate` asks AWS to simulate: every action of the policy on a resource that it names.
pub fn simulations(spec: &ClusterSpec, account: &str) -> Vec<Simulation> {
    let concrete = |pattern: &String| {
        if pattern == "*" {
            pattern.clone()
        } else {
            pattern.replace('*', "x")
        }
    };
    let named = |action: &&&str| !action.ends_with('*');
    grants(spec, account)
        .into_iter()
        .map(|grant| Simulation {
            actions: grant
                .actions
                .iter()
                .filter(named)
                .map(|action| (*action).to_owned())
                .collect(),
            resource: grant.resources.first().map(concrete).unwrap_or_default(),
        })
        .collect()
}

/// What is true of the requests that are simulated: region, tag, and the service that gets a role.
pub fn simulation_context(spec: &ClusterSpec) -> Vec<(String, String)> {
    vec![
        ("aws:RequestedRegion".to_owned(), spec.region.clone()),
        (format!("aws:ResourceTag/{CLUSTER_TAG}"), spec.name.clone()),
        (
            "iam:PassedToService".to_owned(),
            "ec2.amazonaws.com".to_owned(),
        ),
        (
            "iam:AWSServiceName".to_owned(),
            "eks.amazonaws.com".to_owned(),
        ),
    ]
}

fn grants(spec: &ClusterSpec, account: &str) -> Vec<Grant> {
    let mut all = vec![stacks(spec, account), identity()];
    all.extend(network(spec));
    all.extend(storage(spec, account));
    all.extend(keys(spec, account));
    all.extend(roles(spec, account));
    match spec.control_plane.mode {
        Mode::Eks => all.extend(eks(spec, account)),
        Mode::SelfManaged => all.extend(self_managed(spec, account)),
    }
    if let Some(zone) = &spec.dns.hosted_zone_id {
        all.push(Grant {
            sid: "Name",
            actions: vec![
                "route53:ChangeResourceRecordSets",
                "route53:GetHostedZone",
                "route53:ListResourceRecordSets",
            ],
            resources: vec![format!("arn:aws:route53:::hostedzone/{zone}")],
            condition: None,
        });
        all.push(Grant {
            sid: "NameChange",
            actions: vec!["route53:GetChange"],
            resources: vec!["arn:aws:route53:::change/*".to_owned()],
            condition: None,
        });
    }
    all
}

fn in_region(spec: &ClusterSpec) -> Option<Value> {
    Some(json!({"StringEquals": {"aws:RequestedRegion": spec.region}}))
}

fn tagged(spec: &ClusterSpec) -> Option<Value> {
    Some(json!({"StringEquals": {format!("aws:ResourceTag/{CLUSTER_TAG}"): spec.name}}))
}

fn stacks(spec: &ClusterSpec, account: &str) -> Grant {
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
fn identity() -> Grant {
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
            "servicequotas:ListServiceQuotas",
            "sts:GetCallerIdentity",
            "tag:GetResources",
        ],
        resources: vec!["*".to_owned()],
        condition: None,
    }
}

fn network(spec: &ClusterSpec) -> Vec<Grant> {
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
                "ec2:DeleteVolume",
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
            sid: "RemoveInterfacesThatEksLeaves",
            actions: vec!["ec2:DeleteNetworkInterface"],
            resources: vec![format!("arn:aws:ec2:{}:*:network-interface/*", spec.region)],
            condition: in_region(spec),
        },
    ]
}

fn storage(spec: &ClusterSpec, account: &str) -> Vec<Grant> {
    let region = &spec.region;
    vec![
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
    ]
}

/// Name of the bucket that is made only when a template is too large to be sent.
pub fn bucket_name(spec: &ClusterSpec, account: &str) -> String {
    format!(
        "canoe-{}-{account}-{}",
        spec.name.to_ascii_lowercase(),
        spec.region.replace('-', "")
    )
}

fn keys(spec: &ClusterSpec, account: &str) -> Vec<Grant> {
    let region = &spec.region;
    let mut actions = vec![
        "kms:CreateGrant",
        "kms:Decrypt",
        "kms:DescribeKey",
        "kms:Encrypt",
        "kms:GenerateDataKeyWithoutPlaintext",
    ];
    if let Some(arn) = &spec.kms_key_arn {
        return vec![Grant {
            sid: "UseOwnKey",
            actions,
            resources: vec![arn.clone()],
            condition: None,
        }];
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

fn roles(spec: &ClusterSpec, account: &str) -> Vec<Grant> {
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

fn eks(spec: &ClusterSpec, account: &str) -> Vec<Grant> {
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

fn self_managed(spec: &ClusterSpec, account: &str) -> Vec<Grant> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix;

    #[test]
    fn names_no_wildcard_service_and_no_unlimited_write() {
        for (name, spec) in matrix::cases() {
            let policy = operator(&spec, "123456789012");
            for statement in policy["Statement"].as_array().unwrap() {
                let free =
                    statement["Resource"] == json!(["*"]) && statement.get("Condition").is_none();
                for action in statement["Action"].as_array().unwrap() {
                    let (service, verb) = action.as_str().unwrap().split_once(':').unwrap();
                    assert!(verb != "*" && service != "*", "{name}: {action}");
                    let reads = ["Describe", "List", "Get", "Validate", "Simulate"]
                        .iter()
                        .any(|v| verb.starts_with(v));
                    assert!(reads || !free, "{name}: {action} may write anywhere");
                }
            }
        }
    }

    #[test]
    fn documents_fit_and_hold_every_statement() {
        for (name, spec) in matrix::cases() {
            let documents = operator_documents(&spec, "123456789012");
            assert!(
                documents.len() <= 2,
                "{name} needs {} policies",
                documents.len()
            );
            assert!(
                documents.iter().all(|d| d.to_string().len() <= MAX_POLICY),
                "{name}"
            );
            let count: usize = documents
                .iter()
                .map(|d| d["Statement"].as_array().unwrap().len())
                .sum();
            assert_eq!(count, statements(&spec, "123456789012").len());
        }
    }

    #[test]
    fn passing_roles_is_limited_to_own_roles_and_named_services() {
        let spec = ClusterSpec::new("demo", "us-west-2");
        let policy = operator(&spec, "123456789012");
        let pass = policy["Statement"]
            .as_array()
            .unwrap()
            .iter()
            .find(|s| s["Action"] == json!(["iam:PassRole"]))
            .unwrap();
        assert_eq!(
            pass["Resource"],
            json!(["arn:aws:iam::123456789012:role/demo-us-west-2-*"])
        );
        assert!(pass["Condition"]["StringEquals"]["iam:PassedToService"].is_array());
    }

    #[test]
    fn the_bucket_name_is_one() {
        let spec = ClusterSpec::new("Paddle-Cluster", "us-west-2");
        assert_eq!(
            crate::names::BUCKET.complaint(&bucket_name(&spec, "123456789012")),
            None
        );
    }
}
