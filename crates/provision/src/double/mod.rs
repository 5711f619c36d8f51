//! An AWS account in memory, for tests: strict where the public stand-ins are lenient.
//!
//! It enforces what AWS enforces and they do not: a stack whose exports are imported stays; a VPC with
//! interfaces or load balancers stays; a bucket with objects stays; EKS leaves an interface behind and
//! writes its log group anew. Work takes a number of looks. Any call can be made to fail.

mod account;

use std::sync::Mutex;

use serde_json::Value;

use self::account::{Account, FakeStack, changes};
use crate::cloud::{
    Caller, ChangeSetRequest, ChangeSetView, Cloud, CloudError, StackView, TemplateSource,
};
use crate::lifecycle::events::StackEvent;
use crate::lifecycle::teardown::Interface;
use crate::policy::Simulation;

type Answer<T> = Result<T, CloudError>;

/// The double.
#[derive(Default)]
pub(crate) struct Double(pub Mutex<Account>);

pub(crate) fn refused(action: &str, code: &str, message: &str) -> CloudError {
    CloudError::Refused {
        action: action.to_owned(),
        code: code.to_owned(),
        message: message.to_owned(),
    }
}

impl Double {
    pub fn with<T>(&self, work: impl FnOnce(&mut Account) -> T) -> T {
        work(&mut self.0.lock().unwrap())
    }

    fn call<T>(&self, name: &str, work: impl FnOnce(&mut Account) -> Answer<T>) -> Answer<T> {
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

    pub fn stack_names(&self) -> Vec<String> {
        self.with(|account| account.stacks.keys().cloned().collect())
    }
}

impl Cloud for Double {
    async fn caller(&self) -> Answer<Caller> {
        self.call("caller", |_| {
            Ok(Caller {
                account: "123456789012".to_owned(),
                arn: "arn:aws:iam::123456789012:user/me".to_owned(),
            })
        })
    }

    async fn stack(&self, name: &str) -> Answer<Option<StackView>> {
        self.call("stack", |account| {
            account.tick(name);
            Ok(account.find(name).map(|stack| stack.view.clone()))
        })
    }

    async fn stack_events(&self, stack: &str) -> Answer<Vec<StackEvent>> {
        self.call("stack_events", |account| {
            Ok(account
                .find(stack)
                .map(|s| s.events.clone())
                .unwrap_or_default())
        })
    }

    async fn create_change_set(&self, request: &ChangeSetRequest) -> Answer<()> {
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
                    status: "REVIEW_IN_PROGRESS".to_owned(),
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
            account
                .change_sets
                .insert(request.stack.clone(), request.clone());
            Ok(())
        })
    }

    async fn change_set(&self, stack: &str, _name: &str) -> Answer<ChangeSetView> {
        self.call("change_set", |account| {
            let request = account.change_sets.get(stack).ok_or(refused(
                "DescribeChangeSet",
                "ChangeSetNotFound",
                "",
            ))?;
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
            let nothing = changes.is_empty();
            Ok(ChangeSetView {
                status: if nothing { "FAILED" } else { "CREATE_COMPLETE" }.to_owned(),
                reason: if nothing {
                    "The submitted information didn't contain changes."
                } else {
                    ""
                }
                .to_owned(),
                changes,
            })
        })
    }

    async fn execute_change_set(&self, stack: &str, _name: &str) -> Answer<()> {
        self.call(&format!("execute_change_set {stack}"), |account| {
            account.change_sets.remove(stack).ok_or(refused(
                "ExecuteChangeSet",
                "ChangeSetNotFound",
                "",
            ))?;
            let slowness = account.slowness;
            let found = account.stacks.get_mut(stack).unwrap();
            let work = if found.view.status == "REVIEW_IN_PROGRESS" {
                "CREATE"
            } else {
                "UPDATE"
            };
            found.view.status = format!("{work}_IN_PROGRESS");
            found.pending = Some((slowness, work));
            Ok(())
        })
    }

    async fn delete_change_set(&self, stack: &str, _name: &str) -> Answer<()> {
        self.call("delete_change_set", |account| {
            account.change_sets.remove(stack);
            Ok(())
        })
    }

    async fn delete_stack(&self, name: &str) -> Answer<()> {
        self.call(&format!("delete_stack {name}"), |account| {
            let slowness = account.slowness;
            if let Some(stack) = account.stacks.get_mut(name) {
                stack.view.status = "DELETE_IN_PROGRESS".to_owned();
                stack.pending = Some((slowness, "DELETE"));
            }
            Ok(())
        })
    }

    async fn detect_drift(&self, _stack: &str) -> Answer<String> {
        self.call("detect_drift", |_| Ok("d".to_owned()))
    }

    async fn drift(&self, _detection: &str) -> Answer<Option<String>> {
        self.call("drift", |_| Ok(Some("IN_SYNC".to_owned())))
    }

    async fn zones(&self) -> Answer<Vec<String>> {
        self.call("zones", |_| {
            Ok(["us-west-2a", "us-west-2b"].map(str::to_owned).to_vec())
        })
    }

    async fn offered_types(&self, types: &[String]) -> Answer<Vec<(String, String)>> {
        let types = types.to_vec();
        self.call("offered_types", |_| {
            let zones = ["us-west-2a", "us-west-2b"];
            Ok(zones
                .iter()
                .flat_map(|zone| types.iter().map(|t| ((*zone).to_owned(), t.clone())))
                .collect())
        })
    }

    async fn key_pair_exists(&self, name: &str) -> Answer<bool> {
        self.call("key_pair_exists", |_| Ok(name == "my-key"))
    }

    async fn interfaces(&self, _vpc: &str) -> Answer<Vec<Interface>> {
        self.call("interfaces", |account| Ok(account.interfaces.clone()))
    }

    async fn delete_interface(&self, id: &str) -> Answer<()> {
        self.call(&format!("delete_interface {id}"), |account| {
            let used = account
                .interfaces
                .iter()
                .any(|i| i.id == id && i.status == "in-use");
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

    async fn volumes(&self, _cluster: &str) -> Answer<Vec<String>> {
        self.call("volumes", |account| {
            Ok(account.volumes.iter().cloned().collect())
        })
    }

    async fn delete_volume(&self, id: &str) -> Answer<()> {
        self.call(&format!("delete_volume {id}"), |account| {
            if account.stacks.keys().any(|name| name.ends_with("-cluster")) {
                return Err(refused("DeleteVolume", "VolumeInUse", "is attached"));
            }
            account.volumes.remove(id);
            Ok(())
        })
    }

    async fn foreign_load_balancers(&self, _vpc: &str) -> Answer<Vec<String>> {
        self.call("foreign_load_balancers", |account| {
            Ok(account.load_balancers.iter().cloned().collect())
        })
    }

    async fn delete_load_balancer(&self, arn: &str) -> Answer<()> {
        self.call(&format!("delete_load_balancer {arn}"), |account| {
            account.load_balancers.remove(arn);
            Ok(())
        })
    }

    async fn leftover_groups(&self, _cluster: &str) -> Answer<Vec<String>> {
        self.call("leftover_groups", |account| {
            Ok(account.groups.iter().cloned().collect())
        })
    }

    async fn delete_group(&self, id: &str) -> Answer<()> {
        self.call(&format!("delete_group {id}"), |account| {
            account.groups.remove(id);
            Ok(())
        })
    }

    async fn file_systems(&self, _cluster: &str) -> Answer<Vec<String>> {
        self.call("file_systems", |account| {
            account.answers("elasticfilesystem")?;
            Ok(account.file_systems.keys().cloned().collect())
        })
    }

    async fn delete_file_system(&self, id: &str) -> Answer<()> {
        self.call(&format!("delete_file_system {id}"), |account| {
            if account.file_systems.get(id).is_some_and(|count| *count > 0) {
                return Err(refused(
                    "DeleteFileSystem",
                    "FileSystemInUse",
                    "has mount targets",
                ));
            }
            account.file_systems.remove(id);
            account.retained.retain(|name| !name.contains(".File"));
            Ok(())
        })
    }

    async fn mount_targets(&self, file_system: &str) -> Answer<usize> {
        self.call("mount_targets", |account| {
            account
                .file_systems
                .get(file_system)
                .copied()
                .ok_or(refused("DescribeMountTargets", "FileSystemNotFound", ""))
        })
    }

    async fn eks_versions(&self) -> Answer<Vec<(String, String)>> {
        self.call("eks_versions", |account| {
            account.answers("eks")?;
            let all = [
                ("1.33", "EXTENDED_SUPPORT"),
                ("1.34", "STANDARD_SUPPORT"),
                ("1.35", "STANDARD_SUPPORT"),
            ];
            Ok(all
                .map(|(version, status)| (version.to_owned(), status.to_owned()))
                .to_vec())
        })
    }

    async fn eks_cluster_exists(&self, name: &str) -> Answer<bool> {
        self.call("eks_cluster_exists", |account| {
            Ok(account.foreign.contains(name))
        })
    }

    async fn role_exists(&self, name: &str) -> Answer<bool> {
        self.call("role_exists", |account| Ok(account.foreign.contains(name)))
    }

    async fn hosted_zone(&self, id: &str) -> Answer<Option<String>> {
        self.call("hosted_zone", |_| {
            Ok((id == "Z1").then(|| "example.com".to_owned()))
        })
    }

    async fn network_use(&self) -> Answer<(usize, usize)> {
        self.call("network_use", |account| {
            let vpcs = account
                .stacks
                .keys()
                .filter(|name| name.ends_with("-base"))
                .count();
            Ok((vpcs + 1 + account.foreign.len(), 0))
        })
    }

    async fn log_groups(&self, prefix: &str) -> Answer<Vec<String>> {
        self.call("log_groups", |account| {
            Ok(account
                .log_groups
                .iter()
                .filter(|name| name.starts_with(prefix))
                .cloned()
                .collect())
        })
    }

    async fn delete_log_group(&self, name: &str) -> Answer<()> {
        self.call(&format!("delete_log_group {name}"), |account| {
            account.log_groups.remove(name);
            Ok(())
        })
    }

    async fn bucket_exists(&self, bucket: &str) -> Answer<bool> {
        self.call("bucket_exists", |account| {
            Ok(account.buckets.contains_key(bucket))
        })
    }

    async fn create_bucket(&self, bucket: &str) -> Answer<()> {
        self.call("create_bucket", |account| {
            account.buckets.entry(bucket.to_owned()).or_default();
            Ok(())
        })
    }

    async fn put_object(&self, bucket: &str, key: &str, _body: &str) -> Answer<String> {
        self.call("put_object", |account| {
            account
                .buckets
                .entry(bucket.to_owned())
                .or_default()
                .insert(key.to_owned());
            Ok(format!("https://s3/{bucket}/{key}"))
        })
    }

    async fn objects(&self, bucket: &str) -> Answer<Vec<String>> {
        self.call("objects", |account| {
            Ok(account
                .buckets
                .get(bucket)
                .into_iter()
                .flatten()
                .cloned()
                .collect())
        })
    }

    async fn delete_object(&self, bucket: &str, key: &str) -> Answer<()> {
        self.call("delete_object", |account| {
            account
                .buckets
                .entry(bucket.to_owned())
                .or_default()
                .remove(key);
            Ok(())
        })
    }

    async fn delete_bucket(&self, bucket: &str) -> Answer<()> {
        self.call("delete_bucket", |account| {
            if account
                .buckets
                .get(bucket)
                .is_some_and(|objects| !objects.is_empty())
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

    async fn encrypt(&self, _key: &str, context: &str, plain: &[u8]) -> Answer<Vec<u8>> {
        assert!(plain.len() <= 4096, "KMS takes 4096 bytes");
        let mut cipher: Vec<u8> = plain.iter().map(|byte| byte ^ 0x5a).collect();
        cipher.extend(context.bytes());
        self.call("encrypt", |_| Ok(cipher))
    }

    async fn key_state(&self, arn: &str) -> Answer<String> {
        self.call("key_state", |account| {
            let ours = arn.contains(".Key");
            let state = match (ours, account.pending_keys.contains(arn)) {
                (true, false) => "Enabled",
                (true, true) => "PendingDeletion",
                (false, _) => "Disabled",
            };
            Ok(state.to_owned())
        })
    }

    async fn schedule_key_deletion(&self, arn: &str) -> Answer<()> {
        self.call(&format!("schedule_key_deletion {arn}"), |account| {
            account.pending_keys.insert(arn.to_owned());
            Ok(())
        })
    }

    async fn denied_actions(
        &self,
        _arn: &str,
        asked: &[Simulation],
        _context: &[(String, String)],
    ) -> Answer<Vec<String>> {
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

    async fn quota(&self, _service: &str, code: &str) -> Answer<Option<f64>> {
        self.call("quota", |_| Ok((code == "L-1216C47A").then_some(32.0)))
    }

    async fn tagged(&self, _cluster: &str) -> Answer<Vec<String>> {
        self.call("tagged", |account| {
            let mut arns: Vec<String> = account
                .stacks
                .keys()
                .map(|name| format!("arn:aws:eks:us-west-2:1:cluster/{name}"))
                .collect();
            arns.extend(
                account
                    .interfaces
                    .iter()
                    .map(|i| format!("arn:aws:ec2:us-west-2:1:network-interface/{}", i.id)),
            );
            arns.extend(
                account
                    .retained
                    .iter()
                    .map(|id| match id.split_once(".File") {
                        Some((stack, _)) => format!(
                            "arn:aws:elasticfilesystem:us-west-2:1:file-system/{stack}.FileSystemId"
                        ),
                        None => format!("arn:aws:kms:us-west-2:1:key/{id}"),
                    }),
            );
            Ok(arns)
        })
    }
}
