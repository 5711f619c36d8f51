//! The logs of all nodes at once, each line with its node in front. Pods that come later are picked up too.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::{Duration, Instant};

use k8s::cluster::{Cluster, LogOptions, TargetJob};
use k8s::explain::{NodeRow, ShownPod, diagnose, every_pod};
use tokio::task::JoinSet;

use crate::exit::Exit;

/// Interval between two searches for new pods.
const LOOK: Duration = Duration::from_secs(1);

/// How often a broken connection is opened again without a new line in between.
const ATTEMPTS: u32 = 5;

/// How long the last lines may take after the job has ended.
const LAST_LINES: Duration = Duration::from_secs(10);

/// Prints them; with `follow`, until the job has ended.
pub(super) async fn logs(
    cluster: &Cluster,
    target: &TargetJob,
    options: LogOptions,
    node: Option<u32>,
) -> anyhow::Result<Exit> {
    let mut known = BTreeSet::new();
    let mut printers = JoinSet::new();
    let mut told = String::new();
    loop {
        let observed = cluster.observe(target).await?;
        let (state, pods) = (diagnose(&observed).state, every_pod(&observed));
        let mut waiting = Vec::new();
        let wanted = |row: &&NodeRow| node.is_none_or(|node| row.node == Some(node));
        for row in pods.iter().filter(wanted) {
            let Some(pod) = &row.pod else { continue };
            if let Some(reason) = not_started(row) {
                waiting.push(format!("{pod} has no log yet: {reason}"));
            } else if known.insert(pod.clone()) {
                let (cluster, target, pod) = (cluster.clone(), target.clone(), pod.clone());
                let prefix = prefix(row, &pod);
                let print =
                    async move { print_log(&cluster, &target, options, &pod, &prefix).await };
                if options.follow {
                    printers.spawn(print);
                } else {
                    print.await;
                }
            }
        }
        let text = waiting.join("\n");
        if !text.is_empty() && text != told {
            eprintln!("{text}");
            told = text;
        }
        if known.is_empty() && pods.is_empty() {
            tell_absent(target, observed.job.is_some());
        }
        if !options.follow || state.is_over() {
            // The log of a pod that has ended also ends, unless its machine does not respond.
            let rest = async { while printers.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(LAST_LINES, rest).await;
            return Ok(if known.is_empty() {
                Exit::Failure
            } else {
                Exit::Success
            });
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn tell_absent(target: &TargetJob, is_there: bool) {
    let name = &target.job;
    if is_there {
        eprintln!(
            "job {name} has no pods; `{}` says why",
            target.command("status")
        );
    } else {
        eprintln!(
            "there is no job {name} in namespace {}; logs of earlier runs are on its volume, in {name}/output/node_<id>/",
            target.namespace
        );
    }
}

fn prefix(row: &NodeRow, pod: &str) -> String {
    match row.node {
        None => format!("{pod}: "),
        Some(index) => format!("node {index}: "),
    }
}

/// Why a pod has no log yet.
fn not_started(row: &NodeRow) -> Option<String> {
    match &row.shown {
        ShownPod::Pending => Some("it waits for a machine".to_owned()),
        ShownPod::Starting(reason) => Some(reason.clone()),
        ShownPod::Lost => Some("its machine does not respond".to_owned()),
        _ => None,
    }
}

async fn print_log(
    cluster: &Cluster,
    target: &TargetJob,
    options: LogOptions,
    pod: &str,
    prefix: &str,
) {
    let mut options = options;
    let (mut attempt, mut heard) = (1, Instant::now());
    loop {
        let mut output = std::io::stdout();
        let take = |line: &str| {
            (attempt, heard) = (1, Instant::now());
            // The reader of standard output may have closed it.
            writeln!(output, "{prefix}{line}").is_ok()
        };
        match cluster.logs(&target.namespace, pod, options, take).await {
            Err(error) if options.follow && error.may_pass() && attempt < ATTEMPTS => {
                eprintln!(
                    "{prefix}{error}; following again, some lines may be repeated ({attempt} of {ATTEMPTS})"
                );
                attempt += 1;
                tokio::time::sleep(LOOK).await;
                // Lines that were read before are not requested again.
                (options.tail, options.within) = (None, Some(heard.elapsed()));
            }
            Err(error) => return eprintln!("{prefix}{error}"),
            Ok(()) => return,
        }
    }
}
