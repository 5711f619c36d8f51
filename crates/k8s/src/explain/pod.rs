//! What a pod shows by itself: why it is not placed, does not start, is ending or has ended.

use k8s_openapi::api::core::v1::{
    ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, Node, Pod, PodCondition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::reason::{ContainerExit, Ending, Reason, Subject};
use super::{Collected, Observed, event, placement, pull};
use words::last_words::error_line;

/// The taint by which people give a machine up.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

pub(super) fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

pub(super) fn subject(pod: &Pod) -> Subject {
    Subject::Pod(name(pod).to_owned())
}

pub(super) fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

/// The id of the node in a pod; nothing with `podlist` in a plain Job.
pub(super) fn index(pod: &Pod) -> Option<u32> {
    let labels = pod.metadata.labels.as_ref()?;
    labels
        .get("batch.kubernetes.io/job-completion-index")?
        .parse()
        .ok()
}

pub(super) fn machine(pod: &Pod) -> &str {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.node_name.as_deref())
        .unwrap_or_default()
}

pub(super) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

fn condition_is(pod: &Pod, kind: &str, value: &str) -> bool {
    condition(pod, kind).is_some_and(|condition| condition.status == value)
}

/// Init containers first, as they run.
pub(super) fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_ref());
    let main = status.and_then(|status| status.container_statuses.as_ref());
    init.into_iter().chain(main).flatten()
}

pub(super) fn waiting(container: &ContainerStatus) -> Option<&ContainerStateWaiting> {
    container.state.as_ref()?.waiting.as_ref()
}

pub(super) fn terminated(container: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    container.state.as_ref()?.terminated.as_ref()
}

pub(super) fn is_ending(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

pub(super) fn is_over(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether the sandbox of the pod exists: its volumes are mounted and its network works, so their earlier failures are
/// over.
pub(super) fn has_sandbox(pod: &Pod) -> bool {
    let begun = |container: &ContainerStatus| {
        let state = container.state.as_ref();
        let waits = state.and_then(|state| state.waiting.as_ref());
        let reason = waits.and_then(|waits| waits.reason.as_deref());
        state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
            || reason
                .is_some_and(|reason| !matches!(reason, "ContainerCreating" | "PodInitializing"))
    };
    phase(pod) != "Pending"
        || condition_is(pod, "PodReadyToStartContainers", "True")
        || containers(pod).any(begun)
}

/// Whether the machine of the pod does not respond.
pub(super) fn is_lost(observed: &Observed, pod: &Pod) -> bool {
    if is_over(pod) || machine(pod).is_empty() {
        return false;
    }
    let mut machines = observed.machines.iter().flatten();
    let own = machines.find(|it| it.metadata.name.as_deref() == Some(machine(pod)));
    if let Some(own) = own {
        return !is_ready(own);
    }
    // Only the cluster itself says "not ready" of a pod whose containers were ready when they were last heard of.
    let is_disowned =
        condition_is(pod, "Ready", "False") && condition_is(pod, "ContainersReady", "True");
    is_disrupted(pod, "DeletionByTaintManager") || (phase(pod) == "Running" && is_disowned)
}

fn is_ready(machine: &Node) -> bool {
    let conditions = machine
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    // Without a condition from the machine, it is not known to be lost.
    conditions.is_none_or(|conditions| {
        conditions
            .iter()
            .any(|it| it.type_ == "Ready" && it.status == "True")
    })
}

pub(super) fn is_given_up(observed: &Observed, machine: &str) -> bool {
    let machines = observed.machines.iter().flatten();
    let mut known = machines.filter(|it| it.metadata.name.as_deref() == Some(machine));
    known.any(|it| {
        let taints = it.spec.as_ref().and_then(|spec| spec.taints.as_ref());
        taints
            .into_iter()
            .flatten()
            .any(|taint| taint.key == OUT_OF_SERVICE)
    })
}

pub(super) fn is_disrupted(pod: &Pod, reason: &str) -> bool {
    condition(pod, "DisruptionTarget").is_some_and(|condition| {
        condition.status == "True" && condition.reason.as_deref() == Some(reason)
    })
}

/// Why a pod that has not ended does not run.
pub(super) fn not_running(observed: &Observed, pod: &Pod, into: &mut Collected) {
    if let Some(reason) = placement::not_placed(observed, pod) {
        into.add(subject(pod), reason);
        return;
    }
    for container in containers(pod) {
        if let Some(reason) = kept_waiting(observed, pod, container) {
            into.add(subject(pod), reason);
        }
    }
    if let Some(reason) = event::keeps_from_starting(observed, pod) {
        into.add(subject(pod), reason);
    }
}

/// A pod that should have ended this many seconds ago, and has not, on a machine that responds.
const OVERDUE: i64 = 20;

/// That a pod is on its way out, and why.
pub(super) fn ending(observed: &Observed, pod: &Pod) -> Option<Reason> {
    // The time of its deletion is the one at which its grace period is over.
    let due = pod.metadata.deletion_timestamp.as_ref();
    let late = due.map_or(0, |due| observed.now.as_second() - due.0.as_second());
    if late > OVERDUE && !machine(pod).is_empty() {
        return Some(Reason::EndsLate {
            machine: machine(pod).to_owned(),
            finalizers: foreign_finalizers(&pod.metadata),
        });
    }
    let why = if is_disrupted(pod, "EvictionByEvictionAPI") {
        Ending::Drained(machine(pod).to_owned())
    } else if is_disrupted(pod, "PreemptionByScheduler") {
        Ending::Preempted
    } else if is_disrupted(pod, "DeletionByPodGC") {
        Ending::MachineGone(machine(pod).to_owned())
    } else if is_ending(pod) {
        Ending::Deleted
    } else {
        return None;
    };
    Some(Reason::Ending(why))
}

/// Finalizers of an object that do not belong to Kubernetes itself.
pub(super) fn foreign_finalizers(metadata: &ObjectMeta) -> Vec<String> {
    let all = metadata.finalizers.iter().flatten();
    let is_own = |name: &str| {
        matches!(name, "foregroundDeletion" | "orphan")
            || name == "batch.kubernetes.io/job-tracking"
    };
    all.filter(|name| !is_own(name)).cloned().collect()
}

fn kept_waiting(observed: &Observed, pod: &Pod, container: &ContainerStatus) -> Option<Reason> {
    let state = waiting(container)?;
    let image = container.image.clone();
    let message = state.message.clone().unwrap_or_default();
    Some(match state.reason.as_deref().unwrap_or_default() {
        "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" | "ImageInspectError" => {
            Reason::ImageNotPulled {
                why: pull::failure(
                    &image,
                    &message,
                    event::pull_message(observed, pod),
                    event::missing_pull_secret(observed, pod),
                ),
                image,
            }
        }
        "InvalidImageName" => Reason::ImageNameInvalid { image },
        "ErrImageNeverPull" => Reason::ImageNeverPulled { image },
        "CreateContainerConfigError" => Reason::NotStarted {
            message,
            is_incomplete: true,
        },
        "CreateContainerError" | "RunContainerError" => Reason::NotStarted {
            message,
            is_incomplete: false,
        },
        "CrashLoopBackOff" => Reason::Crashes(last_exit(pod, container)),
        _ => return None,
    })
}

/// How a pod has ended, if badly.
pub(super) fn exit(pod: &Pod) -> Option<ContainerExit> {
    let ended = containers(pod).filter_map(|container| Some((container, terminated(container)?)));
    let mut bad = ended.filter(|(_, state)| state.exit_code != 0);
    let (container, state) = bad.next()?;
    Some(exit_of(pod, container, state))
}

/// How a container ended before its present restart.
fn last_exit(pod: &Pod, container: &ContainerStatus) -> Option<ContainerExit> {
    let state = container.last_state.as_ref()?.terminated.as_ref()?;
    Some(exit_of(pod, container, state))
}

fn exit_of(
    pod: &Pod,
    container: &ContainerStatus,
    state: &ContainerStateTerminated,
) -> ContainerExit {
    // A child that the kernel has killed makes its parent end with a code of its own; the reason is what counts. But a
    // container that was asked to end while it was over its limit was not ended for that.
    if state.reason.as_deref() == Some("OOMKilled") && state.exit_code != 143 {
        return ContainerExit::OutOfMemory(memory_limit(pod, &container.name));
    }
    let words = state.message.as_deref().unwrap_or_default();
    if matches!(
        state.reason.as_deref(),
        Some("StartError" | "ContainerCannotRun")
    ) {
        return ContainerExit::CannotRun(words.trim().to_owned());
    }
    let lines: Vec<&str> = words.lines().collect();
    ContainerExit::Code(state.exit_code, error_line(&lines))
}

fn memory_limit(pod: &Pod, container: &str) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let all = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten());
    let resources = all
        .into_iter()
        .find(|it| it.name == container)?
        .resources
        .as_ref()?;
    Some(resources.limits.as_ref()?.get("memory")?.0.clone())
}

/// The machine has evicted the pod, or did not accept it.
pub(super) fn evicted(pod: &Pod) -> Option<Reason> {
    let status = pod.status.as_ref()?;
    if phase(pod) != "Failed" {
        return None;
    }
    let reason = status.reason.clone()?;
    let message = status.message.clone().unwrap_or_default();
    if reason != "Evicted" {
        return Some(Reason::TurnedAway { reason, message });
    }
    Some(Reason::Evicted {
        // "Usage of EmptyDir volume \"work\" exceeds the limit": its own limit, and not the machine's need.
        for_disk: message.contains("exceed"),
        message,
    })
}
