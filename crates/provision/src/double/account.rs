//! What is in the account, and how stacks come and go: work takes a number of looks, and what something else holds stays.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Answer;
use crate::cloud::{Change, ChangeSetRequest, CloudError, StackView};
use crate::lifecycle::events::StackEvent;
use crate::lifecycle::teardown::Interface;

#[derive(Clone, Default)]
pub(super) struct FakeStack {
    pub(super) view: StackView,
    pub(super) template: Value,
    pub(super) wanted: Value,
    /// Looks until the work is done, and what it is.
    pub(super) pending: Option<(u32, &'static str)>,
    pub(super) events: Vec<StackEvent>,
}

#[derive(Default)]
pub(crate) struct Account {
    pub(super) stacks: BTreeMap<String, FakeStack>,
    pub(super) change_sets: BTreeMap<String, ChangeSetRequest>,
    pub interfaces: Vec<Interface>,
    pub load_balancers: BTreeSet<String>,
    pub volumes: BTreeSet<String>,
    pub buckets: BTreeMap<String, BTreeSet<String>>,
    pub log_groups: BTreeSet<String>,
    pub retained: BTreeSet<String>,
    /// Security groups that Kubernetes left.
    pub groups: BTreeSet<String>,
    /// File systems that carry the tag, by id, with the number of their mount targets.
    pub file_systems: BTreeMap<String, usize>,
    /// Keys that wait for their deletion.
    pub pending_keys: BTreeSet<String>,
    /// What exists outside the stacks: EKS clusters and roles by name, buckets of others.
    pub foreign: BTreeSet<String>,
    /// Services that the region lacks.
    pub lacking: BTreeSet<&'static str>,
    /// Every call, in order.
    pub calls: Vec<String>,
    /// Calls from this number on (counted from 0) fail with this, so many times.
    pub fault: Option<(usize, u32, CloudError)>,
    /// A resource of a stack that cannot be made: stack, logical id, reason.
    pub failing: Option<(String, String, String)>,
    /// Looks that any work takes.
    pub slowness: u32,
    pub(super) generation: u32,
}

impl Account {
    /// Refuses like a host that does not exist.
    pub(super) fn answers(&self, service: &'static str) -> Answer<()> {
        if !self.lacking.contains(service) {
            return Ok(());
        }
        Err(CloudError::Unreachable {
            action: format!("{service}:Describe"),
            endpoint: format!("https://{service}.us-west-2.amazonaws.com"),
            reason: "no such host".to_owned(),
            connecting: true,
        })
    }

    pub(super) fn find(&mut self, name: &str) -> Option<&mut FakeStack> {
        self.stacks.values_mut().find(|stack| {
            stack.view.id == name || stack.view.id.starts_with(&format!("arn:{name}/"))
        })
    }

    pub(super) fn tick(&mut self, name: &str) {
        let Some(stack) = self.find(name) else { return };
        let Some((looks, work)) = stack.pending else {
            return;
        };
        if looks > 0 {
            stack.pending = Some((looks - 1, work));
            return;
        }
        stack.pending = None;
        let own = stack
            .view
            .id
            .trim_start_matches("arn:")
            .split('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        if work == "DELETE" {
            self.finish_delete(&own)
        } else {
            self.finish_make(&own, work)
        }
    }

    pub(super) fn event(&mut self, stack: &str, resource: &str, status: &str, reason: &str) {
        self.generation += 1;
        let id = self.generation.to_string();
        if let Some(found) = self.stacks.get_mut(stack) {
            let kind = found.wanted["Resources"][resource]["Type"]
                .as_str()
                .unwrap_or("AWS::CloudFormation::Stack");
            found.events.push(StackEvent {
                id,
                time: String::new(),
                resource: resource.to_owned(),
                kind: kind.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
            });
        }
    }

    pub(super) fn finish_make(&mut self, name: &str, work: &str) {
        if let Some((stack, resource, reason)) = self.failing.clone()
            && stack == name
        {
            self.event(
                name,
                "Aaa",
                &format!("{work}_FAILED"),
                "Resource creation cancelled",
            );
            self.event(name, &resource, &format!("{work}_FAILED"), &reason);
            let status = if work == "CREATE" {
                "ROLLBACK_COMPLETE"
            } else {
                "UPDATE_ROLLBACK_COMPLETE"
            };
            self.event(name, name, status, "");
            self.stacks.get_mut(name).unwrap().view.status = status.to_owned();
            return;
        }
        let stack = self.stacks.get_mut(name).unwrap();
        stack.template = stack.wanted.clone();
        stack.view.status = format!("{work}_COMPLETE");
        let outputs = stack.template["Outputs"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        stack.view.outputs = outputs
            .iter()
            .map(|(key, _)| (key.clone(), format!("{name}.{key}")))
            .collect();
        if name.ends_with("-storage") {
            let given = self.stacks[name].template["Resources"]["MountTarget1"]["Properties"]
                ["FileSystemId"]
                .as_str()
                .map(str::to_owned);
            let id = given.unwrap_or(format!("{name}.FileSystemId"));
            self.file_systems.insert(id, 2);
            let interface = |id: &str| Interface {
                id: id.to_owned(),
                status: "in-use".to_owned(),
                description: "EFS mount target".to_owned(),
            };
            self.interfaces.retain(|old| !old.id.starts_with("eni-efs"));
            self.interfaces
                .extend([interface("eni-efs-1"), interface("eni-efs-2")]);
        }
        self.event(name, name, &format!("{work}_COMPLETE"), "");
    }

    /// Why a stack cannot go, if it cannot: the resource and AWS's words.
    pub(super) fn holds(&self, name: &str) -> Option<(&'static str, String)> {
        let cluster = name.rsplit_once('-').unwrap().0;
        if name.ends_with("-base") {
            for other in ["storage", "cluster"] {
                if self.stacks.contains_key(&format!("{cluster}-{other}")) {
                    return Some((
                        "Vpc",
                        format!(
                            "Export {cluster}-VpcId cannot be deleted as it is in use by {other}"
                        ),
                    ));
                }
            }
            if let Some(group) = self.groups.first() {
                return Some((
                    "Vpc",
                    format!("The vpc has dependencies and cannot be deleted: {group}"),
                ));
            }
            if let Some(interface) = self.interfaces.first() {
                return Some((
                    "StorageSecurityGroup",
                    format!("resource has a dependent object {}", interface.id),
                ));
            }
        }
        if let (false, true) = (
            self.load_balancers.is_empty(),
            name.ends_with("-base") || name.ends_with("-cluster"),
        ) {
            return Some((
                "PublicSubnet1",
                "The subnet has dependencies and cannot be deleted".to_owned(),
            ));
        }
        None
    }

    pub(super) fn finish_delete(&mut self, name: &str) {
        if let Some((resource, reason)) = self.holds(name) {
            self.event(name, resource, "DELETE_FAILED", &reason);
            self.stacks.get_mut(name).unwrap().view.status = "DELETE_FAILED".to_owned();
            return;
        }
        let stack = self.stacks.remove(name).unwrap();
        for (id, resource) in stack.template["Resources"]
            .as_object()
            .into_iter()
            .flatten()
        {
            if resource["DeletionPolicy"] == "Retain" {
                self.retained.insert(format!("{name}.{id}"));
            }
        }
        if name.ends_with("-storage") {
            let resource = &stack.template["Resources"]["FileSystem"];
            let stays = resource.is_null() || resource["DeletionPolicy"] == "Retain";
            self.file_systems.retain(|_, count| {
                *count = 0;
                stays
            });
            self.interfaces
                .retain(|interface| !interface.id.starts_with("eni-efs"));
        }
        if name.ends_with("-cluster") && stack.template["Resources"].get("Cluster").is_some() {
            self.interfaces.push(Interface {
                id: "eni-k8s".to_owned(),
                status: "available".to_owned(),
                description: "aws-K8S-i-1".to_owned(),
            });
            self.groups.insert("sg-k8s-elb".to_owned());
            let cluster = name.rsplit_once('-').unwrap().0;
            self.log_groups
                .insert(format!("/aws/eks/{cluster}/cluster"));
        }
    }
}

/// Logical ids whose resource differs between two templates.
pub(super) fn changes(old: &Value, new: &Value) -> Vec<Change> {
    let empty = serde_json::Map::new();
    let before = old["Resources"].as_object().unwrap_or(&empty);
    let after = new["Resources"].as_object().unwrap_or(&empty);
    let ids: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let change = |id: &String, action: &str, resource: &Value| Change {
        action: action.to_owned(),
        resource: id.clone(),
        kind: resource["Type"].as_str().unwrap_or_default().to_owned(),
        replacement: String::new(),
    };
    ids.into_iter()
        .filter_map(|id| match (before.get(id), after.get(id)) {
            (None, Some(new)) => Some(change(id, "Add", new)),
            (Some(old), None) => Some(change(id, "Remove", old)),
            (Some(old), Some(new)) if old != new => Some(change(id, "Modify", new)),
            _ => None,
        })
        .collect()
}
