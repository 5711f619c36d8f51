//! Groups of machines: the one that `workers` describes, and those of `workers.groups`.
//!
//! A managed node group of EKS is either on demand or spot, so spot capacity with machines on demand in its place
//! is two groups; the second one is always there and usually empty, so that `scale` only changes numbers.

use crate::spec::{Capacity, ClusterSpec};

/// Machines of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MachineGroup {
    /// Name in `workers.groups`; none for the group that `workers` itself describes.
    pub name: Option<String>,
    /// End of the logical ids of its resources.
    pub suffix: String,
    /// Number of machines.
    pub count: u32,
    /// Of these, on demand although the rest is spot. Only before [`all`] has split the group.
    pub on_demand: u32,
    /// Most that it can have.
    pub max: u32,
    /// Types, in order of preference.
    pub instance_types: Vec<String>,
    /// On demand or spot.
    pub capacity: Capacity,
    /// Root disk.
    pub disk_gib: u32,
}

impl MachineGroup {
    /// Whether its machines have ARM processors.
    pub(crate) fn is_arm(&self) -> bool {
        let first = self.instance_types.first();
        first.is_some_and(|name| crate::catalog::is_arm(name))
    }

    /// Last part of the names of its launch template and scaling group.
    pub(crate) fn resource_name(&self) -> String {
        match &self.name {
            Some(name) => format!("workers-{name}"),
            None => "workers".to_owned(),
        }
    }
}

/// The groups as the cluster file describes them.
pub(crate) fn declared(spec: &ClusterSpec) -> Vec<MachineGroup> {
    let workers = &spec.workers;
    let mut groups = vec![MachineGroup {
        name: None,
        suffix: String::new(),
        count: workers.count,
        on_demand: if workers.capacity == Capacity::Spot {
            workers.on_demand
        } else {
            0
        },
        max: workers.max,
        instance_types: workers.instance_types.clone(),
        capacity: workers.capacity,
        disk_gib: workers.disk_gib,
    }];
    groups.extend(workers.groups.iter().map(|group| MachineGroup {
        name: Some(group.name.clone()),
        suffix: pascal(&group.name),
        count: group.count,
        on_demand: 0,
        max: group.max.unwrap_or(group.count.max(1)),
        instance_types: group.instance_types.clone(),
        capacity: group.capacity,
        disk_gib: group.disk_gib,
    }));
    groups
}

/// The groups, each either on demand or spot.
pub(crate) fn all(spec: &ClusterSpec) -> Vec<MachineGroup> {
    let mut groups = Vec::new();
    for group in declared(spec) {
        if group.name.is_some() || group.capacity == Capacity::OnDemand {
            groups.push(group);
            continue;
        }
        let fallback = MachineGroup {
            suffix: "OnDemand".to_owned(),
            count: group.on_demand,
            on_demand: 0,
            capacity: Capacity::OnDemand,
            ..group.clone()
        };
        groups.push(MachineGroup {
            count: group.count.saturating_sub(group.on_demand),
            on_demand: 0,
            ..group
        });
        groups.push(fallback);
    }
    groups
}

/// `gpu-large` becomes `GpuLarge`.
pub(super) fn pascal(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let mut letters = word.chars();
        letters
            .next()
            .map(|first| first.to_ascii_uppercase())
            .into_iter()
            .chain(letters)
            .collect::<String>()
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::WorkerGroup;

    #[test]
    fn spot_has_a_second_group_on_demand_and_the_numbers_add_up() {
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        assert_eq!(all(&spec).len(), 1);
        spec.workers.capacity = Capacity::Spot;
        spec.workers.on_demand = 1;
        spec.workers.groups = vec![WorkerGroup {
            name: "very-large".to_owned(),
            count: 2,
            max: None,
            instance_types: vec!["m5.4xlarge".to_owned()],
            capacity: Capacity::Spot,
            disk_gib: 100,
        }];
        let counted: Vec<(String, Capacity, u32)> = all(&spec)
            .into_iter()
            .map(|group| (group.suffix, group.capacity, group.count))
            .collect();
        assert_eq!(
            counted,
            [
                (String::new(), Capacity::Spot, 2),
                ("OnDemand".to_owned(), Capacity::OnDemand, 1),
                ("VeryLarge".to_owned(), Capacity::Spot, 2),
            ]
        );
        assert_eq!(spec.all_workers(), 5);
    }
}
