//! `canoe job watch`: a job on a cluster on this terminal, from the logs of its pods, or its page in a browser.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Instant;

use anyhow::Context;
use launch::event::{JobEvent, ProcessId, Role};
use launch::k8s::cluster::arguments::LogWish;
use launch::k8s::cluster::{Kubectl, Target};
use launch::local::observe::Observer;

use crate::display::Display;
use crate::exit::Exit;
use crate::web;

/// Shows the job's page on a port of this machine until interrupted. Every node serves the same page, from the volume.
pub fn forward(kubectl: &Kubectl, target: &Target, port: u16) -> anyhow::Result<Exit> {
    println!("watch it at http://127.0.0.1:{port}/");
    let status = kubectl
        .forward(target, port, web::PORT)
        .status()
        .context("run kubectl")?;
    Ok(if status.success() {
        Exit::Success
    } else {
        Exit::Failure
    })
}

/// Shows the job as `canoe run` shows one, until its logs end.
pub fn follow(kubectl: &Kubectl, target: &Target) -> anyhow::Result<Exit> {
    let wish = LogWish {
        follow: true,
        node: None,
        tail: None,
        nodes: 1000,
    };
    let mut command = kubectl.logs(target, &wish);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("run kubectl")?;
    let lines = child.stdout.take().context("read from kubectl")?;
    let mut display = Display::new(None);
    let mut nodes = Nodes::default();
    let begun = Instant::now();
    for line in BufReader::new(lines).split(b'\n') {
        let line = line.context("read the logs")?;
        for event in nodes.line(&String::from_utf8_lossy(&line), begun) {
            display.take(&event);
        }
    }
    display.end();
    let status = child.wait().context("wait for kubectl")?;
    Ok(if status.success() {
        Exit::Success
    } else {
        Exit::Failure
    })
}

/// What the logs of all nodes have told.
#[derive(Default)]
struct Nodes {
    seen: BTreeMap<ProcessId, Observer>,
}

impl Nodes {
    fn line(&mut self, line: &str, begun: Instant) -> Vec<JobEvent> {
        let Some((process, text)) = parse(line) else {
            return Vec::new();
        };
        let mut events = Vec::new();
        let observer = self.seen.entry(process).or_insert_with(|| {
            events.push(JobEvent::Ready { process });
            Observer::new(process)
        });
        let (told, saved) = observer.line(text, begun.elapsed());
        events.extend(told);
        events.extend(saved.map(|directory| JobEvent::PassSaved { directory }));
        events
    }
}

/// `[pod/job-0-x/node] trainer 0: text`: whose line it is, and the line.
fn parse(line: &str) -> Option<(ProcessId, &str)> {
    let line = match line.strip_prefix("[pod/") {
        Some(rest) => rest.split_once("] ")?.1,
        None => line,
    };
    let (who, text) = line.split_once(": ")?;
    let (role, node) = who.split_once(' ')?;
    let role = match role {
        "trainer" => Role::Trainer,
        "pserver" => Role::Pserver,
        _ => return None,
    };
    let node = node.parse().ok()?;
    Some((ProcessId { role, node }, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_pods_become_events() {
        let mut nodes = Nodes::default();
        let begun = Instant::now();
        let line = "[pod/lr-1-abcde/node] trainer 1: I1116 09:10:17.1    50 TrainerInternal.cpp:165]  Batch=20 samples=2560 AvgCost=0.6 Eval: ";
        let events = nodes.line(line, begun);
        let process = ProcessId::trainer(1);
        assert_eq!(events[0], JobEvent::Ready { process });
        assert!(
            matches!(&events[1], JobEvent::Progress { status, .. } if status.batch == Some(20)),
            "{events:?}"
        );
        assert_eq!(nodes.line(line, begun).len(), 1);
        assert!(
            nodes
                .line("[pod/lr-1-abcde/node] nothing to see: here", begun)
                .is_empty()
        );
        assert!(nodes.line("", begun).is_empty());
    }
}
