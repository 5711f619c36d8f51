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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogWish {
    /// Go on as new lines come.
    pub follow: bool,
    /// Only this node.
    pub node: Option<u32>,
    /// Only the last lines of each node.
    pub tail: Option<u64>,
    /// How many nodes there are at most.
    pub nodes: u32,
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

/// How what comes on standard input differs from what is there.
pub fn diff() -> Vec<String> {
    let mut args = owned(&["diff", "--server-side", "-f", "-"]);
    args.push(format!("--field-manager={MANAGER}"));
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
    owned(&[
        "get",
        "events",
        "-n",
        &target.namespace,
        "--sort-by=.lastTimestamp",
        "-o",
        "json",
    ])
}

/// The logs of all nodes, each line with its pod in front.
pub fn logs(target: &Target, wish: &LogWish) -> Vec<String> {
    let mut selector = format!("{JOB_NAME_LABEL}={}", target.job);
    if let Some(node) = wish.node {
        selector += &format!(",batch.kubernetes.io/job-completion-index={node}");
    }
    let mut args = owned(&["logs", "-n", &target.namespace, "-l", &selector, "--prefix"]);
    args.push(format!("--max-log-requests={}", wish.nodes.max(1)));
    args.push(format!(
        "--tail={}",
        wish.tail.map_or("-1".to_owned(), |lines| lines.to_string())
    ));
    if wish.follow {
        args.push("--follow".to_owned());
    }
    args
}

/// Leads a port of this machine to one of a pod of the Job.
pub fn forward(target: &Target, local: u16, remote: u16) -> Vec<String> {
    let (job, ports) = (format!("job/{}", target.job), format!("{local}:{remote}"));
    owned(&["port-forward", "-n", &target.namespace, &job, &ports])
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
    let mut calls = vec![owned(&[
        "delete",
        &kinds.join(","),
        "-n",
        &target.namespace,
        "-l",
        &selector,
        "--cascade=foreground",
    ])];
    if scope == Scope::WithVolume {
        calls.push(owned(&["delete", "persistentvolumes", "-l", &selector]));
    }
    calls
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
                    call.windows(2).any(|pair| pair == ["-l", selector]),
                    "{call:?}"
                );
            }
        }
        let kept = delete(&target(), Scope::KeepVolume).concat().join(" ");
        assert!(
            !kept.contains("persistentvolume") && !kept.contains("namespace "),
            "{kept}"
        );
        assert_eq!(delete(&target(), Scope::WithVolume).len(), 2);
    }

    #[test]
    fn logs_of_all_nodes_at_once_or_of_one() {
        let wish = LogWish {
            follow: true,
            node: None,
            tail: None,
            nodes: 3,
        };
        assert_eq!(
            logs(&target(), &wish).join(" "),
            "logs -n team-a -l batch.kubernetes.io/job-name=ctr --prefix --max-log-requests=3 --tail=-1 --follow"
        );
        let one = LogWish {
            follow: false,
            node: Some(1),
            tail: Some(20),
            nodes: 3,
        };
        assert!(
            logs(&target(), &one).contains(
                &"batch.kubernetes.io/job-name=ctr,batch.kubernetes.io/job-completion-index=1"
                    .to_owned()
            )
        );
    }

    #[test]
    fn a_dry_run_is_one_on_the_server() {
        assert!(apply(Mode::DryRun).contains(&"--dry-run=server".to_owned()));
        assert!(!apply(Mode::Real).iter().any(|arg| arg.contains("dry-run")));
    }
}
