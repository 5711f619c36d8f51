//! The base stack: encryption key, network, security groups, and the image repository if one is wanted.
//!
//! Groups: the workers' own group is an identity. Storage lets in NFS from that identity and nothing
//! else. In a self-managed cluster every node also carries the `Node` identity, and controller and
//! workers name it in their rules; so no rule needs a group that needs the rule.

use serde_json::{Value, json};

use super::{Builder, KEEP, attribute, network, reference, sub, tags};
use crate::cidr::Cidr;
use crate::spec::{ClusterSpec, ControlPlaneMode};

/// Output with the address of the image repository.
pub(crate) const IMAGES_OUTPUT: &str = "ImageRepository";

/// Names of the outputs about the key.
pub(crate) struct KeyOutput {
    /// Its ARN.
    pub name: &'static str,
    /// Where it is from.
    pub origin: &'static str,
}

/// The key's outputs.
pub(crate) const KEY_OUTPUT: KeyOutput = KeyOutput {
    name: "KeyArn",
    origin: "KeyFrom",
};

/// Where the key is from, in the output of the stack.
pub(crate) fn key_origin(given: bool) -> &'static str {
    if given { "cluster.yaml" } else { "stack" }
}

/// An option that cannot change while the cluster is up. The stack says what it was made with.
pub(crate) struct FixedOutput {
    /// The output's name.
    pub output: &'static str,
    /// The option in cluster.yaml.
    pub path: &'static str,
    /// What cluster.yaml says.
    pub value: String,
}

/// The options that cannot change. Of a VPC that is given, AWS knows the network.
pub(crate) fn fixed_outputs(spec: &ClusterSpec) -> Vec<FixedOutput> {
    let mode = match spec.control_plane.mode {
        ControlPlaneMode::Eks => "eks",
        ControlPlaneMode::SelfManaged => "self-managed",
    };
    let fixed = |output, path, value: &str| FixedOutput {
        output,
        path,
        value: value.to_owned(),
    };
    let network = &spec.network;
    let mut all = vec![
        fixed("Mode", "controlPlane.mode", mode),
        fixed("ServiceCidr", "network.serviceCidr", &network.service_cidr),
    ];
    if !spec.has_given_vpc() {
        all.push(fixed("VpcCidr", "network.vpcCidr", &network.vpc_cidr));
    }
    all
}

pub(crate) fn template(spec: &ClusterSpec) -> Value {
    let mut out = Builder::default();
    key(spec, &mut out);
    network::add(spec, &mut out);
    match spec.control_plane.mode {
        ControlPlaneMode::Eks => eks_groups(spec, &mut out),
        ControlPlaneMode::SelfManaged => self_managed_groups(spec, &mut out),
    }
    storage_group(spec, &mut out);
    if spec.image_repository {
        images(spec, &mut out);
    }
    let origin = key_origin(spec.kms_key_arn.is_some());
    out.output(KEY_OUTPUT.origin, "What the key was made by", json!(origin));
    for fixed in fixed_outputs(spec) {
        let about = format!("{} of cluster.yaml, which cannot change", fixed.path);
        out.output(fixed.output, &about, json!(fixed.value));
    }
    out.finish(&format!(
        "Canoe cluster {}: key, network and security groups",
        spec.name
    ))
}

/// Name of the key, for people.
pub(crate) fn key_alias(spec: &ClusterSpec) -> String {
    format!("alias/canoe/{}", spec.name)
}

fn key(spec: &ClusterSpec, out: &mut Builder) {
    if let Some(arn) = &spec.kms_key_arn {
        out.export(
            spec,
            KEY_OUTPUT.name,
            "KMS key, given in cluster.yaml",
            json!(arn),
        );
        return;
    }
    let key = out.resource(
        "Key",
        "AWS::KMS::Key",
        json!({
            "Description": format!("Canoe cluster {}: secrets, files, logs", spec.name),
            "EnableKeyRotation": true,
            "PendingWindowInDays": 7,
            "KeyPolicy": key_policy(spec),
            "Tags": tags(spec, "key"),
        }),
    );
    key.insert("DeletionPolicy".to_owned(), json!(KEEP));
    key.insert("UpdateReplacePolicy".to_owned(), json!("Retain"));
    out.resource(
        "KeyAlias",
        "AWS::KMS::Alias",
        json!({"AliasName": key_alias(spec), "TargetKeyId": reference("Key")}),
    );
    out.export(spec, KEY_OUTPUT.name, "KMS key", attribute("Key", "Arn"));
}

/// Images that workers pull. Jobs name them by digest, so a tag may move; for the same reason nothing expires: an image
/// without a tag may be that of a running job. They can be pushed again, so the repository goes with the stack.
fn images(spec: &ClusterSpec, out: &mut Builder) {
    let key = match &spec.kms_key_arn {
        Some(arn) => json!(arn),
        None => attribute("Key", "Arn"),
    };
    out.resource(
        "Images",
        "AWS::ECR::Repository",
        json!({
            "RepositoryName": spec.repository_name(),
            "EncryptionConfiguration": {"EncryptionType": "KMS", "KmsKey": key},
            "ImageScanningConfiguration": {"ScanOnPush": true},
            "EmptyOnDelete": true,
            "Tags": tags(spec, "images"),
        }),
    );
    out.output(
        IMAGES_OUTPUT,
        "Repository for `canoe image push`",
        attribute("Images", "RepositoryUri"),
    );
}

fn key_policy(spec: &ClusterSpec) -> Value {
    let mut statements = vec![json!({
        "Sid": "AccountDecidesByIam",
        "Effect": "Allow",
        "Principal": {"AWS": sub("arn:${AWS::Partition}:iam::${AWS::AccountId}:root")},
        "Action": "kms:*",
        "Resource": "*",
    })];
    if spec.control_plane.mode == ControlPlaneMode::Eks {
        let logs = sub(format!(
            "arn:${{AWS::Partition}}:logs:${{AWS::Region}}:${{AWS::AccountId}}:log-group:{}",
            super::eks::log_group(spec)
        ));
        statements.push(json!({
            "Sid": "ControlPlaneLogs",
            "Effect": "Allow",
            "Principal": {"Service": sub("logs.${AWS::Region}.${AWS::URLSuffix}")},
            "Action": ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"],
            "Resource": "*",
            "Condition": {"ArnEquals": {"kms:EncryptionContext:aws:logs:arn": logs}},
        }));
    }
    json!({"Version": "2012-10-17", "Statement": statements})
}

fn group(spec: &ClusterSpec, out: &mut Builder, id: &str, about: &str, ingress: Vec<Value>) {
    out.resource(
        id,
        "AWS::EC2::SecurityGroup",
        json!({
            "GroupDescription": format!("{}: {about}", spec.name),
            "VpcId": network::vpc(spec),
            "SecurityGroupIngress": ingress,
            "SecurityGroupEgress": egress(spec, id),
            "Tags": tags(spec, id),
        }),
    );
    out.export(spec, id, about, attribute(id, "GroupId"));
}

/// Storage only replies and opens no connections; nodes fetch images and packages, ask names and the time.
fn egress(spec: &ClusterSpec, id: &str) -> Vec<Value> {
    let vpc = &spec.network.vpc_cidr;
    if id == "StorageSecurityGroup" {
        return vec![to("tcp", (2049, 2049), vpc, "NFS replies inside the VPC")];
    }
    vec![
        json!({"IpProtocol": "-1", "CidrIp": vpc, "Description": "anything inside the VPC"}),
        to(
            "tcp",
            (443, 443),
            "0.0.0.0/0",
            "images, packages and AWS over TLS",
        ),
        to("tcp", (80, 80), "0.0.0.0/0", "signed Debian packages"),
        to("udp", (123, 123), "0.0.0.0/0", "time"),
    ]
}

fn to(protocol: &str, ports: (i32, i32), network: &str, about: &str) -> Value {
    json!({
        "IpProtocol": protocol, "FromPort": ports.0, "ToPort": ports.1,
        "CidrIp": network, "Description": about,
    })
}

fn from_group(protocol: &str, ports: (i32, i32), group: &str, about: &str) -> Value {
    json!({
        "IpProtocol": protocol, "FromPort": ports.0, "ToPort": ports.1,
        "SourceSecurityGroupId": attribute(group, "GroupId"), "Description": about,
    })
}

fn storage_group(spec: &ClusterSpec, out: &mut Builder) {
    let rules = vec![from_group(
        "tcp",
        (2049, 2049),
        "WorkerSecurityGroup",
        "NFS from the workers",
    )];
    group(
        spec,
        out,
        "StorageSecurityGroup",
        "mount targets of the shared file system",
        rules,
    );
}

/// Port 22, when there is a key pair for it: from the VPC, and from the networks that may reach the API. Never from
/// the whole Internet.
fn ssh(spec: &ClusterSpec) -> Vec<Value> {
    if spec.ssh_key_name.is_none() {
        return Vec::new();
    }
    let world = |network: &&String| network.parse().is_ok_and(Cidr::is_world);
    let allowed = spec.control_plane.allowed_cidrs.iter();
    let networks = std::iter::once(&spec.network.vpc_cidr).chain(allowed.filter(|n| !world(n)));
    networks
        .map(|network| {
            to(
                "tcp",
                (22, 22),
                network,
                "SSH with the key pair of cluster.yaml",
            )
        })
        .collect()
}

/// EKS makes the group through which control plane and workers speak; ours is only an identity.
fn eks_groups(spec: &ClusterSpec, out: &mut Builder) {
    group(
        spec,
        out,
        "WorkerSecurityGroup",
        "identity of the workers",
        ssh(spec),
    );
}

fn self_managed_groups(spec: &ClusterSpec, out: &mut Builder) {
    group(
        spec,
        out,
        "NodeSecurityGroup",
        "identity of every node",
        Vec::new(),
    );
    let node = "NodeSecurityGroup";
    let mut controller = vec![
        from_group("tcp", (6443, 6443), node, "API server from the nodes"),
        from_group("tcp", (10250, 10250), node, "kubelet from the nodes"),
        from_group("udp", (8472, 8472), node, "pod network from the nodes"),
        to(
            "tcp",
            (6443, 6443),
            &spec.network.vpc_cidr,
            "load balancer health checks",
        ),
    ];
    for network in &spec.control_plane.allowed_cidrs {
        controller.push(to(
            "tcp",
            (6443, 6443),
            network,
            "API server for the people named in cluster.yaml",
        ));
    }
    controller.extend(ssh(spec));
    group(
        spec,
        out,
        "ControllerSecurityGroup",
        "the controller",
        controller,
    );
    let mut worker = vec![
        from_group("tcp", (10250, 10250), node, "kubelet from the controller"),
        from_group("udp", (8472, 8472), node, "pod network from the nodes"),
    ];
    worker.extend(ssh(spec));
    group(spec, out, "WorkerSecurityGroup", "the workers", worker);
}
