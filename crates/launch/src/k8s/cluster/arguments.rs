//! The arguments of every kubectl call: pure.

use crate::k8s::objects::{JOB_NAME_LABEL, MANAGER};

/// Which job is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Namespace.
    pub namespace: String,
    /// Name of the Job.
    pub job: String,
}

/// Whether an apply changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It does.
    Real,
    /// The server checks everything and keeps nothing.
    DryRun,
}

/// What `delete` removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Everything but the volume and its claim.
    KeepVolume,
    /// The claim and the volume object too. What is on an NFS or EFS server stays there all the same.
    WithVolume,
}

/// How logs are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogWish {
    /// Go on as new lines come.
    pub follow: bool,
    /// Only the last lines of each node.
    pub tail: Option<u64>,
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Server-side apply of what comes on standard input.
pub fn apply(mode: Mode) -> Vec<String> {
    let mut args = owned(&["apply", "--server-side", "-f", "-"]);
    args.push(format!("--field-manager={MANAGER}"));
    if mode == Mode::DryRun {
        args.push("--dry-run=server".to_owned());
    }
    args
}

/// What is there of the objects that come on standard input.
pub fn get_same() -> Vec<String> {
    owned(&["get", "-f", "-", "--ignore-not-found", "-o", "json"])
}

/// A pod as JSON, or nothing.
pub fn get_pod(namespace: &str, pod: &str) -> Vec<String> {
    owned(&[
        "get",
        "pod",
        pod,
        "-n",
        namespace,
        "--ignore-not-found",
        "-o",
        "json",
    ])
}

/// Runs a command in a pod; `input` if it reads from us.
pub fn exec(namespace: &str, pod: &str, input: bool, command: &[String]) -> Vec<String> {
    let mut args = owned(&["exec", pod, "-n", namespace, "--quiet"]);
    if input {
        args.push("--stdin".to_owned());
    }
    args.push("--".to_owned());
    args.extend(command.iter().cloned());
    args
}

/// The Job as JSON, or nothing.
pub fn get_job(target: &Target) -> Vec<String> {
    owned(&[
        "get",
        "job",
        &target.job,
        "-n",
        &target.namespace,
        "--ignore-not-found",
        "-o",
        "json",
    ])
}

/// The pods of the Job.
pub fn get_pods(target: &Target) -> Vec<String> {
    let selector = format!("{JOB_NAME_LABEL}={}", target.job);
    owned(&[
        "get",
        "pods",
        "-n",
        &target.namespace,
        "-l",
        &selector,
        "-o",
        "json",
    ])
}

/// The claims that were made for the Job.
pub fn get_claims(target: &Target) -> Vec<String> {
    owned(&[
        "get",
        "persistentvolumeclaims",
        "-n",
        &target.namespace,
        "-l",
        &selector(target),
        "-o",
        "json",
    ])
}

/// All events of the namespace.
pub fn get_events(target: &Target) -> Vec<String> {
    owned(&["get", "events", "-n", &target.namespace, "-o", "json"])
}

/// The log of one pod.
pub fn logs(namespace: &str, pod: &str, wish: &LogWish) -> Vec<String> {
    let mut args = owned(&["logs", pod, "-n", namespace]);
    args.push(format!(
        "--tail={}",
        wish.tail.map_or("-1".to_owned(), |lines| lines.to_string())
    ));
    if wish.follow {
        args.push("--follow".to_owned());
    }
    args
}

/// Leads a port of this machine to one of a pod.
pub fn forward(namespace: &str, pod: &str, local: u16, remote: u16) -> Vec<String> {
    let (pod, ports) = (format!("pod/{pod}"), format!("{local}:{remote}"));
    owned(&["port-forward", "-n", namespace, &pod, &ports])
}

/// Removes what submit has made. One call for what belongs to the namespace, one for what does not.
pub fn delete(target: &Target, scope: Scope) -> Vec<Vec<String>> {
    let mut kinds = owned(&[
        "jobs",
        "services",
        "networkpolicies",
        "poddisruptionbudgets",
        "configmaps",
        "secrets",
        "serviceaccounts",
        "roles",
        "rolebindings",
    ]);
    if scope == Scope::WithVolume {
        kinds.push("persistentvolumeclaims".to_owned());
    }
    let selector = selector(target);
    let upload = format!("{selector},app.kubernetes.io/component=upload");
    let of_namespace = |kinds: &str, selector: &str| {
        owned(&[
            "delete",
            kinds,
            "-n",
            &target.namespace,
            "-l",
            selector,
            "--cascade=foreground",
            PATIENT,
        ])
    };
    let mut calls = vec![
        of_namespace(&kinds.join(","), &selector),
        of_namespace("pods", &upload),
    ];
    if scope == Scope::WithVolume {
        calls.push(owned(&[
            "delete",
            "persistentvolumes",
            "-l",
            &selector,
            PATIENT,
        ]));
    }
    calls
}

/// Pods have time for a last snapshot, and kubectl waits for them.
const PATIENT: &str = "--timeout=10m";

/// Removes the training Job and the data Job and waits until they are gone.
pub fn delete_jobs(target: &Target) -> Vec<String> {
    owned(&[
        "delete",
        "jobs",
        "-n",
        &target.namespace,
        "-l",
        &selector(target),
        "--cascade=foreground",
        PATIENT,
    ])
}

/// Removes a pod without waiting.
pub fn delete_pod(namespace: &str, pod: &str) -> Vec<String> {
    owned(&[
        "delete",
        "pod",
        pod,
        "-n",
        namespace,
        "--ignore-not-found",
        "--wait=false",
    ])
}

fn selector(target: &Target) -> String {
    format!(
        "app.kubernetes.io/managed-by={MANAGER},app.kubernetes.io/instance={}",
        target.job
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target {
            namespace: "team-a".into(),
            job: "ctr".into(),
        }
    }

    #[test]
    fn nothing_is_deleted_that_is_not_the_jobs_own() {
        let selector = "app.kubernetes.io/managed-by=canoe,app.kubernetes.io/instance=ctr";
        for scope in [Scope::KeepVolume, Scope::WithVolume] {
            for call in delete(&target(), scope) {
                assert!(
                    call.windows(2)
                        .any(|pair| pair[0] == "-l" && pair[1].starts_with(selector)),
                    "{call:?}"
                );
            }
        }
        let kept = delete(&target(), Scope::KeepVolume).concat().join(" ");
        assert!(
            !kept.contains("persistentvolume") && !kept.contains("namespace "),
            "{kept}"
        );
        assert_eq!(delete(&target(), Scope::WithVolume).len(), 3);
    }

    #[test]
    fn the_log_of_a_pod() {
        let wish = LogWish {
            follow: true,
            tail: None,
        };
        assert_eq!(
            logs("team-a", "ctr-0-abcde", &wish).join(" "),
            "logs ctr-0-abcde -n team-a --tail=-1 --follow"
        );
    }

    #[test]
    fn a_command_in_a_pod_keeps_its_own_flags() {
        let command = [
            "canoe".to_owned(),
            "node".to_owned(),
            "--show_status".to_owned(),
        ];
        assert_eq!(
            exec("team-a", "ctr-0-abcde", true, &command).join(" "),
            "exec ctr-0-abcde -n team-a --quiet --stdin -- canoe node --show_status"
        );
    }

    #[test]
    fn a_dry_run_is_one_on_the_server() {
        assert!(apply(Mode::DryRun).contains(&"--dry-run=server".to_owned()));
        assert!(!apply(Mode::Real).iter().any(|arg| arg.contains("dry-run")));
    }
}
