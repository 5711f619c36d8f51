//! `canoe job watch --web`: the page of a job on a cluster, in a browser on this machine.
//!
//! Every node serves the same page, from the volume. When the node behind the page goes, another one takes its place.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use launch::k8s::cluster::{Kubectl, Target};
use launch::k8s::explain::{self, State};
use serde_json::Value;

use crate::exit::Exit;
use crate::web;

/// Between two looks for a node.
const LOOK: Duration = Duration::from_secs(1);
/// A connection that ends sooner than this did not come about.
const STOOD: Duration = Duration::from_secs(5);
/// So many of them in a row, and it is given up.
const ATTEMPTS: u32 = 3;

/// Leads the job's page to a port of this machine until the job has ended or the user has seen enough.
pub fn forward(kubectl: &Kubectl, target: &Target, port: u16) -> anyhow::Result<Exit> {
    let (mut told, mut failures) = (String::new(), 0);
    loop {
        let observed = kubectl.observe(target)?;
        let report = explain::report(&observed);
        let ended = matches!(
            report.state,
            State::Complete | State::Failed | State::Absent
        );
        let Some(pod) = choose(&observed.pods) else {
            if ended {
                let job = &target.job;
                bail!(
                    "{}; its nodes, which serve the page, are gone. With a copy of {job}/output from the volume, `canoe dashboard` shows it",
                    report.summary
                );
            }
            if report.summary != told {
                eprintln!("waiting for a node: {}", report.summary);
                told = report.summary;
            }
            thread::sleep(LOOK);
            continue;
        };
        let begun = Instant::now();
        let words = lead(kubectl, &target.namespace, pod, port)?;
        failures = if begun.elapsed() < STOOD {
            failures + 1
        } else {
            0
        };
        if failures == ATTEMPTS {
            bail!("kubectl port-forward: {words}");
        }
        eprintln!("the connection to {pod} has ended: {words}");
        thread::sleep(LOOK);
    }
}

/// A pod that can serve the page: one that is ready, or else one that runs.
fn choose(pods: &[Value]) -> Option<&str> {
    let runs = |pod: &&Value| {
        pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
    };
    let is_ready = |pod: &&Value| pod["status"]["containerStatuses"][0]["ready"] == true;
    let running: Vec<&Value> = pods.iter().filter(runs).collect();
    let ready = running.iter().copied().find(is_ready);
    let pod = ready.or(running.first().copied())?;
    pod["metadata"]["name"].as_str()
}

/// Runs kubectl until it ends; its last words.
fn lead(kubectl: &Kubectl, namespace: &str, pod: &str, port: u16) -> anyhow::Result<String> {
    let mut child = kubectl
        .forward(namespace, pod, port, web::PORT)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("run kubectl")?;
    let (heard, said) = (child.stdout.take(), child.stderr.take());
    let listener = thread::spawn(move || {
        // It says so once for each kind of address, and then for each connection.
        let mut lines = heard
            .into_iter()
            .flat_map(|pipe| BufReader::new(pipe).lines());
        if lines.any(|line| line.is_ok_and(|line| line.starts_with("Forwarding from"))) {
            println!("watch it at http://127.0.0.1:{port}/");
        }
        lines.for_each(drop);
    });
    let lines = said
        .into_iter()
        .flat_map(|pipe| BufReader::new(pipe).lines());
    let words = lines.map_while(Result::ok).last();
    drop(listener.join());
    let status = child.wait().context("wait for kubectl")?;
    Ok(words.unwrap_or_else(|| format!("it ended with {status}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_that_is_ready_is_taken_first() {
        let pod = |name: &str, phase: &str, ready: bool| {
            json!({
                "metadata": {"name": name},
                "status": {"phase": phase, "containerStatuses": [{"ready": ready}]},
            })
        };
        let pods = [
            pod("a", "Pending", false),
            pod("b", "Running", false),
            pod("c", "Running", true),
            pod("d", "Succeeded", true),
        ];
        assert_eq!(choose(&pods), Some("c"));
        assert_eq!(choose(&pods[..2]), Some("b"));
        assert_eq!(choose(&pods[..1]), None);
        assert_eq!(choose(&pods[3..]), None);
    }
}
