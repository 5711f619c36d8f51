//! What `down` does next, given what is still there.
//!
//! The order is AWS's: whatever Kubernetes made outside the stacks goes first (load balancers hold
//! subnets and groups), then the cluster, then the interfaces, disks and groups that it leaves behind,
//! then storage, then the network, then the bucket and the logs. The stacks leave file system, key and
//! disks of claims behind: these are the data, and they go only when the user says so, the file system
//! when its mount targets have gone and the key last of all. Each step is decided from what is seen, so
//! an interrupted run continues where it was. Everything in an [`Inventory`] has been found to be the
//! cluster's own.

use serde::Serialize;

use super::next::StackState;
use crate::ownership::Tags;
use crate::statuses::InterfaceStatus;
use crate::template::StackLayer;

/// A network interface in the cluster's VPC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Such as `eni-1`.
    pub id: String,
    /// Whether something uses it.
    pub status: InterfaceStatus,
    /// What made it, in AWS's words.
    pub description: String,
    /// Its security groups.
    pub groups: Vec<String>,
    /// Its tags.
    pub tags: Tags,
}

/// What is still there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inventory {
    /// The stacks.
    pub stacks: Vec<(StackLayer, StackState)>,
    /// Load balancers in the VPC that Kubernetes made.
    pub load_balancers: Vec<String>,
    /// Disks that Kubernetes made for claims: data, too.
    pub volumes: Vec<String>,
    /// Disk with the etcd of a self-managed cluster: data, too.
    pub etcd_volume: Option<String>,
    /// Interfaces that Kubernetes made, in use or not.
    pub interfaces: Vec<Interface>,
    /// Security groups that Kubernetes made.
    pub groups: Vec<String>,
    /// File systems that carry the cluster's id, the storage stack's own included.
    pub file_systems: Vec<String>,
    /// The one that the cluster file names.
    pub given_file_system: Option<String>,
    /// File system, key and disk that the stacks which are there name.
    pub of_stacks: Vec<String>,
    /// Keys that carry the cluster's id and stay usable.
    pub keys: Vec<String>,
    /// The cluster's bucket, if it exists.
    pub bucket: Option<String>,
    /// The bucket holds copies of etcd, not only templates.
    pub bucket_has_data: bool,
    /// The cluster's bucket, if it holds what we did not write: then it stays.
    pub shared_bucket: Option<String>,
    /// The image repository of the base stack.
    pub images: Option<String>,
    /// Log groups of the control plane.
    pub log_groups: Vec<String>,
    /// What looks like the cluster's and does not carry its id: it stays, and is named.
    pub strangers: Vec<String>,
}

/// What becomes of the file system, its key, and the disks of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataFate {
    /// They stay.
    Keep,
    /// They go with the cluster.
    Delete,
}

/// One step of `down`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DownStep {
    /// AWS is working on this stack.
    Wait(StackLayer),
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
    /// CloudFormation deletes what this stack made.
    DeleteStack(StackLayer),
    /// Empty and delete the bucket.
    RemoveBucket(String),
    /// Delete these log groups.
    RemoveLogGroups(Vec<String>),
    /// Only the final check is left.
    Done,
}

impl Inventory {
    /// State of a stack.
    pub fn state(&self, layer: StackLayer) -> &StackState {
        let found = self.stacks.iter().find(|(other, _)| *other == layer);
        found.map_or(&StackState::Absent, |(_, state)| state)
    }
}

/// The next step.
pub fn next(inventory: &Inventory, data: DataFate) -> DownStep {
    let delete = data == DataFate::Delete;
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
    if *inventory.state(StackLayer::Cluster) != StackState::Absent {
        return DownStep::DeleteStack(StackLayer::Cluster);
    }
    if delete && !all_volumes(inventory).is_empty() {
        return DownStep::RemoveVolumes(all_volumes(inventory));
    }
    let idle = idle_interfaces(inventory);
    if !idle.is_empty() {
        return DownStep::RemoveInterfaces(idle);
    }
    if !inventory.groups.is_empty() {
        return DownStep::RemoveGroups(inventory.groups.clone());
    }
    if *inventory.state(StackLayer::Storage) != StackState::Absent {
        return DownStep::DeleteStack(StackLayer::Storage);
    }
    if delete && !inventory.file_systems.is_empty() {
        return DownStep::RemoveFileSystems(inventory.file_systems.clone());
    }
    if *inventory.state(StackLayer::Base) != StackState::Absent {
        return DownStep::DeleteStack(StackLayer::Base);
    }
    if let Some(bucket) = &inventory.bucket
        && (delete || !inventory.bucket_has_data)
    {
        return DownStep::RemoveBucket(bucket.clone());
    }
    if !inventory.log_groups.is_empty() {
        return DownStep::RemoveLogGroups(inventory.log_groups.clone());
    }
    if delete && !inventory.keys.is_empty() {
        return DownStep::RemoveKeys(inventory.keys.clone());
    }
    DownStep::Done
}

/// Interfaces that nothing uses.
fn idle_interfaces(inventory: &Inventory) -> Vec<String> {
    let all = inventory.interfaces.iter();
    let idle = all.filter(|interface| interface.status == InterfaceStatus::Available);
    idle.map(|interface| interface.id.clone()).collect()
}

fn all_volumes(inventory: &Inventory) -> Vec<String> {
    let all = inventory.volumes.iter().chain(&inventory.etcd_volume);
    all.cloned().collect()
}

/// Ids of everything that stays when the data stay.
pub(crate) fn data_ids(inventory: &Inventory) -> Vec<String> {
    let mut ids = [
        &inventory.file_systems[..],
        &inventory.keys,
        &all_volumes(inventory),
    ]
    .concat();
    ids.extend(
        inventory
            .bucket
            .clone()
            .filter(|_| inventory.bucket_has_data),
    );
    ids
}

/// Whether there are data about which a word is needed.
pub(crate) fn has_data(inventory: &Inventory) -> bool {
    !data_ids(inventory).is_empty()
}

/// Whether a step takes something away that a new cluster would miss: from then on the cluster file must name what stays.
pub(crate) fn touches_storage(step: &DownStep) -> bool {
    !matches!(
        step,
        DownStep::Wait(_)
            | DownStep::RemoveLoadBalancers(_)
            | DownStep::RemoveInterfaces(_)
            | DownStep::RemoveGroups(_)
            | DownStep::DeleteStack(StackLayer::Cluster)
    )
}

/// What `down` will take away, one line for each thing, for the question before it begins.
pub fn plan(inventory: &Inventory, data: DataFate, name: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for balancer in &inventory.load_balancers {
        lines.push(format!("load balancer {balancer}, made by Kubernetes"));
    }
    for layer in StackLayer::ALL.into_iter().rev() {
        if *inventory.state(layer) == StackState::Absent {
            continue;
        }
        let stack = layer.stack_name(name);
        lines.push(match layer {
            StackLayer::Cluster => {
                format!("stack {stack}: control plane, workers and their disks, roles")
            }
            StackLayer::Storage => format!("stack {stack}: mount targets and access point"),
            StackLayer::Base => match &inventory.images {
                Some(images) => {
                    format!("stack {stack}: network, image repository {images} WITH ITS IMAGES")
                }
                None => format!("stack {stack}: network"),
            },
        });
    }
    if data == DataFate::Delete {
        lines.extend(data_lines(inventory));
    }
    if let Some(bucket) = &inventory.bucket
        && !inventory.bucket_has_data
    {
        lines.push(format!("bucket {bucket} with its templates"));
    }
    for group in &inventory.log_groups {
        lines.push(format!("log group {group}"));
    }
    for group in &inventory.groups {
        lines.push(format!("security group {group}, made by Kubernetes"));
    }
    for interface in &inventory.interfaces {
        let id = &interface.id;
        lines.push(format!("network interface {id}, made by Kubernetes"));
    }
    lines
}

fn data_lines(inventory: &Inventory) -> Vec<String> {
    let mut lines = Vec::new();
    for id in &inventory.file_systems {
        lines.push(format!("file system {id} WITH ALL ITS DATA"));
    }
    for key in &inventory.keys {
        lines.push(format!("key {key}, scheduled for deletion in 7 days"));
    }
    for volume in &inventory.volumes {
        lines.push(format!("disk {volume}, made by Kubernetes, WITH ITS DATA"));
    }
    if let Some(volume) = &inventory.etcd_volume {
        lines.push(format!("disk {volume} WITH THE CLUSTER'S ETCD"));
    }
    if let Some(bucket) = &inventory.bucket
        && inventory.bucket_has_data
    {
        lines.push(format!("bucket {bucket} WITH THE COPIES OF ETCD"));
    }
    lines
}

/// What stays, why, and how it can be deleted later.
pub fn kept(inventory: &Inventory, data: DataFate) -> Vec<String> {
    let mut lines = Vec::new();
    if data == DataFate::Keep {
        let later = "deleted by `canoe cluster down --delete-data`";
        for id in &inventory.file_systems {
            lines.push(format!(
                "file system {id} with its data, which costs; {later}"
            ));
        }
        for key in &inventory.keys {
            lines.push(format!("key {key}, which the data need; {later}"));
        }
        for volume in &inventory.volumes {
            lines.push(format!(
                "disk {volume}, made by Kubernetes, which costs; {later}"
            ));
        }
        if let Some(volume) = &inventory.etcd_volume {
            lines.push(format!(
                "disk {volume} with the cluster's etcd, which costs; {later}"
            ));
        }
        if let Some(bucket) = &inventory.bucket
            && inventory.bucket_has_data
        {
            lines.push(format!(
                "bucket {bucket} with copies of etcd, which costs; {later}"
            ));
        }
    }
    if let Some(id) = &inventory.given_file_system
        && !inventory.file_systems.contains(id)
    {
        lines.push(format!("file system {id}, which is yours"));
    }
    lines.extend(inventory.strangers.iter().cloned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(id: &str, status: &str) -> Interface {
        Interface {
            id: id.to_owned(),
            status: status.into(),
            description: String::new(),
            groups: Vec::new(),
            tags: Tags::new(),
        }
    }

    fn full() -> Inventory {
        let ready = || StackState::from_status("CREATE_COMPLETE");
        Inventory {
            stacks: StackLayer::ALL.map(|layer| (layer, ready())).to_vec(),
            load_balancers: vec!["lb".to_owned()],
            volumes: vec!["vol-1".to_owned()],
            etcd_volume: None,
            bucket_has_data: false,
            interfaces: vec![
                interface("eni-1", "available"),
                interface("eni-2", "in-use"),
            ],
            groups: Vec::new(),
            file_systems: vec!["fs-1".to_owned()],
            given_file_system: None,
            of_stacks: Vec::new(),
            keys: vec!["key-1".to_owned()],
            bucket: Some("canoe-1".to_owned()),
            shared_bucket: None,
            images: None,
            log_groups: vec!["/aws/eks/demo/cluster".to_owned()],
            strangers: Vec::new(),
        }
    }

    /// Does what the step says, as AWS would.
    fn apply(inventory: &mut Inventory, step: &DownStep) {
        match step {
            DownStep::RemoveLoadBalancers(_) => inventory.load_balancers.clear(),
            DownStep::RemoveVolumes(_) => {
                inventory.volumes.clear();
                inventory.etcd_volume = None;
            }
            DownStep::RemoveInterfaces(ids) => {
                inventory.interfaces.retain(|i| !ids.contains(&i.id))
            }
            DownStep::DeleteStack(layer) => {
                inventory.stacks.retain(|(other, _)| other != layer);
                if *layer == StackLayer::Cluster {
                    inventory.groups.push("sg-k8s".to_owned());
                }
            }
            DownStep::RemoveGroups(_) => inventory.groups.clear(),
            DownStep::RemoveFileSystems(_) => inventory.file_systems.clear(),
            DownStep::RemoveKeys(_) => inventory.keys.clear(),
            DownStep::RemoveBucket(_) => inventory.bucket = None,
            DownStep::RemoveLogGroups(_) => inventory.log_groups.clear(),
            DownStep::Wait(_) | DownStep::Done => {}
        }
    }

    fn steps(data: DataFate) -> (Vec<DownStep>, Inventory) {
        let mut inventory = full();
        let mut steps = Vec::new();
        loop {
            let step = next(&inventory, data);
            apply(&mut inventory, &step);
            if step == DownStep::Done {
                return (steps, inventory);
            }
            steps.push(step);
        }
    }

    #[test]
    fn takes_everything_in_the_order_that_aws_wants() {
        let one = |id: &str| vec![id.to_owned()];
        let (steps, _) = steps(DataFate::Delete);
        assert_eq!(
            steps,
            [
                DownStep::RemoveLoadBalancers(one("lb")),
                DownStep::DeleteStack(StackLayer::Cluster),
                DownStep::RemoveVolumes(one("vol-1")),
                DownStep::RemoveInterfaces(one("eni-1")),
                DownStep::RemoveGroups(one("sg-k8s")),
                DownStep::DeleteStack(StackLayer::Storage),
                DownStep::RemoveFileSystems(one("fs-1")),
                DownStep::DeleteStack(StackLayer::Base),
                DownStep::RemoveBucket("canoe-1".to_owned()),
                DownStep::RemoveLogGroups(one("/aws/eks/demo/cluster")),
                DownStep::RemoveKeys(one("key-1")),
            ]
        );
    }

    /// Groups and interfaces were deleted without having been shown.
    #[test]
    fn everything_that_goes_is_in_the_plan() {
        let mut inventory = full();
        inventory.groups.push("sg-k8s".to_owned());
        let shown = plan(&inventory, DataFate::Delete, "demo").join("\n");
        loop {
            let step = next(&inventory, DataFate::Delete);
            let things = match &step {
                DownStep::Done => break,
                DownStep::RemoveLoadBalancers(ids)
                | DownStep::RemoveVolumes(ids)
                | DownStep::RemoveInterfaces(ids)
                | DownStep::RemoveGroups(ids)
                | DownStep::RemoveFileSystems(ids)
                | DownStep::RemoveKeys(ids)
                | DownStep::RemoveLogGroups(ids) => ids.clone(),
                DownStep::RemoveBucket(bucket) => vec![bucket.clone()],
                DownStep::DeleteStack(layer) => vec![layer.stack_name("demo")],
                DownStep::Wait(_) => Vec::new(),
            };
            for thing in things {
                assert!(shown.contains(&thing), "{thing} is not in\n{shown}");
            }
            apply(&mut inventory, &step);
            inventory.groups.clear();
        }
    }

    #[test]
    fn data_are_left_unless_the_word_is_given() {
        let (_, left) = steps(DataFate::Keep);
        assert_eq!(left.file_systems, ["fs-1"]);
        assert_eq!(
            (left.keys, left.volumes),
            (vec!["key-1".to_owned()], vec!["vol-1".to_owned()])
        );
        let goes = plan(&full(), DataFate::Keep, "demo").join("\n");
        assert!(!goes.contains("DATA") && !goes.contains("fs-1"), "{goes}");
        let stays = kept(&full(), DataFate::Keep).join("\n");
        for words in ["fs-1 with its data", "key-1", "vol-1", "down --delete-data"] {
            assert!(stays.contains(words), "{words} is not in\n{stays}");
        }
        let goes = plan(&full(), DataFate::Delete, "demo").join("\n");
        assert!(
            goes.contains("fs-1 WITH ALL ITS DATA") && goes.contains("vol-1"),
            "{goes}"
        );
        assert!(kept(&full(), DataFate::Delete).is_empty());
    }

    #[test]
    fn etcd_and_its_copies_are_data() {
        let mut inventory = full();
        inventory.etcd_volume = Some("vol-etcd".to_owned());
        inventory.bucket_has_data = true;
        let stays = kept(&inventory, DataFate::Keep).join("\n");
        assert!(
            stays.contains("vol-etcd") && stays.contains("canoe-1"),
            "{stays}"
        );
        let goes = plan(&inventory, DataFate::Delete, "demo").join("\n");
        assert!(goes.contains("ETCD") && goes.contains("COPIES"), "{goes}");
        assert!(
            !plan(&inventory, DataFate::Keep, "demo")
                .join("\n")
                .contains("canoe-1")
        );
        inventory.stacks.clear();
        inventory.load_balancers.clear();
        inventory.interfaces.clear();
        inventory.log_groups.clear();
        assert_eq!(next(&inventory, DataFate::Keep), DownStep::Done);
        let both = vec!["vol-1".to_owned(), "vol-etcd".to_owned()];
        assert_eq!(
            next(&inventory, DataFate::Delete),
            DownStep::RemoveVolumes(both)
        );
    }

    #[test]
    fn waits_for_a_stack_that_is_already_going_and_retries_one_that_failed() {
        let mut inventory = full();
        inventory.load_balancers.clear();
        let next = |inventory: &Inventory| next(inventory, DataFate::Keep);
        inventory.stacks[2].1 = StackState::from_status("DELETE_IN_PROGRESS");
        assert_eq!(next(&inventory), DownStep::Wait(StackLayer::Cluster));
        for status in ["DELETE_FAILED", "UPDATE_ROLLBACK_FAILED"] {
            inventory.stacks[2].1 = StackState::from_status(status);
            assert_eq!(next(&inventory), DownStep::DeleteStack(StackLayer::Cluster));
        }
    }

    #[test]
    fn what_is_the_users_or_a_strangers_stays_and_is_named() {
        let inventory = Inventory {
            given_file_system: Some("fs-9".to_owned()),
            strangers: vec!["disk vol-9 carries no tag canoe:cluster-id".to_owned()],
            ..Inventory::default()
        };
        for data in [DataFate::Keep, DataFate::Delete] {
            assert_eq!(next(&inventory, data), DownStep::Done);
            let text = kept(&inventory, data).join("\n");
            assert!(
                text.contains("fs-9, which is yours") && text.contains("vol-9"),
                "{text}"
            );
        }
        assert!(!has_data(&inventory));
    }

    #[test]
    fn an_account_without_the_cluster_is_done() {
        let nothing = Inventory::default();
        assert_eq!(next(&nothing, DataFate::Delete), DownStep::Done);
        assert!(plan(&nothing, DataFate::Delete, "demo").is_empty());
        assert!(kept(&nothing, DataFate::Keep).is_empty());
    }
}
