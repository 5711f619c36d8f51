//! The cluster stack of self-managed mode: controller, load balancer, workers, name.
//!
//! One controller with a fixed private address (its certificate names it), reached by the workers
//! directly and by people through a network load balancer, whose rules let in only the networks that
//! `allowedCidrs` names. Workers are auto-scaling groups. etcd lives on a disk of its own (storage stack), which is
//! attached to the controller and outlives it. Nothing of the controller that changes in a cluster's life is one of
//! the properties that make CloudFormation replace it: its user data are short and constant, its image is the one
//! that it was started from. One controller is no high availability; this mode is for those who want no EKS fee.

use serde_json::{Value, json};

use super::groups::{self, MachineGroup};
use super::roles::{self, IamRole};
use super::{Builder, attribute, import, network, reference, sub, tags, template_of_machines};
use crate::catalog;
use crate::partition::Partition;
use crate::policy::bucket_name;
use crate::spec::{Capacity, ClusterSpec};
use crate::user_data::UserData;

pub(crate) fn template(
    spec: &ClusterSpec,
    user_data: &UserData,
    controller_image: Option<&str>,
) -> Value {
    let mut out = Builder::default();
    add_roles(spec, &mut out);
    controller(spec, &mut out, &user_data.controller, controller_image);
    load_balancer(spec, &mut out);
    for group in groups::declared(spec) {
        workers(spec, &mut out, &group);
    }
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
        let mut statements = vec![json!({
            "Sid": "ReadOwnTlsAssets",
            "Effect": "Allow",
            "Action": "kms:Decrypt",
            "Resource": import(spec, "KeyArn"),
            "Condition": {"StringEquals": {"kms:EncryptionContext:canoe": spec.name}},
        })];
        let bucket = bucket_name(spec.id.as_deref().unwrap_or("none"));
        let object = |key: &str| Partition::of(&spec.region).arn(&format!("s3:::{bucket}/{key}"));
        let script = if purpose == "controller" {
            "node/controller.sh"
        } else {
            "node/worker.sh"
        };
        statements.push(json!({
            "Sid": "ReadOwnScript", "Effect": "Allow", "Action": "s3:GetObject", "Resource": object(script),
        }));
        if purpose == "controller" {
            statements.push(json!({
                "Sid": "SaveAndRestoreEtcd", "Effect": "Allow", "Resource": object("etcd/*"),
                "Action": ["s3:GetObject", "s3:PutObject"],
            }));
            // The cloud controller looks whether machines of lost nodes are still there.
            statements.push(json!({
                "Sid": "LookAtMachines", "Effect": "Allow", "Resource": "*",
                "Action": ["ec2:DescribeAvailabilityZones", "ec2:DescribeInstances", "ec2:DescribeRegions"],
            }));
        }
        let managed = &[
            "AmazonSSMManagedInstanceCore",
            "AmazonEC2ContainerRegistryPullOnly",
        ];
        roles::add(
            spec,
            out,
            IamRole {
                id,
                purpose,
                service: roles::MACHINES,
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

/// The parameter in which Debian publishes its newest image of version 12.
pub(crate) fn image_parameter(instance_type: &str) -> String {
    let architecture = if catalog::is_arm(instance_type) {
        "arm64"
    } else {
        "amd64"
    };
    format!("/aws/service/debian/release/12/latest/{architecture}")
}

/// The same, for CloudFormation to look up.
fn image(instance_type: &str) -> String {
    format!("{{{{resolve:ssm:{}}}}}", image_parameter(instance_type))
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

fn controller(spec: &ClusterSpec, out: &mut Builder, user_data: &str, there: Option<&str>) {
    let instance_type = &spec.control_plane.instance_type;
    // The newest image would be another one after some weeks, and replace the machine.
    let image = there.map_or_else(|| image(instance_type), str::to_owned);
    let mut properties = json!({
        "ImageId": image,
        "InstanceType": instance_type,
        "IamInstanceProfile": reference("ControllerProfile"),
        "MetadataOptions": metadata_options(),
        "BlockDeviceMappings": disk(30),
        "PropagateTagsToVolumeOnCreation": true,
        "Volumes": [{"Device": "/dev/sdf", "VolumeId": import(spec, "EtcdVolumeId")}],
        "SubnetId": import(spec, &network::worker_subnets(spec)[0]),
        "PrivateIpAddress": spec.controller_ip(),
        "SecurityGroupIds": [
            import(spec, "NodeSecurityGroup"),
            import(spec, "ControllerSecurityGroup"),
        ],
        "Tags": tags(spec, "controller"),
        "UserData": {"Fn::Base64": user_data},
    });
    if let Some(key) = &spec.ssh_key_name {
        properties["KeyName"] = json!(key);
    }
    out.resource("Controller", "AWS::EC2::Instance", properties);
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

fn workers(spec: &ClusterSpec, out: &mut Builder, group: &MachineGroup) {
    let user_data = UserData::of_worker(spec, group.name.as_deref());
    let mut data = json!({
        "ImageId": image(&group.instance_types[0]),
        "InstanceType": group.instance_types[0],
        "IamInstanceProfile": {"Name": reference("WorkerProfile")},
        "MetadataOptions": metadata_options(),
        "BlockDeviceMappings": disk(group.disk_gib),
        "SecurityGroupIds": [import(spec, "NodeSecurityGroup"), import(spec, "WorkerSecurityGroup")],
        "TagSpecifications": [
            {"ResourceType": "instance", "Tags": tags(spec, "worker")},
            {"ResourceType": "volume", "Tags": tags(spec, "worker")},
        ],
        "UserData": {"Fn::Base64": user_data},
    });
    if let Some(key) = &spec.ssh_key_name {
        data["KeyName"] = json!(key);
    }
    let template = format!("WorkerTemplate{}", group.suffix);
    out.resource(
        &template,
        "AWS::EC2::LaunchTemplate",
        template_of_machines(spec, &group.resource_name(), data),
    );
    scaling_group(spec, out, group, &template);
}

fn scaling_group(spec: &ClusterSpec, out: &mut Builder, group: &MachineGroup, template: &str) {
    let subnets: Vec<Value> = network::worker_subnets(spec)
        .iter()
        .map(|id| import(spec, id))
        .collect();
    let group_tags: Vec<Value> = super::tag_map(spec, "worker")
        .into_iter()
        .map(|(key, value)| json!({"Key": key, "Value": value, "PropagateAtLaunch": true}))
        .collect();
    let template = json!({
        "LaunchTemplateId": reference(template),
        "Version": attribute(template, "LatestVersionNumber"),
    });
    let mut properties = json!({
        "AutoScalingGroupName": format!("{}-{}", spec.name, group.resource_name()),
        "MinSize": "0",
        "DesiredCapacity": group.count.to_string(),
        "MaxSize": group.max.to_string(),
        "VPCZoneIdentifier": subnets,
        "Tags": group_tags,
    });
    let spot = group.capacity == Capacity::Spot;
    if spot || group.instance_types.len() > 1 {
        let overrides: Vec<Value> = group
            .instance_types
            .iter()
            .map(|name| json!({"InstanceType": name}))
            .collect();
        properties["MixedInstancesPolicy"] = json!({
            "LaunchTemplate": {"LaunchTemplateSpecification": template, "Overrides": overrides},
            "InstancesDistribution": {
                "OnDemandBaseCapacity": group.on_demand,
                "OnDemandPercentageAboveBaseCapacity": if spot { 0 } else { 100 },
                "SpotAllocationStrategy": "price-capacity-optimized",
            },
        });
    } else {
        properties["LaunchTemplate"] = template;
    }
    let id = format!("Workers{}", group.suffix);
    out.resource(&id, "AWS::AutoScaling::AutoScalingGroup", properties)
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
