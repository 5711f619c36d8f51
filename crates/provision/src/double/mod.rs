//! An AWS account in memory, for tests: strict where the public stand-ins are lenient.
//!
//! It enforces what AWS enforces and they do not: a stack whose exports are imported stays; a VPC with
//! interfaces or load balancers stays; a bucket with objects stays; EKS leaves an interface behind and
//! writes its log group anew. Work takes a number of looks. Any call can be made to fail.

pub(crate) mod account;
pub(crate) mod api_server;

use std::sync::Mutex;

use serde_json::Value;

use self::account::{Account, FakeStack, changes};
use crate::catalog;
use crate::cloud::{
    Caller, ChangeSetId, ChangeSetRequest, ChangeSetView, Cloud, CloudError, NetworkUse, Offer,
    PolicyView, StackResource, StackView, SubnetView, TemplateSource, TypeOffer, ZoneView,
};
use crate::lifecycle::events::StackEvent;
use crate::lifecycle::teardown::Interface;
use crate::ownership::{ID_TAG, Tags, Thing};
use crate::policy::Simulation;
use crate::statuses::{DriftStatus, InterfaceStatus, KeyState, StackStatus};

type CloudResult<T> = Result<T, CloudError>;

#[derive(Default)]
pub(crate) struct Double(pub Mutex<Account>);

pub(crate) fn refused(action: &str, code: &str, message: &str) -> CloudError {
    CloudError::Refused {
        action: action.to_owned(),
        status: 400,
        code: code.to_owned(),
        message: message.to_owned(),
    }
}

impl Double {
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Account) -> T) -> T {
        work(&mut self.0.lock().unwrap())
    }

    fn call<T>(
        &self,
        name: &str,
        work: impl FnOnce(&mut Account) -> CloudResult<T>,
    ) -> CloudResult<T> {
        self.with(|account| {
            let number = account.calls.len();
            account.calls.push(name.to_owned());
            if let Some((from, times, error)) = &mut account.fault
                && number >= *from
                && *times > 0
            {
                *times -= 1;
                return Err(error.clone());
            }
            work(account)
        })
    }

    pub(crate) fn stack_names(&self) -> Vec<String> {
        self.with(|account| account.stacks.keys().cloned().collect())
    }
}

fn things<'a>(all: impl Iterator<Item = (&'a String, &'a Tags)>) -> Vec<Thing> {
    let thing = |(id, tags): (&String, &Tags)| Thing {
        id: id.clone(),
        tags: tags.clone(),
    };
    all.map(thing).collect()
}

impl Cloud for Double {
    async fn caller(&self) -> CloudResult<Caller> {
        self.call("caller", |_| {
            Ok(Caller {
                account: "123456789012".to_owned(),
                arn: "arn:aws:iam::123456789012:user/me".to_owned(),
            })
        })
    }

    async fn stack(&self, name: &str) -> CloudResult<Option<StackView>> {
        self.call("stack", |account| {
            account.tick(name);
            Ok(account.find(name).map(|stack| stack.view.clone()))
        })
    }

    async fn stack_events(&self, stack: &str) -> CloudResult<Vec<StackEvent>> {
        self.call("stack_events", |account| {
            Ok(account
                .find(stack)
                .map(|s| s.events.clone())
                .unwrap_or_default())
        })
    }

    async fn create_change_set(&self, request: &ChangeSetRequest) -> CloudResult<ChangeSetId> {
        self.call(&format!("create_change_set {}", request.stack), |account| {
            if request.create == account.stacks.contains_key(&request.stack) {
                return Err(refused(
                    "CreateChangeSet",
                    "ValidationError",
                    "stack exists or does not exist",
                ));
            }
            if request.create {
                account.generation += 1;
                let id = format!("arn:{}/{}", request.stack, account.generation);
                let created = "2026-01-01T00:00:00Z".to_owned();
                let view = StackView {
                    id,
                    status: StackStatus::ReviewInProgress,
                    created,
                    ..StackView::default()
                };
                account.stacks.insert(
                    request.stack.clone(),
                    FakeStack {
                        view,
                        ..FakeStack::default()
                    },
                );
            }
            account.asked_roles.push(request.role.clone());
            account.generation += 1;
            let id = ChangeSetId {
                arn: format!("arn:change-set/{}", account.generation),
                stack: account.stacks[&request.stack].view.id.clone(),
            };
            let made = (id.arn.clone(), request.clone());
            account.change_sets.insert(request.stack.clone(), made);
            Ok(id)
        })
    }

    async fn change_set(&self, stack: &str, name: &str) -> CloudResult<ChangeSetView> {
        self.call("change_set", |account| {
            let request = account.found_change_set(stack, name, "DescribeChangeSet")?;
            let body = match &request.template {
                TemplateSource::Body(body) => body.clone(),
                TemplateSource::Url(_) => {
                    return Err(refused("DescribeChangeSet", "Unsupported", ""));
                }
            };
            let wanted: Value = serde_json::from_str(&body).unwrap();
            let found = account.stacks.get_mut(stack).unwrap();
            let changes = changes(&found.template, &wanted);
            found.wanted = wanted;
            let tags = request.tags.clone();
            let nothing = changes.is_empty();
            Ok(ChangeSetView {
                status: if nothing { "FAILED" } else { "CREATE_COMPLETE" }.into(),
                reason: if nothing {
                    "The submitted information didn't contain changes."
                } else {
                    ""
                }
                .to_owned(),
                changes,
                tags,
            })
        })
    }

    async fn execute_change_set(&self, stack: &str, name: &str) -> CloudResult<()> {
        self.call(&format!("execute_change_set {stack}"), |account| {
            let request = account.found_change_set(stack, name, "ExecuteChangeSet")?;
            account.change_sets.remove(stack);
            let slowness = account.slowness;
            let found = account.stacks.get_mut(stack).unwrap();
            let work = if found.view.status == StackStatus::ReviewInProgress {
                "CREATE"
            } else {
                "UPDATE"
            };
            found.view.tags = request.tags;
            found.view.status = format!("{work}_IN_PROGRESS").into();
            found.pending = Some((slowness, work));
            Ok(())
        })
    }

    async fn delete_change_set(&self, stack: &str, name: &str) -> CloudResult<()> {
        self.call("delete_change_set", |account| {
            if account.found_change_set(stack, name, "").is_ok() {
                account.change_sets.remove(stack);
            }
            Ok(())
        })
    }

    async fn delete_stack(&self, name: &str) -> CloudResult<()> {
        self.call(&format!("delete_stack {name}"), |account| {
            let slowness = account.slowness;
            if let Some(stack) = account.find(name) {
                if stack.view.protected {
                    let words = "cannot be deleted while TerminationProtection is enabled";
                    return Err(refused("DeleteStack", "ValidationError", words));
                }
                stack.view.status = StackStatus::DeleteInProgress;
                stack.pending = Some((slowness, "DELETE"));
            }
            Ok(())
        })
    }

    async fn protect_stack(&self, name: &str, on: bool) -> CloudResult<()> {
        self.call(&format!("protect_stack {name}"), |account| {
            let missing = refused("UpdateTerminationProtection", "ValidationError", "no stack");
            account.stacks.get_mut(name).ok_or(missing)?.view.protected = on;
            Ok(())
        })
    }

    async fn stack_resources(&self, stack: &str) -> CloudResult<Vec<StackResource>> {
        self.call("stack_resources", |account| {
            let missing = refused("ListStackResources", "ValidationError", "does not exist");
            Ok(account.find(stack).ok_or(missing)?.resources())
        })
    }

    async fn detect_drift(&self, _stack: &str) -> CloudResult<String> {
        self.call("detect_drift", |_| Ok("d".to_owned()))
    }

    async fn drift(&self, _detection: &str) -> CloudResult<Option<DriftStatus>> {
        self.call("drift", |_| Ok(Some(DriftStatus::InSync)))
    }

    async fn zones(&self) -> CloudResult<Vec<ZoneView>> {
        self.call("zones", |account| {
            let without = account.zone_without_eks.clone();
            let zone = |name: &str, id: &str| ZoneView {
                name: name.to_owned(),
                id: match &without {
                    Some(zone) if zone == name => catalog::ZONES_WITHOUT_EKS[0].to_owned(),
                    _ => id.to_owned(),
                },
            };
            Ok(vec![
                zone("us-west-2a", "usw2-az1"),
                zone("us-west-2b", "usw2-az2"),
            ])
        })
    }

    async fn offered_types(&self, types: &[String]) -> CloudResult<Vec<TypeOffer>> {
        let types = types.to_vec();
        self.call("offered_types", |_| {
            let zones = ["us-west-2a", "us-west-2b"];
            let in_zone = |zone: &str| {
                let zone = zone.to_owned();
                types.iter().map(move |name| TypeOffer {
                    zone: zone.clone(),
                    instance_type: name.clone(),
                })
            };
            Ok(zones.into_iter().flat_map(in_zone).collect())
        })
    }

    async fn key_pair_exists(&self, name: &str) -> CloudResult<bool> {
        self.call("key_pair_exists", |_| Ok(name == "my-key"))
    }

    async fn interfaces(&self, _vpc: &str) -> CloudResult<Vec<Interface>> {
        self.call("interfaces", |account| Ok(account.interfaces.clone()))
    }

    async fn delete_interface(&self, id: &str) -> CloudResult<()> {
        self.call(&format!("delete_interface {id}"), |account| {
            let used = account
                .interfaces
                .iter()
                .any(|i| i.id == id && i.status == InterfaceStatus::InUse);
            if used {
                return Err(refused(
                    "DeleteNetworkInterface",
                    "InvalidParameterValue",
                    "is in use",
                ));
            }
            account.interfaces.retain(|interface| interface.id != id);
            Ok(())
        })
    }

    async fn vpc_tags(&self, id: &str) -> CloudResult<Option<Tags>> {
        self.call("vpc_tags", |account| Ok(account.vpc_tags(id)))
    }

    async fn subnets(&self, ids: &[String]) -> CloudResult<Vec<SubnetView>> {
        let ids = ids.to_vec();
        self.call("subnets", |account| {
            let all = account.subnets.iter();
            Ok(all
                .filter(|subnet| ids.contains(&subnet.id))
                .cloned()
                .collect())
        })
    }

    async fn launch_template(&self, name: &str) -> CloudResult<Option<Thing>> {
        self.call("launch_template", |account| {
            Ok(account.named_thing(&account.launch_templates, name, "LaunchTemplateName"))
        })
    }

    async fn scaling_group(&self, name: &str) -> CloudResult<Option<Thing>> {
        self.call("scaling_group", |account| {
            Ok(account.named_thing(&account.scaling_groups, name, "AutoScalingGroupName"))
        })
    }

    async fn controller_image(&self, _id: &str) -> CloudResult<Option<String>> {
        self.call("controller_image", |account| {
            let stacks = account.stacks.values();
            let mut images = stacks.filter_map(|stack| {
                let controller = &stack.template["Resources"]["Controller"]["Properties"];
                controller["ImageId"].as_str().map(str::to_owned)
            });
            Ok(images.next())
        })
    }

    async fn newest_image(&self, _parameter: &str) -> CloudResult<Option<String>> {
        self.call("newest_image", |account| {
            Ok(Some(
                account
                    .newest_image
                    .clone()
                    .unwrap_or("ami-first".to_owned()),
            ))
        })
    }

    async fn machine_tags(&self, id: &str) -> CloudResult<Option<Tags>> {
        self.call("machine_tags", |account| {
            Ok(account.machines.get(id).cloned())
        })
    }

    async fn terminate_machine(&self, id: &str) -> CloudResult<()> {
        self.call(&format!("terminate_machine {id}"), |_| Ok(()))
    }

    async fn volumes(&self, _cluster: &str, _id: &str) -> CloudResult<Vec<Thing>> {
        self.call("volumes", |account| Ok(things(account.volumes.iter())))
    }

    async fn delete_volume(&self, id: &str) -> CloudResult<()> {
        self.call(&format!("delete_volume {id}"), |account| {
            if account.stacks.keys().any(|name| name.ends_with("-cluster")) {
                return Err(refused("DeleteVolume", "VolumeInUse", "is attached"));
            }
            account.volumes.remove(id);
            Ok(())
        })
    }

    async fn load_balancers(&self, _vpc: &str) -> CloudResult<Vec<Thing>> {
        self.call("load_balancers", |account| {
            Ok(things(account.load_balancers.iter()))
        })
    }

    async fn delete_load_balancer(&self, arn: &str) -> CloudResult<()> {
        self.call(&format!("delete_load_balancer {arn}"), |account| {
            account.load_balancers.remove(arn);
            Ok(())
        })
    }

    async fn groups(&self, _vpc: &str) -> CloudResult<Vec<Thing>> {
        self.call("groups", |account| Ok(things(account.groups.iter())))
    }

    async fn delete_group(&self, id: &str) -> CloudResult<()> {
        self.call(&format!("delete_group {id}"), |account| {
            account.groups.remove(id);
            Ok(())
        })
    }

    async fn file_systems(&self) -> CloudResult<Vec<Thing>> {
        self.call("file_systems", |account| {
            account.answers("elasticfilesystem")?;
            let all = account.file_systems.iter();
            Ok(things(all.map(|(id, (tags, _))| (id, tags))))
        })
    }

    async fn delete_file_system(&self, id: &str) -> CloudResult<()> {
        self.call(&format!("delete_file_system {id}"), |account| {
            if account
                .file_systems
                .get(id)
                .is_some_and(|files| files.1 > 0)
            {
                return Err(refused(
                    "DeleteFileSystem",
                    "FileSystemInUse",
                    "has mount targets",
                ));
            }
            account.file_systems.remove(id);
            Ok(())
        })
    }

    async fn mount_targets(&self, file_system: &str) -> CloudResult<usize> {
        self.call("mount_targets", |account| {
            account
                .file_systems
                .get(file_system)
                .map(|files| files.1)
                .ok_or(refused("DescribeMountTargets", "FileSystemNotFound", ""))
        })
    }

    async fn eks_versions(&self) -> CloudResult<Vec<Offer>> {
        self.call("eks_versions", |account| {
            account.answers("eks")?;
            let all = [
                ("1.33", "EXTENDED_SUPPORT"),
                ("1.34", "STANDARD_SUPPORT"),
                ("1.35", "STANDARD_SUPPORT"),
                ("1.36", "STANDARD_SUPPORT"),
            ];
            let offer = |(version, status): (&str, &str)| Offer {
                version: version.to_owned(),
                support: status.into(),
                standard_ends: None,
            };
            Ok(all.map(offer).to_vec())
        })
    }

    async fn eks_cluster(&self, name: &str) -> CloudResult<Option<String>> {
        self.call("eks_cluster", |account| {
            if account.foreign.contains(name) {
                return Ok(Some("1.30".to_owned()));
            }
            let stack = account.stacks.get(&format!("{name}-cluster"));
            let version =
                stack.map(|s| &s.template["Resources"]["Cluster"]["Properties"]["Version"]);
            Ok(version.and_then(Value::as_str).map(str::to_owned))
        })
    }

    async fn addon_version(&self, addon: &str, kubernetes: &str) -> CloudResult<Option<String>> {
        let version = format!("v{kubernetes}.7-of-{addon}");
        self.call("addon_version", |_| Ok(Some(version)))
    }

    async fn role_arn(&self, name: &str) -> CloudResult<Option<String>> {
        self.call("role_arn", |account| {
            let made = account.has_made("RoleName", name);
            let arn = format!("arn:aws:iam::123456789012:role/{name}");
            Ok(account.roles.get(name).cloned().or(made.then_some(arn)))
        })
    }

    async fn instance_profile_exists(&self, name: &str) -> CloudResult<bool> {
        self.call("instance_profile_exists", |account| {
            let made = account.has_made("InstanceProfileName", name);
            Ok(account.profiles.contains(name) || made)
        })
    }

    async fn repository_tags(&self, name: &str) -> CloudResult<Option<Tags>> {
        self.call("repository_tags", |account| {
            let found = account.named_thing(&account.repositories, name, "RepositoryName");
            Ok(found.map(|thing| thing.tags))
        })
    }

    async fn policy(&self, arn: &str) -> CloudResult<Option<PolicyView>> {
        self.call("policy", |account| {
            if account.slow_policies > 0 {
                account.slow_policies -= 1;
                return Ok(None);
            }
            let view = |(tags, _): &(Tags, String)| PolicyView {
                tags: tags.clone(),
                version: "v1".to_owned(),
            };
            Ok(account.policies.get(arn).map(view))
        })
    }

    async fn policy_document(&self, arn: &str, _version: &str) -> CloudResult<String> {
        self.call("policy_document", |account| {
            let found = account.policies.get(arn);
            let missing = refused("GetPolicyVersion", "NoSuchEntity", "");
            found.map(|(_, document)| document.clone()).ok_or(missing)
        })
    }

    async fn update_policy(&self, arn: &str, document: &str) -> CloudResult<()> {
        self.call("update_policy", |account| {
            account.administrators_only("iam:CreatePolicyVersion")?;
            account.policies.entry(arn.to_owned()).or_default().1 = document.to_owned();
            Ok(())
        })
    }

    async fn create_policy(&self, name: &str, document: &str, tags: &Tags) -> CloudResult<()> {
        self.call("create_policy", |account| {
            account.administrators_only("iam:CreatePolicy")?;
            let arn = format!("arn:aws:iam::123456789012:policy/{name}");
            if account.policies.contains_key(&arn) {
                return Err(refused("CreatePolicy", "EntityAlreadyExists", name));
            }
            account
                .policies
                .insert(arn, (tags.clone(), document.to_owned()));
            Ok(())
        })
    }

    async fn delete_policy(&self, arn: &str) -> CloudResult<()> {
        self.call("delete_policy", |account| {
            account.administrators_only("iam:DeletePolicy")?;
            account.policies.remove(arn);
            Ok(())
        })
    }

    async fn hosted_zone(&self, id: &str) -> CloudResult<Option<String>> {
        self.call("hosted_zone", |_| {
            Ok((id == "Z1").then(|| "example.com".to_owned()))
        })
    }

    async fn network_use(&self) -> CloudResult<NetworkUse> {
        self.call("network_use", |account| {
            let vpcs = account
                .stacks
                .keys()
                .filter(|name| name.ends_with("-base"))
                .count();
            Ok(NetworkUse {
                vpcs: vpcs + 1 + account.foreign.len(),
                addresses: 0,
            })
        })
    }

    async fn log_groups(&self, prefix: &str) -> CloudResult<Vec<Thing>> {
        self.call("log_groups", |account| {
            let all = account.log_groups.iter();
            Ok(things(all.filter(|(name, _)| name.starts_with(prefix))))
        })
    }

    async fn delete_log_group(&self, name: &str) -> CloudResult<()> {
        self.call(&format!("delete_log_group {name}"), |account| {
            account.log_groups.remove(name);
            Ok(())
        })
    }

    async fn bucket_tags(&self, bucket: &str) -> CloudResult<Option<Tags>> {
        self.call("bucket_tags", |account| {
            if let Some(error) = &account.bucket_fault {
                return Err(error.clone());
            }
            Ok(account.buckets.get(bucket).map(|found| found.0.clone()))
        })
    }

    async fn tag_bucket(&self, bucket: &str, tags: &Tags) -> CloudResult<()> {
        self.call("tag_bucket", |account| {
            account.buckets.entry(bucket.to_owned()).or_default().0 = tags.clone();
            Ok(())
        })
    }

    async fn create_bucket(&self, bucket: &str) -> CloudResult<()> {
        self.call("create_bucket", |account| {
            account.buckets.entry(bucket.to_owned()).or_default();
            Ok(())
        })
    }

    async fn close_bucket(&self, bucket: &str) -> CloudResult<()> {
        self.call("close_bucket", |account| {
            let found = account.buckets.get(bucket).map(drop);
            found.ok_or(refused("PutPublicAccessBlock", "NoSuchBucket", bucket))
        })
    }

    async fn put_object(&self, bucket: &str, key: &str, _body: &str) -> CloudResult<String> {
        self.call("put_object", |account| {
            account
                .buckets
                .entry(bucket.to_owned())
                .or_default()
                .1
                .insert(key.to_owned());
            Ok(format!("https://s3/{bucket}/{key}"))
        })
    }

    async fn objects(&self, bucket: &str) -> CloudResult<Vec<String>> {
        self.call("objects", |account| {
            Ok(account
                .buckets
                .get(bucket)
                .into_iter()
                .flat_map(|found| found.1.clone())
                .collect())
        })
    }

    async fn delete_object(&self, bucket: &str, key: &str) -> CloudResult<()> {
        self.call("delete_object", |account| {
            account
                .buckets
                .entry(bucket.to_owned())
                .or_default()
                .1
                .remove(key);
            Ok(())
        })
    }

    async fn delete_bucket(&self, bucket: &str) -> CloudResult<()> {
        self.call("delete_bucket", |account| {
            if account
                .buckets
                .get(bucket)
                .is_some_and(|found| !found.1.is_empty())
            {
                return Err(refused(
                    "DeleteBucket",
                    "BucketNotEmpty",
                    "the bucket is not empty",
                ));
            }
            account.buckets.remove(bucket);
            Ok(())
        })
    }

    async fn encrypt(&self, _key: &str, context: &str, plain: &[u8]) -> CloudResult<Vec<u8>> {
        assert!(plain.len() <= 4096, "KMS takes 4096 bytes");
        let mut cipher: Vec<u8> = plain.iter().map(|byte| byte ^ 0x5a).collect();
        cipher.extend(context.bytes());
        self.call("encrypt", |_| Ok(cipher))
    }

    async fn key_state(&self, arn: &str) -> CloudResult<KeyState> {
        self.call("key_state", |account| {
            if arn.starts_with("alias/") {
                let missing = refused("DescribeKey", "NotFoundException", arn);
                return match account.aliases.contains(arn) {
                    true => Ok(KeyState::Enabled),
                    false => Err(missing),
                };
            }
            let state = match account.keys.get(arn) {
                Some((_, false)) => KeyState::Enabled,
                Some((_, true)) => KeyState::PendingDeletion,
                None => return Err(refused("DescribeKey", "NotFoundException", arn)),
            };
            Ok(state)
        })
    }

    async fn schedule_key_deletion(&self, arn: &str) -> CloudResult<()> {
        self.call(&format!("schedule_key_deletion {arn}"), |account| {
            account.keys.entry(arn.to_owned()).or_default().1 = true;
            Ok(())
        })
    }

    async fn denied_actions(
        &self,
        _arn: &str,
        asked: &[Simulation],
        _context: &[(String, String)],
    ) -> CloudResult<Vec<String>> {
        let actions = asked.iter().flat_map(|simulation| &simulation.actions);
        let denied = actions
            .filter(|action| action.as_str() == "eks:CreateCluster")
            .cloned()
            .collect();
        self.call("denied_actions", |account| {
            Ok(if account.slowness == 7 {
                denied
            } else {
                Vec::new()
            })
        })
    }

    async fn quota(&self, _service: &str, code: &str) -> CloudResult<Option<f64>> {
        self.call("quota", |_| Ok((code == "L-1216C47A").then_some(32.0)))
    }

    async fn tagged(&self, id: &str) -> CloudResult<Vec<Thing>> {
        self.call("tagged", |account| {
            let mut all: Vec<(String, Tags)> = Vec::new();
            for (name, stack) in &account.stacks {
                let arn = format!("arn:aws:eks:us-west-2:1:cluster/{name}");
                all.push((arn, stack.view.tags.clone()));
            }
            for (id, (tags, _)) in &account.file_systems {
                let arn = format!("arn:aws:elasticfilesystem:us-west-2:1:file-system/{id}");
                all.push((arn, tags.clone()));
            }
            let keys = account.keys.iter();
            all.extend(keys.map(|(arn, (tags, _))| (arn.clone(), tags.clone())));
            let buckets = account.buckets.iter();
            all.extend(
                buckets.map(|(name, (tags, _))| (format!("arn:aws:s3:::{name}"), tags.clone())),
            );
            for (id, tags) in &account.volumes {
                all.push((format!("arn:aws:ec2:us-west-2:1:volume/{id}"), tags.clone()));
            }
            all.retain(|(_, tags)| tags.get(ID_TAG).is_some_and(|value| value == id));
            Ok(things(all.iter().map(|(arn, tags)| (arn, tags))))
        })
    }
}
