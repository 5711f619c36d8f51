//! What a page is sent: the job's head, its nodes, and what is new on the curves since the page last asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde_json::{Value, json};

use crate::history::{History, Mark, Pass, Process};
use crate::job::{Job, Seen};
use crate::record::{Life, Outcome, Role};
use crate::series::{Axis, Point, Series};

/// A process whose state has not changed for so many seconds does not run.
const SILENT: f64 = 2.5;

/// A job without any sign of life for so many seconds is gone.
const GONE: f64 = 15.0;

/// Buckets of a curve that is sent for the first time.
const BUCKETS: usize = 600;

/// Points sent at once over all curves, about.
const ROOM: usize = 60_000;

/// What a page asks for.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// The reading that the page knows.
    pub incarnation: u64,
    /// The newest point that the page has; 0 for none.
    pub since: u64,
    /// Trainers whose curves are wanted; none: the first.
    pub nodes: Nodes,
}

/// A choice of trainers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Nodes {
    /// The first that has any.
    #[default]
    First,
    /// This one.
    One(u32),
    /// All.
    All,
}

/// The job's state in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// No batch has been computed.
    Starting,
    /// It learns.
    Running,
    /// Somebody is waited for.
    Waiting,
    /// All passes are done.
    Finished,
    /// It could not go on.
    Failed,
    /// Somebody ended it.
    Interrupted,
    /// It stopped without a word.
    Gone,
}

/// A process as it is shown.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ProcessView {
    /// In one word.
    pub state: &'static str,
    /// How often it was started again.
    pub restarts: u32,
    /// Seconds without a sign of life, if it should give some.
    pub silent: Option<f64>,
    /// What it waits for.
    pub waits_for: String,
    /// Memory in use.
    pub memory: u64,
    /// Share of time spent waiting.
    pub waiting: Option<f64>,
    /// Samples a second.
    pub speed: Option<f64>,
    /// Bytes a second, received and sent.
    pub traffic: Option<(f64, f64)>,
    /// Where it is.
    pub pass: Option<u64>,
    /// Where it is inside the pass.
    pub batch: Option<u64>,
    /// The machine and the system id.
    pub place: String,
}

/// A node as it is shown.
#[derive(Debug, Clone, serde::Serialize)]
pub struct NodeView {
    /// Its number.
    pub id: u32,
    /// The others wait for it.
    pub awaited: bool,
    /// One sentence: what it waits for, or what is wrong with it.
    pub sentence: String,
    /// Its trainer.
    pub trainer: Option<ProcessView>,
    /// Its server.
    pub server: Option<ProcessView>,
}

/// The nodes of a job and its state, from all that is known now.
pub fn nodes(job: &Job, now: Instant) -> (State, Vec<NodeView>) {
    let history = &job.history;
    let ended = history.end.is_some();
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
    if matches!(state, State::Running | State::Waiting | State::Starting) {
        blame(&mut views);
    }
    for view in &mut views {
        view.sentence = sentence(view);
    }
    (state, views)
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
    let beat = seen.map(|seen| &seen.beat);
    let waits_for = beat.map(|beat| beat.waits_for.clone()).unwrap_or_default();
    let is_over = ended || end.is_some() || life == Some(Life::Ended);
    let state = match (end, life) {
        (Some(Some(_)), _) => "failed",
        (Some(None), _) | (_, Some(Life::Ended)) => "finished",
        (_, Some(Life::Died)) => "died",
        (_, Some(Life::Restarting)) => "restarting",
        _ if ended => "ended",
        _ if silent.is_some_and(|seconds| seconds > SILENT) => "silent",
        _ if !waits_for.is_empty() => "waiting",
        _ if beat.is_some_and(|beat| beat.batch.is_some() || beat.phase == "running") => "working",
        _ => "starting",
    };
    let live = beat.filter(|_| !is_over && !matches!(state, "died" | "restarting" | "silent"));
    ProcessView {
        state,
        restarts: process.map_or(0, Process::restarts),
        silent: silent.filter(|_| state == "silent"),
        waits_for: if live.is_some() {
            waits_for
        } else {
            String::new()
        },
        memory: beat.map_or(0, |beat| beat.memory_bytes),
        waiting: live.and_then(|beat| beat.waiting),
        speed: live.and_then(|beat| beat.samples_per_second),
        traffic: live.and_then(|beat| {
            beat.received_bytes_per_second
                .zip(beat.sent_bytes_per_second)
        }),
        pass: beat.and_then(|beat| beat.pass),
        batch: beat.and_then(|beat| beat.batch),
        place: beat.map_or(String::new(), |beat| {
            format!("{} · {}", beat.host, beat.pid)
        }),
    }
}

fn state(job: &Job, views: &[NodeView], now: Instant) -> State {
    match &job.history.end {
        Some((_, Outcome::Finished, _)) => return State::Finished,
        Some((_, Outcome::Failed, _)) => return State::Failed,
        Some((_, Outcome::Interrupted, _)) => return State::Interrupted,
        None => {}
    }
    let trainers: Vec<&ProcessView> = views
        .iter()
        .filter_map(|view| view.trainer.as_ref())
        .collect();
    if trainers.iter().any(|trainer| trainer.state == "failed") {
        return State::Failed;
    }
    if !trainers.is_empty() && trainers.iter().all(|trainer| trainer.state == "finished") {
        return State::Finished;
    }
    let alive = job
        .states
        .values()
        .map(|seen| seen.silent(now))
        .fold(f64::INFINITY, f64::min);
    if alive > GONE {
        let begun = job.history.began.is_some();
        return if begun { State::Gone } else { State::Starting };
    }
    if job.history.series.is_empty() {
        return State::Starting;
    }
    let stuck = |trainer: &&ProcessView| trainer.state != "working" && trainer.state != "finished";
    if trainers.iter().all(stuck) {
        return State::Waiting;
    }
    State::Running
}

/// Finds the nodes that the others wait for: those that they name, and those that have fallen silent.
fn blame(views: &mut [NodeView]) {
    let mut named = BTreeSet::new();
    for view in views.iter() {
        for process in [&view.trainer, &view.server].into_iter().flatten() {
            named.extend(nodes_named(&process.waits_for));
        }
    }
    for view in views {
        let processes = [&view.trainer, &view.server];
        let broken = processes
            .into_iter()
            .flatten()
            .any(|process| matches!(process.state, "silent" | "died" | "restarting"));
        view.awaited = broken || named.contains(&view.id);
    }
}

/// The numbers after `trainer` or `server` in a sentence: `step 7 waits for trainer 1, 2`.
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

fn sentence(view: &NodeView) -> String {
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
            "died" | "failed" => return format!("{name} {}", process.state),
            "restarting" => return format!("{name} is being started again"),
            _ => {}
        }
    }
    let waits = present.filter(|(_, process)| process.state == "waiting");
    let mut sentences = waits.map(|(_, process)| process.waits_for.clone());
    let text = sentences.next().unwrap_or_default();
    if text.is_empty() && view.awaited {
        return "the others wait for it".to_owned();
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

/// Everything that a page needs beyond what it has.
pub fn update(job: &Job, ask: &Ask, now: Instant) -> Value {
    let history = &job.history;
    let since = if ask.incarnation == job.incarnation() {
        ask.since
    } else {
        0
    };
    let (state, nodes) = nodes(job, now);
    let began = history.began.unwrap_or(0.0);
    json!({
        "incarnation": job.incarnation(),
        "order": history.order(),
        "since": since,
        "name": job.name(),
        "began": began,
        "head": head(job, state, &nodes),
        "nodes": nodes,
        "series": series(history, ask, since, began),
        "marks": marks(history, since, began),
        "passes": passes(history, since),
        "parameters": trends(history, since),
        "tables": tables(history, since, began),
    })
}

fn head(job: &Job, state: State, nodes: &[NodeView]) -> Value {
    let history = &job.history;
    let start = history
        .processes
        .values()
        .find_map(|process| process.start.as_ref());
    let run = history.run.as_ref();
    let trainers = || nodes.iter().filter_map(|node| node.trainer.as_ref());
    let last = history
        .passes
        .iter()
        .rev()
        .find(|pass| pass.figures.batch > 0);
    let batches = last.map(|pass| pass.figures.batch);
    let passes = run
        .and_then(|run| run.passes)
        .or(start.and_then(|start| start.passes));
    let over = matches!(state, State::Finished);
    let pass = trainers().filter_map(|trainer| trainer.pass).min();
    let batch = trainers()
        .filter(|trainer| trainer.pass == pass)
        .filter_map(|trainer| trainer.batch)
        .min();
    let speed: f64 = trainers().filter_map(|trainer| trainer.speed).sum();
    let alive = matches!(state, State::Starting | State::Running | State::Waiting);
    json!({
        "state": state,
        "text": history.end.as_ref().map(|(_, _, text)| text.clone()).unwrap_or_default(),
        "ended": if alive { None } else { history.end.as_ref().map(|(t, _, _)| *t).or(history.last) },
        "pass": if over { passes.or(pass.map(|pass| pass + 1)) } else { pass.map(|pass| pass + 1) },
        "passes": passes,
        "batch": batch,
        "batches": batches,
        "samples": history.series.values().filter_map(|s| s.points().last()).map(|p| p.samples).fold(0.0, f64::max),
        "speed": if alive { Some(speed) } else { None },
        "left": if alive { time_left(history, pass, batch, passes) } else { None },
        "nodes": nodes.len().max(run.map_or(0, |run| run.nodes as usize)),
        "version": run.map(|run| run.version.clone()).or(start.map(|start| start.version.clone())),
        "config": run.map(|run| run.config.clone()).or(start.map(|start| start.config.clone())),
        "parameters": history.processes.values().find_map(|process| process.start.as_ref()?.parameters),
    })
}

/// Seconds until the last pass ends, if the passes so far tell.
fn time_left(
    history: &History,
    pass: Option<u64>,
    batch: Option<u64>,
    passes: Option<u64>,
) -> Option<f64> {
    let first = history.passes.first()?.node;
    let recent: Vec<&Pass> = history
        .passes
        .iter()
        .rev()
        .filter(|done| done.node == first)
        .take(3)
        .collect();
    let seconds = recent.iter().map(|done| done.seconds).sum::<f64>() / recent.len() as f64;
    let batches = recent.first()?.figures.batch.max(1) as f64;
    let (pass, passes) = (pass? as f64, passes? as f64);
    let done = pass + (batch.unwrap_or(0) as f64 / batches).min(1.0);
    Some(((passes - done) * seconds).max(0.0))
}

fn series(history: &History, ask: &Ask, since: u64, began: f64) -> Vec<Value> {
    let first = history.series.keys().map(|key| key.node).min();
    let wanted = |node: u32| match ask.nodes {
        Nodes::First => Some(node) == first,
        Nodes::One(one) => node == one,
        Nodes::All => true,
    };
    let curves: Vec<_> = history
        .series
        .iter()
        .filter(|(key, _)| wanted(key.node))
        .collect();
    let buckets = (ROOM / 3 / curves.len().max(1)).clamp(20, BUCKETS);
    curves
        .into_iter()
        .filter_map(|(key, series)| {
            let new = series.since(since);
            if new.is_empty() {
                return None;
            }
            let points = if new.len() > 3 * buckets {
                series.thinned(Axis::Samples, None, buckets)
            } else {
                new.to_vec()
            };
            let whole = since == 0 || new.len() > 3 * buckets;
            Some(json!({ "key": key, "whole": whole, "points": columns(&points, began) }))
        })
        .collect()
}

/// A stretch of curves in detail, for a page that has zoomed in.
pub fn stretch(job: &Job, nodes: &Nodes, axis: Axis, range: (f64, f64)) -> Value {
    let began = job.history.began.unwrap_or(0.0);
    let range = match axis {
        Axis::Samples => range,
        Axis::Time => (range.0 + began, range.1 + began),
    };
    let first = job.history.series.keys().map(|key| key.node).min();
    let wanted = |node: u32| match nodes {
        Nodes::First => Some(node) == first,
        Nodes::One(one) => node == *one,
        Nodes::All => true,
    };
    let curves: Vec<_> = job
        .history
        .series
        .iter()
        .filter(|(key, _)| wanted(key.node))
        .collect();
    let buckets = (ROOM / 3 / curves.len().max(1)).clamp(20, BUCKETS);
    let parts = curves.into_iter().map(|(key, series)| {
        json!({ "key": key, "points": columns(&series.thinned(axis, Some(range), buckets), began) })
    });
    json!({ "series": parts.collect::<Vec<_>>() })
}

fn columns(points: &[Point], began: f64) -> Value {
    json!({
        "x": points.iter().map(|point| point.samples as u64).collect::<Vec<_>>(),
        "t": points.iter().map(|point| ((point.t - began) * 100.0).round() / 100.0).collect::<Vec<_>>(),
        "v": points.iter().map(|point| short(point.value)).collect::<Vec<_>>(),
    })
}

/// Six significant digits.
fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(5 - value.abs().log10().floor() as i32);
    if scale.is_finite() && scale > 0.0 {
        (value * scale).round() / scale
    } else {
        value
    }
}

fn marks(history: &History, since: u64, began: f64) -> Vec<Value> {
    let new: Vec<&Mark> = history
        .marks
        .iter()
        .filter(|mark| mark.order > since)
        .collect();
    new.into_iter()
        .map(|mark| {
            json!({
                "t": ((mark.t - began) * 100.0).round() / 100.0,
                "x": history.samples_at(mark.t),
                "kind": mark.kind,
                "node": mark.node,
                "text": mark.text,
            })
        })
        .collect()
}

fn passes(history: &History, since: u64) -> Vec<Value> {
    let first = history.passes.iter().map(|pass| pass.node).min();
    // A test comes after its pass: the newest pass is told again.
    let newest = history
        .passes
        .iter()
        .filter(|pass| Some(pass.node) == first)
        .map(|pass| pass.order)
        .max();
    let new = history.passes.iter().filter(|pass| {
        Some(pass.node) == first && (pass.order > since || Some(pass.order) == newest)
    });
    new.map(|pass| {
        json!({
            "pass": pass.figures.pass,
            "batches": pass.figures.batch,
            "samples": pass.figures.samples,
            "cost": pass.figures.cost.map(short),
            "evaluators": rounded(&pass.figures.evaluators),
            "test": pass.test.as_ref().map(|(cost, evaluators)| json!({"cost": cost.map(short), "evaluators": rounded(evaluators)})),
            "seconds": short(pass.seconds),
            "waited": short(pass.waited),
        })
    })
    .collect()
}

fn rounded(evaluators: &BTreeMap<String, f64>) -> BTreeMap<&str, f64> {
    evaluators
        .iter()
        .map(|(name, value)| (name.as_str(), short(*value)))
        .collect()
}

fn trends(history: &History, since: u64) -> Vec<Value> {
    let new = history
        .parameters
        .iter()
        .filter(|(_, (order, _))| *order > since);
    new.map(|(pass, (_, parameters))| {
        let list = parameters.iter().map(|p| {
            json!({"name": p.name, "count": p.count, "mean": short(p.mean), "std": short(p.std), "zeros": short(p.zeros)})
        });
        json!({"pass": pass, "list": list.collect::<Vec<_>>()})
    })
    .collect()
}

/// The histograms of a pass.
pub fn histograms(job: &Job, pass: u64) -> Value {
    let found = job
        .history
        .parameters
        .get(&pass)
        .map(|(_, parameters)| parameters);
    json!({"pass": pass, "parameters": found})
}

fn tables(history: &History, since: u64, began: f64) -> Vec<Value> {
    let thin = |series: &Series| columns(&series.thinned(Axis::Time, None, 150), began);
    let grown = history
        .tables
        .iter()
        .filter(|(_, growth)| !growth.rows.since(since).is_empty());
    grown
        .map(|(name, growth)| json!({"name": name, "bytes": growth.bytes, "rows": thin(&growth.rows)}))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_name_nodes() {
        assert_eq!(nodes_named("step 7 waits for trainer 1, 2"), [1, 2]);
        assert_eq!(
            nodes_named("server 3 at 10.0.0.1:7164 does not answer"),
            [3]
        );
        assert_eq!(nodes_named("waits for trainer 12 to connect"), [12]);
        assert!(nodes_named("nobody").is_empty());
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(short(0.123456789), 0.123457);
        assert_eq!(short(-1234567.0), -1234570.0);
        assert_eq!(short(0.0), 0.0);
        assert_eq!(short(1e-300), 1e-300);
    }
}
