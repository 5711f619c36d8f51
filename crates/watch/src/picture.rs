//! The data that are sent to a page: the job's head, its nodes, and what is new on the curves since its last request.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Value, json};

use crate::history::{History, Mark, Pass};
use crate::job::WatchedJob;
use crate::nodes::{NodeView, WatchedNodes, WatchedState, nodes};
use crate::series::{ChartAxis, Point, Series};

/// Buckets of a curve that is sent for the first time.
const BUCKETS: usize = 600;

/// Approximate limit for the points of one reply, over all curves.
const ROOM: usize = 60_000;

/// A request of a page.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// The number of the reading that the page knows; see [`WatchedJob::incarnation`].
    pub incarnation: u64,
    /// The newest sequence number that the page has; 0 for none.
    pub since: u64,
    /// Trainers whose curves are requested.
    pub nodes: Nodes,
}

/// A choice of trainers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Nodes {
    /// The first trainer that has any.
    #[default]
    First,
    /// This one.
    One(u32),
    /// Every node of the job.
    All,
}

/// Everything that a page needs in addition to what it has.
pub fn update(job: &WatchedJob, ask: &Ask, now: Instant) -> Value {
    let history = &job.history;
    let since = if ask.incarnation == job.incarnation() {
        ask.since
    } else {
        0
    };
    let WatchedNodes { state, nodes } = nodes(job, now);
    let began = history.began.unwrap_or(0.0);
    json!({
        "incarnation": job.incarnation(),
        "order": history.order(),
        "since": since,
        "name": job.name(),
        "began": began,
        "paused": history.paused,
        "head": head(job, state, &nodes),
        "nodes": nodes,
        "series": series(history, ask, since, began),
        "marks": marks(history, since, began),
        "passes": passes(history, since),
        "parameters": trends(history, since),
        "tables": tables(history, since, began),
    })
}

fn head(job: &WatchedJob, state: WatchedState, nodes: &[NodeView]) -> Value {
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
    let patience = history
        .processes
        .values()
        .find_map(|process| process.start.as_ref()?.patience);
    // Training ends before this pass unless a pass is better than the best so far.
    let stops = patience.zip(history.best.as_ref());
    let stops = stops.map(|(patience, best)| best.pass + 1 + u64::from(patience));
    let stops = stops.filter(|stops| passes.is_none_or(|passes| *stops < passes));
    let pass = trainers().filter_map(|trainer| trainer.pass).min();
    let done = match history.stopped {
        Some(stopped) => Some(stopped.pass + 1),
        None => history.last_pass().map(|last| last + 1).or(pass),
    };
    let batch = trainers()
        .filter(|trainer| trainer.pass == pass)
        .filter_map(|trainer| trainer.batch)
        .min();
    let speed: f64 = trainers().filter_map(|trainer| trainer.speed).sum();
    let alive = matches!(
        state,
        WatchedState::Starting | WatchedState::Running | WatchedState::Waiting
    );
    // When its trainers have finished, a job with a runner still ends its servers, and writes how it ended.
    let over = !alive && (history.end.is_some() || run.is_none());
    json!({
        "state": state,
        "text": history.end.as_ref().map(|(_, _, text)| text.clone()).unwrap_or_default(),
        "ended": if alive { None } else { history.end.as_ref().map(|(t, _, _)| *t).or(history.last) },
        "folder": job.folder(),
        "over": over,
        "pass": pass,
        "done": done,
        "passes": passes,
        "batch": batch,
        "batches": batches,
        "samples": history.samples(),
        "scales": history.scales(),
        "result": history.result(),
        "best": history.best,
        "stopped": history.stopped,
        "patience": patience,
        "test": last_test(history),
        "cost": history.last_pass().and_then(|pass| history.figures_of(pass).cost).map(short),
        "speed": if alive { Some(speed) } else { None },
        "left": if alive { time_left(history, pass, batch, passes) } else { None },
        "left_unimproved": if alive { time_left(history, pass, batch, stops) } else { None },
        "nodes": nodes.len().max(run.map_or(0, |run| run.nodes as usize)),
        "version": run.map(|run| run.version.clone()).or(start.map(|start| start.version.clone())),
        "config": run.map(|run| run.config.clone()).or(start.map(|start| start.config.clone())),
        "parameters": history.processes.values().find_map(|process| process.start.as_ref()?.parameters),
    })
}

/// Cost and evaluators of the last test.
fn last_test(history: &History) -> Option<Value> {
    let first = history.passes.iter().map(|pass| pass.node).min();
    let mut own = history.passes.iter().rev();
    let tested = own.find(|pass| Some(pass.node) == first && pass.test.is_some())?;
    let (cost, evaluators) = tested.test.as_ref()?;
    Some(
        json!({"pass": tested.figures.pass, "cost": cost.map(short), "evaluators": rounded(evaluators)}),
    )
}

/// Estimated seconds until the last pass ends, if the passes so far allow an estimate.
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
                series.thinned(ChartAxis::Samples, None, buckets)
            } else {
                new.to_vec()
            };
            let whole = since == 0 || new.len() > 3 * buckets;
            Some(json!({ "key": key, "whole": whole, "points": columns(&points, began) }))
        })
        .collect()
}

/// A section of the curves with more points, for a page that has zoomed in.
pub fn stretch(job: &WatchedJob, nodes: &Nodes, axis: ChartAxis, range: (f64, f64)) -> Value {
    let began = job.history.began.unwrap_or(0.0);
    let range = match axis {
        ChartAxis::Samples => range,
        ChartAxis::Time => (range.0 + began, range.1 + began),
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

/// Rounds to six significant digits.
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
    // A test comes after its pass, and gives it a new number.
    let new = history
        .passes
        .iter()
        .filter(|pass| Some(pass.node) == first && pass.order > since);
    new.map(|pass| {
        let whole = history.figures_of(pass.figures.pass);
        json!({
            "pass": whole.pass,
            "batches": pass.figures.batch,
            "samples": whole.samples,
            "cost": whole.cost.map(short),
            "evaluators": rounded(&whole.evaluators),
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
pub fn histograms(job: &WatchedJob, pass: u64) -> Value {
    let found = job
        .history
        .parameters
        .get(&pass)
        .map(|(_, parameters)| parameters);
    json!({"pass": pass, "parameters": found})
}

fn tables(history: &History, since: u64, began: f64) -> Vec<Value> {
    let thin = |series: &Series| columns(&series.thinned(ChartAxis::Time, None, 150), began);
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
    fn a_job_is_over_when_its_runner_has_written_how_it_ended() {
        use crate::recorder::Recorder;
        use words::event::{Event, EventLine, JobOutcome, Run};
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let start = br#"{"t":0,"kind":"start","role":"trainer","node":0,"run":"a"}"#;
        let mut runner = Recorder::create(&output.join("events.jsonl")).unwrap();
        let run = Run {
            run: "a".to_owned(),
            ..Run::default()
        };
        runner.record(Event::Run(run)).unwrap();
        runner.flush().unwrap();
        let mut job = WatchedJob::open(folder.path()).unwrap();
        let mut head = |now: Instant| {
            job.look(now, 100.0);
            update(&job, &Ask::default(), now)["head"].clone()
        };
        let (begun, second) = (Instant::now(), std::time::Duration::from_secs(1));
        assert_eq!(head(begun)["state"], json!("starting"));
        let mut trainer = Recorder::create(&output.join("node_0/train.events.jsonl")).unwrap();
        let start = EventLine::parse(start).unwrap().event;
        for event in [start, Event::End { error: None }] {
            trainer.record(event).unwrap();
        }
        trainer.flush().unwrap();
        let before = head(begun + second);
        assert_eq!(
            (&before["state"], &before["over"]),
            (&json!("finished"), &json!(false))
        );
        let end = Event::JobEnd {
            outcome: JobOutcome::Finished,
            text: String::new(),
        };
        runner.record(end).unwrap();
        runner.flush().unwrap();
        assert_eq!(head(begun + 2 * second)["over"], json!(true));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(short(0.123456789), 0.123457);
        assert_eq!(short(-1234567.0), -1234570.0);
        assert_eq!(short(0.0), 0.0);
        assert_eq!(short(1e-300), 1e-300);
    }
}
