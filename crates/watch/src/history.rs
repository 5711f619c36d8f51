//! Turns the events of records into curves, marks, passes and states. Pure: it uses neither files nor clocks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use crate::mark::{Mark, MarkKind, RecordSource};
use crate::place::SamplePosition;
use crate::series::{Key, Point, Series};
use words::event::{
    EvaluatorValues, Event, EventLine, Figures, JobOutcome, ProcessChange, ProcessStart, Run,
    TableSize,
};
use words::process::Role;
use words::result::{Best, Stopped};
use words::statistics::ParameterStatistics;

/// Beyond this number, the oldest marks are dropped.
const MARKS: usize = 4000;

/// Passes whose statistics of parameters are kept.
const PASSES: usize = 1000;

/// What is known about one process.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// How it was last started.
    pub start: Option<ProcessStart>,
    /// When that was, in seconds since 1970.
    pub started: Option<f64>,
    /// Starts in this run.
    pub starts: u32,
    /// Restarts as the runner counts them.
    pub restarts: u32,
    /// The last change that the runner saw.
    pub life: Option<ProcessChange>,
    /// Set when it has ended; with an error if it failed.
    pub end: Option<Option<String>>,
}

impl Process {
    /// How often it was restarted.
    pub fn restarts(&self) -> u32 {
        self.restarts.max(self.starts.saturating_sub(1))
    }
}

/// A finished pass of a trainer.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    /// Sequence number of arrival.
    pub order: u64,
    /// The trainer's node.
    pub node: u32,
    /// When it ended, in seconds since 1970.
    pub t: f64,
    /// Figures of the whole pass.
    pub figures: Figures,
    /// Duration in seconds.
    pub seconds: f64,
    /// Seconds of that spent waiting.
    pub waited: f64,
    /// Cost and evaluators of the test after it.
    pub test: Option<(Option<f64>, EvaluatorValues)>,
}

/// Sizes of a sparse table over time, summed over servers.
#[derive(Debug, Clone, Default)]
pub struct Growth {
    newest: BTreeMap<u32, (u64, u64)>,
    /// Rows over time.
    pub rows: Series,
    /// Bytes held now.
    pub bytes: u64,
}

/// Everything that the records of a job contain so far.
#[derive(Debug, Default)]
pub struct History {
    order: u64,
    /// The job as its runner started it.
    pub run: Option<Run>,
    /// Time of the first event, in seconds since 1970.
    pub began: Option<f64>,
    /// Time of the last event.
    pub last: Option<f64>,
    /// By node and role.
    pub processes: BTreeMap<(u32, Role), Process>,
    /// By trainer and metric.
    pub series: BTreeMap<Key, Series>,
    /// Events drawn on the curves, oldest first.
    pub marks: VecDeque<Mark>,
    /// Finished passes of all trainers.
    pub passes: Vec<Pass>,
    /// Statistics of parameters by pass, with the sequence number of arrival.
    pub parameters: BTreeMap<u64, (u64, Vec<ParameterStatistics>)>,
    /// Sparse tables.
    pub tables: BTreeMap<String, Growth>,
    /// The best pass, by its tests.
    pub best: Option<Best>,
    /// Set when training ended before its last pass.
    pub stopped: Option<Stopped>,
    /// When, how and why the job ended, if it did.
    pub end: Option<(f64, JobOutcome, String)>,
    /// Seconds between the runs that the present one continues.
    pub paused: f64,
    /// Names of the runs that the present one continues.
    continued: BTreeSet<String>,
    places: BTreeMap<u32, SamplePosition>,
    /// The run that each file's last start names.
    runs: BTreeMap<RecordSource, String>,
    /// How often a run replaced another that it does not resume.
    replaced: u64,
}

impl History {
    /// Sequence number of the newest point or mark.
    pub fn order(&self) -> u64 {
        self.order
    }

    fn next(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// How often a run replaced another one, so that everything before it was removed.
    pub(crate) fn replaced(&self) -> u64 {
        self.replaced
    }

    /// Adds an event, unless it belongs to a run before the one that the runner's record names last.
    pub fn take(&mut self, source: RecordSource, line: EventLine) {
        let t = line.t;
        let event = match line.event {
            Event::Run(run) => {
                self.begin_run(run, t);
                self.note_time(t);
                return;
            }
            event => event,
        };
        let run = match &event {
            Event::Start(start) => Some(start.run.as_str()),
            _ => self.runs.get(&source).map(String::as_str),
        };
        if run.is_some_and(|run| self.is_other_run(run) && !self.continued.contains(run)) {
            let Event::Start(start) = &event else {
                return;
            };
            self.runs.insert(source, start.run.clone());
            let ended = self.end.as_ref().is_some_and(|(end, ..)| t > *end);
            if !ended {
                return;
            }
            // The process was started by hand, without a runner, after the run that the runner's record names.
            self.begin_anew();
        }
        self.note_time(t);
        match source {
            RecordSource::Process(node, role) => self.of_process(node, role, t, event),
            source => self.of_runner(source, t, event),
        }
    }

    fn note_time(&mut self, t: f64) {
        self.began = Some(self.began.map_or(t, |began| began.min(t)));
        self.last = Some(self.last.map_or(t, |last| last.max(t)));
    }

    /// Whether a process of this run is not one of the run that the runner's record names last.
    pub(crate) fn is_other_run(&self, run: &str) -> bool {
        let current = self.run.as_ref().map_or("", |current| &current.run);
        !run.is_empty() && !current.is_empty() && run != current
    }

    /// A runner has started. Unless it resumes the previous run or continues after its passes, everything of the
    /// previous run is removed.
    fn begin_run(&mut self, run: Run, t: f64) {
        let before = self.run.as_ref().map(|before| before.run.clone());
        match before.filter(|before| *before != run.run) {
            Some(before) if run.first_pass.is_some() => {
                self.continued.insert(before);
                self.paused += self.last.map_or(0.0, |last| (t - last).max(0.0));
                self.stopped = None;
            }
            Some(_) => self.begin_anew(),
            None => {}
        }
        self.run = Some(run);
        self.end = None;
    }

    fn begin_anew(&mut self) {
        *self = History {
            order: self.order,
            replaced: self.replaced + 1,
            runs: std::mem::take(&mut self.runs),
            ..History::default()
        };
    }

    fn of_runner(&mut self, source: RecordSource, t: f64, event: Event) {
        match event {
            Event::Process {
                role,
                node,
                what,
                restarts,
                text,
            } => {
                let process = self.processes.entry((node, role)).or_default();
                process.life = Some(what);
                process.restarts = process.restarts.max(restarts);
                let name = role.name();
                match what {
                    ProcessChange::Died => {
                        self.mark(
                            source,
                            t,
                            MarkKind::Died,
                            Some(node),
                            format!("{name} {node} {text}"),
                        );
                    }
                    ProcessChange::Restarting => self.mark(
                        source,
                        t,
                        MarkKind::Restarted,
                        Some(node),
                        format!("{name} {node} is restarted ({restarts}×)"),
                    ),
                    ProcessChange::Started => process.end = None,
                    ProcessChange::Ready | ProcessChange::Ended => {}
                }
            }
            Event::Note { text } => self.mark(source, t, MarkKind::Note, None, text),
            Event::JobEnd { outcome, text } => {
                let words = match outcome {
                    JobOutcome::Finished => "the job finished",
                    JobOutcome::Failed => "the job failed",
                    JobOutcome::Interrupted => "the job was interrupted",
                };
                let told = if text.is_empty() {
                    String::new()
                } else {
                    format!(": {text}")
                };
                self.mark(source, t, MarkKind::End, None, format!("{words}{told}"));
                if source == RecordSource::Runner {
                    self.end = Some((t, outcome, text));
                }
            }
            _ => {}
        }
    }

    fn of_process(&mut self, node: u32, role: Role, t: f64, event: Event) {
        let source = RecordSource::Process(node, role);
        match event {
            Event::Start(start) => self.started(source, node, role, t, *start),
            Event::PassStarted { pass, batch } => self.pass_started(node, pass, batch),
            Event::Batch(figures) => {
                let place = self.places.entry(node).or_default();
                let samples = place.samples(&figures);
                place.note((figures.pass, figures.batch), samples);
                place.evaluated += u32::from(!figures.evaluators.is_empty());
                self.points(node, false, samples, t, figures.cost, &figures.evaluators);
            }
            Event::Tested(figures) => {
                let samples = self.places.entry(node).or_default().samples(&figures);
                let order = self.next();
                let pass = self.passes.iter_mut().rev().find(|pass| pass.node == node);
                if let Some(pass) = pass.filter(|pass| pass.figures.pass == figures.pass) {
                    pass.test = Some((figures.cost, figures.evaluators.clone()));
                    pass.order = order;
                }
                self.points(node, true, samples, t, figures.cost, &figures.evaluators);
            }
            Event::PassFinished {
                figures,
                seconds,
                waited,
            } => self.pass_finished(node, t, figures, (seconds, waited)),
            Event::Parameters { pass, parameters } => {
                let order = self.next();
                self.parameters.insert(pass, (order, parameters));
                while self.parameters.len() > PASSES {
                    self.parameters.pop_first();
                }
            }
            Event::Saved { pass, path } => {
                let name = path.rsplit('/').next().unwrap_or(&path);
                let text = format!("model of pass {pass} saved: {name}");
                self.mark(source, t, MarkKind::Saved, Some(node), text);
            }
            Event::Best(best) => self.best = Some(best),
            Event::Stopped(stopped) => {
                let text = format!(
                    "stopped after pass {}: {} passes without improvement",
                    stopped.pass, stopped.patience
                );
                if !self.told_lately(MarkKind::End, t, &text) {
                    self.mark(source, t, MarkKind::End, None, text);
                }
                self.stopped = Some(stopped);
            }
            Event::RolledBack { pass, batch } => {
                let text = format!("the job rolled back to pass {pass}, batch {batch}");
                if !self.told_lately(MarkKind::RolledBack, t, &text) {
                    self.mark(source, t, MarkKind::RolledBack, None, text);
                }
            }
            Event::Snapshot { step } => {
                let text = format!("snapshot of step {step}");
                if !self.told_lately(MarkKind::Snapshot, t, &text) {
                    self.mark(source, t, MarkKind::Snapshot, None, text);
                }
            }
            Event::Recovery {
                epoch,
                step,
                restored,
            } => {
                let text = if restored {
                    format!("generation {epoch}: restored the state of step {step}")
                } else {
                    format!("generation {epoch}: continues at step {step}")
                };
                if !self.told_lately(MarkKind::Recovery, t, &text) {
                    self.mark(source, t, MarkKind::Recovery, None, text);
                }
            }
            Event::Tables { tables } => self.sizes(node, t, tables),
            Event::End { error } => {
                if let Some(error) = &error {
                    let text = format!("{} {node} failed: {error}", role.name());
                    self.mark(source, t, MarkKind::Died, Some(node), text);
                }
                self.processes.entry((node, role)).or_default().end = Some(error);
            }
            Event::Note { text } => self.mark(source, t, MarkKind::Note, Some(node), text),
            _ => {}
        }
    }

    fn started(
        &mut self,
        source: RecordSource,
        node: u32,
        role: Role,
        t: f64,
        start: ProcessStart,
    ) {
        let run = self.runs.insert(source, start.run.clone());
        if run.is_some_and(|run| run != start.run) {
            if start.first_pass.is_some() {
                self.processes.remove(&(node, role));
            } else {
                self.forget(source, node, role);
            }
        }
        let process = self.processes.entry((node, role)).or_default();
        process.starts += 1;
        process.start = Some(start);
        process.started = Some(t);
        process.end = None;
        let text = format!("{} {node} is running again", role.name());
        if process.starts > 1 {
            self.mark(source, t, MarkKind::Restarted, Some(node), text);
        }
    }

    /// A file continues with another run: everything that it reported before is removed.
    fn forget(&mut self, source: RecordSource, node: u32, role: Role) {
        self.processes.remove(&(node, role));
        self.marks.retain(|mark| mark.source != source);
        if role == Role::Trainer {
            self.series.retain(|key, _| key.node != node);
            self.passes.retain(|pass| pass.node != node);
            self.places.remove(&node);
            if node == 0 {
                self.parameters.clear();
                (self.best, self.stopped) = (None, None);
            }
        } else {
            self.tables.clear();
        }
    }

    fn pass_started(&mut self, node: u32, pass: u64, batch: u64) {
        let place = self.places.entry(node).or_default();
        if let Some(samples) = place.begin(pass, batch) {
            for (key, series) in &mut self.series {
                if key.node == node {
                    series.cut_after(samples);
                }
            }
            self.passes
                .retain(|done| done.node != node || done.figures.pass < pass);
            self.parameters.retain(|done, _| node != 0 || *done < pass);
        }
    }

    fn pass_finished(
        &mut self,
        node: u32,
        t: f64,
        figures: Figures,
        (seconds, waited): (f64, f64),
    ) {
        let order = self.next();
        let place = self.places.entry(node).or_default();
        let samples = place.samples(&figures);
        place.note((figures.pass + 1, 0), samples);
        // A pass without a progress line still shows the evaluators of its end.
        if place.evaluated == 0 {
            self.points(node, false, samples, t, None, &figures.evaluators);
        }
        // Its samples are summed over trainers, so it changes for all of them.
        for same in self.passes.iter_mut() {
            if same.figures.pass == figures.pass {
                same.order = order;
            }
        }
        self.passes.push(Pass {
            order,
            node,
            t,
            figures,
            seconds,
            waited,
            test: None,
        });
    }

    fn points(
        &mut self,
        node: u32,
        test: bool,
        samples: f64,
        t: f64,
        cost: Option<f64>,
        evaluators: &EvaluatorValues,
    ) {
        let cost = cost.map(|cost| ("cost", cost));
        let others = evaluators
            .iter()
            .map(|(name, value)| (name.as_str(), *value));
        for (metric, value) in cost.into_iter().chain(others) {
            let order = self.next();
            let key = Key {
                node,
                metric: metric.to_owned(),
                test,
            };
            self.series.entry(key).or_default().push(Point {
                order,
                samples,
                t,
                value,
            });
        }
    }

    fn sizes(&mut self, node: u32, t: f64, tables: Vec<TableSize>) {
        let samples = self.samples_at(t);
        for table in tables {
            let order = self.next();
            let growth = self.tables.entry(table.name).or_default();
            growth.newest.insert(node, (table.rows, table.bytes));
            growth.bytes = growth.newest.values().map(|(_, bytes)| bytes).sum();
            let rows: u64 = growth.newest.values().map(|(rows, _)| rows).sum();
            growth.rows.push(Point {
                order,
                samples,
                t,
                value: rows as f64,
            });
        }
    }

    /// All processes of a role report the same event; it is shown once.
    fn told_lately(&self, kind: MarkKind, t: f64, text: &str) -> bool {
        let mut same = self
            .marks
            .iter()
            .filter(|mark| mark.kind == kind && mark.text == text);
        same.any(|mark| (mark.t - t).abs() < 30.0)
    }

    fn mark(
        &mut self,
        source: RecordSource,
        t: f64,
        kind: MarkKind,
        node: Option<u32>,
        text: String,
    ) {
        let order = self.next();
        self.marks.push_back(Mark {
            order,
            t,
            kind,
            node,
            text,
            source,
        });
        if self.marks.len() > MARKS {
            self.marks.pop_front();
        }
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
