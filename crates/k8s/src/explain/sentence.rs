//! The sentence for every reason: what is wrong and what to do. All texts of the diagnosis are in this file.

use std::fmt::{self, Display, Formatter};

use super::reason::{
    ContainerExit, Ending, FailedBy, MountFailure, Placement, PodRefusal, PullFailure, Reason,
    Subject, Unbound,
};
use crate::job::PYTHON_IMAGE;

use super::{Diagnosis, Finding, JobState, NodeCounts};

/// With more names than this, only their number is shown.
const NAMES: usize = 4;

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self.subjects.iter().take(NAMES).map(name).collect();
        let more = self.subjects.len().saturating_sub(NAMES);
        let kind = self.subjects.first().map_or("", kind);
        let plural = if self.subjects.len() > 1 { "s" } else { "" };
        write!(f, "{kind}{plural} {}", shown.join(", "))?;
        if more > 0 {
            write!(f, " and {more} more")?;
        }
        write!(f, ": {}", self.reason)
    }
}

fn kind(subject: &Subject) -> &'static str {
    match subject {
        Subject::Job(_) => "job",
        Subject::Pod(_) => "pod",
        Subject::Claim(_) => "claim",
        Subject::Machine(_) => "machine",
        Subject::Node(_) => "node",
    }
}

fn name(subject: &Subject) -> String {
    match subject {
        Subject::Job(name) | Subject::Pod(name) | Subject::Claim(name) | Subject::Machine(name) => {
            name.clone()
        }
        Subject::Node(index) => index.to_string(),
    }
}

impl Diagnosis {
    /// One line: how many nodes run, have ended, have failed.
    pub fn summary(&self) -> String {
        let NodeCounts {
            nodes,
            ready,
            starting,
            finished,
            failed,
            retries,
        } = self.counts;
        if self.state == JobState::Absent {
            return "there is no such job; `canoe job submit` makes one".to_owned();
        }
        let mut line = format!(
            "{}: {ready} ready, {starting} starting, {finished} finished",
            count(nodes, "node", "nodes")
        );
        if failed > 0 {
            let verb = if failed == 1 { "has" } else { "have" };
            line += &format!("; {} {verb} failed, ", count(failed, "pod", "pods"));
            line += &match retries {
                0 => "no retries were allowed".to_owned(),
                _ => format!("{} of {retries} retries used", failed.min(retries)),
            };
        }
        if self.state == JobState::Deleting {
            line = format!("the job is being deleted; {line}");
        }
        line
    }
}

fn count(number: i32, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::JobFailed { rule, cause, logs } => job_failed(f, rule, cause.as_ref(), logs),
            Self::DataFailed(cause) => {
                f.write_str("the data could not be prepared")?;
                if let Some(cause) = cause {
                    write!(f, ": its pod {cause}")?;
                }
                f.write_str("; correct `data` in job.yaml and submit with --replace")
            }
            Self::CopyFailed(cause) => {
                f.write_str("copies to the object store could not be made")?;
                if let Some(cause) = cause {
                    write!(f, ": its pod {cause}")?;
                }
                f.write_str("; training is not affected, and `canoe job get --to s3://…` copies later")
            }
            Self::OnlyFiles { get } => write!(
                f,
                "its Job is gone: deleted, or removed by itself some time after its end (`ttlSeconds`); its results are on the volume, and `{get}` copies them here"
            ),
            Self::OtherKeys { job } => write!(
                f,
                "there are two generations of keys: Secret {job} was replaced after the job began, so pods that start now cannot join the others; `canoe job submit DIR --replace` begins again from the last pass with one set of keys"
            ),
            Self::Suspended { queue: None, .. } => f.write_str(
                "is suspended: `canoe job resume` continues a job that was paused; one that a queue holds back runs when the queue lets it",
            ),
            Self::Suspended {
                queue: Some(queue),
                said,
            } => {
                write!(f, "waits in queue {queue}, which starts it when all its nodes have room")?;
                match said {
                    Some(said) => write!(f, " ({said})"),
                    None => Ok(()),
                }
            }
            Self::FinalizersHold { finalizers } => write!(
                f,
                "its deletion waits for {}; the controller that set {} has to remove it; if it no longer exists, `kubectl edit` takes it out of metadata.finalizers",
                finalizers.join(", "),
                if finalizers.len() > 1 { "these finalizers" } else { "this finalizer" }
            ),
            Self::BeingDeleted { pods } => {
                write!(f, "is being deleted; {} left", count_pods(*pods))
            }
            Self::DeletionWaits {
                machine,
                pod,
                namespace,
            } => write!(
                f,
                "its deletion waits for pod {pod} on machine {machine}, which does not respond; it ends when the machine is back or given up: `kubectl delete node \
                 {machine}` if it is gone, or `kubectl delete pod {pod} -n {namespace} --force` if it is switched off"
            ),
            Self::NotCreated(refusal) => write!(f, "no pod can be made: {refusal}"),
            Self::CreatesAgain(message) => write!(
                f,
                "a pod could not be made at first, and is tried again by itself: {message}"
            ),
            Self::HeldBack { gates } => write!(
                f,
                "held back by scheduling gates ({gates}); their controller, usually a queue, removes them when there is room"
            ),
            Self::MachineComes { message } => write!(
                f,
                "no machine has room yet; the cluster is adding one ({message})"
            ),
            Self::NoPodYet => f.write_str("no pod at the moment; the Job makes one after a pause, which doubles each time a pod of the node ends (10 s, 20 s, … 10 minutes)"),
            Self::NotPlaced(reasons) => {
                let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                write!(f, "cannot be placed: {}", reasons.join("; "))
            }
            Self::Pulling {
                image,
                machine,
                seconds,
            } => match seconds {
                0 => write!(f, "machine {machine} is pulling image {image}"),
                _ => write!(f, "machine {machine} has been pulling image {image} for more than {seconds} s"),
            },
            Self::ImageNotPulled { image, why } => {
                write!(f, "image {image} cannot be pulled: {why}")?;
                match image == PYTHON_IMAGE {
                    true => f.write_str("; --python-image (`pythonImage` in job.yaml) names another image with Python, which the machines can pull"),
                    false => Ok(()),
                }
            }
            Self::ImageNameInvalid { image } => write!(
                f,
                "image {image:?} is not a valid name; correct `image` in job.yaml"
            ),
            Self::ImageNeverPulled { image } => write!(
                f,
                "image {image} is not on the machine and may not be pulled: load it onto every machine, or leave out `imagePullPolicy: Never`"
            ),
            Self::NotStarted {
                message,
                is_incomplete,
            } => {
                write!(f, "cannot start: {message}")?;
                match is_incomplete {
                    true => f.write_str("; submit the job again to make what is missing"),
                    false => Ok(()),
                }
            }
            Self::Crashes(None) => f.write_str("fails again and again; its log says why"),
            Self::Crashes(Some(exit)) => write!(f, "fails again and again: it {exit}"),
            Self::NotMounted(why) => write!(f, "a volume cannot be mounted: {why}"),
            Self::MountsAgain => f.write_str(
                "not started yet: a volume could not be mounted at first; the machine tries again by itself",
            ),
            Self::NoPodNetwork {
                machine,
                is_full,
                message,
            } => {
                let why = if *is_full {
                    "its pod network has no free address"
                } else {
                    "its pod network does not work"
                };
                write!(
                    f,
                    "cannot be started on machine {machine}: {why} ({message}); have the network of {machine} repaired, or keep pods away from it (`kubectl cordon \
                     {machine}`) and delete these, so that they are placed elsewhere"
                )
            }
            Self::NoSandbox { machine, message } => write!(
                f,
                "cannot be started on machine {machine}: {message}; have {machine} repaired, or keep pods away from it (`kubectl cordon {machine}`) and delete \
                 these, so that they are placed elsewhere"
            ),
            Self::SandboxAgain => f.write_str(
                "not started yet: the machine could not make room for it at first, and tries again by itself",
            ),
            Self::NetworkAgain => f.write_str(
                "not started yet: its network could not be set up at first; the machine tries again by itself",
            ),
            Self::MachineLost {
                machine,
                nodes,
                is_asked,
            } => machine_lost(f, machine, nodes, *is_asked),
            Self::MachineGivenUp => {
                f.write_str("does not respond and was given up; successors of its pods come by themselves")
            }
            Self::Ending(why) => write!(f, "ending: {why}; a successor comes by itself"),
            Self::EndsLate {
                machine,
                finalizers,
            } if finalizers.is_empty() => write!(
                f,
                "should have ended long ago and has not: machine {machine} does not end it; if the machine is off or hangs, restart it or give it up (`kubectl delete \
                 node {machine}`)"
            ),
            Self::EndsLate { finalizers, .. } => write!(
                f,
                "should have ended long ago and is kept by {}: the controller that set it has to remove it from the pod's metadata.finalizers",
                finalizers.join(", ")
            ),
            Self::TurnedAway { reason, message } => turned_away(f, reason, message),
            Self::Unresponsive => f.write_str(
                "did not respond to its machine's health check and was ended; its log says what it did; a new pod takes its place",
            ),
            Self::Evicted {
                for_disk: true,
                message,
            } => write!(
                f,
                "evicted: {message}; raise `resources.disk` and submit again"
            ),
            Self::Evicted { message, .. } => {
                write!(f, "evicted: {message}; a new pod takes its place")
            }
            Self::PodFailed { exit, used, limit } => {
                write!(f, "{exit}")?;
                match used {
                    _ if exit.is_final() => f.write_str("; the job fails at once, because a new pod would fail the same way"),
                    0 => f.write_str("; a new pod takes its place"),
                    _ if used > limit => f.write_str("; that is one failure too many"),
                    _ => write!(f, "; {used} of {limit} retries used, a new pod takes its place"),
                }
            }
            Self::Ended(exit) => write!(f, "{exit}"),
            Self::FailedBefore { pods, exit } => {
                write!(f, "{} failed before ({exit}) and {} replaced", count_pods(*pods), if *pods == 1 { "was" } else { "were" })
            }
            Self::NotBound(why) => write!(f, "is not bound: {why}"),
        }
    }
}

fn turned_away(f: &mut Formatter<'_>, reason: &str, message: &str) -> fmt::Result {
    let why = match reason {
        "NodeShutdown" | "Shutdown" | "Terminated" => "its machine was shut down",
        "NodeAffinity" => "its machine no longer has the labels of `nodeSelector`",
        "Preempting" => "its machine needed the room for a pod of the system",
        "DeadlineExceeded" => "its time was over",
        reason if reason.starts_with("OutOf") => "its machine had no room left when it came",
        reason => reason,
    };
    f.write_str(why)?;
    if !message.is_empty() {
        write!(f, " ({message})")?;
    }
    f.write_str("; a new pod takes its place")
}

fn count_pods(pods: usize) -> String {
    match pods {
        0 => "no pod is".to_owned(),
        1 => "1 pod".to_owned(),
        pods => format!("{pods} pods"),
    }
}

fn job_failed(
    f: &mut Formatter<'_>,
    rule: &FailedBy,
    cause: Option<&ContainerExit>,
    logs: &str,
) -> fmt::Result {
    let cause = cause.map_or(String::new(), |cause| format!(": a pod {cause}"));
    match rule {
        FailedBy::FailurePolicy => write!(
            f,
            "the job failed at once, because a new pod would fail the same way{cause}; correct it, then `canoe job submit --replace`"
        ),
        FailedBy::Retries(0) => write!(
            f,
            "the job failed because a pod failed and no retries are allowed{cause}; `{logs}` shows more"
        ),
        FailedBy::Retries(limit) => write!(
            f,
            "the job failed because its pods failed more than {limit} time{}{cause}; `{logs}` shows more",
            if *limit == 1 { "" } else { "s" }
        ),
        FailedBy::Deadline => f.write_str(
            "the job ran longer than `deadlineSeconds` allows; raise it and submit again",
        ),
        FailedBy::Other(message) => write!(f, "the job failed: {message}{cause}"),
    }
}

fn machine_lost(
    f: &mut Formatter<'_>,
    machine: &str,
    nodes: &[u32],
    is_asked: bool,
) -> fmt::Result {
    let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    f.write_str("does not respond")?;
    if !names.is_empty() {
        let (plural, verb) = if names.len() > 1 {
            ("s", "are")
        } else {
            ("", "is")
        };
        write!(
            f,
            "; node{plural} {} of the job {verb} there",
            names.join(", ")
        )?;
    }
    f.write_str(", and the job stands still until the machine is back")?;
    if is_asked {
        f.write_str(" (its pods have been asked to end, but cannot hear it)")?;
    }
    write!(
        f,
        " or is given up: `kubectl delete node {machine}` if it is gone, or `kubectl taint nodes {machine} \
         node.kubernetes.io/out-of-service=nodeshutdown:NoExecute` if it is switched off"
    )
}

impl Display for ContainerExit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory(limit) => {
                let limit = limit
                    .as_ref()
                    .map_or(String::new(), |limit| format!(" ({limit})"));
                write!(
                    f,
                    "used more memory than `resources.memory` allows{limit} and was ended; raise it and submit again"
                )
            }
            Self::Evicted(message) => write!(f, "was evicted: {message}"),
            Self::CannotRun(message) => {
                write!(f, "could not be started: {message}")?;
                f.write_str(if message.contains("exec format error") {
                    "; the program is not made for the processors of that machine: name the right ones in `nodeSelector` (kubernetes.io/arch)"
                } else if message.contains("executable file not found")
                    || message.contains("no such file or directory")
                {
                    "; `image` in job.yaml does not have the program"
                } else {
                    ""
                })
            }
            Self::Code(code, words) => {
                let meaning = match code {
                    64 => " (wrong flags or variables)",
                    75 => " (a temporary failure)",
                    78 => " (a wrong configuration)",
                    137 => " (killed from outside, not for its memory as far as Kubernetes knows)",
                    139 => " (a segmentation fault)",
                    143 => " (it was asked to end)",
                    _ => "",
                };
                write!(f, "ended with code {code}{meaning}")?;
                match words {
                    Some(words) => write!(f, ": {words}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl Display for Ending {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleted => f.write_str("it was deleted"),
            Self::Drained(machine) => write!(f, "machine {machine} is being emptied"),
            Self::Preempted => f.write_str("a pod of higher priority needs the room"),
            Self::MachineGone(machine) => {
                write!(f, "machine {machine} is no longer in the cluster")
            }
        }
    }
}

impl Display for PodRefusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodSecurity(detail) => write!(
                f,
                "the namespace's pod security refuses it ({detail}); render the job again with this version of canoe"
            ),
            Self::Quota(detail) => write!(
                f,
                "the namespace's quota is used up ({detail}); lower `resources` or `nodes`, or have the quota raised"
            ),
            Self::QuotaWantsLimits(detail) => write!(
                f,
                "the namespace's quota wants limits that the job does not set ({detail}); have a LimitRange set defaults"
            ),
            Self::NoAccount => f.write_str("its service account is missing; submit the job again"),
            Self::LimitRange(detail) => write!(
                f,
                "a LimitRange of the namespace refuses it ({detail}); change `resources` in job.yaml, or have the range changed"
            ),
            Self::NoPriorityClass(class) => write!(
                f,
                "there is no priority class {class:?}; correct `priorityClass` in job.yaml (`kubectl get priorityclass` lists them)"
            ),
            Self::Webhook(message) => {
                write!(
                    f,
                    "an admission webhook or policy of the cluster refuses it: {message}"
                )
            }
            Self::WebhookSilent(message) => write!(
                f,
                "an admission webhook of the cluster does not respond, so nothing can be made: {message}; the operator of the cluster has to repair it"
            ),
            Self::NamespaceGoes => {
                f.write_str("the namespace is being deleted; submit the job to another one")
            }
            Self::Other(message) => f.write_str(message),
        }
    }
}

impl Display for Placement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let numbers = |asked: &Option<String>, most: &Option<String>| match (asked, most) {
            (Some(asked), Some(most)) => {
                format!(" (each pod asks for {asked}, the largest machine has {most})")
            }
            (Some(asked), None) => format!(" (each pod asks for {asked})"),
            _ => String::new(),
        };
        match self {
            Self::Cores(asked, most) => write!(
                f,
                "no machine has enough free cores{}: lower `resources.cpu`, or add machines",
                numbers(asked, most)
            ),
            Self::Memory(asked, most) => write!(
                f,
                "no machine has enough free memory{}: lower `resources.memory`, or add machines",
                numbers(asked, most)
            ),
            Self::Disk => f.write_str(
                "no machine has enough free disk: lower `resources.disk`, or add machines",
            ),
            Self::Resource(name) => write!(f, "no machine has enough {name}"),
            Self::Taint(taints) if taints.is_empty() => {
                f.write_str("machines are tainted: add `tolerations` to job.yaml")
            }
            Self::Taint(taints) => write!(
                f,
                "machines are tainted ({taints}): add `tolerations` to job.yaml"
            ),
            Self::Cordoned => f.write_str(
                "machines are closed for new pods (cordoned): `kubectl uncordon MACHINE` opens one again",
            ),
            Self::NotReady => f.write_str("machines are not ready"),
            Self::Pressure(what) => write!(
                f,
                "machines run short of {}, and take no pods until they have some again",
                match what.as_str() {
                    "pid" => "process ids",
                    what => what,
                }
            ),
            Self::Gang => f.write_str(
                "not all nodes of the job find room at once, and the scheduler places all or none: lower `nodes` or `resources`, or wait for others to end",
            ),
            Self::Selector(labels) => {
                let labels = if labels.is_empty() {
                    String::new()
                } else {
                    format!(" ({labels})")
                };
                write!(
                    f,
                    "no machine has the labels of `nodeSelector`{labels}: correct it, or label a machine"
                )
            }
            Self::ClaimUnbound => f.write_str("its volume is not bound"),
            Self::ClaimMissing(claim) => write!(
                f,
                "its claim does not exist: there is no claim {claim:?} in this namespace; make it, or name another volume (`volume` in job.yaml, --claim or --nfs)"
            ),
            Self::ClaimGoes(claim) => write!(
                f,
                "its claim {claim:?} is being deleted; make it again, or name another under `volume` in job.yaml"
            ),
            Self::NoVolumeThere => f.write_str(
                "no volume can be bound on the machines with room; look at the claim and its storage class",
            ),
            Self::TooManyPods => {
                f.write_str("machines have as many pods as they may: add machines")
            }
            Self::VolumeElsewhere => f.write_str(
                "its volume cannot be mounted where there is room; it must be reachable from all zones",
            ),
            Self::NoMachines => f.write_str("the cluster has no machines"),
            Self::Other(message) => f.write_str(message),
        }
    }
}

impl Display for PullFailure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => {
                "the registry does not have it; check name and tag in job.yaml, and that it was pushed"
            }
            Self::NoRegistry => {
                "the name has no registry, so Docker Hub was asked, which does not have it: push the image to a registry of yours and \
                 set `image`, or load it onto every machine (`kind load docker-image`, `ctr -n k8s.io images import`) under a tag other than `latest`"
            }
            Self::Login => {
                "the registry wants a login; make a secret with `kubectl create secret docker-registry` and name it under `imagePullSecrets`"
            }
            Self::Unreachable => {
                "the registry cannot be reached from the cluster; check its name, and that the machines reach it"
            }
            Self::UnknownOrLogin => {
                "the registry does not have it, or wants a login for it; check name and tag in job.yaml, and `imagePullSecrets`"
            }
            Self::NoSecret(secret) => {
                return write!(
                    f,
                    "the registry wants a login, and secret {secret:?} of `imagePullSecrets` does not exist: make it with `kubectl create secret docker-registry {secret}`"
                );
            }
            Self::Certificate => {
                "the machine does not trust the registry's certificate; its authority has to be installed on every machine"
            }
            Self::PlainHttp => {
                "the registry speaks no TLS, and the machine is not configured to use plain HTTP for it"
            }
            Self::ServerFails => {
                "the registry replies with an error of its own; the pull is tried again, and the operator of the registry should look"
            }
            Self::Platform => {
                "it is not made for the processors of that machine; push it for them too, or name the right machines in `nodeSelector` (kubernetes.io/arch)"
            }
            Self::DiskFull => "the disk of the machine is full; have it cleaned up",
            Self::MachinePauses => "the machine pulls too many images at once, and tries again",
            Self::Limited => "the registry limits pulls; it will be tried again, or use a mirror",
            Self::Other(message) => message,
        })
    }
}

impl Display for MountFailure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing(message) => {
                return write!(f, "{message}; submit the job again to make what is missing");
            }
            Self::OneMachineOnly => {
                "only one machine can mount this volume, but all nodes write it; take one with ReadWriteMany"
            }
            Self::NoHelper => {
                "the machines have no program that mounts this kind of volume; for NFS install nfs-common (Debian) or nfs-utils (Red Hat) on every one"
            }
            Self::Denied => {
                "the file server refuses this cluster; check its export or access policy"
            }
            Self::NoFolder => "its folder does not exist there; check `volume` in job.yaml",
            Self::NoDriver => {
                "the machine has no driver for this volume yet; install the CSI driver, or wait until it runs everywhere"
            }
            Self::NoAnswer => {
                "the file server does not respond; check its address, that its security group lets port 2049 in from the machines, and \
                 that there is a mount target in their zone"
            }
            Self::Other(message) => message,
        })
    }
}

impl Display for Unbound {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClass(class) => write!(
                f,
                "there is no storage class {class:?}; `kubectl get storageclass` lists them"
            ),
            Self::OneMachineOnly(class, said) => write!(
                f,
                "storage class {class:?} makes volumes for one machine only ({said}), but all nodes write this one: name a class with ReadWriteMany, or an NFS \
                 server under `volume.nfs`"
            ),
            Self::WaitsForPod => f.write_str("it waits for a pod that uses it; look at the pods"),
            Self::VolumeTaken(volume) => write!(
                f,
                "volume {volume} is missing or kept for another claim; `kubectl get pv {volume}`"
            ),
            Self::NoVolume => f.write_str(
                "no volume fits it; name a server, a file system or a storage class under `volume` in job.yaml",
            ),
            Self::Lost => f.write_str(
                "its volume is gone, and its files with it; delete the claim and make it again",
            ),
            Self::Failed(said) => write!(f, "no volume can be made for it: {said}"),
            Self::Nobody(said) => write!(f, "nobody makes a volume for it: {said}"),
            Self::InTheMaking(said) if said.is_empty() => {
                f.write_str("the volume is not there yet")
            }
            Self::InTheMaking(said) => write!(f, "the volume is not there yet: {said}"),
        }
    }
}
