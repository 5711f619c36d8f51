//! The cluster stack of EKS mode: control plane, add-ons, workers, name.
//!
//! Order inside the stack matters and is written down as dependencies: the network driver and the
//! agent that hands out permissions come before the workers (a node without a network never becomes
//! Ready), drivers that run as pods come after them (a deployment without a node never does either).

use serde_json::{Value, json};

use super::groups::{self, MachineGroup};
use super::roles::{self, IamRole};
use super::{
    Builder, KEEP, attribute, import, network, reference, tag_map, tags, template_of_machines,
};
use crate::manifests::S3_ACCOUNT;
use crate::partition::Partition;
use crate::spec::{ACCESS_LEVELS, Capacity, ClusterSpec};

/// Add-ons that must be there before the first node.
const BEFORE_NODES: [&str; 3] = ["vpc-cni", "kube-proxy", "eks-pod-identity-agent"];

/// Taint that keeps pods off a node until the EFS driver runs there; the driver removes it.
pub(crate) const STORAGE_TAINT: &str = "efs.csi.aws.com/agent-not-ready";

/// Name of the log group that EKS writes to.
pub(crate) fn log_group(spec: &ClusterSpec) -> String {
    format!("/aws/eks/{}/cluster", spec.name)
}

pub(crate) fn template(spec: &ClusterSpec) -> Value {
    let mut out = Builder::default();
    add_roles(spec, &mut out);
    control_plane(spec, &mut out);
    for group in groups::declared(spec) {
        launch_template(spec, &mut out, &group);
    }
    let machines = groups::all(spec);
    let before = add_ons(spec, &mut out, &machines);
    for group in &machines {
        workers(spec, &mut out, group, &before);
    }
    access_entries(spec, &mut out);
    bucket_access(spec, &mut out);
    record(spec, &mut out);
    out.output(
        "ClusterName",
        "Name of the EKS cluster",
        reference("Cluster"),
    );
    out.output(
        "Endpoint",
        "Address of the API server",
        attribute("Cluster", "Endpoint"),
    );
    out.output(
        "CertificateAuthority",
        "CA of the API server",
        attribute("Cluster", "CertificateAuthorityData"),
    );
    out.finish(&format!(
        "Canoe cluster {}: EKS control plane and workers",
        spec.name
    ))
}

fn add_roles(spec: &ClusterSpec, out: &mut Builder) {
    roles::add(
        spec,
        out,
        IamRole {
            id: "ControlPlaneRole",
            purpose: "control-plane",
            service: "eks.amazonaws.com",
            managed: &["AmazonEKSClusterPolicy"],
            statements: Vec::new(),
        },
    );
    let mut managed = vec![
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonSSMManagedInstanceCore",
    ];
    if !spec.has_addon("vpc-cni") {
        managed.push("AmazonEKS_CNI_Policy");
    }
    let service = roles::MACHINES;
    let role = IamRole {
        id: "WorkerRole",
        purpose: "workers",
        service,
        managed: &managed,
        statements: Vec::new(),
    };
    roles::add(spec, out, role);
    for (addon, id, purpose, policy) in POD_ROLES {
        if spec.has_addon(addon) {
            let managed: &[&str] = &[policy];
            let service = "pods.eks.amazonaws.com";
            roles::add(
                spec,
                out,
                IamRole {
                    id,
                    purpose,
                    service,
                    managed,
                    statements: Vec::new(),
                },
            );
        }
    }
}

/// Add-ons that get a role of their own: add-on, logical id, purpose, policy.
const POD_ROLES: [(&str, &str, &str, &str); 3] = [
    (
        "vpc-cni",
        "NetworkDriverRole",
        "vpc-cni",
        "AmazonEKS_CNI_Policy",
    ),
    (
        "aws-efs-csi-driver",
        "FileDriverRole",
        "efs-csi",
        "service-role/AmazonEFSCSIDriverPolicy",
    ),
    (
        "aws-ebs-csi-driver",
        "DiskDriverRole",
        "ebs-csi",
        "service-role/AmazonEBSCSIDriverPolicy",
    ),
];

fn control_plane(spec: &ClusterSpec, out: &mut Builder) {
    let mut group = json!({
        "LogGroupName": log_group(spec),
        "RetentionInDays": spec.control_plane.log_days,
        "Tags": tags(spec, "logs"),
    });
    if spec.kms_key_arn.is_none() {
        group["KmsKeyId"] = import(spec, "KeyArn");
    }
    let resource = out.resource("ControlPlaneLogs", "AWS::Logs::LogGroup", group);
    // If it went with the stack, EKS would make it anew for its last lines, without our tags.
    resource.insert("DeletionPolicy".to_owned(), json!(KEEP));
    resource.insert("UpdateReplacePolicy".to_owned(), json!("Delete"));
    let subnets: Vec<Value> = network::private_subnets(spec)
        .iter()
        .map(|id| import(spec, id))
        .collect();
    let public = !spec.control_plane.allowed_cidrs.is_empty();
    let mut vpc = json!({
        "SubnetIds": subnets,
        "EndpointPrivateAccess": true,
        "EndpointPublicAccess": public,
    });
    if public {
        vpc["PublicAccessCidrs"] = json!(spec.control_plane.allowed_cidrs);
    }
    out.resource(
        "Cluster",
        "AWS::EKS::Cluster",
        json!({
            "Name": spec.name,
            "Version": spec.kubernetes_version,
            "RoleArn": attribute("ControlPlaneRole", "Arn"),
            "ResourcesVpcConfig": vpc,
            "KubernetesNetworkConfig": {"ServiceIpv4Cidr": spec.network.service_cidr, "IpFamily": "ipv4"},
            // At the end of standard support EKS upgrades instead of billing six times as much.
            "UpgradePolicy": {"SupportType": "STANDARD"},
            "EncryptionConfig": [{"Provider": {"KeyArn": import(spec, "KeyArn")}, "Resources": ["secrets"]}],
            "AccessConfig": {
                "AuthenticationMode": "API",
                // With a service role the creator is CloudFormation; the cluster file names the administrators.
                "BootstrapClusterCreatorAdminPermissions": !spec.service_role,
            },
            "Logging": {"ClusterLogging": {"EnabledTypes": [
                {"Type": "api"}, {"Type": "audit"}, {"Type": "authenticator"},
                {"Type": "controllerManager"}, {"Type": "scheduler"},
            ]}},
            "Tags": tags(spec, "cluster"),
        }),
    )
    .insert("DependsOn".to_owned(), json!("ControlPlaneLogs"));
}

fn launch_template(spec: &ClusterSpec, out: &mut Builder, group: &MachineGroup) {
    let mut data = json!({
        "MetadataOptions": {"HttpEndpoint": "enabled", "HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "BlockDeviceMappings": [{
            "DeviceName": "/dev/xvda",
            "Ebs": {
                "VolumeType": "gp3",
                "VolumeSize": group.disk_gib,
                "Encrypted": true,
                "DeleteOnTermination": true,
            },
        }],
        "SecurityGroupIds": [
            attribute("Cluster", "ClusterSecurityGroupId"),
            import(spec, "WorkerSecurityGroup"),
        ],
        "TagSpecifications": [
            {"ResourceType": "instance", "Tags": tags(spec, "worker")},
            {"ResourceType": "volume", "Tags": tags(spec, "worker")},
        ],
    });
    if let Some(key) = &spec.ssh_key_name {
        data["KeyName"] = json!(key);
    }
    out.resource(
        &launch_template_id(group),
        "AWS::EC2::LaunchTemplate",
        template_of_machines(spec, &group.resource_name(), data),
    );
}

/// Spot machines and those in their place share a template.
fn launch_template_id(group: &MachineGroup) -> String {
    match &group.name {
        Some(name) => format!("WorkerTemplate{}", groups::pascal(name)),
        None => "WorkerTemplate".to_owned(),
    }
}

/// Adds the add-ons; returns the logical ids that the workers have to wait for. Those that run as pods of their own never
/// become active without a node, and would fail the stack: they are there only while there are workers.
fn add_ons(spec: &ClusterSpec, out: &mut Builder, machines: &[MachineGroup]) -> Vec<String> {
    let mut before = Vec::new();
    let nodes: Vec<String> = machines
        .iter()
        .filter(|group| group.count > 0)
        .map(workers_id)
        .collect();
    for name in &spec.addons {
        let early = BEFORE_NODES.contains(&name.as_str());
        if !early && nodes.is_empty() {
            continue;
        }
        let id = addon_id(name);
        let mut properties = json!({
            "AddonName": name,
            "ClusterName": reference("Cluster"),
            "ResolveConflicts": "OVERWRITE",
            "Tags": tags(spec, name),
        });
        if let Some((_, role, ..)) = POD_ROLES.iter().find(|(addon, ..)| addon == name) {
            properties["PodIdentityAssociations"] = json!([{"RoleArn": attribute(role, "Arn"), "ServiceAccount": service_account(name)}]);
        }
        if let Some(version) = spec.addon_versions.get(name) {
            properties["AddonVersion"] = json!(version);
        }
        if name == "vpc-cni" {
            // Without it NetworkPolicy objects are accepted and nothing enforces them.
            properties["ConfigurationValues"] =
                json!(json!({"enableNetworkPolicy": "true"}).to_string());
        }
        if name == "aws-ebs-csi-driver" {
            // Disks that are made for claims carry our tags, too.
            let values = json!({"controller": {"extraVolumeTags": tag_map(spec, "claim")}});
            properties["ConfigurationValues"] = json!(values.to_string());
        }
        let resource = out.resource(&id, "AWS::EKS::Addon", properties);
        if early {
            before.push(id);
        } else {
            resource.insert("DependsOn".to_owned(), json!(nodes));
        }
    }
    before
}

/// `aws-efs-csi-driver` becomes `AddonAwsEfsCsiDriver`.
fn addon_id(name: &str) -> String {
    format!("Addon{}", groups::pascal(name))
}

fn service_account(addon: &str) -> &'static str {
    match addon {
        "vpc-cni" => "aws-node",
        "aws-ebs-csi-driver" => "ebs-csi-controller-sa",
        _ => "efs-csi-controller-sa",
    }
}

fn workers_id(group: &MachineGroup) -> String {
    format!("Workers{}", group.suffix)
}

/// The group has no name of its own: one with a name could not be replaced when the types change.
fn workers(spec: &ClusterSpec, out: &mut Builder, group: &MachineGroup, before: &[String]) {
    let subnets: Vec<Value> = network::worker_subnets(spec)
        .iter()
        .map(|id| import(spec, id))
        .collect();
    let template = launch_template_id(group);
    let mut labels = json!({"canoe.cluster": spec.name});
    if let Some(name) = &group.name {
        labels["canoe.group"] = json!(name);
    }
    let mut properties = json!({
        "ClusterName": reference("Cluster"),
        "NodeRole": attribute("WorkerRole", "Arn"),
        "Subnets": subnets,
        "AmiType": if group.is_arm() { "AL2023_ARM_64_STANDARD" } else { "AL2023_x86_64_STANDARD" },
        "CapacityType": match group.capacity {
            Capacity::OnDemand => "ON_DEMAND",
            Capacity::Spot => "SPOT",
        },
        "InstanceTypes": group.instance_types,
        "ScalingConfig": {"MinSize": 0, "DesiredSize": group.count, "MaxSize": group.max},
        "UpdateConfig": {"MaxUnavailable": 1},
        // Named, so that an upgrade of the control plane is followed by one of the workers.
        "Version": spec.worker_version(),
        "LaunchTemplate": {
            "Id": reference(&template),
            "Version": attribute(&template, "LatestVersionNumber"),
        },
        "Labels": labels,
        "Tags": tag_map(spec, &group.resource_name()),
    });
    if spec.has_addon("aws-efs-csi-driver") {
        properties["Taints"] = json!([{"Key": STORAGE_TAINT, "Effect": "NO_EXECUTE"}]);
    }
    let resource = out.resource(&workers_id(group), "AWS::EKS::Nodegroup", properties);
    if !before.is_empty() {
        resource.insert("DependsOn".to_owned(), json!(before));
    }
}

/// Colleagues. Each has an entry of AWS's own, which ends with the cluster; nothing is left in a ConfigMap.
fn access_entries(spec: &ClusterSpec, out: &mut Builder) {
    let partition = Partition::of(&spec.region);
    for (number, (principal, level)) in (1..).zip(&spec.control_plane.access) {
        let Some((_, policy)) = ACCESS_LEVELS.iter().find(|(name, _)| name == level) else {
            continue; // refused by the check of the cluster file
        };
        let arn = partition.arn(&format!("eks::aws:cluster-access-policy/{policy}"));
        out.resource(
            &format!("Access{number}"),
            "AWS::EKS::AccessEntry",
            json!({
                "ClusterName": reference("Cluster"),
                "PrincipalArn": principal,
                "Type": "STANDARD",
                "AccessPolicies": [{"PolicyArn": arn, "AccessScope": {"Type": "cluster"}}],
                "Tags": tags(spec, "access"),
            }),
        );
    }
}

/// Data in and models out: pods with one service account may use the buckets that the cluster file names.
fn bucket_access(spec: &ClusterSpec, out: &mut Builder) {
    if spec.storage.buckets.is_empty() {
        return;
    }
    let arns = |end: &str| -> Vec<Value> {
        let buckets = spec.storage.buckets.iter();
        buckets
            .map(|bucket| json!(Partition::of(&spec.region).arn(&format!("s3:::{bucket}{end}"))))
            .collect()
    };
    let statements = vec![
        json!({"Sid": "List", "Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": arns("")}),
        json!({"Sid": "Objects", "Effect": "Allow", "Resource": arns("/*"), "Action": [
            "s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject",
        ]}),
    ];
    let role = IamRole {
        id: "BucketRole",
        purpose: "buckets",
        service: "pods.eks.amazonaws.com",
        managed: &[],
        statements,
    };
    roles::add(spec, out, role);
    out.resource(
        "BucketAccess",
        "AWS::EKS::PodIdentityAssociation",
        json!({
            "ClusterName": reference("Cluster"),
            "Namespace": "default",
            "ServiceAccount": S3_ACCOUNT,
            "RoleArn": attribute("BucketRole", "Arn"),
            "Tags": tags(spec, "buckets"),
        }),
    );
}

/// A name of your own for the API server. Its certificate does not carry that name, so the
/// kubeconfig keeps the address that EKS gives.
fn record(spec: &ClusterSpec, out: &mut Builder) {
    if let (Some(name), Some(zone)) = (&spec.dns.external_name, &spec.dns.hosted_zone_id) {
        let host =
            json!({"Fn::Select": [2, {"Fn::Split": ["/", attribute("Cluster", "Endpoint")]}]});
        out.resource(
            "ApiRecord",
            "AWS::Route53::RecordSet",
            json!({
                "HostedZoneId": zone,
                "Name": format!("{name}."),
                "Type": "CNAME",
                "TTL": spec.dns.ttl.to_string(),
                "ResourceRecords": [host],
            }),
        );
        out.output("ExternalName", "Your name for the API server", json!(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a node coredns and the file driver never become active, and the stack failed after twenty minutes.
    #[test]
    fn add_ons_that_need_a_node_wait_for_one() {
        let addons = |spec: &ClusterSpec| -> Vec<String> {
            let body = template(spec);
            let all = body["Resources"].as_object().unwrap().values();
            let addons = all.filter(|one| one["Type"] == "AWS::EKS::Addon");
            let name = |one: &Value| one["Properties"]["AddonName"].as_str().unwrap().to_owned();
            let mut names: Vec<String> = addons.map(name).collect();
            names.sort();
            names
        };
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        let mut all = spec.addons.clone();
        all.sort();
        assert_eq!(addons(&spec), all);
        spec.workers.count = 0;
        let mut early = BEFORE_NODES.map(str::to_owned);
        early.sort();
        assert_eq!(addons(&spec), early);
        spec.addon_versions
            .insert("coredns".to_owned(), "v1".to_owned());
        assert_eq!(addons(&spec), early, "nor are they upgraded");
    }
}
