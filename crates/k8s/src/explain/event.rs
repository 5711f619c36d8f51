//! Reads events: why a pod that has a machine has not started, and why a Job gets no pods.
//!
//! An event is kept for an hour. So each counts only while its pod is still at the step that the event is about: mounts
//! and network come before images, images before containers.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::jiff::Timestamp;

use super::reason::{MountFailure, PodRefusal, Reason};
use super::{Observed, pod};

/// One failure of a kind that may pass by itself is reported as trouble after this long.
const PASSING: i64 = 30;
/// A refusal that usually passes at once is reported as trouble after this long.
const REFUSED: i64 = 8;
/// A mount failure that nearly always disappears at once is not reported before this many seconds.
const USUAL: i64 = 8;
/// The duration of a pull is reported in steps of this many seconds.
const PULLS: i64 = 30;
/// How long it takes at most to add a machine.
const ADDS_MACHINES: i64 = 900;
/// A mount that usually passes at once, and is reported as trouble only after this long.
const STUBBORN: i64 = 120;

fn reason(event: &Event) -> &str {
    event.reason.as_deref().unwrap_or_default()
}

fn message(event: &Event) -> &str {
    event.message.as_deref().unwrap_or_default()
}

/// When an event was last seen. Events of the newer API have a series, or only the time of their first occurrence.
fn last(event: &Event) -> Timestamp {
    let series = event.series.as_ref();
    let series = series.and_then(|series| series.last_observed_time.as_ref());
    let created = event.metadata.creation_timestamp.as_ref();
    series
        .map(|time| time.0)
        .or(event.last_timestamp.as_ref().map(|time| time.0))
        .or(event.event_time.as_ref().map(|time| time.0))
        .or(created.map(|time| time.0))
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

fn first(event: &Event) -> Timestamp {
    let first = event.first_timestamp.as_ref().map(|time| time.0);
    first
        .or(event.event_time.as_ref().map(|time| time.0))
        .unwrap_or_else(|| last(event))
}

fn times(event: &Event) -> i32 {
    let series = event.series.as_ref().and_then(|series| series.count);
    series.or(event.count).unwrap_or(1)
}

fn about<'a>(observed: &'a Observed, pod: &'a Pod) -> impl Iterator<Item = &'a Event> {
    let uid = pod.metadata.uid.as_deref();
    observed.events.iter().filter(move |event| {
        let involved = &event.involved_object;
        involved.kind.as_deref() == Some("Pod")
            && involved.name == pod.metadata.name
            && (uid.is_none() || involved.uid.is_none() || involved.uid.as_deref() == uid)
    })
}

fn seconds_since(observed: &Observed, time: Timestamp) -> i64 {
    observed.now.as_second() - time.as_second()
}

/// What keeps a pod from starting that has a machine but no container yet.
pub(super) fn keeps_from_starting(observed: &Observed, pod: &Pod) -> Option<Reason> {
    if pod::phase(pod) != "Pending" || pod::machine(pod).is_empty() {
        return None;
    }
    if pod::has_sandbox(pod) {
        return pulling(observed, pod);
    }
    // The state of a pod is reported a moment after the event.
    let begun = about(observed, pod)
        .any(|event| matches!(reason(event), "Pulling" | "Pulled" | "Created" | "Started"));
    if begun {
        return pulling(observed, pod);
    }
    network(observed, pod).or_else(|| mount(observed, pod))
}

fn pulling(observed: &Observed, pod: &Pod) -> Option<Reason> {
    let newest = |wanted: &str| {
        let events = about(observed, pod).filter(|event| reason(event) == wanted);
        events.max_by_key(|event| last(event))
    };
    let begun = newest("Pulling")?;
    let ends = ["Pulled", "Failed", "Created"];
    if ends
        .iter()
        .filter_map(|end| newest(end))
        .any(|end| last(end) >= last(begun))
    {
        return None;
    }
    let waits = |container| pod::waiting(container).and_then(|state| state.reason.as_deref());
    let mut reasons = pod::containers(pod).filter_map(waits);
    if reasons.any(|reason| !matches!(reason, "ContainerCreating" | "PodInitializing")) {
        return None;
    }
    let image = message(begun).split('"').nth(1).unwrap_or_default();
    Some(Reason::Pulling {
        image: image.to_owned(),
        machine: pod::machine(pod).to_owned(),
        seconds: seconds_since(observed, last(begun)).max(0) / PULLS * PULLS,
    })
}

/// What the machine said when it could not pull.
pub(super) fn pull_message<'a>(observed: &'a Observed, pod: &'a Pod) -> Option<&'a str> {
    let failed = about(observed, pod)
        .filter(|event| reason(event) == "Failed" && message(event).contains("pull"));
    failed.max_by_key(|event| last(event)).map(message)
}

/// The name of a registry secret that the pod names and that does not exist.
pub(super) fn missing_pull_secret(observed: &Observed, pod: &Pod) -> Option<String> {
    let missing =
        about(observed, pod).filter(|event| reason(event) == "FailedToRetrieveImagePullSecret");
    let message = missing.max_by_key(|event| last(event)).map(message)?;
    let names = message.split('(').nth(1)?.split(')').next()?;
    Some(names.to_owned())
}

/// The message of an autoscaler that adds a machine for the pod, unless it reported later that it cannot.
pub(super) fn machine_comes(observed: &Observed, pod: &Pod) -> Option<String> {
    let said = about(observed, pod).filter(|event| {
        matches!(
            reason(event),
            "TriggeredScaleUp" | "NotTriggerScaleUp" | "Nominated" | "FailedScaleUp"
        )
    });
    let newest = said.max_by_key(|event| last(event))?;
    let is_coming = matches!(reason(newest), "TriggeredScaleUp" | "Nominated")
        && seconds_since(observed, last(newest)) < ADDS_MACHINES;
    is_coming.then(|| message(newest).to_owned())
}

/// Whether the machine ended a container that did not respond to its probes.
pub(super) fn is_ended_by_probe(observed: &Observed, pod: &Pod) -> bool {
    about(observed, pod).any(|event| {
        let message = message(event);
        reason(event) == "Killing"
            && (message.contains("liveness probe") || message.contains("startup probe"))
    })
}

/// The last message of a queue about a Job that it holds back.
pub(super) fn from_queue(observed: &Observed, job: &Job) -> Option<String> {
    let said = about_job(observed, job)
        .filter(|event| matches!(reason(event), "Stopped" | "Suspended" | "Pending"));
    let newest = said.max_by_key(|event| last(event))?;
    Some(message(newest).to_owned())
        .filter(|message| !message.is_empty() && *message != "Job suspended")
}

fn network(observed: &Observed, pod: &Pod) -> Option<Reason> {
    let failed: Vec<&Event> = about(observed, pod)
        .filter(|event| reason(event) == "FailedCreatePodSandBox")
        .collect();
    let Some(newest) = failed.iter().max_by_key(|event| last(event)) else {
        return network_not_ready(observed, pod);
    };
    let count: i32 = failed.iter().map(|event| times(event)).sum();
    let since = failed.iter().map(|event| first(event)).min()?;
    let machine = pod::machine(pod).to_owned();
    let message = message(newest);
    let lower = message.to_ascii_lowercase();
    let is_network = !lower.contains("sandbox image")
        && ["network", "cni", "ip address"]
            .iter()
            .any(|word| lower.contains(word));
    if count < 2 && seconds_since(observed, since) < PASSING {
        return Some(match is_network {
            true => Reason::NetworkAgain,
            false => Reason::SandboxAgain,
        });
    }
    if !is_network {
        return Some(Reason::NoSandbox {
            machine,
            message: sandbox_image(message).unwrap_or_else(|| shortened(message)),
        });
    }
    let is_full = [
        "no IP addresses available",
        "failed to assign an IP address",
        "no available IP",
    ];
    Some(Reason::NoPodNetwork {
        machine,
        is_full: is_full.iter().any(|words| message.contains(words)),
        message: shortened(message),
    })
}

/// A machine that has just come has no network for pods yet.
fn network_not_ready(observed: &Observed, pod: &Pod) -> Option<Reason> {
    let told: Vec<&Event> = about(observed, pod)
        .filter(|event| reason(event) == "NetworkNotReady")
        .collect();
    let newest = told.iter().max_by_key(|event| last(event))?;
    let since = told.iter().map(|event| first(event)).min()?;
    if seconds_since(observed, since) < STUBBORN {
        return Some(Reason::NetworkAgain);
    }
    Some(Reason::NoPodNetwork {
        machine: pod::machine(pod).to_owned(),
        is_full: false,
        message: shortened(message(newest)),
    })
}

/// The message if a machine cannot pull the sandbox image, which every pod needs, often from a public registry.
fn sandbox_image(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("sandbox image \"")?;
    let image = rest.split('"').next()?;
    Some(format!(
        "it cannot get image {image}, with which every pod of that machine begins ({})",
        shortened(message)
    ))
}

/// The innermost part of a message: the parts before it have ids of sandboxes and pods that change with every try.
fn shortened(message: &str) -> String {
    let last = message.rsplit(": ").next().unwrap_or(message);
    last.trim().to_owned()
}

fn mount(observed: &Observed, pod: &Pod) -> Option<Reason> {
    let failed: Vec<&Event> = about(observed, pod)
        .filter(|event| matches!(reason(event), "FailedMount" | "FailedAttachVolume"))
        .collect();
    let since = failed.iter().map(|event| first(event)).min()?;
    let age = seconds_since(observed, since);
    let mut lasting: Vec<&&Event> = failed
        .iter()
        .filter(|event| !is_passing(message(event)))
        .collect();
    // "Unable to attach or mount volumes" repeats, after two minutes, what other events have reported in detail.
    let is_detailed = |event: &&&Event| !message(event).starts_with("Unable to attach or mount");
    if lasting.iter().any(is_detailed) {
        lasting.retain(is_detailed);
    }
    let Some(newest) = lasting.iter().max_by_key(|event| last(event)) else {
        let newest = failed.iter().max_by_key(|event| last(event))?;
        return match age {
            ..USUAL => None,
            USUAL..STUBBORN => Some(Reason::MountsAgain),
            _ => Some(Reason::NotMounted(MountFailure::Other(
                message(newest).to_owned(),
            ))),
        };
    };
    let why = mount_failure(message(newest));
    let count: i32 = lasting.iter().map(|event| times(event)).sum();
    if matches!(why, MountFailure::Other(_)) && count < 2 && age < PASSING {
        return Some(Reason::MountsAgain);
    }
    Some(Reason::NotMounted(why))
}

/// Whether a machine has not yet received an object that the pod needs: its next try, within seconds, succeeds.
fn is_passing(message: &str) -> bool {
    let lower = message.to_ascii_lowercase();
    (lower.contains("failed to sync") && lower.contains("cache"))
        || lower.contains("no relationship found between node")
        || lower.contains("not registered")
}

fn mount_failure(message: &str) -> MountFailure {
    let lower = message.to_ascii_lowercase();
    let has = |word: &str| lower.contains(word);
    if (has("secret") || has("configmap")) && has("not found") {
        MountFailure::Missing(message.to_owned())
    } else if has("multi-attach") {
        MountFailure::OneMachineOnly
    } else if has("helper program") {
        MountFailure::NoHelper
    } else if has("access denied") || has("permission denied") {
        MountFailure::Denied
    } else if has("no such file or directory") || has("does not exist") || has("is not a directory")
    {
        MountFailure::NoFolder
    } else if has("driver name") && has("not found") {
        MountFailure::NoDriver
    } else if [
        "connection timed out",
        "connection refused",
        "deadlineexceeded",
        "no route",
        "failed to resolve",
        "no such host",
    ]
    .iter()
    .any(|word| has(word))
    {
        MountFailure::NoAnswer
    } else {
        MountFailure::Other(message.to_owned())
    }
}

fn about_job<'a>(observed: &'a Observed, job: &'a Job) -> impl Iterator<Item = &'a Event> {
    observed.events.iter().filter(|event| {
        let involved = &event.involved_object;
        involved.kind.as_deref() == Some("Job")
            && involved.name == job.metadata.name
            && (involved.uid.is_none()
                || job.metadata.uid.is_none()
                || involved.uid == job.metadata.uid)
    })
}

/// Why the Job cannot create a pod; `newest` is when its last pod was created.
pub(super) fn not_created(
    observed: &Observed,
    job: &Job,
    newest: Option<Timestamp>,
) -> Option<Reason> {
    // A refusal from before the last pod was created no longer applies.
    let is_since =
        |event: &&Event| newest.is_none_or(|newest| newest.as_second() <= last(event).as_second());
    let refused: Vec<&Event> = about_job(observed, job)
        .filter(|event| reason(event) == "FailedCreate")
        .filter(is_since)
        .collect();
    let event = refused.iter().max_by_key(|event| last(event))?;
    let since = refused.iter().map(|event| first(event)).min()?;
    let message = message(event);
    if is_passing_refusal(message) && seconds_since(observed, since) < REFUSED {
        return Some(Reason::CreatesAgain(message.to_owned()));
    }
    Some(Reason::NotCreated(refusal(message)))
}

/// Whether a refusal is temporary: concurrent writes, a server that starts, an account that is being created.
fn is_passing_refusal(message: &str) -> bool {
    let lower = message.to_ascii_lowercase();
    [
        "the object has been modified",
        "status unknown for quota",
        "serviceaccount \"default\" not found",
        "timeout",
        "timed out",
        "deadline exceeded",
        "connection refused",
        "connection reset",
        "unable to handle the request",
        "too many requests",
        "etcdserver",
        "eof",
    ]
    .iter()
    .any(|words| lower.contains(words))
}

fn refusal(message: &str) -> PodRefusal {
    let after = |words: &str| {
        message
            .split(words)
            .nth(1)
            .unwrap_or(message)
            .trim()
            .to_owned()
    };
    let has = |words: &str| message.contains(words);
    if has("violates PodSecurity") {
        PodRefusal::PodSecurity(after("violates PodSecurity"))
    } else if has("exceeded quota") {
        PodRefusal::Quota(after("exceeded quota:"))
    } else if has("failed quota") {
        PodRefusal::QuotaWantsLimits(message.to_owned())
    } else if has("because it is being terminated") {
        PodRefusal::NamespaceGoes
    } else if has("serviceaccount") && has("not found") {
        PodRefusal::NoAccount
    } else if has("no PriorityClass with name") {
        let name = after("no PriorityClass with name");
        PodRefusal::NoPriorityClass(name.split(' ').next().unwrap_or_default().to_owned())
    } else if has("failed calling webhook") {
        PodRefusal::WebhookSilent(after("failed calling webhook"))
    } else if has("admission webhook") || has("ValidatingAdmissionPolicy") {
        PodRefusal::Webhook(message.to_owned())
    } else if [" usage per ", " limit to request ratio per "]
        .iter()
        .any(|words| has(words))
    {
        PodRefusal::LimitRange(after("is forbidden:"))
    } else {
        PodRefusal::Other(message.to_owned())
    }
}

/// The last message about a claim, since when it is repeated, and whether it is a failure.
#[derive(Debug, Default)]
pub(super) struct ClaimEvent<'a> {
    pub(super) words: &'a str,
    pub(super) seconds: i64,
    pub(super) is_warning: bool,
}

/// The most important event about a claim: a failure before a wait.
pub(super) fn about_claim<'a>(observed: &'a Observed, claim: Option<&str>) -> ClaimEvent<'a> {
    let events = || {
        observed.events.iter().filter(|event| {
            event.involved_object.kind.as_deref() == Some("PersistentVolumeClaim")
                && event.involved_object.name.as_deref() == claim
        })
    };
    let is_warning = |event: &&Event| event.type_.as_deref() == Some("Warning");
    let newest = events().filter(is_warning).max_by_key(|event| last(event));
    let newest = newest.or_else(|| events().max_by_key(|event| last(event)));
    newest.map_or_else(ClaimEvent::default, |event| ClaimEvent {
        words: message(event),
        seconds: seconds_since(observed, first(event)),
        is_warning: is_warning(&event),
    })
}
