//! The job as a whole: its state, how it ended, what delays its deletion, and which pods are missing.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;

use super::reason::{ContainerExit, FailedBy, Reason, Subject};
use crate::objects::QUEUE_LABEL;

use super::{Collected, JobState, NodeCounts, Observed, claim, event, pod, row};

/// A Job that is younger, in seconds, has had no time to make pods.
const NEW: i64 = 5;

/// A Job that is being deleted and has no pods left is usually gone in a moment.
const LINGERS: i64 = 5;

/// The condition of this type, if it is true.
fn condition<'a>(job: &'a Job, kind: &str) -> Option<&'a JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == kind && condition.status == "True")
}

fn name(job: &Job) -> &str {
    job.metadata.name.as_deref().unwrap_or_default()
}

fn subject(job: &Job) -> Subject {
    Subject::Job(name(job).to_owned())
}

pub(super) fn nodes(job: &Job) -> i32 {
    job.spec
        .as_ref()
        .and_then(|spec| spec.completions)
        .unwrap_or_default()
}

pub(super) fn counts(job: &Job) -> NodeCounts {
    let status = job.status.clone().unwrap_or_default();
    let (active, ready) = (status.active.unwrap_or(0), status.ready.unwrap_or(0));
    NodeCounts {
        nodes: nodes(job),
        ready,
        starting: (active - ready).max(0),
        finished: status.succeeded.unwrap_or(0),
        failed: status.failed.unwrap_or(0),
        retries: job
            .spec
            .as_ref()
            .and_then(|spec| spec.backoff_limit)
            .unwrap_or(0),
    }
}

pub(super) fn state(job: &Job) -> JobState {
    if job.metadata.deletion_timestamp.is_some() {
        return JobState::Deleting;
    }
    if condition(job, "Complete").is_some() {
        return JobState::Complete;
    }
    if condition(job, "Failed").is_some() || condition(job, "FailureTarget").is_some() {
        return JobState::Failed;
    }
    let NodeCounts {
        nodes,
        ready,
        finished,
        ..
    } = counts(job);
    if ready > 0 && ready + finished >= nodes {
        JobState::Running
    } else {
        JobState::Starting
    }
}

/// A Job that is deleted in the foreground waits for its pods.
pub(super) fn deleting(observed: &Observed, job: &Job, into: &mut Collected) {
    let left: Vec<&Pod> = observed
        .pods
        .iter()
        .filter(|it| !pod::is_over(it))
        .collect();
    for it in left.iter().filter(|it| pod::is_lost(observed, it)) {
        let machine = pod::machine(it);
        if pod::is_given_up(observed, machine) {
            into.add(Subject::Machine(machine.to_owned()), Reason::MachineGivenUp);
            continue;
        }
        into.add(
            subject(job),
            Reason::DeletionWaits {
                machine: machine.to_owned(),
                pod: pod::name(it).to_owned(),
                namespace: it.metadata.namespace.clone().unwrap_or_default(),
            },
        );
    }
    let since = job.metadata.deletion_timestamp.as_ref();
    let age = since.map_or(0, |since| observed.now.as_second() - since.0.as_second());
    if left.is_empty() && age >= LINGERS {
        let all = observed.pods.iter().map(|it| &it.metadata);
        let held = all.chain([&job.metadata]).flat_map(pod::foreign_finalizers);
        let finalizers: BTreeSet<String> = held.collect();
        if !finalizers.is_empty() {
            let finalizers = finalizers.into_iter().collect();
            into.add(subject(job), Reason::FinalizersHold { finalizers });
        }
    }
    into.add(subject(job), Reason::BeingDeleted { pods: left.len() });
}

/// Why the Job has failed.
pub(super) fn failed(observed: &Observed, job: &Job, into: &mut Collected) {
    let data = observed.data_job.as_ref();
    if let Some(data) = data.filter(|data| condition(data, "Failed").is_some()) {
        into.add(
            subject(data),
            Reason::DataFailed(commonest(&observed.data_pods)),
        );
    }
    let Some(failed) = condition(job, "Failed").or(condition(job, "FailureTarget")) else {
        return;
    };
    let message = failed.message.as_deref().unwrap_or_default();
    let rule = match failed.reason.as_deref().unwrap_or_default() {
        "PodFailurePolicy" => FailedBy::FailurePolicy,
        "BackoffLimitExceeded" => FailedBy::Retries(counts(job).retries),
        "DeadlineExceeded" => FailedBy::Deadline,
        reason => FailedBy::Other(format!("{reason}: {message}")),
    };
    let namespace = job.metadata.namespace.as_deref().unwrap_or("default");
    into.add(
        subject(job),
        Reason::JobFailed {
            rule,
            cause: named(&observed.pods, message).or_else(|| commonest(&observed.pods)),
            logs: format!("canoe job logs {} -n {namespace}", name(job)),
        },
    );
}

/// How the pod ended that a Job's condition names: "Container node for pod team/ctr-1-x7k2p failed with exit code 78
/// matching FailJob rule".
fn named(pods: &[Pod], message: &str) -> Option<ContainerExit> {
    let mut words = message.split([' ', '/', ',']);
    let it = words.find_map(|word| {
        let mut pods = pods.iter();
        pods.find(|it| !word.is_empty() && pod::name(it) == word)
    })?;
    pod::exit(it)
}

/// The most frequent exit of the failed pods. Pods that were asked to end do not count: a failed Job ends the remaining
/// ones itself.
pub(super) fn commonest(pods: &[Pod]) -> Option<ContainerExit> {
    let mut exits: BTreeMap<ContainerExit, usize> = BTreeMap::new();
    for it in pods
        .iter()
        .filter(|it| pod::condition(it, "DisruptionTarget").is_none())
    {
        match pod::exit(it) {
            None | Some(ContainerExit::Code(143, _)) => {}
            Some(exit) => *exits.entry(exit).or_default() += 1,
        }
    }
    exits
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map(|(exit, _)| exit)
}

/// Adds the findings of a job that has not ended.
pub(super) fn not_ended(observed: &Observed, job: &Job, state: JobState, into: &mut Collected) {
    if job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true) {
        let labels = job.metadata.labels.as_ref();
        let queue = labels.and_then(|labels| labels.get(QUEUE_LABEL)).cloned();
        let said = queue
            .as_ref()
            .and_then(|_| event::from_queue(observed, job));
        into.add(subject(job), Reason::Suspended { queue, said });
        return;
    }
    data(observed, into);
    lost_machines(observed, into);
    let current = row::current(&observed.pods);
    for it in &current {
        living(observed, it, into);
    }
    failures(observed, job, state, into);
    if let Some(reason) = lacks(observed, job, &observed.pods) {
        into.add(subject(job), reason);
    } else if !is_new(observed, job) && !is_hopeless(&observed.pods) {
        for index in row::empty(&observed.pods, job) {
            into.add(Subject::Node(index), Reason::NoPodYet);
        }
    }
    let waiting: Vec<Pod> = current
        .into_iter()
        .cloned()
        .chain(observed.data_pods.iter().cloned())
        .collect();
    claim::unbound(observed, &waiting, into);
}

/// Whether the Job was created or resumed a moment ago, so that its pods are still being created.
fn is_new(observed: &Observed, job: &Job) -> bool {
    let begun = job
        .status
        .as_ref()
        .and_then(|status| status.start_time.as_ref());
    let begun = begun.or(job.metadata.creation_timestamp.as_ref());
    begun.is_some_and(|begun| observed.now.as_second() - begun.0.as_second() < NEW)
}

/// A pod that has not ended.
fn living(observed: &Observed, it: &Pod, into: &mut Collected) {
    if pod::is_over(it) || pod::is_lost(observed, it) {
        return;
    }
    if pod::exit(it).is_some() {
        // The failures report it.
    } else if let Some(reason) = pod::ending(observed, it) {
        into.add(pod::subject(it), reason);
    } else {
        pod::not_running(observed, it, into);
    }
}

/// Nodes wait for their shards until the data is ready.
fn data(observed: &Observed, into: &mut Collected) {
    let Some(job) = &observed.data_job else {
        return;
    };
    if condition(job, "Complete").is_some() || condition(job, "SuccessCriteriaMet").is_some() {
        return;
    }
    if condition(job, "Failed").is_some() || condition(job, "FailureTarget").is_some() {
        into.add(
            subject(job),
            Reason::DataFailed(commonest(&observed.data_pods)),
        );
        return;
    }
    for it in &observed.data_pods {
        living(observed, it, into);
    }
    failures_of(observed, job, &observed.data_pods, into);
    if let Some(reason) = lacks(observed, job, &observed.data_pods) {
        into.add(subject(job), reason);
    }
}

fn lost_machines(observed: &Observed, into: &mut Collected) {
    let mut machines: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for it in observed.pods.iter().chain(&observed.data_pods) {
        if pod::is_lost(observed, it) {
            machines.entry(pod::machine(it)).or_default().push(it);
        }
    }
    for (machine, pods) in machines {
        let reason = if pod::is_given_up(observed, machine) {
            Reason::MachineGivenUp
        } else {
            Reason::MachineLost {
                machine: machine.to_owned(),
                nodes: pods.iter().filter_map(|it| pod::index(it)).collect(),
                is_asked: pods
                    .iter()
                    .any(|it| pod::is_disrupted(it, "DeletionByTaintManager")),
            }
        };
        into.add(Subject::Machine(machine.to_owned()), reason);
    }
}

/// Whether a pod has failed in a way after which the whole Job fails in a moment.
fn is_hopeless(pods: &[Pod]) -> bool {
    own_failures(pods)
        .filter_map(pod::exit)
        .any(|exit| exit.is_final())
}

/// Adds pods that have failed: in full until their successors run, then in one line.
fn failures(observed: &Observed, job: &Job, state: JobState, into: &mut Collected) {
    let current = row::current(&observed.pods);
    let is_replaced = |it: &Pod| {
        let successor = current
            .iter()
            .find(|other| pod::index(other) == pod::index(it));
        match (pod::index(it), successor) {
            (Some(_), Some(successor)) => {
                pod::name(successor) != pod::name(it) && pod::phase(successor) == "Running"
            }
            _ => state == JobState::Running,
        }
    };
    let (replaced, open): (Vec<Pod>, Vec<Pod>) =
        observed.pods.iter().cloned().partition(is_replaced);
    failures_of(observed, job, &open, into);
    let evicted = replaced.iter().filter_map(|it| match pod::evicted(it) {
        Some(Reason::Evicted { message, .. }) => Some(ContainerExit::Evicted(message)),
        _ => None,
    });
    let own = own_failures(&replaced).filter_map(pod::exit);
    let exits: Vec<ContainerExit> = evicted.chain(own).collect();
    if let Some(exit) = exits.last() {
        into.add(
            subject(job),
            Reason::FailedBefore {
                pods: exits.len(),
                exit: exit.clone(),
            },
        );
    }
}

/// Pods that failed by themselves, and were not asked to end.
fn own_failures(pods: &[Pod]) -> impl Iterator<Item = &Pod> {
    let is_own = |it: &&Pod| {
        pod::condition(it, "DisruptionTarget").is_none()
            && !matches!(pod::exit(it), None | Some(ContainerExit::Code(143, _)))
    };
    pods.iter().filter(is_own)
}

fn failures_of(observed: &Observed, job: &Job, pods: &[Pod], into: &mut Collected) {
    let NodeCounts {
        failed, retries, ..
    } = counts(job);
    for it in pods {
        if let Some(reason) = pod::evicted(it) {
            into.add(pod::subject(it), reason);
        } else if matches!(pod::exit(it), Some(ContainerExit::Code(143, _)))
            && event::is_ended_by_probe(observed, it)
        {
            into.add(pod::subject(it), Reason::Unresponsive);
        }
    }
    for it in own_failures(pods) {
        if let Some(exit) = pod::exit(it).filter(|_| pod::evicted(it).is_none()) {
            into.add(
                pod::subject(it),
                Reason::PodFailed {
                    exit,
                    used: failed,
                    limit: retries,
                },
            );
        }
    }
}

/// Why a Job has fewer pods than it wants, if an event says so.
fn lacks(observed: &Observed, job: &Job, pods: &[Pod]) -> Option<Reason> {
    let living = pods.iter().filter(|it| !pod::is_over(it)).count();
    let there = i32::try_from(living)
        .unwrap_or(i32::MAX)
        .saturating_add(counts(job).finished);
    let done = pods
        .iter()
        .filter(|it| pod::phase(it) == "Succeeded")
        .count();
    let there = there.max(i32::try_from(living + done).unwrap_or(i32::MAX));
    if there >= nodes(job).max(1) {
        return None;
    }
    let made = |it: &Pod| -> Option<Timestamp> { Some(it.metadata.creation_timestamp.as_ref()?.0) };
    event::not_created(observed, job, pods.iter().filter_map(made).max())
}
