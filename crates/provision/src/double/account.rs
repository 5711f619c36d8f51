//! What is in the account, and how stacks come and go: work takes a number of looks, and what something else holds stays.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::CloudResult;
use crate::cloud::{Change, ChangeSetRequest, CloudError, StackResource, StackView};
use crate::lifecycle::events::StackEvent;
use crate::lifecycle::teardown::Interface;
use crate::ownership::{Tags, Thing};
use crate::statuses::{InterfaceStatus, Replacement, ResourceStatus, StackStatus};

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
    /// ARN and content, by stack.
    pub(super) change_sets: BTreeMap<String, (String, ChangeSetRequest)>,
    /// Service role of every change set, in order.
    pub asked_roles: Vec<Option<String>>,
    pub interfaces: Vec<Interface>,
    pub load_balancers: BTreeMap<String, Tags>,
    pub volumes: BTreeMap<String, Tags>,
    /// Image that Debian publishes now.
    pub newest_image: Option<String>,
    /// Subnets that others made.
    pub subnets: Vec<crate::cloud::SubnetView>,
    /// Tags and objects.
    pub buckets: BTreeMap<String, (Tags, BTreeSet<String>)>,
    pub log_groups: BTreeMap<String, Tags>,
    /// Security groups in the VPC beside those of the stacks.
    pub groups: BTreeMap<String, Tags>,
    /// Tags and number of mount targets.
    pub file_systems: BTreeMap<String, (Tags, usize)>,
    /// Tags, and whether the key waits for its deletion; by ARN.
    pub keys: BTreeMap<String, (Tags, bool)>,
    /// ARNs of roles that no stack made, by name.
    pub roles: BTreeMap<String, String>,
    /// Instance profiles that no stack made.
    pub profiles: BTreeSet<String>,
    /// Launch templates that no stack made, by name.
    pub launch_templates: BTreeMap<String, Tags>,
    /// Auto-scaling groups that no stack made, by name.
    pub scaling_groups: BTreeMap<String, Tags>,
    /// Image repositories that no stack made, by name.
    pub repositories: BTreeMap<String, Tags>,
    /// Managed policies by ARN: tags and document.
    pub policies: BTreeMap<String, (Tags, String)>,
    /// What S3 says about every bucket.
    pub bucket_fault: Option<CloudError>,
    /// Looks for which IAM does not show a policy that is there.
    pub slow_policies: u32,
    /// Aliases of keys that no stack made.
    pub aliases: BTreeSet<String>,
    /// Machines by id.
    pub machines: BTreeMap<String, Tags>,
    /// The caller has only the operator's policy: managed policies cannot be made or deleted.
    pub operator: bool,
    /// What exists outside the stacks: EKS clusters and roles by name, buckets of others.
    pub foreign: BTreeSet<String>,
    /// Services that the region lacks.
    pub lacking: BTreeSet<&'static str>,
    /// A zone in which EKS puts no control plane.
    pub zone_without_eks: Option<String>,
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

impl FakeStack {
    /// What it has made: everything in its template.
    pub(super) fn resources(&self) -> Vec<StackResource> {
        let all = self.template["Resources"].as_object();
        let ids = all.into_iter().flat_map(|all| all.keys());
        ids.map(|id| StackResource {
            id: id.clone(),
            status: ResourceStatus::CreateComplete,
        })
        .collect()
    }

    /// Whether one of its resources has this name in this property.
    fn has_named(&self, property: &str, name: &str) -> bool {
        let all = self.template["Resources"].as_object();
        let mut resources = all.into_iter().flat_map(|all| all.values());
        resources.any(|resource| resource["Properties"][property] == name)
    }
}

/// Tags of a resource as its template gives them.
fn template_tags(list: &Value) -> Tags {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entries = list.as_array().into_iter().flatten();
    entries
        .map(|tag| (text(&tag["Key"]), text(&tag["Value"])))
        .collect()
}

/// Whether a resource stays when its stack goes.
fn stays(resource: &Value) -> bool {
    ["Retain", "RetainExceptOnCreate"]
        .iter()
        .any(|policy| resource["DeletionPolicy"] == *policy)
}

pub(crate) fn key_arn(stack: &str) -> String {
    format!("arn:aws:kms:us-west-2:1:key/{stack}.Key")
}

impl Account {
    /// Refuses what the operator's policy does not grant.
    pub(super) fn administrators_only(&self, action: &str) -> CloudResult<()> {
        if self.operator {
            return Err(super::refused(action, "AccessDenied", "not authorized"));
        }
        Ok(())
    }

    /// A stack that somebody else made.
    pub(crate) fn add_foreign_stack(&mut self, name: &str, tags: Tags) {
        self.generation += 1;
        let view = StackView {
            id: format!("arn:{name}/{}", self.generation),
            status: StackStatus::CreateComplete,
            tags,
            outputs: BTreeMap::from([("VpcId".to_owned(), "vpc-theirs".to_owned())]),
            ..StackView::default()
        };
        let stack = FakeStack {
            view,
            ..FakeStack::default()
        };
        self.stacks.insert(name.to_owned(), stack);
    }

    /// Whether a stack has made a thing of this name; `property` has it in templates.
    pub(super) fn has_made(&self, property: &str, name: &str) -> bool {
        let mut stacks = self.stacks.values();
        stacks.any(|stack| stack.has_named(property, name))
    }

    /// A thing of this name, of `others` or of a stack, whose tags it has then.
    pub(super) fn named_thing(
        &self,
        others: &BTreeMap<String, Tags>,
        name: &str,
        property: &str,
    ) -> Option<Thing> {
        let mut stacks = self.stacks.values();
        let made = stacks.find(|stack| stack.has_named(property, name));
        let tags = others.get(name).or(made.map(|stack| &stack.view.tags))?;
        Some(Thing {
            id: name.to_owned(),
            tags: tags.clone(),
        })
    }

    /// Stacks that are being changed.
    pub(crate) fn stacks_with_work(&self) -> Vec<String> {
        let busy = self
            .stacks
            .iter()
            .filter(|(_, stack)| stack.view.status.is_busy());
        busy.map(|(name, _)| name.clone()).collect()
    }

    /// Another machine plans a change of the stack: its change set takes the place of the one that is there.
    pub(crate) fn plan_of_another_machine(&mut self, stack: &str) {
        let (arn, _) = self.change_sets.get_mut(stack).unwrap();
        arn.push_str("-of-another-machine");
    }

    /// The change set of a stack, asked for by its name or its ARN.
    pub(super) fn found_change_set(
        &self,
        stack: &str,
        name: &str,
        action: &str,
    ) -> CloudResult<ChangeSetRequest> {
        match self.change_sets.get(stack) {
            Some((arn, request)) if name == arn || name == request.name => Ok(request.clone()),
            _ => Err(super::refused(action, "ChangeSetNotFound", "")),
        }
    }

    /// Another state, as after work that somebody else began; `looks` until `work` (such as `UPDATE`) is done.
    pub(crate) fn set_state(
        &mut self,
        stack: &str,
        status: &str,
        pending: Option<(u32, &'static str)>,
    ) {
        let found = self.stacks.get_mut(stack).unwrap();
        found.view.status = status.into();
        found.pending = pending;
        found.wanted = found.template.clone();
    }

    /// Tags of a VPC that a stack made; those of others have none.
    pub(super) fn vpc_tags(&self, id: &str) -> Option<Tags> {
        let made = |stack: &&FakeStack| {
            let output = stack.view.outputs.get("VpcId");
            output.is_some_and(|vpc| vpc == id) && !stack.template["Resources"]["Vpc"].is_null()
        };
        let found = self.stacks.values().find(made);
        let tags = found.map(|s| &s.template["Resources"]["Vpc"]["Properties"]["Tags"]);
        Some(tags.map(template_tags).unwrap_or_default())
    }

    pub(crate) fn is_protected(&self, stack: &str) -> bool {
        self.stacks[stack].view.protected
    }

    /// Refuses like a host that does not exist.
    pub(super) fn answers(&self, service: &'static str) -> CloudResult<()> {
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
                status: status.into(),
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
            self.stacks.get_mut(name).unwrap().view.status = status.into();
            return;
        }
        let stack = self.stacks.get_mut(name).unwrap();
        stack.template = stack.wanted.clone();
        stack.view.status = format!("{work}_COMPLETE").into();
        let outputs = stack.template["Outputs"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        stack.view.outputs = outputs
            .iter()
            .map(|(key, output)| {
                let made = || match output["Value"] == json!({"Fn::GetAtt": ["Key", "Arn"]}) {
                    true => key_arn(name),
                    false => format!("{name}.{key}"),
                };
                let literal = output["Value"].as_str().map(str::to_owned);
                (key.clone(), literal.unwrap_or_else(made))
            })
            .collect();
        if name.ends_with("-storage") {
            let given = self.stacks[name].template["Resources"]["MountTarget1"]["Properties"]
                ["FileSystemId"]
                .as_str()
                .map(str::to_owned);
            let made = &self.stacks[name].template["Resources"]["FileSystem"]["Properties"];
            let tags = template_tags(&made["FileSystemTags"]);
            let id = given.unwrap_or(format!("{name}.FileSystemId"));
            self.file_systems.entry(id).or_insert((tags, 0)).1 = 2;
            let interface = |id: &str| Interface {
                id: id.to_owned(),
                status: InterfaceStatus::InUse,
                description: "EFS mount target".to_owned(),
                groups: Vec::new(),
                tags: Tags::new(),
            };
            self.interfaces.retain(|old| !old.id.starts_with("eni-efs"));
            self.interfaces
                .extend([interface("eni-efs-1"), interface("eni-efs-2")]);
        }
        let etcd = &self.stacks[name].template["Resources"]["EtcdVolume"]["Properties"];
        if !etcd.is_null() {
            let tags = template_tags(&etcd["Tags"]);
            self.volumes.insert(format!("{name}.EtcdVolumeId"), tags);
        }
        let logs = &self.stacks[name].template["Resources"]["ControlPlaneLogs"]["Properties"];
        if let Some(group) = logs["LogGroupName"].as_str() {
            let tags = template_tags(&logs["Tags"]);
            self.log_groups.insert(group.to_owned(), tags);
        }
        let key = &self.stacks[name].template["Resources"]["Key"];
        if !key.is_null() {
            let tags = template_tags(&key["Properties"]["Tags"]);
            self.keys.entry(key_arn(name)).or_insert((tags, false));
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
            let own_vpc = !self.stacks[name].template["Resources"]["Vpc"].is_null();
            if let Some((group, _)) = self.groups.first_key_value().filter(|_| own_vpc) {
                return Some((
                    "Vpc",
                    format!("The vpc has dependencies and cannot be deleted: {group}"),
                ));
            }
            let ours = |group: &String| group.starts_with(&format!("{name}."));
            let holding = |i: &&Interface| own_vpc || i.groups.iter().any(ours);
            if let Some(interface) = self.interfaces.iter().find(holding) {
                return Some((
                    "StorageSecurityGroup",
                    format!("resource has a dependent object {}", interface.id),
                ));
            }
        }
        let base = &self.stacks.get(&format!("{cluster}-base"));
        let own_vpc = base.is_some_and(|base| !base.template["Resources"]["Vpc"].is_null());
        let subnets = own_vpc && (name.ends_with("-base") || name.ends_with("-cluster"));
        if subnets && !self.load_balancers.is_empty() {
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
            self.stacks.get_mut(name).unwrap().view.status = StackStatus::DeleteFailed;
            return;
        }
        let stack = self.stacks.remove(name).unwrap();
        let key = &stack.template["Resources"]["Key"];
        if !key.is_null() && !stays(key) {
            self.keys.remove(&key_arn(name));
        }
        if name.ends_with("-storage") {
            let resource = &stack.template["Resources"]["FileSystem"];
            if !resource.is_null() && !stays(resource) {
                self.file_systems.remove(&format!("{name}.FileSystemId"));
            }
            self.file_systems.values_mut().for_each(|files| files.1 = 0);
            self.interfaces
                .retain(|interface| !interface.id.starts_with("eni-efs"));
        }
        if name.ends_with("-cluster") && stack.template["Resources"].get("Cluster").is_some() {
            let cluster = name.rsplit_once('-').unwrap().0;
            let mark = |key: String, value: &str| Tags::from([(key, value.to_owned())]);
            self.interfaces.push(Interface {
                id: "eni-k8s".to_owned(),
                status: InterfaceStatus::Available,
                description: "aws-K8S-i-1".to_owned(),
                groups: vec![format!("{cluster}-base.WorkerSecurityGroup")],
                tags: mark("cluster.k8s.amazonaws.com/name".to_owned(), cluster),
            });
            let owned = mark(format!("kubernetes.io/cluster/{cluster}"), "owned");
            self.groups.insert("sg-k8s-elb".to_owned(), owned);
            // EKS writes its last lines: to the group that is there, or to a new one without tags.
            if !stays(&stack.template["Resources"]["ControlPlaneLogs"]) {
                let group = format!("/aws/eks/{cluster}/cluster");
                self.log_groups.insert(group, Tags::new());
            }
        }
    }
}

/// Properties whose change makes CloudFormation replace the resource, for the types where it matters here; from
/// `createOnlyProperties` in the registry (`e2e/aws/lint_templates.py` compares them).
const CREATE_ONLY: [(&str, &[&str]); 6] = [
    (
        "AWS::EC2::Instance",
        &[
            "ImageId",
            "KeyName",
            "LaunchTemplate",
            "PrivateIpAddress",
            "SubnetId",
        ],
    ),
    (
        "AWS::EFS::FileSystem",
        &["Encrypted", "KmsKeyId", "PerformanceMode"],
    ),
    (
        "AWS::EFS::AccessPoint",
        &["FileSystemId", "PosixUser", "RootDirectory"],
    ),
    ("AWS::EC2::VPC", &["CidrBlock"]),
    (
        "AWS::EC2::Subnet",
        &["AvailabilityZone", "CidrBlock", "VpcId"],
    ),
    (
        "AWS::EKS::Cluster",
        &["EncryptionConfig", "KubernetesNetworkConfig", "RoleArn"],
    ),
];

/// CloudFormation compares values, not their notation: the id of what a resource refers to is the same in place of the reference.
fn same(old: &Value, new: &Value) -> bool {
    let named = |reference: &Value, id: &Value| match (reference["Ref"].as_str(), id.as_str()) {
        (Some(resource), Some(id)) => id.ends_with(&format!(".{resource}Id")),
        _ => false,
    };
    old == new || named(old, new) || named(new, old)
}

fn replacement(old: &Value, new: &Value) -> Replacement {
    let known = CREATE_ONLY.iter().find(|(kind, _)| new["Type"] == *kind);
    let replaced = known.is_some_and(|(_, names)| {
        let differs = |name: &&str| !same(&old["Properties"][*name], &new["Properties"][*name]);
        names.iter().any(differs)
    });
    if replaced {
        Replacement::Yes
    } else {
        Replacement::No
    }
}

/// Logical ids whose resource differs between two templates.
pub(super) fn changes(old: &Value, new: &Value) -> Vec<Change> {
    let empty = serde_json::Map::new();
    let before = old["Resources"].as_object().unwrap_or(&empty);
    let after = new["Resources"].as_object().unwrap_or(&empty);
    let ids: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let change = |id: &String, action: &str, resource: &Value| Change {
        action: action.into(),
        resource: id.clone(),
        kind: resource["Type"].as_str().unwrap_or_default().to_owned(),
        replacement: match before.get(id) {
            Some(old) if action == "Modify" => replacement(old, resource),
            _ => Replacement::default(),
        },
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
