//! How a job is: its state, what is the matter, and how far every node is. For `status`, `watch` and `submit --wait`.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};

use launch::display::screen::Screen;
use launch::display::text;
use launch::display::view::View;
use launch::event::{JobEvent, ProcessId};
use launch::k8s::cluster::{ClusterError, Kubectl, Target};
use launch::k8s::explain::{self, Report, State};
use launch::node::health::NodeStatus;
use serde_json::Value;

use crate::display::terminal_size;
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

impl Node {
    /// What the node says of itself, as the events that a run on this machine would show.
    fn events(&self) -> Vec<JobEvent> {
        let Some(Ok(status)) = &self.status else {
            return Vec::new();
        };
        let Some(node) = status.node.or_else(|| self.index.parse().ok()) else {
            return Vec::new();
        };
        let told = [
            (ProcessId::pserver(node), &status.pserver),
            (ProcessId::trainer(node), &status.trainer),
        ];
        let mut events = Vec::new();
        for (process, status) in told {
            if let Some(status) = status {
                events.push(JobEvent::Ready { process });
                events.push(JobEvent::Progress {
                    process,
                    status: status.clone(),
                });
                events.push(JobEvent::Waits {
                    process,
                    reason: status.waits_for.clone(),
                });
            }
        }
        events
    }
}

fn last_line(text: &str) -> &str {
    text.lines().next_back().unwrap_or("")
}

/// Looks again and again until the job has ended. On a terminal the picture is drawn anew, as `canoe run` draws a job
/// on this machine; elsewhere only what is new is told.
pub fn watch(kubectl: &Kubectl, target: &Target, with_nodes: bool) -> anyhow::Result<Exit> {
    let mut teller = Teller::new(with_nodes);
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
        teller.tell(&seen);
        match seen.state() {
            State::Complete => return Ok(Exit::Success),
            State::Failed | State::Absent => return Ok(Exit::JobFailed),
            State::Starting | State::Running => thread::sleep(LOOK),
        }
    }
}

/// Tells of one look after the other.
struct Teller {
    with_nodes: bool,
    told: String,
    picture: Option<Picture>,
}

/// The job on a terminal: the words about it, then the display that all ways of running a job share.
struct Picture {
    begun: Instant,
    view: View,
    screen: Screen,
}

impl Teller {
    fn new(with_nodes: bool) -> Teller {
        let draws = with_nodes && io::stderr().is_terminal();
        Teller {
            with_nodes,
            told: String::new(),
            picture: draws.then(|| Picture {
                begun: Instant::now(),
                view: View::new(None),
                screen: Screen::new(),
            }),
        }
    }

    fn tell(&mut self, seen: &Look) {
        if let Some(picture) = &mut self.picture {
            picture.draw(seen);
            return;
        }
        let mut text = seen.words();
        if self.with_nodes {
            text = format!("{text}\n{}", seen.table());
        }
        if text != self.told {
            eprintln!("{}", text.trim_end());
            self.told = text;
        }
    }
}

impl Picture {
    fn draw(&mut self, seen: &Look) {
        let at = self.begun.elapsed();
        for event in seen.nodes.iter().flat_map(Node::events) {
            self.view.take(at, &event);
        }
        let (width, height) = terminal_size();
        let words = seen.words();
        let mut lines: Vec<String> = words.lines().map(|line| text::fit(line, width)).collect();
        let room = height.saturating_sub(1 + lines.len());
        lines.extend(self.view.lines(at, width, room));
        eprint!("{}", self.screen.draw(&lines, width));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use launch::status::Status;

    #[test]
    fn a_node_that_tells_is_shown_as_a_local_one() {
        let node = Node {
            pod: "lr-1-abcde".to_owned(),
            index: "1".to_owned(),
            state: "running".to_owned(),
            status: Some(Ok(NodeStatus {
                trainer: Some(Status {
                    batch: Some(20),
                    ..Status::default()
                }),
                ..NodeStatus::default()
            })),
        };
        let process = ProcessId::trainer(1);
        let events = node.events();
        assert_eq!(events[0], JobEvent::Ready { process });
        assert!(
            matches!(&events[1], JobEvent::Progress { status, .. } if status.batch == Some(20)),
            "{events:?}"
        );
        let silent = Node {
            status: None,
            ..node
        };
        assert!(silent.events().is_empty());
    }
}
