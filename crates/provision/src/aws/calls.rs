//! The calls of [`Cloud`], each as a request and the reading of its answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::client::Aws;
use super::pages::{change, event, params, stack_view, strings};
use super::query::{
    BALANCING, CLASSIC_BALANCING, CLOUDFORMATION, EC2, STS, encode, entries, field, find, read,
};
use crate::cloud::{
    Caller, ChangeSetRequest, ChangeSetView, Cloud, CloudError, StackView, TemplateSource,
};
use crate::lifecycle::events::StackEvent;
use crate::lifecycle::teardown::Interface;
use crate::policy::Simulation;

type Answer<T> = Result<T, CloudError>;

impl Cloud for Aws {
    async fn caller(&self) -> Answer<Caller> {
        let xml = self.query(STS, "GetCallerIdentity", &[]).await?;
        read("sts:GetCallerIdentity", &xml, |root| {
            let inner = find(root, "GetCallerIdentityResult").unwrap_or(root);
            Caller {
                account: field(inner, "Account"),
                arn: field(inner, "Arn"),
            }
        })
    }

    async fn stack(&self, name: &str) -> Answer<Option<StackView>> {
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
        Ok(view.filter(|view| view.status != "DELETE_COMPLETE"))
    }

    async fn stack_events(&self, stack: &str) -> Answer<Vec<StackEvent>> {
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

    async fn create_change_set(&self, request: &ChangeSetRequest) -> Answer<()> {
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
        for (number, (key, value)) in (1..).zip(&request.tags) {
            asked.push((format!("Tags.member.{number}.Key"), key.clone()));
            asked.push((format!("Tags.member.{number}.Value"), value.clone()));
        }
        self.query(CLOUDFORMATION, "CreateChangeSet", &asked)
            .await
            .map(drop)
    }

    async fn change_set(&self, stack: &str, name: &str) -> Answer<ChangeSetView> {
        let action = "DescribeChangeSet";
        let asked = params(&[("StackName", stack), ("ChangeSetName", name)]);
        let xml = self.query(CLOUDFORMATION, action, &asked).await?;
        read(action, &xml, |root| {
            let inner = find(root, "DescribeChangeSetResult").unwrap_or(root);
            ChangeSetView {
                status: field(inner, "Status"),
                reason: field(inner, "StatusReason"),
                changes: entries(inner, "Changes")
                    .into_iter()
                    .filter_map(change)
                    .collect(),
            }
        })
    }

    async fn execute_change_set(&self, stack: &str, name: &str) -> Answer<()> {
        let asked = params(&[("StackName", stack), ("ChangeSetName", name)]);
        self.query(CLOUDFORMATION, "ExecuteChangeSet", &asked)
            .await
            .map(drop)
    }

    async fn delete_change_set(&self, stack: &str, name: &str) -> Answer<()> {
        let asked = params(&[("StackName", stack), ("ChangeSetName", name)]);
        self.query(CLOUDFORMATION, "DeleteChangeSet", &asked)
            .await
            .map(drop)
    }

    async fn delete_stack(&self, name: &str) -> Answer<()> {
        self.query(
            CLOUDFORMATION,
            "DeleteStack",
            &params(&[("StackName", name)]),
        )
        .await
        .map(drop)
    }

    async fn detect_drift(&self, stack: &str) -> Answer<String> {
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

    async fn drift(&self, detection: &str) -> Answer<Option<String>> {
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
            match text("DetectionStatus").as_str() {
                "DETECTION_IN_PROGRESS" => None,
                "DETECTION_COMPLETE" => Some(text("StackDriftStatus")),
                other => Some(format!("unknown ({other})")),
            }
        })
    }

    async fn zones(&self) -> Answer<Vec<String>> {
        let asked = params(&[
            ("Filter.1.Name", "state"),
            ("Filter.1.Value.1", "available"),
        ]);
        let xml = self.query(EC2, "DescribeAvailabilityZones", &asked).await?;
        read("ec2:DescribeAvailabilityZones", &xml, |root| {
            entries(root, "availabilityZoneInfo")
                .into_iter()
                .map(|zone| field(zone, "zoneName"))
                .collect()
        })
    }

    async fn offered_types(&self, types: &[String]) -> Answer<Vec<(String, String)>> {
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
                .map(|offer| (field(offer, "location"), field(offer, "instanceType")))
                .collect()
        })
        .await
    }

    async fn key_pair_exists(&self, name: &str) -> Answer<bool> {
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

    async fn interfaces(&self, vpc: &str) -> Answer<Vec<Interface>> {
        let asked = params(&[("Filter.1.Name", "vpc-id"), ("Filter.1.Value.1", vpc)]);
        self.pages((EC2, "DescribeNetworkInterfaces"), &asked, |root| {
            let found = entries(root, "networkInterfaceSet").into_iter();
            found
                .map(|node| Interface {
                    id: field(node, "networkInterfaceId"),
                    status: field(node, "status"),
                    description: field(node, "description"),
                })
                .collect()
        })
        .await
    }

    async fn delete_interface(&self, id: &str) -> Answer<()> {
        self.query(
            EC2,
            "DeleteNetworkInterface",
            &params(&[("NetworkInterfaceId", id)]),
        )
        .await
        .map(drop)
    }

    async fn volumes(&self, cluster: &str) -> Answer<Vec<String>> {
        let tag = format!("tag:kubernetes.io/cluster/{cluster}");
        let mut asked = params(&[("Filter.1.Name", &tag), ("Filter.1.Value.1", "owned")]);
        asked.extend(params(&[
            ("Filter.2.Name", "status"),
            ("Filter.2.Value.1", "available"),
        ]));
        self.pages((EC2, "DescribeVolumes"), &asked, |root| {
            entries(root, "volumeSet")
                .into_iter()
                .map(|node| field(node, "volumeId"))
                .collect()
        })
        .await
    }

    async fn delete_volume(&self, id: &str) -> Answer<()> {
        self.query(EC2, "DeleteVolume", &params(&[("VolumeId", id)]))
            .await
            .map(drop)
    }

    async fn foreign_load_balancers(&self, vpc: &str) -> Answer<Vec<String>> {
        self.find_foreign_load_balancers(vpc).await
    }

    async fn delete_load_balancer(&self, arn: &str) -> Answer<()> {
        let (service, key) = if arn.starts_with("arn:") {
            (BALANCING, "LoadBalancerArn")
        } else {
            (CLASSIC_BALANCING, "LoadBalancerName")
        };
        self.query(service, "DeleteLoadBalancer", &params(&[(key, arn)]))
            .await
            .map(drop)
    }

    async fn leftover_groups(&self, cluster: &str) -> Answer<Vec<String>> {
        self.find_leftover_groups(cluster).await
    }

    async fn delete_group(&self, id: &str) -> Answer<()> {
        self.query(EC2, "DeleteSecurityGroup", &params(&[("GroupId", id)]))
            .await
            .map(drop)
    }

    async fn file_systems(&self, cluster: &str) -> Answer<Vec<String>> {
        self.find_file_systems(cluster).await
    }

    async fn delete_file_system(&self, id: &str) -> Answer<()> {
        self.remove_file_system(id).await
    }

    async fn mount_targets(&self, file_system: &str) -> Answer<usize> {
        self.count_mount_targets(file_system).await
    }

    async fn eks_versions(&self) -> Answer<Vec<(String, String)>> {
        self.offered_versions().await
    }

    async fn eks_cluster_exists(&self, name: &str) -> Answer<bool> {
        self.has_eks_cluster(name).await
    }

    async fn role_exists(&self, name: &str) -> Answer<bool> {
        self.has_role(name).await
    }

    async fn hosted_zone(&self, id: &str) -> Answer<Option<String>> {
        self.zone_name(id).await
    }

    async fn network_use(&self) -> Answer<(usize, usize)> {
        self.count_network().await
    }

    async fn log_groups(&self, prefix: &str) -> Answer<Vec<String>> {
        let answer = self
            .json(
                "logs",
                "Logs_20140328.DescribeLogGroups",
                &json!({"logGroupNamePrefix": prefix}),
            )
            .await?;
        Ok(strings(&answer, "logGroups", "logGroupName"))
    }

    async fn delete_log_group(&self, name: &str) -> Answer<()> {
        self.json(
            "logs",
            "Logs_20140328.DeleteLogGroup",
            &json!({"logGroupName": name}),
        )
        .await
        .map(drop)
    }

    async fn bucket_exists(&self, bucket: &str) -> Answer<bool> {
        self.s3_exists(bucket).await
    }

    async fn create_bucket(&self, bucket: &str) -> Answer<()> {
        self.s3_create(bucket).await
    }

    async fn put_object(&self, bucket: &str, key: &str, body: &str) -> Answer<String> {
        self.s3_put(bucket, key, body).await
    }

    async fn objects(&self, bucket: &str) -> Answer<Vec<String>> {
        self.s3_list(bucket).await
    }

    async fn delete_object(&self, bucket: &str, key: &str) -> Answer<()> {
        self.s3_delete(format!("/{bucket}/{}", encode(key))).await
    }

    async fn delete_bucket(&self, bucket: &str) -> Answer<()> {
        self.s3_delete(format!("/{bucket}")).await
    }

    async fn encrypt(&self, key: &str, context: &str, plain: &[u8]) -> Answer<Vec<u8>> {
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

    async fn key_state(&self, arn: &str) -> Answer<String> {
        let answer = self
            .json("kms", "TrentService.DescribeKey", &json!({"KeyId": arn}))
            .await?;
        Ok(answer["KeyMetadata"]["KeyState"]
            .as_str()
            .unwrap_or_default()
            .to_owned())
    }

    async fn schedule_key_deletion(&self, arn: &str) -> Answer<()> {
        self.let_key_go(arn).await
    }

    async fn denied_actions(
        &self,
        arn: &str,
        asked: &[Simulation],
        context: &[(String, String)],
    ) -> Answer<Vec<String>> {
        self.simulate(arn, asked, context).await
    }

    async fn quota(&self, service: &str, code: &str) -> Answer<Option<f64>> {
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

    async fn tagged(&self, cluster: &str) -> Answer<Vec<String>> {
        self.find_tagged(cluster).await
    }
}
