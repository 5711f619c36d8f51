//! A report about a job in one file that can be kept, printed and sent: no script, no external resources.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Instant;

use crate::chart::{self, Chart, Curve, escaped};
use crate::history::{History, MarkKind, Pass};
use crate::job::WatchedJob;
use crate::nodes::{self, ProcessView, WatchedNodes, WatchedState};
use crate::number_text::{grouped, seconds, utc};
use crate::series::{ChartAxis, Point, Series};

const STYLE: &str = include_str!("page/report.css");

/// Buckets per curve.
const BUCKETS: usize = 400;

/// A training curve with at least this many points is also drawn smoothed.
const RESTLESS: usize = 100;

/// Weight of the previous value in the exponential smoothing.
const SMOOTHING: f64 = 0.9;

/// Most events that are listed.
const EVENTS: usize = 500;

/// The curves of a job: one chart per metric, of the first trainer.
pub fn charts(history: &History) -> Vec<Chart> {
    let first = history.series.keys().map(|key| key.node).min();
    let own = || {
        history
            .series
            .iter()
            .filter(|(key, _)| Some(key.node) == first)
    };
    let metrics: BTreeSet<(bool, &str)> = own()
        .map(|(key, _)| (key.metric != "cost", key.metric.as_str()))
        .collect();
    let scales = history.scales();
    let scale = first
        .and_then(|node| scales.get(&node))
        .copied()
        .unwrap_or(1.0);
    let telling = |kind| !matches!(kind, MarkKind::Snapshot | MarkKind::Saved | MarkKind::End);
    let marks: Vec<f64> = history
        .marks
        .iter()
        .filter(|mark| telling(mark.kind))
        .map(|mark| history.samples_at(mark.t) * scale)
        .collect();
    metrics
        .into_iter()
        .map(|(_, metric)| {
            let curves = own()
                .filter(|(key, _)| key.metric == metric)
                .flat_map(|(key, series)| curves(key.test, series, scale));
            Chart {
                title: words::result::plain_name(metric),
                curves: curves.collect(),
                marks: marks.clone(),
            }
        })
        .collect()
}

/// A curve, and for a noisy one its smoothed version on top.
fn curves(test: bool, series: &Series, scale: f64) -> Vec<Curve> {
    let mut points = series.thinned(ChartAxis::Samples, None, BUCKETS);
    for point in &mut points {
        point.samples *= scale;
    }
    let (label, colour) = if test {
        ("test", "#cc6a1b")
    } else {
        ("train", "#2f6fab")
    };
    let curve = |points: Vec<Point>, label: &str, colour| Curve {
        label: label.to_owned(),
        colour,
        dots: points.len() <= 60,
        points,
    };
    if test || points.len() < RESTLESS {
        return vec![curve(points, label, colour)];
    }
    let mut course = points.clone();
    let (mut sum, mut mass) = (0.0, 0.0);
    for point in &mut course {
        sum = sum * SMOOTHING + point.value * (1.0 - SMOOTHING);
        mass = mass * SMOOTHING + 1.0 - SMOOTHING;
        point.value = sum / mass;
    }
    vec![curve(course, label, colour), curve(points, "", "#c6d8e8")]
}

/// Names, those of one kind with a number.
fn distinct_names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names: Vec<&str> = names.collect();
    let numbered = |(at, name): (usize, &&str)| {
        let same = |names: &[&str]| names.iter().filter(|other| *other == name).count();
        match same(&names) {
            1 => (*name).to_owned(),
            _ => format!("{name} ({})", same(&names[..at]) + 1),
        }
    };
    names.iter().enumerate().map(numbered).collect()
}

/// The whole report about a job, or about several with a table that compares them.
pub fn html(jobs: &[WatchedJob], now: Instant) -> String {
    let mut out = String::new();
    let names = distinct_names(jobs.iter().map(WatchedJob::name));
    let title = escaped(&names.join(" · "));
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title} · canoe</title>\n<style>{STYLE}</style></head>\n<body><main>\n"
    );
    if jobs.len() > 1 {
        comparison(&mut out, jobs, &names, now);
    }
    for (job, name) in jobs.iter().zip(&names) {
        let _ = writeln!(out, "<h1>{}</h1>", escaped(name));
        about(&mut out, job, now);
    }
    out += "</main></body></html>\n";
    out
}

fn about(out: &mut String, job: &WatchedJob, now: Instant) {
    let history = &job.history;
    let WatchedNodes {
        state,
        nodes: nodes_of_job,
    } = nodes::nodes(job, now);
    let _ = writeln!(
        out,
        "<p class=\"result\">{}</p>",
        escaped(&result(state, history))
    );
    table(out, "facts", &facts(history, nodes_of_job.len()));
    *out += "<h2>Curves</h2>\n";
    for chart in charts(history) {
        let _ = writeln!(out, "<figure>{}</figure>", chart::svg(&chart));
    }
    passes(out, history);
    nodes(out, job, now);
    events(out, history);
    parameters(out, history);
    if let Ok(svg) = job.network() {
        let _ = write!(
            out,
            "<h2>Network</h2>\n<figure><img alt=\"the network\" src=\"data:image/svg+xml,{}\"></figure>\n",
            percent_encoded(&svg)
        );
    }
    *out += "<h2>How it was run</h2>\n";
    table(out, "facts", &circumstances(history));
    if let Ok(config) = job.config() {
        let _ = write!(
            out,
            "<h2>Configuration</h2>\n<pre>{}</pre>\n",
            escaped(&config)
        );
    }
}

/// The result as one or two sentences.
fn result(state: WatchedState, history: &History) -> String {
    let words = state_words(state, history);
    let state = match state {
        WatchedState::Gone => "gone: it ended without a record of its end, so it was killed",
        _ => &words,
    };
    let Some(result) = history.result() else {
        return format!(
            "The job is {state}. Its passes were not tested, so none is known to be the best."
        );
    };
    let mut letters = result.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_uppercase().collect::<String>());
    let result = first.unwrap_or_default() + letters.as_str();
    format!("{result}. The job is {state}.")
}

fn table(out: &mut String, class: &str, rows: &[(&str, String)]) {
    let _ = writeln!(out, "<div class=\"scroll\"><table class=\"{class}\">");
    for (name, value) in rows {
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{name}</th><td>{}</td></tr>",
            escaped(value)
        );
    }
    *out += "</table></div>\n";
}

fn or_dash(text: Option<String>) -> String {
    let text = text.filter(|text| !text.is_empty());
    text.unwrap_or_else(|| "–".to_owned())
}

fn duration(history: &History) -> Option<String> {
    history.took().map(seconds)
}

fn finished_passes(history: &History) -> Option<u64> {
    history
        .passes
        .iter()
        .map(|pass| pass.figures.pass + 1)
        .max()
}

/// The facts about the result: best pass, samples, durations.
fn facts(history: &History, nodes: usize) -> Vec<(&'static str, String)> {
    let trained: u64 = history.passes.iter().map(|pass| pass.figures.samples).sum();
    let processes = || history.processes.values();
    let parameters = processes().find_map(|process| process.start.as_ref()?.parameters);
    vec![
        (
            "passes",
            or_dash(finished_passes(history).map(|n| n.to_string())),
        ),
        ("took", or_dash(duration(history))),
        ("nodes", nodes.to_string()),
        ("samples of all trainers", grouped(trained)),
        ("parameters", or_dash(parameters.map(grouped))),
        ("began", or_dash(history.began.map(utc))),
    ]
}

/// The facts about the start of the job: command, configuration, version.
fn circumstances(history: &History) -> Vec<(&'static str, String)> {
    let run = history.run.as_ref();
    let processes = || history.processes.values();
    let start = processes().find_map(|process| process.start.as_ref());
    let config = run.map(|run| run.config.clone());
    let version = run.map(|run| run.version.clone());
    vec![
        (
            "configuration",
            or_dash(config.or(start.map(|start| start.config.clone()))),
        ),
        (
            "canoe",
            or_dash(version.or(start.map(|start| start.version.clone()))),
        ),
        ("hosts", hosts(history)),
        ("command of the first trainer", or_dash(command(history))),
    ]
}

/// One row per job.
fn comparison(out: &mut String, jobs: &[WatchedJob], names: &[String], now: Instant) {
    *out += "<h1>Comparison</h1>\n<div class=\"scroll\"><table class=\"comparison\"><tr><th>job</th><th>state</th><th>result</th><th>nodes</th>\
             <th>passes</th><th>samples</th><th>time</th><th>samples/s</th></tr>\n";
    for (job, name) in jobs.iter().zip(names) {
        let history = &job.history;
        let WatchedNodes { state, nodes } = nodes::nodes(job, now);
        let time = history.took().unwrap_or(0.0);
        let samples = history.samples();
        row(
            out,
            &[
                name.clone(),
                state_words(state, history),
                or_dash(history.result()),
                nodes.len().to_string(),
                or_dash(finished_passes(history).map(|n| n.to_string())),
                grouped(samples as u64),
                seconds(time),
                grouped((samples / time.max(1e-9)) as u64),
            ],
        );
    }
    *out += "</table></div>\n";
}

fn state_words(state: WatchedState, history: &History) -> String {
    let word = serde_json::to_value(state)
        .ok()
        .and_then(|word| word.as_str().map(str::to_owned));
    let reason = history
        .end
        .as_ref()
        .map(|(_, _, text)| text.as_str())
        .filter(|text| !text.is_empty());
    let word = word.unwrap_or_default();
    reason.map_or(word.clone(), |reason| format!("{word}: {reason}"))
}

fn hosts(history: &History) -> String {
    let hosts: BTreeSet<&str> = history
        .processes
        .values()
        .filter_map(|process| Some(process.start.as_ref()?.host.as_str()))
        .collect();
    hosts.into_iter().collect::<Vec<_>>().join(", ")
}

fn command(history: &History) -> Option<String> {
    let (_, process) = history
        .processes
        .iter()
        .find(|((_, role), _)| *role == words::process::Role::Trainer)?;
    Some(format!(
        "canoe train {}",
        process.start.as_ref()?.command.join(" ")
    ))
}

fn passes(out: &mut String, history: &History) {
    let first = history.passes.iter().map(|pass| pass.node).min();
    let own: Vec<&Pass> = history
        .passes
        .iter()
        .filter(|pass| Some(pass.node) == first)
        .collect();
    let names: BTreeSet<&str> = own
        .iter()
        .flat_map(|pass| pass.figures.evaluators.keys())
        .map(String::as_str)
        .collect();
    *out += "<h2>Passes</h2>\n<div class=\"scroll\"><table><tr><th>pass</th><th>cost</th>";
    for name in &names {
        let _ = write!(out, "<th>{}</th>", escaped(name));
    }
    *out += "<th>test cost</th>";
    for name in &names {
        let _ = write!(out, "<th>test {}</th>", escaped(name));
    }
    *out += "<th>samples</th><th>time</th><th>waited</th></tr>\n";
    for pass in own {
        let number =
            |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.6}"));
        let empty = BTreeMap::new();
        let (test_cost, test) = pass
            .test
            .as_ref()
            .map_or((None, &empty), |(cost, test)| (*cost, test));
        let whole = history.figures_of(pass.figures.pass);
        let mut cells = vec![whole.pass.to_string(), number(whole.cost)];
        let values = |name: &&str| number(whole.evaluators.get(*name).copied());
        cells.extend(names.iter().map(values));
        cells.push(number(test_cost));
        cells.extend(names.iter().map(|name| number(test.get(*name).copied())));
        cells.extend([
            grouped(whole.samples),
            seconds(pass.seconds),
            seconds(pass.waited),
        ]);
        row(out, &cells);
    }
    *out += "</table></div>\n";
}

fn nodes(out: &mut String, job: &WatchedJob, now: Instant) {
    *out += "<h2>Nodes</h2>\n<div class=\"scroll\"><table><tr><th>node</th><th>passes</th><th>samples</th><th>time in passes</th><th>waited</th>\
             <th>samples/s</th><th>memory</th><th>restarts</th><th>trainer</th><th>server</th></tr>\n";
    for node in nodes::nodes(job, now).nodes {
        let own: Vec<&Pass> = job
            .history
            .passes
            .iter()
            .filter(|pass| pass.node == node.id)
            .collect();
        let samples: u64 = own.iter().map(|pass| pass.figures.samples).sum();
        let (time, waited) = own.iter().fold((0.0, 0.0), |sum, pass| {
            (sum.0 + pass.seconds, sum.1 + pass.waited)
        });
        let processes = [&node.trainer, &node.server];
        let sum = |figure: fn(&ProcessView) -> u64| {
            processes.into_iter().flatten().map(figure).sum::<u64>()
        };
        let word = |process: &Option<ProcessView>| {
            process
                .as_ref()
                .map_or("–", |process| process.state)
                .to_owned()
        };
        row(
            out,
            &[
                node.id.to_string(),
                own.len().to_string(),
                grouped(samples),
                seconds(time),
                seconds(waited),
                grouped((samples as f64 / time.max(1e-9)) as u64),
                format!("{:.1} MB", sum(|process| process.memory) as f64 / 1e6),
                sum(|process| u64::from(process.restarts)).to_string(),
                word(&node.trainer),
                word(&node.server),
            ],
        );
    }
    *out += "</table></div>\n";
}

fn events(out: &mut String, history: &History) {
    let mut marks: Vec<_> = history.marks.iter().collect();
    marks.sort_by(|a, b| a.t.total_cmp(&b.t));
    *out += "<h2>Events</h2>\n<table class=\"events\">\n";
    for mark in marks.into_iter().take(EVENTS) {
        let since = mark.t - history.began.unwrap_or(mark.t);
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td></tr>",
            seconds(since),
            escaped(&mark.text)
        );
    }
    *out += "</table>\n";
}

fn parameters(out: &mut String, history: &History) {
    let Some((pass, (_, parameters))) = history.parameters.last_key_value() else {
        return;
    };
    let _ = write!(
        out,
        "<h2>Parameters after pass {pass}</h2>\n<div class=\"scroll\"><table><tr><th>parameter</th><th>values</th><th>mean</th><th>std. deviation</th><th>zeros</th><th>smallest</th><th>largest</th></tr>\n"
    );
    for p in parameters {
        row(
            out,
            &[
                p.name.clone(),
                grouped(p.count),
                format!("{:.3e}", p.mean),
                format!("{:.3e}", p.std),
                format!("{:.1} %", 100.0 * p.zeros),
                format!("{:.3e}", p.min),
                format!("{:.3e}", p.max),
            ],
        );
    }
    *out += "</table></div>\n";
}

fn row(out: &mut String, cells: &[String]) {
    *out += "<tr>";
    for cell in cells {
        let _ = write!(out, "<td>{}</td>", escaped(cell));
    }
    *out += "</tr>\n";
}

fn percent_encoded(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
                out.push(char::from(*byte))
            }
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Recorder;
    use words::event::{Event, EventLine};
    use words::process::Role;

    #[test]
    fn folders_of_one_name_are_told_apart() {
        let names = distinct_names(["demo", "other", "demo"].into_iter());
        assert_eq!(names, ["demo (1)", "other", "demo (2)"]);
    }

    #[test]
    fn hostile_names_are_text() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let mut recorder = Recorder::create(&output.join("node_0/train.events.jsonl")).unwrap();
        let line = br#"{"t":5,"kind":"batch","pass":0,"batch":1,"samples":2,"cost":1.0,"evaluators":{"<img src=x onerror=alert(1)>":0.5}}"#;
        recorder
            .record(EventLine::parse(line).unwrap().event)
            .unwrap();
        recorder
            .record(Event::Saved {
                pass: 0,
                path: "<table><script>alert(1)<script>".into(),
            })
            .unwrap();
        drop(recorder);
        std::fs::write(output.join("node_0/config.txt"), "<b>\u{202e}").unwrap();
        std::fs::write(
            output.join("node_0/network.svg"),
            "<svg onload=\"alert(1)\"/>",
        )
        .unwrap();
        let mut job = WatchedJob::open(folder.path()).unwrap();
        job.look(Instant::now(), 5.0);
        let jobs = [job];
        let text = html(&jobs, Instant::now());
        let [job] = jobs;
        assert!(
            !text.contains("<script>")
                && !text.contains("<img src=x")
                && !text.contains("onload=\""),
            "{text}"
        );
        assert!(text.contains("&lt;b&gt;\u{fffd}"));
        assert_eq!(charts(&job.history).len(), 2);
        assert!(
            job.history
                .processes
                .keys()
                .all(|(_, role)| *role == Role::Trainer)
        );
    }
}
