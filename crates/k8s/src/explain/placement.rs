//! Finds out from the scheduler's message why no machine takes a pod.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::reason::{Placement, Reason};
use super::{Observed, event, pod};

/// A pod without a machine is reported after this many seconds, because other pods may be ending.
const SETTLES: i64 = 5;

/// What keeps a pod from a machine, if the scheduler has looked at it.
pub(super) fn not_placed(observed: &Observed, it: &Pod) -> Option<Reason> {
    let condition =
        pod::condition(it, "PodScheduled").filter(|condition| condition.status == "False")?;
    if condition.reason.as_deref() == Some("SchedulingGated") {
        return Some(Reason::HeldBack { gates: gates(it) });
    }
    if let Some(message) = event::machine_comes(observed, it) {
        return Some(Reason::MachineComes { message });
    }
    let since = condition.last_transition_time.as_ref();
    if since.is_some_and(|since| observed.now.as_second() - since.0.as_second() < SETTLES) {
        return None;
    }
    let message = condition.message.as_deref().unwrap_or_default();
    Some(Reason::NotPlaced(placements(observed, it, message)))
}

fn gates(it: &Pod) -> String {
    let gates = it
        .spec
        .as_ref()
        .and_then(|spec| spec.scheduling_gates.as_ref());
    let names = gates.into_iter().flatten().map(|gate| gate.name.as_str());
    names.collect::<Vec<_>>().join(", ")
}

fn placements(observed: &Observed, it: &Pod, message: &str) -> Vec<Placement> {
    // The rest of the message is about preemption.
    let message = message.split(" preemption: ").next().unwrap_or(message);
    let has = |words: &str| message.contains(words);
    let mut reasons = Vec::new();
    if has("Insufficient cpu") {
        reasons.push(Placement::Cores(asked(it, "cpu"), most(observed, "cpu")));
    }
    if has("Insufficient memory") {
        reasons.push(Placement::Memory(
            asked(it, "memory"),
            most(observed, "memory"),
        ));
    }
    reasons.extend(other_resources(message).map(Placement::Resource));
    if has("node affinity/selector") {
        reasons.push(Placement::Selector(selector(it)));
    }
    if let Some(claim) = claim(message, "not found") {
        reasons.push(Placement::ClaimMissing(claim));
    }
    if let Some(claim) = claim(message, "is being deleted") {
        reasons.push(Placement::ClaimGoes(claim));
    }
    for (words, reason) in [
        ("Insufficient ephemeral-storage", Placement::Disk),
        (
            "unbound immediate PersistentVolumeClaims",
            Placement::ClaimUnbound,
        ),
        ("Too many pods", Placement::TooManyPods),
        ("volume node affinity conflict", Placement::VolumeElsewhere),
        (
            "match PersistentVolume's node affinity",
            Placement::VolumeElsewhere,
        ),
        (
            "find available persistent volumes to bind",
            Placement::NoVolumeThere,
        ),
        ("pod group is not ready", Placement::Gang),
        ("no nodes available", Placement::NoMachines),
    ] {
        if has(words) {
            reasons.push(reason);
        }
    }
    reasons.extend(by_taints(message));
    if has("were unschedulable") && !reasons.contains(&Placement::Cordoned) {
        reasons.push(Placement::Cordoned);
    }
    if reasons.is_empty() {
        reasons.push(Placement::Other(message.to_owned()));
    }
    reasons
}

/// Resources for which job.yaml has no key: `3 Insufficient nvidia.com/gpu`.
fn other_resources(message: &str) -> impl Iterator<Item = String> + '_ {
    let named = message.split("Insufficient ").skip(1);
    let names = named.map(|rest| {
        let end = rest.find([',', ' ', ';']).unwrap_or(rest.len());
        rest[..end].trim_end_matches('.').to_owned()
    });
    names.filter(|name| !matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage"))
}

/// The reasons in taints: `1 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }`. Taints that the cluster
/// sets by itself should not be tolerated, and machines of the control plane take no jobs.
fn by_taints(message: &str) -> Vec<Placement> {
    if !message.contains("taint") {
        return Vec::new();
    }
    let mut reasons = Vec::new();
    let mut add = |reason| {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    };
    let mut own = Vec::new();
    let mut count = 0;
    for part in message.split('{').skip(1) {
        let taint = part.split('}').next().unwrap_or_default().trim();
        let key = taint.split(':').next().unwrap_or_default();
        count += 1;
        match key.rsplit('/').next().unwrap_or_default() {
            "control-plane" | "master" if key.starts_with("node-role.") => {}
            "unschedulable" => add(Placement::Cordoned),
            "not-ready"
            | "unreachable"
            | "network-unavailable"
            | "uninitialized"
            | "out-of-service" => add(Placement::NotReady),
            pressed @ ("disk-pressure" | "memory-pressure" | "pid-pressure") => add(
                Placement::Pressure(pressed.trim_end_matches("-pressure").to_owned()),
            ),
            _ => own.push(
                taint
                    .trim_end_matches(": ")
                    .trim_end_matches(':')
                    .to_owned(),
            ),
        }
    }
    if count == 0 || !own.is_empty() {
        own.sort();
        own.dedup();
        add(Placement::Taint(own.join(", ")));
    }
    reasons
}

/// `persistentvolumeclaim "files" not found`
fn claim(message: &str, what: &str) -> Option<String> {
    let (_, rest) = message.split_once("persistentvolumeclaim \"")?;
    let (name, rest) = rest.split_once('"')?;
    rest.trim_start().starts_with(what).then(|| name.to_owned())
}

fn asked(it: &Pod, what: &str) -> Option<String> {
    let containers = &it.spec.as_ref()?.containers;
    let resources = containers.first()?.resources.as_ref()?;
    Some(resources.requests.as_ref()?.get(what)?.0.clone())
}

/// The most that one machine has; amounts are compared as far as they can be read.
fn most(observed: &Observed, what: &str) -> Option<String> {
    let machines = observed.machines.as_ref()?.iter();
    let amounts = machines.filter_map(|machine| {
        let there = machine.status.as_ref()?.allocatable.as_ref()?;
        there.get(what)
    });
    amounts
        .max_by_key(|Quantity(text)| crate::check::amount(text))
        .map(|Quantity(text)| text.clone())
}

fn selector(it: &Pod) -> String {
    let labels = it
        .spec
        .as_ref()
        .and_then(|spec| spec.node_selector.as_ref());
    let labels = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<_>>().join(", ")
}
