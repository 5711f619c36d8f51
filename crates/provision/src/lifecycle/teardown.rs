//! What `down` does next, given what is still there.
//!
//! The order is AWS's: whatever Kubernetes made outside the stacks goes first (load balancers hold
//! subnets and groups), then the cluster, then the interfaces, disks and groups that it leaves behind,
//! then storage, then the network, then the bucket and the logs. A file system that an earlier
//! `down --keep-data` left goes when its mount targets have gone. The key goes last of all, and never
//! when the data stay. Each step is decided from what is seen, so an interrupted run goes on where it
//! was.

use serde::Serialize;

use super::next::StackState;
use crate::template::Layer;

/// A network interface in the cluster's VPC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Such as `eni-1`.
    pub id: String,
    /// `available` when nothing uses it.
    pub status: String,
    /// What made it, in AWS's words.
    pub description: String,
}

/// What is still there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inventory {
    /// The stacks.
    pub stacks: Vec<(Layer, StackState)>,
    /// Load balancers in the VPC that no stack made.
    pub load_balancers: Vec<String>,
    /// Disks that Kubernetes made for claims.
    pub volumes: Vec<String>,
    /// Interfaces in the VPC.
    pub interfaces: Vec<Interface>,
    /// Security groups that Kubernetes made; looked for when the cluster has gone.
    pub groups: Vec<String>,
    /// File systems that carry the cluster's tag, the storage stack's own included.
    pub file_systems: Vec<String>,
    /// The one that the storage stack owns.
    pub stack_file_system: Option<String>,
    /// The one that the cluster file names.
    pub given_file_system: Option<String>,
    /// Keys that carry the cluster's tag; looked for when every stack has gone.
    pub keys: Vec<String>,
    /// The bucket for large templates, if it exists.
    pub bucket: Option<String>,
    /// Log groups that came back after the stack had gone.
    pub log_groups: Vec<String>,
}

/// What the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wishes {
    /// The file system and its key stay.
    pub keep_data: bool,
    /// The stacks have been told so.
    pub data_kept: bool,
}

/// One step of `down`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DownStep {
    /// AWS is working on this stack.
    Wait(Layer),
    /// Remove these load balancers.
    RemoveLoadBalancers(Vec<String>),
    /// Remove these disks.
    RemoveVolumes(Vec<String>),
    /// Remove these unused interfaces.
    RemoveInterfaces(Vec<String>),
    /// Remove these security groups.
    RemoveGroups(Vec<String>),
    /// Remove these file systems, which no stack owns.
    RemoveFileSystems(Vec<String>),
    /// Schedule these keys for deletion, which no stack owns.
    RemoveKeys(Vec<String>),
    /// Tell storage and base to leave file system and key behind.
    KeepData,
    /// Delete a stack.
    DeleteStack(Layer),
    /// Empty and delete the bucket.
    RemoveBucket(String),
    /// Delete these log groups.
    RemoveLogGroups(Vec<String>),
    /// Only the final check is left.
    Done,
}

impl Inventory {
    /// State of a stack.
    pub fn state(&self, layer: Layer) -> &StackState {
        let found = self.stacks.iter().find(|(other, _)| *other == layer);
        found.map_or(&StackState::Absent, |(_, state)| state)
    }
}

/// The next step.
pub fn next(inventory: &Inventory, wishes: Wishes) -> DownStep {
    if let Some((layer, _)) = inventory
        .stacks
        .iter()
        .rev()
        .find(|(_, state)| !state.is_settled())
    {
        return DownStep::Wait(*layer);
    }
    if !inventory.load_balancers.is_empty() {
        return DownStep::RemoveLoadBalancers(inventory.load_balancers.clone());
    }
    if wishes.keep_data && !wishes.data_kept && can_keep(inventory) {
        return DownStep::KeepData;
    }
    if *inventory.state(Layer::Cluster) != StackState::Absent {
        return DownStep::DeleteStack(Layer::Cluster);
    }
    if !inventory.volumes.is_empty() {
        return DownStep::RemoveVolumes(inventory.volumes.clone());
    }
    let idle = idle_interfaces(inventory);
    if !idle.is_empty() {
        return DownStep::RemoveInterfaces(idle);
    }
    if !inventory.groups.is_empty() {
        return DownStep::RemoveGroups(inventory.groups.clone());
    }
    if *inventory.state(Layer::Storage) != StackState::Absent {
        return DownStep::DeleteStack(Layer::Storage);
    }
    if !wishes.keep_data && !inventory.file_systems.is_empty() {
        return DownStep::RemoveFileSystems(inventory.file_systems.clone());
    }
    if *inventory.state(Layer::Base) != StackState::Absent {
        return DownStep::DeleteStack(Layer::Base);
    }
    if let Some(bucket) = &inventory.bucket {
        return DownStep::RemoveBucket(bucket.clone());
    }
    if !inventory.log_groups.is_empty() {
        return DownStep::RemoveLogGroups(inventory.log_groups.clone());
    }
    if !wishes.keep_data && !inventory.keys.is_empty() {
        return DownStep::RemoveKeys(inventory.keys.clone());
    }
    DownStep::Done
}

/// Whether there is a file system to keep: only a stack that can be updated can be told.
fn can_keep(inventory: &Inventory) -> bool {
    matches!(inventory.state(Layer::Storage), StackState::Ready(_))
}

fn idle_interfaces(inventory: &Inventory) -> Vec<String> {
    let idle = inventory
        .interfaces
        .iter()
        .filter(|interface| interface.status == "available");
    idle.map(|interface| interface.id.clone()).collect()
}

/// What `down` will take away, for the question before it begins.
pub fn plan(inventory: &Inventory, keep_data: bool, name: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for balancer in &inventory.load_balancers {
        lines.push(format!("load balancer {balancer}, made by Kubernetes"));
    }
    for layer in Layer::ALL.into_iter().rev() {
        if *inventory.state(layer) == StackState::Absent {
            continue;
        }
        let stack = layer.stack_name(name);
        lines.push(match layer {
            Layer::Cluster => {
                format!("stack {stack}: control plane, workers and their disks, roles, logs")
            }
            Layer::Storage if inventory.given_file_system.is_some() => {
                format!("stack {stack}: mount targets and access point")
            }
            Layer::Storage if keep_data => {
                format!("stack {stack}: mount targets (the file system STAYS, and costs)")
            }
            Layer::Storage => format!("stack {stack}: the file system WITH ALL ITS DATA"),
            Layer::Base if keep_data => {
                format!("stack {stack}: network (the key STAYS, the data need it)")
            }
            Layer::Base => {
                format!("stack {stack}: network; the key is scheduled for deletion in 7 days")
            }
        });
    }
    lines.extend(file_system_lines(inventory, keep_data));
    for key in inventory.keys.iter().filter(|_| !keep_data) {
        lines.push(format!(
            "key {key}, kept earlier: scheduled for deletion in 7 days"
        ));
    }
    for volume in &inventory.volumes {
        lines.push(format!("disk {volume}, made by Kubernetes, with its data"));
    }
    if let Some(bucket) = &inventory.bucket {
        lines.push(format!("bucket {bucket} with its templates"));
    }
    lines.extend(
        inventory
            .log_groups
            .iter()
            .map(|group| format!("log group {group}")),
    );
    lines
}

/// What becomes of file systems that the storage stack does not own.
fn file_system_lines(inventory: &Inventory, keep_data: bool) -> Vec<String> {
    let own = inventory.stack_file_system.as_ref();
    let loose = inventory.file_systems.iter().filter(|id| own != Some(id));
    let mut lines: Vec<String> = loose
        .map(|id| {
            if keep_data {
                format!("file system {id} STAYS, and costs")
            } else {
                format!("file system {id}, kept earlier, WITH ALL ITS DATA")
            }
        })
        .collect();
    if let Some(id) = &inventory.given_file_system
        && !inventory.file_systems.contains(id)
    {
        lines.push(format!("file system {id} is yours and stays"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Inventory {
        let ready = || StackState::Ready("CREATE_COMPLETE".to_owned());
        Inventory {
            stacks: Layer::ALL.map(|layer| (layer, ready())).to_vec(),
            load_balancers: vec!["lb".to_owned()],
            volumes: vec!["vol-1".to_owned()],
            interfaces: vec![
                Interface {
                    id: "eni-1".to_owned(),
                    status: "available".to_owned(),
                    description: "aws-K8S-i".to_owned(),
                },
                Interface {
                    id: "eni-2".to_owned(),
                    status: "in-use".to_owned(),
                    description: "EFS mount".to_owned(),
                },
            ],
            groups: Vec::new(),
            file_systems: vec!["fs-1".to_owned()],
            stack_file_system: Some("fs-1".to_owned()),
            given_file_system: None,
            keys: Vec::new(),
            bucket: Some("canoe-demo".to_owned()),
            log_groups: vec!["/aws/eks/demo/cluster".to_owned()],
        }
    }

    /// Does what the step says, as AWS would.
    fn apply(inventory: &mut Inventory, step: &DownStep) {
        match step {
            DownStep::RemoveLoadBalancers(_) => inventory.load_balancers.clear(),
            DownStep::RemoveVolumes(_) => inventory.volumes.clear(),
            DownStep::RemoveInterfaces(ids) => {
                inventory.interfaces.retain(|i| !ids.contains(&i.id))
            }
            DownStep::DeleteStack(layer) => {
                inventory.stacks.retain(|(other, _)| other != layer);
                match layer {
                    Layer::Cluster => inventory.groups.push("sg-k8s".to_owned()),
                    Layer::Storage => {
                        let own = inventory.stack_file_system.take();
                        inventory.file_systems.retain(|id| Some(id) != own.as_ref());
                    }
                    Layer::Base => {}
                }
            }
            DownStep::RemoveGroups(_) => inventory.groups.clear(),
            DownStep::RemoveFileSystems(_) => inventory.file_systems.clear(),
            DownStep::RemoveKeys(_) => inventory.keys.clear(),
            DownStep::RemoveBucket(_) => inventory.bucket = None,
            DownStep::RemoveLogGroups(_) => inventory.log_groups.clear(),
            DownStep::KeepData | DownStep::Wait(_) | DownStep::Done => {}
        }
    }

    #[test]
    fn takes_everything_in_the_order_that_aws_wants() {
        let mut inventory = full();
        let mut steps = Vec::new();
        loop {
            let step = next(&inventory, Wishes::default());
            apply(&mut inventory, &step);
            if step == DownStep::Done {
                break;
            }
            steps.push(step);
        }
        assert_eq!(
            steps,
            [
                DownStep::RemoveLoadBalancers(vec!["lb".to_owned()]),
                DownStep::DeleteStack(Layer::Cluster),
                DownStep::RemoveVolumes(vec!["vol-1".to_owned()]),
                DownStep::RemoveInterfaces(vec!["eni-1".to_owned()]),
                DownStep::RemoveGroups(vec!["sg-k8s".to_owned()]),
                DownStep::DeleteStack(Layer::Storage),
                DownStep::DeleteStack(Layer::Base),
                DownStep::RemoveBucket("canoe-demo".to_owned()),
                DownStep::RemoveLogGroups(vec!["/aws/eks/demo/cluster".to_owned()]),
            ]
        );
    }

    #[test]
    fn waits_for_a_stack_that_is_already_going_and_retries_one_that_failed() {
        let mut inventory = full();
        inventory.load_balancers.clear();
        inventory.stacks[2].1 = StackState::from_status("DELETE_IN_PROGRESS");
        assert_eq!(
            next(&inventory, Wishes::default()),
            DownStep::Wait(Layer::Cluster)
        );
        inventory.stacks[2].1 = StackState::from_status("DELETE_FAILED");
        assert_eq!(
            next(&inventory, Wishes::default()),
            DownStep::DeleteStack(Layer::Cluster)
        );
        inventory.stacks[2].1 = StackState::from_status("UPDATE_ROLLBACK_FAILED");
        assert_eq!(
            next(&inventory, Wishes::default()),
            DownStep::DeleteStack(Layer::Cluster)
        );
    }

    #[test]
    fn the_data_are_kept_before_anything_is_deleted() {
        let mut inventory = full();
        inventory.load_balancers.clear();
        let wishes = Wishes {
            keep_data: true,
            data_kept: false,
        };
        assert_eq!(next(&inventory, wishes), DownStep::KeepData);
        let told = Wishes {
            data_kept: true,
            ..wishes
        };
        assert_eq!(
            next(&inventory, told),
            DownStep::DeleteStack(Layer::Cluster)
        );
        let text = plan(&inventory, true, "demo").join("\n");
        assert!(
            text.contains("STAYS") && !text.contains("ALL ITS DATA"),
            "{text}"
        );
    }

    #[test]
    fn a_file_system_that_was_kept_goes_after_its_mount_targets_and_before_its_key() {
        let mut inventory = full();
        inventory.load_balancers.clear();
        inventory.stack_file_system = None;
        inventory.given_file_system = Some("fs-1".to_owned());
        inventory
            .stacks
            .retain(|(layer, _)| *layer == Layer::Storage);
        inventory.volumes.clear();
        inventory.interfaces.clear();
        let text = plan(&inventory, false, "demo").join("\n");
        assert!(
            text.contains("mount targets and access point")
                && text.contains("fs-1, kept earlier, WITH ALL ITS DATA"),
            "{text}"
        );
        assert!(
            plan(&inventory, true, "demo")
                .join("\n")
                .contains("fs-1 STAYS")
        );
        let wishes = Wishes::default();
        assert_eq!(
            next(&inventory, wishes),
            DownStep::DeleteStack(Layer::Storage)
        );
        inventory.stacks.clear();
        let files = DownStep::RemoveFileSystems(vec!["fs-1".to_owned()]);
        assert_eq!(next(&inventory, wishes), files);
        inventory.file_systems.clear();
        inventory.bucket = None;
        inventory.log_groups.clear();
        inventory.keys = vec!["k".to_owned()];
        assert_eq!(
            next(&inventory, wishes),
            DownStep::RemoveKeys(vec!["k".to_owned()])
        );
        let keep = Wishes {
            keep_data: true,
            data_kept: true,
        };
        assert_eq!(next(&inventory, keep), DownStep::Done);
        let text = plan(&inventory, false, "demo").join("\n");
        assert!(text.contains("fs-1 is yours and stays"), "{text}");
    }

    #[test]
    fn an_account_without_the_cluster_is_done() {
        assert_eq!(
            next(&Inventory::default(), Wishes::default()),
            DownStep::Done
        );
        assert!(plan(&Inventory::default(), false, "demo").is_empty());
    }
}
