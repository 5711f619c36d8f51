//! Metrics of the job as a whole and of its nodes, and where its processes serve their own.

use std::time::Instant;

use serde_json::{Value, json};
use watch::job::WatchedJob;
use watch::nodes::{self, NodeView, ProcessView, WatchedNodes, WatchedState};
use watch::picture;
use words::metrics::{Exposition, MetricKind};
use words::process::Role;

/// A process that has been silent for longer is not scraped.
const SILENT: f64 = 60.0;

/// Every state, so that each has its own line, 1 or 0.
const STATES: [(WatchedState, &str); 7] = [
    (WatchedState::Starting, "starting"),
    (WatchedState::Running, "running"),
    (WatchedState::Waiting, "waiting"),
    (WatchedState::Finished, "finished"),
    (WatchedState::Failed, "failed"),
    (WatchedState::Interrupted, "interrupted"),
    (WatchedState::Gone, "gone"),
];

struct Looked {
    name: String,
    state: WatchedState,
    nodes: Vec<NodeView>,
    head: Value,
}

/// The metrics of jobs in Prometheus' text form.
pub(super) fn text<'a>(jobs: impl Iterator<Item = &'a WatchedJob>, now: Instant) -> String {
    let looked: Vec<Looked> = jobs
        .map(|job| {
            let WatchedNodes { state, nodes } = nodes::nodes(job, now);
            let ask = picture::Ask {
                incarnation: job.incarnation(),
                since: job.history.order(),
                nodes: picture::Nodes::First,
            };
            let head = picture::update(job, &ask, now)["head"].clone();
            Looked {
                name: job.name().to_owned(),
                state,
                nodes,
                head,
            }
        })
        .collect();
    let mut out = Exposition::default();
    of_jobs(&mut out, &looked);
    of_nodes(&mut out, &looked);
    out.into_text()
}

fn of_jobs(out: &mut Exposition, jobs: &[Looked]) {
    let mut states = out.metric(
        "canoe_job_state",
        MetricKind::Gauge,
        "1 for the state that the job is in.",
    );
    for job in jobs {
        for (state, word) in STATES {
            let value = f64::from(u8::from(state == job.state));
            states.value(&[("name", &job.name), ("state", word)], value);
        }
    }
    for (name, field, help) in [
        ("canoe_job_pass", "pass", "Current pass, from 0."),
        ("canoe_job_passes", "passes", "Passes to train."),
        ("canoe_job_nodes", "nodes", "Nodes of the job."),
        (
            "canoe_job_samples",
            "samples",
            "Samples that all trainers have trained on.",
        ),
        (
            "canoe_job_samples_per_second",
            "speed",
            "Samples per second of all trainers together.",
        ),
        (
            "canoe_job_remaining_seconds",
            "left",
            "Estimated time until the last pass ends.",
        ),
    ] {
        let mut values = out.metric(name, MetricKind::Gauge, help);
        for job in jobs {
            values.value(
                &[("name", &job.name)],
                job.head[field].as_f64().unwrap_or(f64::NAN),
            );
        }
    }
}

fn of_nodes(out: &mut Exposition, jobs: &[Looked]) {
    type Figure = fn(&ProcessView) -> f64;
    let figures: [(&str, MetricKind, &str, Figure); 4] = [
        (
            "canoe_node_up",
            MetricKind::Gauge,
            "1 while a process of the node runs.",
            |process| {
                f64::from(u8::from(matches!(
                    process.state,
                    "working" | "waiting" | "starting"
                )))
            },
        ),
        (
            "canoe_node_restarts_total",
            MetricKind::Counter,
            "Restarts of a process of the node.",
            |process| f64::from(process.restarts),
        ),
        (
            "canoe_node_silent_seconds",
            MetricKind::Gauge,
            "Time since the last sign of life of a process that should be running.",
            |process| process.silent.unwrap_or(0.0),
        ),
        (
            "canoe_node_memory_bytes",
            MetricKind::Gauge,
            "Memory in use by a process of the node.",
            |process| process.memory as f64,
        ),
    ];
    for (name, kind, help, figure) in figures {
        let mut values = out.metric(name, kind, help);
        for job in jobs {
            for node in &job.nodes {
                let id = node.id.to_string();
                for (role, process) in [("trainer", &node.trainer), ("pserver", &node.server)] {
                    if let Some(process) = process {
                        values.value(
                            &[("name", &job.name), ("node", &id), ("role", role)],
                            figure(process),
                        );
                    }
                }
            }
        }
    }
    let mut awaited = out.metric(
        "canoe_node_awaited",
        MetricKind::Gauge,
        "1 while the others wait for this node.",
    );
    for job in jobs {
        for node in &job.nodes {
            let value = f64::from(u8::from(node.awaited));
            awaited.value(
                &[("name", &job.name), ("node", &node.id.to_string())],
                value,
            );
        }
    }
}

/// Processes of this machine that serve metrics, in the format of Prometheus' discovery by HTTP.
pub(super) fn targets(job: &WatchedJob, now: Instant) -> Vec<Value> {
    let alive = job
        .states
        .iter()
        .filter(|(_, seen)| seen.silent(now) < SILENT);
    alive
        .filter_map(|((node, role), seen)| {
            let port = seen.status.status_port?;
            let role = match role {
                Role::Trainer => "trainer",
                Role::Pserver => "pserver",
            };
            Some(json!({
                "targets": [format!("127.0.0.1:{port}")],
                "labels": {"role": role, "node": node.to_string(), "canoe_job": job.name()},
            }))
        })
        .collect()
}
