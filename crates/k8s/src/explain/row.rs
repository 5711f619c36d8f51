//! The table: a row for every node of the job, whether it has a pod or not.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;

use super::{Observed, job, pod};

/// The state of a pod in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShownPod {
    /// The node has no pod at the moment.
    NoPod,
    /// It has no machine yet.
    Pending,
    /// It has a machine; what its container waits for.
    Starting(String),
    /// Its container runs.
    Running,
    /// It was asked to end.
    Ending,
    /// Its machine does not respond.
    Lost,
    /// It has ended well.
    Finished,
    /// It has ended badly.
    Failed,
}

impl std::fmt::Display for ShownPod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::NoPod => "no pod yet",
            Self::Pending => "pending",
            Self::Starting(reason) => reason,
            Self::Running => "running",
            Self::Ending => "ending",
            Self::Lost => "lost",
            Self::Finished => "finished",
            Self::Failed => "failed",
        })
    }
}

/// A node of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// Its id, if its pod shows one.
    pub node: Option<u32>,
    /// Name of its newest pod.
    pub pod: Option<String>,
    /// The state of that pod.
    pub shown: ShownPod,
}

impl NodeRow {
    /// Whether the node can be asked for its status.
    pub fn can_tell(&self) -> bool {
        self.shown == ShownPod::Running
    }

    /// Whether it has a pod that runs or starts.
    pub(super) fn is_living(&self) -> bool {
        matches!(
            self.shown,
            ShownPod::Pending | ShownPod::Starting(_) | ShownPod::Running
        )
    }
}

/// The newest pod of every node; all pods if they have no ids.
pub(super) fn current(pods: &[Pod]) -> Vec<&Pod> {
    let mut newest: BTreeMap<u32, &Pod> = BTreeMap::new();
    let mut others = Vec::new();
    for it in pods {
        let Some(index) = pod::index(it) else {
            others.push(it);
            continue;
        };
        let known = newest.entry(index).or_insert(it);
        if age(it) > age(known) {
            *known = it;
        }
    }
    newest.into_values().chain(others).collect()
}

/// Orders pods by age.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PodAge {
    /// The second in which it was made.
    made: Option<i64>,
    /// Of two that were made in the same second, one that has not ended is newer.
    is_open: bool,
}

fn age(it: &Pod) -> PodAge {
    let made = it.metadata.creation_timestamp.as_ref();
    PodAge {
        made: made.map(|time| time.0.as_second()),
        is_open: !pod::is_over(it),
    }
}

/// The nodes that have no pod, or only one that has failed.
pub(super) fn empty(pods: &[Pod], job: &Job) -> Vec<u32> {
    let has = |index: u32| {
        let mut own = pods.iter().filter(|it| pod::index(it) == Some(index));
        own.any(|it| pod::phase(it) != "Failed")
    };
    indices(pods, job).filter(|index| !has(*index)).collect()
}

/// The ids of an Indexed Job; none of another one.
fn indices(pods: &[Pod], job: &Job) -> std::ops::Range<u32> {
    let mode = job
        .spec
        .as_ref()
        .and_then(|spec| spec.completion_mode.as_deref());
    let is_indexed = mode == Some("Indexed") || pods.iter().any(|it| pod::index(it).is_some());
    let nodes = u32::try_from(job::nodes(job)).unwrap_or(0);
    0..if is_indexed { nodes } else { 0 }
}

/// A row for every pod, also for those that have been replaced; the oldest first.
pub fn every_pod(observed: &Observed) -> Vec<NodeRow> {
    let mut pods: Vec<&Pod> = observed.pods.iter().collect();
    pods.sort_by_key(|it| (age(it), pod::index(it)));
    pods.into_iter().map(|it| row(observed, it)).collect()
}

fn row(observed: &Observed, it: &Pod) -> NodeRow {
    NodeRow {
        node: pod::index(it),
        pod: Some(pod::name(it).to_owned()),
        shown: shown(observed, it),
    }
}

pub(super) fn rows(observed: &Observed, job: &Job) -> Vec<NodeRow> {
    let current = current(&observed.pods);
    let mut rows: Vec<NodeRow> = current.iter().map(|it| row(observed, it)).collect();
    for index in indices(&observed.pods, job) {
        if !rows.iter().any(|row| row.node == Some(index)) {
            rows.push(NodeRow {
                node: Some(index),
                pod: None,
                shown: ShownPod::NoPod,
            });
        }
    }
    rows.sort_by_key(|row| (row.node.is_none(), row.node));
    rows
}

fn shown(observed: &Observed, it: &Pod) -> ShownPod {
    let codes = pod::containers(it).filter_map(pod::terminated);
    let codes: Vec<i32> = codes.map(|state| state.exit_code).collect();
    if pod::phase(it) == "Failed" || codes.iter().any(|code| *code != 0) {
        // A pod that was asked to end has not failed.
        let was_asked = pod::is_ending(it) || codes.contains(&143);
        return if was_asked {
            ShownPod::Ending
        } else {
            ShownPod::Failed
        };
    }
    let main = it
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    let main = main.and_then(|containers| containers.first());
    if pod::phase(it) == "Succeeded" || main.and_then(pod::terminated).is_some() {
        return ShownPod::Finished;
    }
    if pod::is_lost(observed, it) {
        return ShownPod::Lost;
    }
    if pod::is_ending(it) {
        return ShownPod::Ending;
    }
    if pod::phase(it) == "Running" {
        return ShownPod::Running;
    }
    // Init containers come first: what one of them waits for is what the pod waits for.
    let waits = pod::containers(it)
        .filter_map(pod::waiting)
        .filter_map(|state| state.reason.clone());
    let mut reasons: Vec<String> = waits.collect();
    reasons
        .sort_by_key(|reason| matches!(reason.as_str(), "PodInitializing" | "ContainerCreating"));
    reasons
        .into_iter()
        .next()
        .map_or(ShownPod::Pending, ShownPod::Starting)
}
