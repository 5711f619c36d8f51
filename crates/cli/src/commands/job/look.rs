//! Shows the state of a job, its diagnosis, and the progress of every node. For `status`, `watch` and `submit --wait`.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use k8s::cluster::{Cluster, ClusterError, TargetJob};
use k8s::explain::{
    Diagnosis, Finding, JobState, NodeRow, Reason, ShownPod, Subject, copy_failed, diagnose,
    other_keys,
};
use k8s::objects::{KEYS_ANNOTATION, copy_job_name};
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use run::display::screen::Screen;
use run::display::text;
use run::display::view::TerminalView;
use run::event::JobEvent;
use run::node::health::NodeStatus;
use serde_json::json;
use tokio::task::JoinSet;
use words::process::ProcessId;

use crate::display::{TerminalSize, terminal_size};
use crate::exit::Exit;
use crate::table::{Align, TextTable, wrapped};

/// Interval between two checks of a job that is watched.
const LOOK: Duration = Duration::from_secs(2);
/// How long the API server may be unreachable before the command gives up.
const UNREACHABLE: Duration = Duration::from_secs(120);
/// With more nodes than this, single nodes are not asked for their status.
const ASKED: usize = 64;
/// Terminals are at least this wide.
const WIDTH: usize = 80;
/// Time limit for the status of all nodes together.
const TELL: Duration = Duration::from_secs(4);

/// The state of a job at one moment, with what its nodes reported.
pub(super) struct ObservedJob {
    target: TargetJob,
    diagnosis: Diagnosis,
    nodes: Vec<Node>,
}

struct Node {
    row: NodeRow,
    told: Reported,
    /// Nodes that do not respond, if this node waits for them.
    away: Vec<u32>,
}

/// The status that a node reported, or why there is none.
enum Reported {
    /// It was not asked.
    Nothing,
    /// Its status.
    Status(Box<NodeStatus>),
    /// The user has no right to run commands in its pod.
    NotAllowed,
    /// It did not respond in time.
    Late,
    /// The command in the pod failed, for this reason.
    Failed(String),
}

/// Reads the state of the job and the status of its nodes.
pub(super) async fn look(
    cluster: &Cluster,
    target: &TargetJob,
) -> Result<ObservedJob, ClusterError> {
    let observed = cluster.observe(target).await?;
    let mut diagnosis = diagnose(&observed);
    if let (Some(job), Some(secret)) = (&observed.job, cluster.keys(target).await?)
        && let Some(keys) = secret.annotations().get(KEYS_ANNOTATION)
    {
        diagnosis.findings.extend(other_keys(job, keys));
    }
    diagnosis
        .findings
        .extend(beside(cluster, target, diagnosis.state).await?);
    let program = observed.job.as_ref().map_or("canoe", program);
    let mut told = ask(cluster, target, &diagnosis.rows, program).await;
    let rows = std::mem::take(&mut diagnosis.rows);
    let away: Vec<u32> = match diagnosis.state {
        JobState::Starting => rows
            .iter()
            .filter(is_away)
            .filter_map(|row| row.node)
            .collect(),
        _ => Vec::new(),
    };
    let nodes = rows.into_iter().map(|row| Node {
        told: row
            .pod
            .as_ref()
            .and_then(|pod| told.remove(pod))
            .unwrap_or(Reported::Nothing),
        away: away.clone(),
        row,
    });
    Ok(ObservedJob {
        target: target.clone(),
        nodes: nodes.collect(),
        diagnosis,
    })
}

/// Sentences about what belongs to the job besides its Job object: its files on the volume, and the copies of them.
async fn beside(
    cluster: &Cluster,
    target: &TargetJob,
    state: JobState,
) -> Result<Option<Finding>, ClusterError> {
    if state == JobState::Absent {
        let files = cluster.files(target).await?;
        return Ok(files.map(|_| Finding {
            subjects: vec![Subject::Job(target.job.clone())],
            reason: Reason::OnlyFiles {
                get: target.command("get"),
            },
        }));
    }
    let copies = TargetJob {
        namespace: target.namespace.clone(),
        job: copy_job_name(&target.job),
    };
    match cluster.job(&copies).await? {
        Some(job) => Ok(copy_failed(&job, &cluster.pods(&copies).await?)),
        None => Ok(None),
    }
}

fn is_away(row: &&NodeRow) -> bool {
    matches!(
        row.shown,
        ShownPod::NoPod
            | ShownPod::Pending
            | ShownPod::Starting(_)
            | ShownPod::Lost
            | ShownPod::Ending
            | ShownPod::Failed
    )
}

/// The path or name of the canoe program in the pods of a Job.
fn program(job: &Job) -> &str {
    let spec = job
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let container = spec.and_then(|spec| spec.containers.first());
    let command = container.and_then(|container| container.command.as_ref());
    let first = command.and_then(|words| words.first());
    first.map_or("canoe", String::as_str)
}

/// Asks the nodes that run for their status, all at once and with one time limit: a machine may be gone although the API
/// server does not report it yet.
async fn ask(
    cluster: &Cluster,
    target: &TargetJob,
    rows: &[NodeRow],
    program: &str,
) -> BTreeMap<String, Reported> {
    let pods = rows.iter().filter(|row| row.can_tell()).take(ASKED);
    let mut told: BTreeMap<String, Reported> = BTreeMap::new();
    let mut asked = JoinSet::new();
    for pod in pods.filter_map(|row| row.pod.clone()) {
        told.insert(pod.clone(), Reported::Late);
        let (cluster, namespace) = (cluster.clone(), target.namespace.clone());
        let program = program.to_owned();
        asked.spawn(async move {
            let told = cluster.node_status(&namespace, &pod, &program).await;
            (told, pod)
        });
    }
    let collect = async {
        while let Some(answer) = asked.join_next().await {
            let Ok((answer, pod)) = answer else { continue };
            told.insert(
                pod,
                match answer {
                    Ok(status) => Reported::Status(Box::new(status)),
                    Err(error) if error.is_forbidden() => Reported::NotAllowed,
                    Err(error) => Reported::Failed(error.to_string()),
                },
            );
        }
    };
    // Nodes that have not responded are late; their tasks end with the set.
    let _ = tokio::time::timeout(TELL, collect).await;
    told
}

impl ObservedJob {
    /// The state of the job.
    pub(super) fn state(&self) -> &JobState {
        &self.diagnosis.state
    }

    /// The exit code of a command that only looks.
    pub(super) fn exit(&self) -> Exit {
        match self.diagnosis.state {
            JobState::Absent | JobState::Failed => Exit::JobFailed,
            _ => Exit::Success,
        }
    }

    /// The state in one line, then the diagnosis.
    pub(super) fn words(&self) -> String {
        if self.diagnosis.state == JobState::Absent && self.diagnosis.findings.is_empty() {
            return format!(
                "there is no such job: {} in namespace {}; `canoe job ls -n {}` lists those that are there, `canoe job submit` makes one",
                self.target.job, self.target.namespace, self.target.namespace
            );
        }
        let findings = self.diagnosis.findings.iter().map(ToString::to_string);
        let lines: Vec<String> = match self.diagnosis.state {
            // Only its files exist, and the sentences about them follow.
            JobState::Absent => findings.collect(),
            _ => std::iter::once(self.diagnosis.summary())
                .chain(findings.map(|finding| format!("  {finding}")))
                .collect(),
        };
        lines.join("\n")
    }

    /// The same for programs.
    pub(super) fn json(&self) -> serde_json::Value {
        let state = match self.diagnosis.state {
            JobState::Absent => "absent",
            JobState::Deleting => "deleting",
            JobState::Starting => "starting",
            JobState::Running => "running",
            JobState::Complete => "finished",
            JobState::Failed => "failed",
        };
        let findings = self.diagnosis.findings.iter().map(ToString::to_string);
        json!({
            "namespace": self.target.namespace,
            "name": self.target.job,
            "state": state,
            "summary": self.diagnosis.summary(),
            "findings": findings.collect::<Vec<_>>(),
            "nodes": self.nodes.iter().map(Node::json).collect::<Vec<_>>(),
        })
    }

    /// A row for each node. Without a terminal, lines are not wrapped.
    pub(super) fn table(&self) -> String {
        self.table_within(io::stdout().is_terminal().then_some(WIDTH))
    }

    fn table_within(&self, width: Option<usize>) -> String {
        if self.nodes.is_empty() {
            return String::new();
        }
        let columns = [
            ("node", Align::Right),
            ("pod", Align::Left),
            ("state", Align::Left),
            ("pass", Align::Right),
            ("batch", Align::Right),
            ("cost", Align::Right),
            ("samples/s", Align::Right),
            ("does", Align::Left),
        ];
        let shown = |columns: &[(&str, Align)]| {
            let mut table = TextTable::new(columns);
            for node in &self.nodes {
                table.row(node.cells().into_iter().take(columns.len()));
            }
            table.to_string()
        };
        let whole = shown(&columns);
        if whole.lines().all(|line| line.chars().count() <= WIDTH) {
            return whole;
        }
        format!("{}{}", shown(&columns[..7]), self.doings(width))
    }

    /// The activities, below the table: one line per activity, with the nodes that share it.
    fn doings(&self, width: Option<usize>) -> String {
        let mut doings: Vec<(String, Vec<String>)> = Vec::new();
        for cells in self.nodes.iter().map(Node::cells) {
            let [node, .., does] = cells;
            match doings.iter_mut().find(|(known, _)| *known == does) {
                _ if does.is_empty() => {}
                Some((_, nodes)) => nodes.push(node),
                None => doings.push((does, vec![node])),
            }
        }
        let lines = doings.iter().map(|(does, nodes)| {
            let plural = if nodes.len() == 1 { "" } else { "s" };
            let line = format!("node{plural} {}: {does}", nodes.join(", "));
            format!("  {}\n", wrapped(&line, 4, width))
        });
        lines.collect()
    }
}

impl Node {
    fn json(&self) -> serde_json::Value {
        let status = self.status();
        let trainer = status.trainer.clone().unwrap_or_default();
        json!({
            "node": status.node.or(self.row.node),
            "pod": self.row.pod,
            "state": self.row.shown.to_string(),
            "pass": trainer.pass,
            "batch": trainer.batch,
            "cost": trainer.cost,
            "samples_per_second": trainer.samples_per_second,
            "does": self.does(&status),
        })
    }

    /// The node's status, or a status that says why there is none.
    fn status(&self) -> NodeStatus {
        match &self.told {
            Reported::Status(status) => NodeStatus::clone(status),
            Reported::Nothing => NodeStatus::default(),
            Reported::NotAllowed => says("you may not ask it (no right to pods/exec)"),
            Reported::Late => says(&format!(
                "has not responded within {} s; a machine that is lost is named after about a minute",
                TELL.as_secs()
            )),
            Reported::Failed(reason) => says(&format!(
                "cannot be asked: {}",
                text::fit(last_part(reason), 60)
            )),
        }
    }

    fn cells(&self) -> [String; 8] {
        let status = self.status();
        let trainer = status.trainer.clone().unwrap_or_default();
        let shown = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
        let id = status.node.or(self.row.node).map(|id| id.to_string());
        [
            id.unwrap_or_default(),
            shown(self.row.pod.clone()),
            self.row.shown.to_string(),
            shown(trainer.pass.map(|pass| pass.to_string())),
            shown(trainer.batch.map(text::count)),
            shown(trainer.cost.map(text::number)),
            shown(trainer.samples_per_second.map(text::rate)),
            self.does(&status),
        ]
    }

    /// The node's activity. While other nodes do not respond, a waiting node waits for them, whatever it reported last.
    fn does(&self, status: &NodeStatus) -> String {
        let trains = status
            .trainer
            .as_ref()
            .is_some_and(|trainer| trainer.batch.is_some());
        if trains && !self.away.is_empty() {
            let names: Vec<String> = self.away.iter().map(ToString::to_string).collect();
            let plural = if names.len() > 1 { "s" } else { "" };
            return format!("waits for node{plural} {}", names.join(", "));
        }
        // Pass and batch have columns of their own.
        let does = match status.does.split_once(": pass ") {
            Some(("training", _)) if trains => "training",
            _ => &status.does,
        };
        match text::roll_backs(status.roll_backs as usize) {
            Some(times) => format!("{does}; {times}"),
            None => does.to_owned(),
        }
    }
}

fn says(does: &str) -> NodeStatus {
    NodeStatus {
        does: does.to_owned(),
        ..NodeStatus::default()
    }
}

impl Node {
    /// The node's status as the events that a run on this machine would have.
    fn events(&self) -> Vec<JobEvent> {
        let Reported::Status(status) = &self.told else {
            return Vec::new();
        };
        let Some(node) = status.node.or(self.row.node) else {
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
                    reason: Some(status.waits_for.clone()).filter(|reason| !reason.is_empty()),
                });
            }
        }
        events
    }
}

/// The last part of an error: its first cause.
fn last_part(text: &str) -> &str {
    let line = text.lines().next_back().unwrap_or("");
    line.rsplit(": ").next().unwrap_or(line)
}

/// Shows the job until it has ended: on a terminal as a live picture, like `canoe run`; elsewhere as a line for each
/// change.
pub(super) async fn watch(
    cluster: &Cluster,
    target: &TargetJob,
    with_nodes: bool,
) -> anyhow::Result<Exit> {
    let mut teller = Teller::new(with_nodes);
    let mut lost: Option<Instant> = None;
    loop {
        let seen = match look(cluster, target).await {
            Ok(seen) => seen,
            Err(error) => {
                let since = *lost.get_or_insert_with(Instant::now);
                if since.elapsed() > UNREACHABLE || !error.may_pass() {
                    return Err(error.into());
                }
                eprintln!("{error}; looking again");
                tokio::time::sleep(LOOK).await;
                continue;
            }
        };
        lost = None;
        teller.tell(&seen);
        match seen.state() {
            JobState::Complete => return Ok(Exit::Success),
            JobState::Failed | JobState::Absent => return Ok(Exit::JobFailed),
            JobState::Starting | JobState::Running | JobState::Deleting => {
                tokio::time::sleep(LOOK).await
            }
        }
    }
}

/// Prints the changes between two states.
struct Teller {
    with_nodes: bool,
    told: String,
    picture: Option<Picture>,
}

/// The job on a terminal: its diagnosis, then the same display as for `canoe run`.
struct Picture {
    begun: Instant,
    view: TerminalView,
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
                view: TerminalView::new(None),
                screen: Screen::new(),
            }),
        }
    }

    fn tell(&mut self, seen: &ObservedJob) {
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
    fn draw(&mut self, seen: &ObservedJob) {
        let at = self.begun.elapsed();
        for event in seen.nodes.iter().flat_map(Node::events) {
            self.view.take(at, &event);
        }
        let TerminalSize { columns, rows } = terminal_size();
        let words = seen.words();
        let mut lines: Vec<String> = words.lines().map(|line| text::fit(line, columns)).collect();
        let room = rows.saturating_sub(1 + lines.len());
        lines.extend(self.view.lines(at, columns, room));
        eprint!("{}", self.screen.draw(&lines, columns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s::explain::NodeCounts;
    use words::status::Status;

    #[test]
    fn a_node_that_tells_is_shown_as_a_local_one() {
        let running = |told| Node {
            row: NodeRow {
                node: Some(1),
                pod: Some("lr-1-abcde".to_owned()),
                shown: ShownPod::Running,
            },
            told,
            away: Vec::new(),
        };
        let status = NodeStatus {
            trainer: Some(Status {
                batch: Some(20),
                waits_for: "step 461 waits for trainer 1, 2".to_owned(),
                ..Status::default()
            }),
            does: "training: pass 0, batch 20".to_owned(),
            ..NodeStatus::default()
        };
        let mut node = running(Reported::Status(Box::new(status)));
        let process = ProcessId::trainer(1);
        let events = node.events();
        assert_eq!(events[0], JobEvent::Ready { process });
        assert!(
            matches!(&events[1], JobEvent::Progress { status, .. } if status.batch == Some(20)),
            "{events:?}"
        );
        let value = node.json();
        assert_eq!((&value["batch"], &value["node"]), (&json!(20), &json!(1)));
        assert_eq!(value["does"], "training");
        assert_eq!(node.cells()[7], "training");
        if let Reported::Status(status) = &mut node.told {
            status.roll_backs = 2;
        }
        let does = "training; rolled back to a snapshot 2 times";
        assert_eq!(node.cells()[7], does);
        node.away = vec![0];
        assert_eq!(node.cells()[7], "waits for node 0");
        let ends = "ask the node in pod lr-1: Internal error occurred: unable to upgrade connection: container not found";
        let ending = running(Reported::Failed(ends.to_owned()));
        assert_eq!(ending.cells()[7], "cannot be asked: container not found");
        for shown in [
            ShownPod::Pending,
            ShownPod::Starting("PodInitializing".to_owned()),
        ] {
            let row = NodeRow {
                node: Some(0),
                pod: None,
                shown,
            };
            assert!(
                is_away(&&row),
                "{row:?} cannot be waited for by its name only"
            );
        }
        let silent = running(Reported::Nothing);
        assert!(silent.events().is_empty());
        let forbidden = running(Reported::NotAllowed).cells();
        assert_eq!(forbidden[7], "you may not ask it (no right to pods/exec)");
        assert_eq!(forbidden[0], "1");
    }

    #[test]
    fn a_table_fits_into_eighty_columns() {
        let seen = |told: &dyn Fn() -> Reported| {
            let nodes = (0..3).map(|node| Node {
                row: NodeRow {
                    node: Some(node),
                    pod: Some(format!("quick-start-{node}-abcde")),
                    shown: ShownPod::Running,
                },
                told: told(),
                away: Vec::new(),
            });
            ObservedJob {
                target: TargetJob {
                    namespace: "default".to_owned(),
                    job: "quick-start".to_owned(),
                },
                nodes: nodes.collect(),
                diagnosis: Diagnosis {
                    state: JobState::Running,
                    counts: NodeCounts::default(),
                    findings: Vec::new(),
                    rows: Vec::new(),
                },
            }
            .table_within(Some(WIDTH))
        };
        let trains = seen(&|| {
            let trainer = Status {
                pass: Some(160),
                batch: Some(10),
                cost: Some(0.660314),
                samples_per_second: Some(6840.0),
                ..Status::default()
            };
            Reported::Status(Box::new(NodeStatus {
                trainer: Some(trainer),
                does: "training: pass 160, batch 10".to_owned(),
                ..NodeStatus::default()
            }))
        });
        assert!(trains.contains("  training\n"), "{trains}");
        let forbidden = seen(&|| Reported::NotAllowed);
        let note = "\n  nodes 0, 1, 2: you may not ask it (no right to pods/exec)\n";
        assert!(forbidden.ends_with(note), "{forbidden}");
        let waits = seen(&|| {
            Reported::Status(Box::new(says(
                "waits: server long-2.long:7164 cannot be reached: failed to lookup address information: Name or service not known (35 s)",
            )))
        });
        assert!(
            waits.contains("cannot be reached: failed to\n    lookup address"),
            "{waits}"
        );
        for table in [trains, forbidden, waits] {
            let is_narrow = |line: &str| line.chars().count() <= WIDTH;
            assert!(table.lines().all(is_narrow), "{table}");
        }
    }
}
