//! The cluster stack of self-managed mode: controller, load balancer, workers, name.
//!
//! One controller with a fixed private address (its certificate names it), reached by the workers
//! directly and by people through a network load balancer, whose rules let in only the networks that
//! `allowedCidrs` names. Workers are an auto-scaling group. etcd lives on the controller's disk: this
//! mode is for those who want no EKS fee and can make the cluster again, not for high availability.

use serde_json::{Value, json};

use super::roles::{self, Role};
use super::{Builder, attribute, import, network, reference, sub, tags};
use crate::catalog;
use crate::spec::{Capacity, ClusterSpec};
use crate::user_data::UserData;

pub(crate) fn template(spec: &ClusterSpec, user_data: &UserData) -> Value {
    let mut out = Builder::default();
    add_roles(spec, &mut out);
    controller(spec, &mut out, &user_data.controller);
    load_balancer(spec, &mut out);
    workers(spec, &mut out, &user_data.worker);
    record(spec, &mut out);
    out.output(
        "ControllerName",
        "Address of the load balancer",
        attribute("ApiBalancer", "DNSName"),
    );
    out.output("Endpoint", "Address of the API server", endpoint(spec));
    out.finish(&format!(
        "Canoe cluster {}: self-managed control plane and workers",
        spec.name
    ))
}

fn endpoint(spec: &ClusterSpec) -> Value {
    match spec.external_name() {
        Some(name) => json!(format!("https://{name}:443")),
        None => sub("https://${ApiBalancer.DNSName}:443"),
    }
}

fn add_roles(spec: &ClusterSpec, out: &mut Builder) {
    for (id, purpose) in [("ControllerRole", "controller"), ("WorkerRole", "workers")] {
        let statements = vec![json!({
            "Sid": "ReadOwnTlsAssets",
            "Effect": "Allow",
            "Action": "kms:Decrypt",
            "Resource": import(spec, "KeyArn"),
            "Condition": {"StringEquals": {"kms:EncryptionContext:canoe": spec.name}},
        })];
        let managed = &[
            "AmazonSSMManagedInstanceCore",
            "AmazonEC2ContainerRegistryPullOnly",
        ];
        roles::add(
            spec,
            out,
            Role {
                id,
                purpose,
                service: "ec2.amazonaws.com",
                managed,
                statements,
            },
        );
        out.resource(
            &id.replace("Role", "Profile"),
            "AWS::IAM::InstanceProfile",
            json!({"InstanceProfileName": roles::role_name(spec, purpose), "Roles": [reference(id)]}),
        );
    }
}

/// Debian 12, found through the parameter that Debian publishes.
fn image(instance_type: &str) -> String {
    let architecture = if catalog::is_arm(instance_type) {
        "arm64"
    } else {
        "amd64"
    };
    format!("{{{{resolve:ssm:/aws/service/debian/release/12/latest/{architecture}}}}}")
}

fn disk(size: u32) -> Value {
    json!([{
        "DeviceName": "/dev/xvda",
        "Ebs": {"VolumeType": "gp3", "VolumeSize": size, "Encrypted": true, "DeleteOnTermination": true},
    }])
}

fn metadata_options() -> Value {
    json!({"HttpEndpoint": "enabled", "HttpTokens": "required", "HttpPutResponseHopLimit": 1})
}

fn controller(spec: &ClusterSpec, out: &mut Builder, user_data: &str) {
    let mut data = json!({
        "ImageId": image(&spec.control_plane.instance_type),
        "InstanceType": spec.control_plane.instance_type,
        "IamInstanceProfile": {"Name": reference("ControllerProfile")},
        "MetadataOptions": metadata_options(),
        "BlockDeviceMappings": disk(30),
        "TagSpecifications": [
            {"ResourceType": "instance", "Tags": tags(spec, "controller")},
            {"ResourceType": "volume", "Tags": tags(spec, "controller")},
        ],
        "UserData": {"Fn::Base64": user_data},
    });
    if let Some(key) = &spec.ssh_key_name {
        data["KeyName"] = json!(key);
    }
    out.resource(
        "ControllerTemplate",
        "AWS::EC2::LaunchTemplate",
        json!({"LaunchTemplateName": format!("{}-controller", spec.name), "LaunchTemplateData": data}),
    );
    out.resource(
        "Controller",
        "AWS::EC2::Instance",
        json!({
            "LaunchTemplate": {
                "LaunchTemplateId": reference("ControllerTemplate"),
                "Version": attribute("ControllerTemplate", "LatestVersionNumber"),
            },
            "SubnetId": import(spec, &network::worker_subnets(spec)[0]),
            "PrivateIpAddress": spec.controller_ip(),
            "SecurityGroupIds": [
                import(spec, "NodeSecurityGroup"),
                import(spec, "ControllerSecurityGroup"),
            ],
            "Tags": tags(spec, "controller"),
        }),
    );
}

fn load_balancer(spec: &ClusterSpec, out: &mut Builder) {
    let open = !spec.control_plane.allowed_cidrs.is_empty();
    let ids = if open {
        network::public_subnets(spec)
    } else {
        network::private_subnets(spec)
    };
    let subnets: Vec<Value> = ids.iter().map(|id| import(spec, id)).collect();
    out.resource(
        "ApiBalancer",
        "AWS::ElasticLoadBalancingV2::LoadBalancer",
        json!({
            "Type": "network",
            "Scheme": if open { "internet-facing" } else { "internal" },
            "Subnets": subnets,
            "LoadBalancerAttributes": [{"Key": "load_balancing.cross_zone.enabled", "Value": "true"}],
            "Tags": tags(spec, "api"),
        }),
    );
    out.resource(
        "ApiTargets",
        "AWS::ElasticLoadBalancingV2::TargetGroup",
        json!({
            "VpcId": import(spec, "VpcId"),
            "Protocol": "TCP",
            "Port": 6443,
            "TargetType": "instance",
            "HealthCheckProtocol": "TCP",
            "Targets": [{"Id": reference("Controller"), "Port": 6443}],
            "Tags": tags(spec, "api"),
        }),
    );
    out.resource(
        "ApiListener",
        "AWS::ElasticLoadBalancingV2::Listener",
        json!({
            "LoadBalancerArn": reference("ApiBalancer"),
            "Port": 443,
            "Protocol": "TCP",
            "DefaultActions": [{"Type": "forward", "TargetGroupArn": reference("ApiTargets")}],
        }),
    );
}

fn workers(spec: &ClusterSpec, out: &mut Builder, user_data: &str) {
    let workers = &spec.workers;
    let mut data = json!({
        "ImageId": image(&workers.instance_types[0]),
        "InstanceType": workers.instance_types[0],
        "IamInstanceProfile": {"Name": reference("WorkerProfile")},
        "MetadataOptions": metadata_options(),
        "BlockDeviceMappings": disk(workers.disk_gib),
        "SecurityGroupIds": [import(spec, "NodeSecurityGroup"), import(spec, "WorkerSecurityGroup")],
        "TagSpecifications": [
            {"ResourceType": "instance", "Tags": tags(spec, "worker")},
            {"ResourceType": "volume", "Tags": tags(spec, "worker")},
        ],
        "UserData": {"Fn::Base64": user_data_with_files(spec, user_data)},
    });
    if let Some(key) = &spec.ssh_key_name {
        data["KeyName"] = json!(key);
    }
    out.resource(
        "WorkerTemplate",
        "AWS::EC2::LaunchTemplate",
        json!({"LaunchTemplateName": format!("{}-workers", spec.name), "LaunchTemplateData": data}),
    );
    scaling_group(spec, out);
}

/// The worker mounts the file system, whose id is known only once the storage stack exists.
fn user_data_with_files(spec: &ClusterSpec, user_data: &str) -> Value {
    let mut parts: Vec<Value> = Vec::new();
    for part in user_data.split(crate::user_data::FILE_SYSTEM) {
        if !parts.is_empty() {
            parts.push(import(spec, "FileSystemId"));
        }
        parts.push(json!(part));
    }
    json!({"Fn::Join": ["", parts]})
}

fn scaling_group(spec: &ClusterSpec, out: &mut Builder) {
    let workers = &spec.workers;
    let subnets: Vec<Value> = network::worker_subnets(spec)
        .iter()
        .map(|id| import(spec, id))
        .collect();
    let group_tags: Vec<Value> = super::tag_map(spec, "worker")
        .into_iter()
        .map(|(key, value)| json!({"Key": key, "Value": value, "PropagateAtLaunch": true}))
        .collect();
    let template = json!({
        "LaunchTemplateId": reference("WorkerTemplate"),
        "Version": attribute("WorkerTemplate", "LatestVersionNumber"),
    });
    let mut properties = json!({
        "AutoScalingGroupName": format!("{}-workers", spec.name),
        "MinSize": "0",
        "DesiredCapacity": workers.count.to_string(),
        "MaxSize": workers.max.to_string(),
        "VPCZoneIdentifier": subnets,
        "Tags": group_tags,
    });
    if workers.capacity == Capacity::Spot || workers.instance_types.len() > 1 {
        let overrides: Vec<Value> = workers
            .instance_types
            .iter()
            .map(|name| json!({"InstanceType": name}))
            .collect();
        let on_demand = if workers.capacity == Capacity::Spot {
            0
        } else {
            100
        };
        properties["MixedInstancesPolicy"] = json!({
            "LaunchTemplate": {"LaunchTemplateSpecification": template, "Overrides": overrides},
            "InstancesDistribution": {
                "OnDemandPercentageAboveBaseCapacity": on_demand,
                "SpotAllocationStrategy": "price-capacity-optimized",
            },
        });
    } else {
        properties["LaunchTemplate"] = template;
    }
    out.resource("Workers", "AWS::AutoScaling::AutoScalingGroup", properties)
        .insert("DependsOn".to_owned(), json!("Controller"));
}

fn record(spec: &ClusterSpec, out: &mut Builder) {
    if let (Some(name), Some(zone)) = (&spec.dns.external_name, &spec.dns.hosted_zone_id) {
        out.resource(
            "ApiRecord",
            "AWS::Route53::RecordSet",
            json!({
                "HostedZoneId": zone,
                "Name": format!("{name}."),
                "Type": "CNAME",
                "TTL": spec.dns.ttl.to_string(),
                "ResourceRecords": [attribute("ApiBalancer", "DNSName")],
            }),
        );
        out.output("ExternalName", "Your name for the API server", json!(name));
    }
}
