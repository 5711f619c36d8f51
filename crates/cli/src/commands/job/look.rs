//! How a job is: its state, what is the matter, and how far every node is. For `status`, `watch` and `submit --wait`.

use std::thread;
use std::time::{Duration, Instant};

use launch::display::screen::Screen;
use launch::display::text;
use launch::k8s::cluster::{ClusterError, Kubectl, Target};
use launch::k8s::explain::{self, Report, State};
use launch::node::health::NodeStatus;
use serde_json::Value;

use crate::exit::Exit;
use crate::table::{Align, Table};

/// Between two looks at a job that is watched.
const LOOK: Duration = Duration::from_secs(2);
/// A cluster that cannot be asked for this long is given up.
const UNREACHABLE: Duration = Duration::from_secs(120);
/// More nodes than this are not asked one by one.
const ASKED: usize = 64;

/// What a look at a job showed.
pub struct Look {
    report: Report,
    nodes: Vec<Node>,
}

struct Node {
    pod: String,
    index: String,
    state: String,
    status: Option<Result<NodeStatus, String>>,
}

/// Looks at everything.
pub fn look(kubectl: &Kubectl, target: &Target) -> Result<Look, ClusterError> {
    let observed = kubectl.observe(target)?;
    let mut pods: Vec<&Value> = observed.pods.iter().collect();
    pods.sort_by_key(|pod| (index_of(pod).parse::<u32>().ok(), created(pod).to_owned()));
    let asked: Vec<Option<Result<NodeStatus, String>>> = thread::scope(|scope| {
        let ask = |(place, pod): (usize, &&Value)| {
            let name = word(pod, "/metadata/name").to_owned();
            let runs = word(pod, "/status/phase") == "Running" && place < ASKED;
            runs.then(|| {
                scope.spawn(move || {
                    kubectl
                        .node_status(&target.namespace, &name)
                        .map_err(|error| error.to_string())
                })
            })
        };
        let threads: Vec<_> = pods.iter().enumerate().map(ask).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<NodeStatus, String>>| {
            thread
                .join()
                .unwrap_or_else(|_| Err("asking it failed".to_owned()))
        };
        threads.into_iter().map(|thread| thread.map(join)).collect()
    });
    let nodes = pods.into_iter().zip(asked).map(|(pod, status)| Node {
        pod: word(pod, "/metadata/name").to_owned(),
        index: index_of(pod).to_owned(),
        state: state_of(pod),
        status,
    });
    Ok(Look {
        nodes: nodes.collect(),
        report: explain::report(&observed),
    })
}

fn word<'a>(pod: &'a Value, pointer: &str) -> &'a str {
    pod.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

fn created(pod: &Value) -> &str {
    word(pod, "/metadata/creationTimestamp")
}

/// The id of the node in a pod; nothing with `podlist` in a plain Job.
pub fn index_of(pod: &Value) -> &str {
    word(
        pod,
        "/metadata/labels/batch.kubernetes.io~1job-completion-index",
    )
}

fn state_of(pod: &Value) -> String {
    let phase = word(pod, "/status/phase");
    let ended = pod.pointer("/metadata/deletionTimestamp").is_some();
    let waiting = word(pod, "/status/containerStatuses/0/state/waiting/reason");
    match (phase, waiting) {
        ("Running" | "Pending", _) if ended => "ending".to_owned(),
        ("Pending", "") => "pending".to_owned(),
        ("Pending", reason) => reason.to_owned(),
        _ => phase.to_ascii_lowercase(),
    }
}

impl Look {
    /// The state of the job.
    pub fn state(&self) -> &State {
        &self.report.state
    }

    /// The exit code of a command that only looks.
    pub fn exit(&self) -> Exit {
        match self.report.state {
            State::Absent | State::Failed => Exit::JobFailed,
            _ => Exit::Success,
        }
    }

    /// One line and what is the matter.
    pub fn words(&self) -> String {
        let findings = self
            .report
            .findings
            .iter()
            .map(|finding| format!("\n  {}: {}", finding.subject, finding.text));
        format!("{}{}", self.report.summary, findings.collect::<String>())
    }

    /// A row for each pod.
    pub fn table(&self) -> String {
        if self.nodes.is_empty() {
            return String::new();
        }
        let mut table = Table::new(&[
            ("node", Align::Right),
            ("pod", Align::Left),
            ("state", Align::Left),
            ("pass", Align::Right),
            ("batch", Align::Right),
            ("cost", Align::Right),
            ("samples/s", Align::Right),
            ("does", Align::Left),
        ]);
        for node in &self.nodes {
            table.row(node.cells());
        }
        table.to_string()
    }
}

impl Node {
    fn cells(&self) -> [String; 8] {
        let status = match &self.status {
            Some(Ok(status)) => status.clone(),
            Some(Err(reason)) => NodeStatus {
                does: format!("does not tell: {}", last_line(reason)),
                ..NodeStatus::default()
            },
            None => NodeStatus::default(),
        };
        let trainer = status.trainer.clone().unwrap_or_default();
        let shown = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
        let waits = trainer.waits_for.as_deref().map(text::wait);
        let id = status.node.map(|id| id.to_string());
        [
            id.unwrap_or_else(|| self.index.clone()),
            self.pod.clone(),
            self.state.clone(),
            shown(trainer.pass.map(|pass| pass.to_string())),
            shown(trainer.batch.map(text::count)),
            shown(trainer.cost.map(text::number)),
            shown(trainer.samples_per_s.map(text::rate)),
            waits.unwrap_or(status.does),
        ]
    }
}

fn last_line(text: &str) -> &str {
    text.lines().next_back().unwrap_or("")
}

/// Looks again and again until the job has ended. On a terminal the picture is drawn anew, else only what is new is told.
pub fn watch(kubectl: &Kubectl, target: &Target, with_nodes: bool) -> anyhow::Result<Exit> {
    let terminal = crate::display::terminal_width();
    let mut screen = Screen::new();
    let mut told = String::new();
    let mut lost: Option<Instant> = None;
    loop {
        let seen = match look(kubectl, target) {
            Ok(seen) => seen,
            Err(error) => {
                let since = *lost.get_or_insert_with(Instant::now);
                if since.elapsed() > UNREACHABLE || matches!(error, ClusterError::Start { .. }) {
                    return Err(error.into());
                }
                eprintln!("{error}; looking again");
                thread::sleep(LOOK);
                continue;
            }
        };
        lost = None;
        let words = seen.words();
        if let (Some(width), true) = (terminal, with_nodes) {
            let text = format!("{words}\n{}", seen.table());
            let lines: Vec<String> = text.lines().map(|line| text::fit(line, width)).collect();
            eprint!("{}", screen.draw(&lines, width));
        } else {
            let text = if with_nodes {
                format!("{words}\n{}", seen.table())
            } else {
                words
            };
            if text != told {
                eprintln!("{}", text.trim_end());
                told = text;
            }
        }
        match seen.state() {
            State::Complete => return Ok(Exit::Success),
            State::Failed | State::Absent => return Ok(Exit::JobFailed),
            State::Starting | State::Running => thread::sleep(LOOK),
        }
    }
}
