//! The logs of all nodes at once, each line with its node in front. Pods that come later are picked up too.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use launch::k8s::cluster::arguments::LogWish;
use launch::k8s::cluster::{Kubectl, Target};
use launch::k8s::explain::{self, Observed, State};
use serde_json::Value;

use super::look::index_of;
use crate::exit::Exit;

/// Between two looks for new pods.
const LOOK: Duration = Duration::from_secs(1);

/// Prints them; with `follow`, until the job has ended.
pub fn logs(
    kubectl: &Kubectl,
    target: &Target,
    wish: LogWish,
    node: Option<u32>,
) -> anyhow::Result<Exit> {
    let output = Mutex::new(std::io::stdout());
    let mut known = BTreeSet::new();
    let mut told = String::new();
    thread::scope(|scope| {
        loop {
            let pods = kubectl.pods(target)?;
            let wanted = |pod: &&Value| node.is_none_or(|node| index_of(pod) == node.to_string());
            let mut waiting = Vec::new();
            for pod in pods.iter().filter(wanted) {
                let name = pod["metadata"]["name"].as_str().unwrap_or("").to_owned();
                match not_started(pod) {
                    Some(reason) => waiting.push(format!("{name} has no log yet: {reason}")),
                    None if known.insert(name.clone()) => {
                        let prefix = prefix(pod, &name);
                        let print = || print_log(kubectl, target, wish, &name, &prefix, &output);
                        if wish.follow {
                            let (name, prefix, output) = (name.clone(), prefix.clone(), &output);
                            scope.spawn(move || {
                                print_log(kubectl, target, wish, &name, &prefix, output)
                            });
                        } else {
                            print();
                        }
                    }
                    None => {}
                }
            }
            let text = waiting.join("\n");
            if !text.is_empty() && text != told {
                eprintln!("{text}");
                told = text;
            }
            let job = kubectl.job(target)?;
            if known.is_empty() && pods.is_empty() {
                tell_absent(target, job.is_some());
            }
            let observed = Observed {
                job,
                ..Observed::default()
            };
            let state = explain::report(&observed).state;
            let is_over = matches!(state, State::Complete | State::Failed | State::Absent);
            if !wish.follow || is_over {
                return Ok(if known.is_empty() {
                    Exit::Failure
                } else {
                    Exit::Success
                });
            }
            thread::sleep(LOOK);
        }
    })
}

fn tell_absent(target: &Target, is_there: bool) {
    let name = &target.job;
    if is_there {
        eprintln!("job {name} has no pods; `canoe job status {name}` says why");
    } else {
        eprintln!(
            "there is no job {name}; logs of earlier runs are on its volume, in {name}/output/node_<id>/"
        );
    }
}

fn prefix(pod: &Value, name: &str) -> String {
    match index_of(pod) {
        "" => format!("{name}: "),
        index => format!("node {index}: "),
    }
}

/// Why a pod has no log yet.
fn not_started(pod: &Value) -> Option<String> {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or("");
    match (
        text("/status/phase"),
        text("/status/containerStatuses/0/state/waiting/reason"),
    ) {
        ("Running" | "Succeeded" | "Failed", _) => None,
        (_, "") => Some("it waits for a machine".to_owned()),
        (_, reason) => Some(reason.to_owned()),
    }
}

fn print_log(
    kubectl: &Kubectl,
    target: &Target,
    wish: LogWish,
    pod: &str,
    prefix: &str,
    output: &Mutex<std::io::Stdout>,
) {
    let mut command = kubectl.logs(&target.namespace, pod, &wish);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        return eprintln!("{prefix}kubectl cannot be started");
    };
    let pipe = child.stdout.take();
    for line in pipe
        .into_iter()
        .flat_map(|pipe| BufReader::new(pipe).split(b'\n'))
    {
        let Ok(line) = line else { break };
        let mut output = output
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let text = String::from_utf8_lossy(&line);
        // Whoever reads us may have gone; kubectl is then ended below.
        if writeln!(output, "{prefix}{text}").is_err() {
            drop(child.kill());
            break;
        }
    }
    drop(child.wait());
}
