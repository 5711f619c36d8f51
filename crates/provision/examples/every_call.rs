//! Makes every call of [`Cloud`] once, for `e2e/aws/conformance.py`, which records the requests and holds
//! them against botocore. What the calls return does not matter here.
//!
//! `every_call` makes the calls; `every_call hosts` prints where each service is in each region instead.

use std::collections::BTreeMap;
use std::future::Future;

use provision::aws::endpoint::{HostKind, signing_region, url};
use provision::aws::{Aws, AwsSettings};
use provision::cloud::{ChangeSetRequest, Cloud, CloudError, TemplateSource};
use provision::policy::Simulation;
use serde_json::json;

const SERVICES: [&str; 15] = [
    "autoscaling",
    "cloudformation",
    "ec2",
    "ecr",
    "eks",
    "elasticfilesystem",
    "elasticloadbalancing",
    "iam",
    "kms",
    "logs",
    "route53",
    "s3",
    "servicequotas",
    "ssm",
    "sts",
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), CloudError> {
    if std::env::args().nth(1).as_deref() == Some("hosts") {
        hosts();
        return Ok(());
    }
    let settings = AwsSettings::read(|name| std::env::var(name).ok());
    let aws = Aws::connect("us-west-2", &settings).await?;
    stacks(&aws).await;
    machines(&aws).await;
    files_and_logs(&aws).await;
    buckets_and_keys(&aws).await;
    account(&aws).await;
    Ok(())
}

/// Only the request counts.
async fn made<T>(call: impl Future<Output = Result<T, CloudError>>) {
    drop(call.await);
}

async fn stacks(aws: &Aws) {
    made(aws.stack("demo-base")).await;
    made(aws.stack_events("demo-base")).await;
    for (create, template) in [
        (true, TemplateSource::Body("{\"a\": \"ü & =\"}".to_owned())),
        (false, TemplateSource::Url("https://s3/x/y".to_owned())),
    ] {
        let tags = [("canoe:cluster", "demo"), ("cost centre", "a+b")];
        let request = ChangeSetRequest {
            stack: "demo-base".to_owned(),
            name: "canoe".to_owned(),
            create,
            template,
            tags: BTreeMap::from(tags.map(|(key, value)| (key.to_owned(), value.to_owned()))),
            role: create.then(|| "arn:aws:iam::123456789012:role/demo-us-west-2-stacks".to_owned()),
        };
        made(aws.create_change_set(&request)).await;
    }
    made(aws.change_set("demo-base", "canoe")).await;
    made(aws.execute_change_set("demo-base", "canoe")).await;
    made(aws.delete_change_set("demo-base", "canoe")).await;
    made(aws.delete_stack("demo-base")).await;
    made(aws.protect_stack("demo-base", true)).await;
    made(aws.stack_resources("demo-base")).await;
    made(aws.detect_drift("demo-base")).await;
    made(aws.drift("d-1")).await;
}

async fn machines(aws: &Aws) {
    made(aws.zones()).await;
    made(aws.offered_types(&["m5.large".to_owned(), "m6i.large".to_owned()])).await;
    made(aws.key_pair_exists("my key")).await;
    made(aws.interfaces("vpc-1")).await;
    made(aws.delete_interface("eni-1")).await;
    made(aws.volumes("demo", "6f1c2f6e-5b0e-4c8e-9d55-0d8f4f2a7b11")).await;
    made(aws.subnets(&["subnet-1".to_owned(), "subnet-2".to_owned()])).await;
    made(aws.controller_image("6f1c2f6e-5b0e-4c8e-9d55-0d8f4f2a7b11")).await;
    made(aws.newest_image("/aws/service/debian/release/12/latest/amd64")).await;
    made(aws.machine_tags("i-1")).await;
    made(aws.terminate_machine("i-1")).await;
    made(aws.launch_template("demo-workers")).await;
    made(aws.scaling_group("demo-workers")).await;
    made(aws.vpc_tags("vpc-1")).await;
    made(aws.delete_volume("vol-1")).await;
    made(aws.load_balancers("vpc-1")).await;
    made(aws.delete_load_balancer("classic")).await;
    let arn = "arn:aws:elasticloadbalancing:us-west-2:1:loadbalancer/net/a/1";
    made(aws.delete_load_balancer(arn)).await;
    made(aws.groups("vpc-1")).await;
    made(aws.delete_group("sg-1")).await;
    made(aws.network_use()).await;
    made(aws.repository_tags("canoe/demo")).await;
    made(aws.registry_login()).await;
    made(aws.eks_versions()).await;
    made(aws.eks_cluster("demo")).await;
    made(aws.addon_version("vpc-cni", "1.35")).await;
}

async fn files_and_logs(aws: &Aws) {
    made(aws.file_systems()).await;
    made(aws.mount_targets("fs-1")).await;
    made(aws.delete_file_system("fs-1")).await;
    made(aws.log_groups("/aws/eks/demo/")).await;
    made(aws.delete_log_group("/aws/eks/demo/cluster")).await;
}

async fn buckets_and_keys(aws: &Aws) {
    let tags = BTreeMap::from([("cost centre".to_owned(), "<a & b>".to_owned())]);
    made(aws.bucket_tags("canoe-1")).await;
    made(aws.create_bucket("canoe-1")).await;
    made(aws.close_bucket("canoe-1")).await;
    made(aws.tag_bucket("canoe-1", &tags)).await;
    made(aws.put_object("canoe-1", "demo base+1.json", "{}")).await;
    made(aws.objects("canoe-1")).await;
    made(aws.delete_object("canoe-1", "demo base+1.json")).await;
    made(aws.delete_bucket("canoe-1")).await;
    let key = "arn:aws:kms:us-west-2:123456789012:key/1";
    made(aws.encrypt(key, "demo", b"plain")).await;
    made(aws.key_state(key)).await;
    made(aws.schedule_key_deletion(key)).await;
}

async fn account(aws: &Aws) {
    made(aws.caller()).await;
    made(aws.role_arn("demo-us-west-2-workers")).await;
    made(aws.instance_profile_exists("demo-us-west-2-workers")).await;
    let policy = "arn:aws:iam::123456789012:policy/demo-us-west-2-boundary";
    made(aws.policy(policy)).await;
    made(aws.policy_document(policy, "v1")).await;
    made(aws.update_policy(policy, "{\"Statement\": []}")).await;
    made(aws.create_policy("demo-us-west-2-boundary", "{}", &BTreeMap::new())).await;
    made(aws.delete_policy(policy)).await;
    made(aws.hosted_zone("Z1")).await;
    let simulations = [Simulation {
        actions: vec!["eks:CreateCluster".to_owned(), "ec2:CreateVpc".to_owned()],
        resource: "*".to_owned(),
    }];
    let context = [("aws:RequestedRegion".to_owned(), "us-west-2".to_owned())];
    let user = "arn:aws:iam::123456789012:user/me";
    made(aws.denied_actions(user, &simulations, &context)).await;
    made(aws.quota("ec2", "L-1216C47A")).await;
    made(aws.tagged("6f1c2f6e-5b0e-4c8e-9d55-0d8f4f2a7b11")).await;
}

#[allow(clippy::print_stdout, reason = "this is what the example is for")]
fn hosts() {
    for region in std::env::args().skip(2) {
        for service in SERVICES.iter().chain(&["tagging"]) {
            for fips in [false, true] {
                for dual_stack in [false, true] {
                    let kind = HostKind { fips, dual_stack };
                    let url = url(service, &region, kind).unwrap_or_else(|error| error.to_string());
                    let signed = signing_region(service, &region);
                    println!(
                        "{}",
                        json!({"service": service, "region": region, "fips": fips, "dual": dual_stack,
                               "url": url, "signing_region": signed})
                    );
                }
            }
        }
    }
}
