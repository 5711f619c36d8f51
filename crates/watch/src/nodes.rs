//! The state of a job and of its nodes: which compute, which wait, and which are waited for.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::history::Process;
use crate::job::{Seen, WatchedJob};
use words::event::{JobOutcome, ProcessChange};
use words::process::Role;
use words::status::{HotShard, Phase};

/// If no process of a job has changed its state for this many seconds, the job counts as gone.
const GONE: f64 = 15.0;

/// A process whose state has not changed for this many seconds is not running.
const SILENT: f64 = 2.5;

/// The job's state in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WatchedState {
    /// No batch has been computed yet.
    Starting,
    /// Batches are being computed.
    Running,
    /// A process is waited for.
    Waiting,
    /// All passes are done.
    Finished,
    /// It could not continue.
    Failed,
    /// A user or a signal ended it.
    Interrupted,
    /// It ended without a record of its end: it was killed, or its machine was.
    Gone,
}

/// A process as it is shown.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ProcessView {
    /// One word for the state.
    pub state: &'static str,
    /// How often it was restarted.
    pub restarts: u32,
    /// Seconds since its state last changed, if it should be running.
    pub silent: Option<f64>,
    /// What it waits for; empty if nothing.
    pub waits_for: String,
    /// Resident memory in bytes.
    pub memory: u64,
    /// Share of its time spent waiting.
    pub waiting: Option<f64>,
    /// Samples per second.
    pub speed: Option<f64>,
    /// Bytes per second, received and sent.
    pub traffic: Option<(f64, f64)>,
    /// Busiest shards of a server's sparse tables.
    pub hot: Vec<HotShard>,
    /// Current pass, from 0.
    pub pass: Option<u64>,
    /// Finished batches of the pass.
    pub batch: Option<u64>,
    /// Host name and process id.
    pub place: String,
}

/// A node as it is shown.
#[derive(Debug, Clone, serde::Serialize)]
pub struct NodeView {
    /// Id of the node, from 0.
    pub id: u32,
    /// Other nodes wait for it.
    pub awaited: bool,
    /// One sentence: what it waits for, or what is wrong with it.
    pub sentence: String,
    /// `None` until its record or its state file names it.
    pub trainer: Option<ProcessView>,
    /// `None` until its record or its state file names it.
    pub server: Option<ProcessView>,
}

/// A job and its nodes at one moment.
#[derive(Debug)]
pub struct WatchedNodes {
    /// State of the job as a whole.
    pub state: WatchedState,
    /// By number.
    pub nodes: Vec<NodeView>,
}

/// The nodes of a job and its state, from everything that is known now.
pub fn nodes(job: &WatchedJob, now: Instant) -> WatchedNodes {
    let history = &job.history;
    let ended = history.end.is_some() || job.is_abandoned();
    let mut ids: BTreeSet<u32> = history.processes.keys().map(|(node, _)| *node).collect();
    ids.extend(job.states.keys().map(|(node, _)| *node));
    let mut views: Vec<NodeView> = ids
        .into_iter()
        .map(|id| {
            let view = |role| {
                let key = (id, role);
                let (process, seen) = (history.processes.get(&key), job.states.get(&key));
                (process.is_some() || seen.is_some())
                    .then(|| process_view(process, seen, ended, now))
            };
            NodeView {
                id,
                awaited: false,
                sentence: String::new(),
                trainer: view(Role::Trainer),
                server: view(Role::Pserver),
            }
        })
        .collect();
    let state = state(job, &views, now);
    let mut broken = Vec::new();
    if matches!(
        state,
        WatchedState::Running | WatchedState::Waiting | WatchedState::Starting
    ) {
        broken = blame(&mut views);
    }
    for view in &mut views {
        view.sentence = sentence(view, &broken);
    }
    WatchedNodes {
        state,
        nodes: views,
    }
}

fn process_view(
    process: Option<&Process>,
    seen: Option<&Seen>,
    ended: bool,
    now: Instant,
) -> ProcessView {
    let life = process.and_then(|process| process.life);
    let end = process.and_then(|process| process.end.as_ref());
    let silent = seen.map(|seen| seen.silent(now));
    let status = seen.map(|seen| &seen.status);
    let waits_for = status
        .map(|status| status.waits_for.clone())
        .unwrap_or_default();
    let is_over = ended || end.is_some() || life == Some(ProcessChange::Ended);
    let state = match (end, life) {
        (Some(Some(_)), _) => "failed",
        (Some(None), _) | (_, Some(ProcessChange::Ended)) => "finished",
        (_, Some(ProcessChange::Died)) => "crashed",
        (_, Some(ProcessChange::Restarting)) => "restarting",
        _ if ended => "ended",
        _ if silent.is_some_and(|seconds| seconds > SILENT) => "silent",
        _ if !waits_for.is_empty() => "waiting",
        _ if status.is_some_and(|status| {
            status.batch.is_some() || status.phase == Some(Phase::Running)
        }) =>
        {
            "working"
        }
        _ => "starting",
    };
    let live = status.filter(|_| !is_over && !matches!(state, "crashed" | "restarting" | "silent"));
    ProcessView {
        state,
        restarts: process.map_or(0, Process::restarts),
        silent: silent.filter(|_| state == "silent"),
        waits_for: if live.is_some() {
            waits_for
        } else {
            String::new()
        },
        memory: status.map_or(0, |status| status.memory_bytes),
        waiting: live.and_then(|status| status.waiting),
        speed: live.and_then(|status| status.samples_per_second),
        traffic: live.and_then(|status| {
            status
                .received_bytes_per_second
                .zip(status.sent_bytes_per_second)
        }),
        hot: status.map_or_else(Vec::new, |status| status.hot_shards.clone()),
        pass: status.and_then(|status| status.pass),
        batch: status.and_then(|status| status.batch),
        place: status.map_or(String::new(), |status| {
            format!("{} · {}", status.host, status.pid)
        }),
    }
}

fn state(job: &WatchedJob, views: &[NodeView], now: Instant) -> WatchedState {
    match &job.history.end {
        Some((_, JobOutcome::Finished, _)) => return WatchedState::Finished,
        Some((_, JobOutcome::Failed, _)) => return WatchedState::Failed,
        Some((_, JobOutcome::Interrupted, _)) => return WatchedState::Interrupted,
        None => {}
    }
    if job.is_abandoned() {
        return WatchedState::Gone;
    }
    let trainers: Vec<&ProcessView> = views
        .iter()
        .filter_map(|view| view.trainer.as_ref())
        .collect();
    if trainers.iter().any(|trainer| trainer.state == "failed") {
        return WatchedState::Failed;
    }
    if !trainers.is_empty() && trainers.iter().all(|trainer| trainer.state == "finished") {
        return WatchedState::Finished;
    }
    let alive = job
        .states
        .values()
        .map(|seen| seen.silent(now))
        .fold(f64::INFINITY, f64::min);
    if alive > GONE {
        // A job that has only the runner's first line, and no state of a process yet, is starting.
        let begun = !job.states.is_empty() || !job.history.series.is_empty();
        return if begun {
            WatchedState::Gone
        } else {
            WatchedState::Starting
        };
    }
    if job.history.series.is_empty() {
        return WatchedState::Starting;
    }
    let stuck = |trainer: &&ProcessView| trainer.state != "working" && trainer.state != "finished";
    if trainers.iter().all(stuck) {
        return WatchedState::Waiting;
    }
    WatchedState::Running
}

/// Finds the nodes that the others wait for: those that are silent or have crashed, and if there are none, those that
/// the others name. A node that waits for a broken node delays others in turn, and would be named too.
fn blame(views: &mut [NodeView]) -> Vec<u32> {
    let processes = |view: &NodeView| {
        [view.trainer.clone(), view.server.clone()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
    };
    let is_broken =
        |process: &ProcessView| matches!(process.state, "silent" | "crashed" | "restarting");
    let broken: Vec<u32> = views
        .iter()
        .filter(|view| processes(view).iter().any(is_broken))
        .map(|view| view.id)
        .collect();
    let named: BTreeSet<u32> = if broken.is_empty() {
        let waiting = views.iter().flat_map(processes);
        waiting
            .flat_map(|process| nodes_named(&process.waits_for))
            .collect()
    } else {
        broken.iter().copied().collect()
    };
    // While a job starts, all nodes wait for each other, and no node is the cause.
    let mutual = broken.is_empty() && views.iter().all(|view| named.contains(&view.id));
    for view in views {
        view.awaited = !mutual && named.contains(&view.id);
    }
    broken
}

/// The ids after `trainer` or `server` in a sentence: `step 7 waits for trainer 1, 2`.
fn nodes_named(sentence: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for role in ["trainer ", "server "] {
        for (at, _) in sentence.match_indices(role) {
            let list = &sentence[at + role.len()..];
            let numbers = list.split(", ").map_while(|word| {
                let digits: &str = word.split(|c: char| !c.is_ascii_digit()).next()?;
                digits.parse::<u32>().ok()
            });
            found.extend(numbers);
        }
    }
    found
}

fn sentence(view: &NodeView, broken: &[u32]) -> String {
    let roles = [("trainer", &view.trainer), ("server", &view.server)];
    let present = roles
        .into_iter()
        .filter_map(|(name, process)| Some((name, process.as_ref()?)));
    for (name, process) in present.clone() {
        match process.state {
            "silent" => {
                let seconds = process.silent.unwrap_or(0.0);
                return format!("{name} has given no sign of life for {}", span(seconds));
            }
            "crashed" | "failed" => return format!("{name} {}", process.state),
            "restarting" => return format!("{name} is restarting"),
            _ => {}
        }
    }
    let waits = present.filter(|(_, process)| process.state == "waiting");
    let mut sentences = waits.map(|(_, process)| process.waits_for.clone());
    let text = sentences.next().unwrap_or_default();
    if !text.is_empty() && !broken.is_empty() {
        let list: Vec<String> = broken.iter().map(ToString::to_string).collect();
        return format!("waits for node {}", list.join(", "));
    }
    if text.is_empty() && view.awaited {
        return "the other nodes wait for it".to_owned();
    }
    if text.is_empty() || text.contains("wait") {
        text
    } else {
        format!("waits for {text}")
    }
}

fn span(seconds: f64) -> String {
    match seconds as u64 {
        s @ 0..=119 => format!("{s} s"),
        s @ 120..=7199 => format!("{} min", s / 60),
        s => format!("{} h", s / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(state: &'static str, waits_for: &str) -> Option<ProcessView> {
        Some(ProcessView {
            state,
            restarts: 0,
            silent: (state == "silent").then_some(4.0),
            waits_for: waits_for.to_owned(),
            memory: 0,
            waiting: None,
            speed: None,
            traffic: None,
            hot: Vec::new(),
            pass: None,
            batch: None,
            place: String::new(),
        })
    }

    fn node(id: u32, trainer: Option<ProcessView>) -> NodeView {
        NodeView {
            id,
            awaited: false,
            sentence: String::new(),
            trainer,
            server: process("working", ""),
        }
    }

    #[test]
    fn a_silent_node_is_to_blame_and_not_those_that_it_holds_up() {
        let held_up = "step 9 waits for trainer 0 (2 s)";
        let mut views = [
            node(0, process("waiting", held_up)),
            node(1, process("silent", "")),
            node(2, process("waiting", held_up)),
        ];
        let broken = blame(&mut views);
        assert_eq!(
            views.each_ref().map(|view| view.awaited),
            [false, true, false]
        );
        assert_eq!(sentence(&views[0], &broken), "waits for node 1");
        assert_eq!(
            sentence(&views[1], &broken),
            "trainer has given no sign of life for 4 s"
        );
    }

    #[test]
    fn a_slow_node_is_named_by_the_others() {
        let mut views = [
            node(0, process("waiting", "step 9 waits for trainer 1 (2 s)")),
            node(1, process("working", "")),
        ];
        let broken = blame(&mut views);
        assert_eq!(views.each_ref().map(|view| view.awaited), [false, true]);
        assert_eq!(
            sentence(&views[0], &broken),
            "step 9 waits for trainer 1 (2 s)"
        );
        assert_eq!(sentence(&views[1], &broken), "the other nodes wait for it");
    }

    #[test]
    fn nodes_that_all_wait_for_each_other_hold_nobody_up() {
        let waits = |other: u32| process("waiting", &format!("waits for trainer {other}"));
        let mut views = [node(0, waits(1)), node(1, waits(0))];
        blame(&mut views);
        assert_eq!(views.each_ref().map(|view| view.awaited), [false, false]);
        let mut alone = [node(0, waits(0))];
        blame(&mut alone);
        assert!(!alone[0].awaited, "there are no other nodes");
    }

    #[test]
    fn sentences_name_nodes() {
        assert_eq!(nodes_named("step 7 waits for trainer 1, 2"), [1, 2]);
        assert_eq!(
            nodes_named("server 3 at 10.0.0.1:7164 does not respond"),
            [3]
        );
        assert_eq!(nodes_named("waits for trainer 12 to connect"), [12]);
        assert!(nodes_named("nobody").is_empty());
    }
}
