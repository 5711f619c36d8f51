//! What pods show: why they are not scheduled, do not start, or have ended.

use serde_json::Value;

use super::{Finding, count, list, text};

/// What is the matter with the pods.
pub fn findings(pods: &[Value]) -> Vec<Finding> {
    pods.iter().flat_map(pod).collect()
}

fn pod(pod: &Value) -> Vec<Finding> {
    let subject = format!("pod {}", text(pod, "/metadata/name"));
    let mut texts = Vec::new();
    texts.extend(not_scheduled(pod));
    texts.extend(on_lost_machine(pod));
    texts.extend(evicted(pod));
    for pointer in ["/status/initContainerStatuses", "/status/containerStatuses"] {
        for container in list(pod, pointer) {
            texts.extend(waiting(container));
            texts.extend(ended(container));
        }
    }
    texts
        .into_iter()
        .map(|text| Finding {
            subject: subject.clone(),
            text,
        })
        .collect()
}

fn not_scheduled(pod: &Value) -> Option<String> {
    let is_it = |condition: &&Value| {
        text(condition, "/type") == "PodScheduled" && text(condition, "/status") == "False"
    };
    let condition = list(pod, "/status/conditions").iter().find(is_it)?;
    let message = text(condition, "/message");
    let mut reasons = Vec::new();
    let mut add = |word: &str, reason: &str| {
        if message.contains(word) {
            reasons.push(reason.to_owned());
        }
    };
    add(
        "Insufficient cpu",
        "no machine has enough free cores: lower `resources.cpu`, or add machines",
    );
    add(
        "Insufficient memory",
        "no machine has enough free memory: lower `resources.memory`, or add machines",
    );
    add(
        "Insufficient ephemeral-storage",
        "no machine has enough free disk: lower `resources.disk`, or add machines",
    );
    add(
        "untolerated taint",
        "machines are tainted: add `tolerations` to job.yaml",
    );
    add(
        "node affinity/selector",
        "no machine has the labels of `nodeSelector`",
    );
    add(
        "unbound immediate PersistentVolumeClaims",
        "its volume is not bound",
    );
    add(
        "persistentvolumeclaim",
        "its claim does not exist: check `volume` in job.yaml",
    );
    add(
        "Too many pods",
        "machines have as many pods as they may: add machines",
    );
    add(
        "volume node affinity conflict",
        "its volume cannot be mounted where there is room; it must be reachable from all zones",
    );
    add("no nodes available", "the cluster has no machines");
    let why = if reasons.is_empty() {
        message.to_owned()
    } else {
        reasons.join("; ")
    };
    Some(format!("cannot be placed: {why}"))
}

/// A Job makes no new pod before it knows that the old one has ended, and of a machine that is gone nobody tells it.
fn on_lost_machine(pod: &Value) -> Option<String> {
    let is_it = |condition: &&Value| {
        text(condition, "/type") == "DisruptionTarget"
            && text(condition, "/status") == "True"
            && text(condition, "/reason") == "DeletionByTaintManager"
    };
    list(pod, "/status/conditions").iter().find(is_it)?;
    let machine = text(pod, "/spec/nodeName");
    (text(pod, "/status/phase") == "Running").then(|| {
        format!(
            "is on machine {machine}, which does not answer; the job goes on when it does, or when the machine is given up: `kubectl delete node {machine}` \
             if it is gone, or `kubectl taint nodes {machine} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute` if it is switched off"
        )
    })
}

fn evicted(pod: &Value) -> Option<String> {
    let message = text(pod, "/status/message");
    match text(pod, "/status/reason") {
        "Evicted" if message.contains("ephemeral") || message.contains("EmptyDir") => Some(format!(
            "was evicted: {message}; raise `resources.disk` and submit again"
        )),
        "Evicted" => Some(format!("was evicted: {}; a new pod takes its place", text(pod, "/status/message"))),
        "NodeLost" => Some("is on a machine that does not answer; a new pod takes its place when the machine is given up".to_owned()),
        _ => None,
    }
}

fn waiting(container: &Value) -> Option<String> {
    let state = container.pointer("/state/waiting")?;
    let image = text(container, "/image");
    let message = text(state, "/message");
    Some(match text(state, "/reason") {
        "ErrImagePull" | "ImagePullBackOff" => {
            format!(
                "image {image} cannot be pulled: {}",
                pull_reason(image, message)
            )
        }
        "InvalidImageName" => {
            format!("image {image:?} is not a valid name; mend `image` in job.yaml")
        }
        "ErrImageNeverPull" => format!(
            "image {image} is not on the machine and may not be pulled: load it onto every machine, or leave out `imagePullPolicy: Never`"
        ),
        "CreateContainerConfigError" => {
            format!("cannot start: {message}; submit the job again to make what is missing")
        }
        "CreateContainerError" | "RunContainerError" => format!("cannot start: {message}"),
        "CrashLoopBackOff" => "fails again and again; its log says why".to_owned(),
        _ => return None,
    })
}

/// A name without a registry means Docker Hub, whatever its user meant.
fn has_registry(image: &str) -> bool {
    image
        .split_once('/')
        .is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost")
}

fn pull_reason<'a>(image: &str, message: &str) -> &'a str {
    let lower = message.to_ascii_lowercase();
    let is_unknown = ["not found", "manifest unknown", "does not exist", "denied"]
        .iter()
        .any(|word| lower.contains(word));
    if is_unknown && !has_registry(image) {
        return "the name has no registry, so Docker Hub was asked, which does not have it: push the image to a registry of yours and \
                set `image`, or load it onto every machine (`kind load docker-image`, `ctr -n k8s.io images import`) under a tag other than `latest`";
    }
    if lower.contains("not found") || lower.contains("manifest unknown") {
        "the registry does not have it; check name and tag in job.yaml, and that it was pushed"
    } else if lower.contains("unauthorized")
        || lower.contains("denied")
        || lower.contains("authentication")
    {
        "the registry wants a login; make a secret with `kubectl create secret docker-registry` and name it under `imagePullSecrets`"
    } else if lower.contains("no such host")
        || lower.contains("timeout")
        || lower.contains("refused")
    {
        "the registry cannot be reached from the cluster"
    } else if lower.contains("429") || lower.contains("toomanyrequests") {
        "the registry limits pulls; it will be tried again, or use a mirror"
    } else {
        "see `kubectl describe pod`"
    }
}

fn ended(container: &Value) -> Option<String> {
    let state = container
        .pointer("/state/terminated")
        .or(container.pointer("/lastState/terminated"))?;
    let code = count(state, "/exitCode");
    if text(state, "/reason") == "OOMKilled" {
        return Some("was ended because it used more memory than `resources.memory` allows; raise it and submit again".to_owned());
    }
    let meaning = match code {
        0 => return None,
        64 => "wrong flags or variables",
        75 => "a passing trouble; a new pod tries again",
        78 => "a wrong configuration",
        137 => "killed, perhaps for its memory",
        139 => "a segmentation fault",
        143 => "it was asked to end",
        _ => "its log says why",
    };
    let words = last_line(text(state, "/message"));
    let words = if words.is_empty() {
        String::new()
    } else {
        format!("; it said: {words}")
    };
    Some(format!("ended with code {code}: {meaning}{words}"))
}

/// The line that says it: our own last word, or else the last one.
fn last_line(message: &str) -> &str {
    let lines = || {
        message
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    let is_ours = |line: &&str| line.starts_with("canoe") || line.starts_with("error:");
    lines().rfind(is_ours).or(lines().next_back()).unwrap_or("")
}

/// What the container that failed last has said.
pub fn last_words(pods: &[Value]) -> Option<String> {
    let states = pods
        .iter()
        .flat_map(|pod| {
            let first = list(pod, "/status/initContainerStatuses").iter();
            first.chain(list(pod, "/status/containerStatuses"))
        })
        .filter_map(|container| container.pointer("/state/terminated"));
    let failed = states.filter(|state| count(state, "/exitCode") != 0);
    let last = failed.max_by_key(|state| text(state, "/finishedAt").to_owned())?;
    let words = last_line(text(last, "/message"));
    (!words.is_empty()).then(|| words.to_owned())
}
