//! The calls of [`Cloud`], each as a request and the reading of its response.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::client::Aws;
use super::pages::{change_set_page, event, joined, params, stack_view};
use super::query::{
    BALANCING, CLASSIC_BALANCING, CLOUDFORMATION, EC2, IAM, STS, encode, entries, field, find,
    read, tags,
};
use crate::cloud::{
    Caller, ChangeSetId, ChangeSetRequest, ChangeSetView, Cloud, CloudError, NetworkUse, Offer,
    PolicyView, StackResource, StackView, SubnetView, TemplateSource, TypeOffer, ZoneView,
};
use crate::lifecycle::events::StackEvent;
use crate::lifecycle::teardown::Interface;
use crate::ownership::{Tags, Thing};
use crate::policy::Simulation;
use crate::statuses::{DetectionStatus, DriftStatus, KeyState, StackStatus};

type CloudResult<T> = Result<T, CloudError>;

impl Cloud for Aws {
    async fn caller(&self) -> CloudResult<Caller> {
        let xml = self.query(STS, "GetCallerIdentity", &[]).await?;
        read("sts:GetCallerIdentity", &xml, |root| {
            let inner = find(root, "GetCallerIdentityResult").unwrap_or(root);
            Caller {
                account: field(inner, "Account"),
                arn: field(inner, "Arn"),
            }
        })
    }

    async fn stack(&self, name: &str) -> CloudResult<Option<StackView>> {
        let action = "DescribeStacks";
        let xml = match self
            .query(CLOUDFORMATION, action, &params(&[("StackName", name)]))
            .await
        {
            Ok(xml) => xml,
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => return Err(error),
        };
        let view = read(action, &xml, |root| {
            entries(root, "Stacks").into_iter().next().map(stack_view)
        })?;
        Ok(view.filter(|view| view.status != StackStatus::DeleteComplete))
    }

    async fn stack_events(&self, stack: &str) -> CloudResult<Vec<StackEvent>> {
        let call = (CLOUDFORMATION, "DescribeStackEvents");
        let asked = params(&[("StackName", stack)]);
        let result = self
            .pages(call, &asked, |root| {
                entries(root, "StackEvents")
                    .into_iter()
                    .map(event)
                    .collect()
            })
            .await;
        match result {
            Ok(mut events) => {
                events.reverse();
                Ok(events)
            }
            Err(error) if error.is_missing() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    async fn create_change_set(&self, request: &ChangeSetRequest) -> CloudResult<ChangeSetId> {
        let kind = if request.create { "CREATE" } else { "UPDATE" };
        let mut asked = params(&[
            ("StackName", &request.stack),
            ("ChangeSetName", &request.name),
            ("ChangeSetType", kind),
            ("Capabilities.member.1", "CAPABILITY_NAMED_IAM"),
        ]);
        match &request.template {
            TemplateSource::Body(body) => asked.push(("TemplateBody".to_owned(), body.clone())),
            TemplateSource::Url(url) => asked.push(("TemplateURL".to_owned(), url.clone())),
        }
        if let Some(role) = &request.role {
            asked.push(("RoleARN".to_owned(), role.clone()));
        }
        add_tags(&mut asked, &request.tags);
        let xml = self
            .query(CLOUDFORMATION, "CreateChangeSet", &asked)
            .await?;
        read("cloudformation:CreateChangeSet", &xml, |root| {
            let inner = find(root, "CreateChangeSetResult").unwrap_or(root);
            ChangeSetId {
                arn: field(inner, "Id"),
                stack: field(inner, "StackId"),
            }
        })
    }

    async fn change_set(&self, stack: &str, name: &str) -> CloudResult<ChangeSetView> {
        let asked = params(&[("StackName", stack), ("ChangeSetName", name)]);
        let call = (CLOUDFORMATION, "DescribeChangeSet");
        let pages = self
            .pages(call, &asked, |root| vec![change_set_page(root)])
            .await?;
        joined(pages).ok_or_else(|| CloudError::Unreadable {
            action: "cloudformation:DescribeChangeSet".to_owned(),
            reason: "it has no page".to_owned(),
        })
    }

    async fn execute_change_set(&self, stack: &str, name: &str) -> CloudResult<()> {
        let asked = params(&[("StackName", stack), ("ChangeSetName", name)]);
        self.query(CLOUDFORMATION, "ExecuteChangeSet", &asked)
            .await
            .map(drop)
    }

    async fn delete_change_set(&self, stack: &str, name: &str) -> CloudResult<()> {
        let asked = params(&[("StackName", stack), ("ChangeSetName", name)]);
        self.query(CLOUDFORMATION, "DeleteChangeSet", &asked)
            .await
            .map(drop)
    }

    async fn delete_stack(&self, name: &str) -> CloudResult<()> {
        self.query(
            CLOUDFORMATION,
            "DeleteStack",
            &params(&[("StackName", name)]),
        )
        .await
        .map(drop)
    }

    async fn protect_stack(&self, name: &str, on: bool) -> CloudResult<()> {
        let on = if on { "true" } else { "false" };
        let asked = params(&[("StackName", name), ("EnableTerminationProtection", on)]);
        self.query(CLOUDFORMATION, "UpdateTerminationProtection", &asked)
            .await
            .map(drop)
    }

    async fn stack_resources(&self, stack: &str) -> CloudResult<Vec<StackResource>> {
        let asked = params(&[("StackName", stack)]);
        self.pages((CLOUDFORMATION, "ListStackResources"), &asked, |root| {
            let all = entries(root, "StackResourceSummaries").into_iter();
            all.map(|node| StackResource {
                id: field(node, "LogicalResourceId"),
                status: field(node, "ResourceStatus").into(),
            })
            .collect()
        })
        .await
    }

    async fn detect_drift(&self, stack: &str) -> CloudResult<String> {
        let action = "DetectStackDrift";
        let xml = self
            .query(CLOUDFORMATION, action, &params(&[("StackName", stack)]))
            .await?;
        read(action, &xml, |root| {
            find(root, "StackDriftDetectionId")
                .and_then(|n| n.text())
                .unwrap_or_default()
                .to_owned()
        })
    }

    async fn drift(&self, detection: &str) -> CloudResult<Option<DriftStatus>> {
        let action = "DescribeStackDriftDetectionStatus";
        let xml = self
            .query(
                CLOUDFORMATION,
                action,
                &params(&[("StackDriftDetectionId", detection)]),
            )
            .await?;
        read(action, &xml, |root| {
            let text = |name: &str| {
                find(root, name)
                    .and_then(|node| node.text())
                    .unwrap_or_default()
                    .to_owned()
            };
            match DetectionStatus::from(text("DetectionStatus")) {
                DetectionStatus::InProgress => None,
                DetectionStatus::Complete => Some(text("StackDriftStatus").into()),
                other => Some(DriftStatus::Other(format!("unknown ({other})"))),
            }
        })
    }

    async fn zones(&self) -> CloudResult<Vec<ZoneView>> {
        let asked = params(&[
            ("Filter.1.Name", "state"),
            ("Filter.1.Value.1", "available"),
        ]);
        let xml = self.query(EC2, "DescribeAvailabilityZones", &asked).await?;
        read("ec2:DescribeAvailabilityZones", &xml, |root| {
            entries(root, "availabilityZoneInfo")
                .into_iter()
                .map(|zone| ZoneView {
                    name: field(zone, "zoneName"),
                    id: field(zone, "zoneId"),
                })
                .collect()
        })
    }

    async fn offered_types(&self, types: &[String]) -> CloudResult<Vec<TypeOffer>> {
        let mut asked = params(&[
            ("LocationType", "availability-zone"),
            ("Filter.1.Name", "instance-type"),
        ]);
        for (number, name) in (1..).zip(types) {
            asked.push((format!("Filter.1.Value.{number}"), name.clone()));
        }
        self.pages((EC2, "DescribeInstanceTypeOfferings"), &asked, |root| {
            let offers = entries(root, "instanceTypeOfferingSet").into_iter();
            offers
                .map(|offer| TypeOffer {
                    zone: field(offer, "location"),
                    instance_type: field(offer, "instanceType"),
                })
                .collect()
        })
        .await
    }

    async fn key_pair_exists(&self, name: &str) -> CloudResult<bool> {
        match self
            .query(EC2, "DescribeKeyPairs", &params(&[("KeyName.1", name)]))
            .await
        {
            Ok(xml) => read("ec2:DescribeKeyPairs", &xml, |root| {
                !entries(root, "keySet").is_empty()
            }),
            Err(error) if error.is_missing() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn interfaces(&self, vpc: &str) -> CloudResult<Vec<Interface>> {
        let asked = params(&[("Filter.1.Name", "vpc-id"), ("Filter.1.Value.1", vpc)]);
        self.pages((EC2, "DescribeNetworkInterfaces"), &asked, |root| {
            let found = entries(root, "networkInterfaceSet").into_iter();
            found
                .map(|node| Interface {
                    id: field(node, "networkInterfaceId"),
                    status: field(node, "status").into(),
                    description: field(node, "description"),
                    groups: entries(node, "groupSet")
                        .into_iter()
                        .map(|group| field(group, "groupId"))
                        .collect(),
                    tags: tags(node),
                })
                .collect()
        })
        .await
    }

    async fn delete_interface(&self, id: &str) -> CloudResult<()> {
        self.query(
            EC2,
            "DeleteNetworkInterface",
            &params(&[("NetworkInterfaceId", id)]),
        )
        .await
        .map(drop)
    }

    async fn vpc_tags(&self, id: &str) -> CloudResult<Option<Tags>> {
        self.find_vpc(id).await
    }

    async fn subnets(&self, ids: &[String]) -> CloudResult<Vec<SubnetView>> {
        self.find_subnets(ids).await
    }

    async fn launch_template(&self, name: &str) -> CloudResult<Option<Thing>> {
        self.find_launch_template(name).await
    }

    async fn scaling_group(&self, name: &str) -> CloudResult<Option<Thing>> {
        self.find_scaling_group(name).await
    }

    async fn controller_image(&self, id: &str) -> CloudResult<Option<String>> {
        self.find_controller_image(id).await
    }

    async fn newest_image(&self, parameter: &str) -> CloudResult<Option<String>> {
        let body = json!({"Names": [parameter]});
        let answer = self.json("ssm", "AmazonSSM.GetParameters", &body).await?;
        let value = answer["Parameters"][0]["Value"].as_str();
        Ok(value.map(str::to_owned))
    }

    async fn machine_tags(&self, id: &str) -> CloudResult<Option<Tags>> {
        self.find_machine(id).await
    }

    async fn terminate_machine(&self, id: &str) -> CloudResult<()> {
        self.query(EC2, "TerminateInstances", &params(&[("InstanceId.1", id)]))
            .await
            .map(drop)
    }

    async fn volumes(&self, cluster: &str, id: &str) -> CloudResult<Vec<Thing>> {
        self.find_volumes(cluster, id).await
    }

    async fn delete_volume(&self, id: &str) -> CloudResult<()> {
        self.query(EC2, "DeleteVolume", &params(&[("VolumeId", id)]))
            .await
            .map(drop)
    }

    async fn load_balancers(&self, vpc: &str) -> CloudResult<Vec<Thing>> {
        self.find_load_balancers(vpc).await
    }

    async fn delete_load_balancer(&self, arn: &str) -> CloudResult<()> {
        let (service, key) = if arn.starts_with("arn:") {
            (BALANCING, "LoadBalancerArn")
        } else {
            (CLASSIC_BALANCING, "LoadBalancerName")
        };
        self.query(service, "DeleteLoadBalancer", &params(&[(key, arn)]))
            .await
            .map(drop)
    }

    async fn groups(&self, vpc: &str) -> CloudResult<Vec<Thing>> {
        self.find_groups(vpc).await
    }

    async fn delete_group(&self, id: &str) -> CloudResult<()> {
        self.query(EC2, "DeleteSecurityGroup", &params(&[("GroupId", id)]))
            .await
            .map(drop)
    }

    async fn file_systems(&self) -> CloudResult<Vec<Thing>> {
        self.find_file_systems().await
    }

    async fn delete_file_system(&self, id: &str) -> CloudResult<()> {
        self.remove_file_system(id).await
    }

    async fn mount_targets(&self, file_system: &str) -> CloudResult<usize> {
        self.count_mount_targets(file_system).await
    }

    async fn eks_versions(&self) -> CloudResult<Vec<Offer>> {
        self.offered_versions().await
    }

    async fn eks_cluster(&self, name: &str) -> CloudResult<Option<String>> {
        self.eks_cluster_version(name).await
    }

    async fn addon_version(&self, addon: &str, kubernetes: &str) -> CloudResult<Option<String>> {
        self.default_addon_version(addon, kubernetes).await
    }

    async fn role_arn(&self, name: &str) -> CloudResult<Option<String>> {
        self.find_role(name).await
    }

    async fn instance_profile_exists(&self, name: &str) -> CloudResult<bool> {
        self.has_instance_profile(name).await
    }

    async fn repository_tags(&self, name: &str) -> CloudResult<Option<Tags>> {
        self.find_repository(name).await
    }

    async fn policy(&self, arn: &str) -> CloudResult<Option<PolicyView>> {
        self.find_policy(arn).await
    }

    async fn policy_document(&self, arn: &str, version: &str) -> CloudResult<String> {
        self.find_policy_document(arn, version).await
    }

    async fn update_policy(&self, arn: &str, document: &str) -> CloudResult<()> {
        self.replace_policy(arn, document).await
    }

    async fn create_policy(&self, name: &str, document: &str, tags: &Tags) -> CloudResult<()> {
        let mut asked = params(&[("PolicyName", name), ("PolicyDocument", document)]);
        add_tags(&mut asked, tags);
        self.query(IAM, "CreatePolicy", &asked).await.map(drop)
    }

    async fn delete_policy(&self, arn: &str) -> CloudResult<()> {
        self.query(IAM, "DeletePolicy", &params(&[("PolicyArn", arn)]))
            .await
            .map(drop)
    }

    async fn hosted_zone(&self, id: &str) -> CloudResult<Option<String>> {
        self.zone_name(id).await
    }

    async fn network_use(&self) -> CloudResult<NetworkUse> {
        self.count_network().await
    }

    async fn log_groups(&self, prefix: &str) -> CloudResult<Vec<Thing>> {
        self.find_log_groups(prefix).await
    }

    async fn delete_log_group(&self, name: &str) -> CloudResult<()> {
        self.json(
            "logs",
            "Logs_20140328.DeleteLogGroup",
            &json!({"logGroupName": name}),
        )
        .await
        .map(drop)
    }

    async fn bucket_tags(&self, bucket: &str) -> CloudResult<Option<Tags>> {
        self.s3_tags(bucket).await
    }

    async fn tag_bucket(&self, bucket: &str, tags: &Tags) -> CloudResult<()> {
        self.s3_tag(bucket, tags).await
    }

    async fn create_bucket(&self, bucket: &str) -> CloudResult<()> {
        self.s3_create(bucket).await
    }

    async fn close_bucket(&self, bucket: &str) -> CloudResult<()> {
        self.s3_close(bucket).await
    }

    async fn put_object(&self, bucket: &str, key: &str, body: &str) -> CloudResult<String> {
        self.s3_put(bucket, key, body).await
    }

    async fn objects(&self, bucket: &str) -> CloudResult<Vec<String>> {
        self.s3_list(bucket).await
    }

    async fn delete_object(&self, bucket: &str, key: &str) -> CloudResult<()> {
        self.s3_delete(format!("/{bucket}/{}", encode(key))).await
    }

    async fn delete_bucket(&self, bucket: &str) -> CloudResult<()> {
        self.s3_delete(format!("/{bucket}")).await
    }

    async fn encrypt(&self, key: &str, context: &str, plain: &[u8]) -> CloudResult<Vec<u8>> {
        let body = json!({
            "KeyId": key,
            "Plaintext": STANDARD.encode(plain),
            "EncryptionContext": {"canoe": context},
        });
        let answer = self.json("kms", "TrentService.Encrypt", &body).await?;
        let text = answer["CiphertextBlob"].as_str().unwrap_or_default();
        STANDARD
            .decode(text)
            .map_err(|error| CloudError::Unreadable {
                action: "kms:Encrypt".to_owned(),
                reason: error.to_string(),
            })
    }

    async fn key_state(&self, arn: &str) -> CloudResult<KeyState> {
        let answer = self
            .json("kms", "TrentService.DescribeKey", &json!({"KeyId": arn}))
            .await?;
        let state = answer["KeyMetadata"]["KeyState"].as_str();
        Ok(state.unwrap_or_default().into())
    }

    async fn schedule_key_deletion(&self, arn: &str) -> CloudResult<()> {
        self.let_key_go(arn).await
    }

    async fn denied_actions(
        &self,
        arn: &str,
        asked: &[Simulation],
        context: &[(String, String)],
    ) -> CloudResult<Vec<String>> {
        self.simulate(arn, asked, context).await
    }

    async fn quota(&self, service: &str, code: &str) -> CloudResult<Option<f64>> {
        let body = json!({"ServiceCode": service, "QuotaCode": code});
        match self
            .json(
                "servicequotas",
                "ServiceQuotasV20190624.GetServiceQuota",
                &body,
            )
            .await
        {
            Ok(answer) => Ok(answer["Quota"]["Value"].as_f64()),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn tagged(&self, id: &str) -> CloudResult<Vec<Thing>> {
        self.find_tagged(id).await
    }
}

fn add_tags(asked: &mut Vec<(String, String)>, tags: &Tags) {
    for (number, (key, value)) in (1..).zip(tags) {
        asked.push((format!("Tags.member.{number}.Key"), key.clone()));
        asked.push((format!("Tags.member.{number}.Value"), value.clone()));
    }
}
