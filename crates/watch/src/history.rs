//! Records to what is shown: a fold that knows neither files nor clocks.

use std::collections::{BTreeMap, VecDeque};

pub use crate::mark::{Mark, MarkKind, Source};
use crate::place::Place;
use crate::record::{
    Evaluators, Figures, Life, Line, Outcome, ParameterStatistics, Record, Role, Run, Start,
    TableSize,
};
use crate::series::{Key, Point, Series};

/// Marks beyond this are forgotten, the oldest first.
const MARKS: usize = 4000;

/// Passes whose statistics of parameters are kept.
const PASSES: usize = 1000;

/// What is known of one process.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// How it was started last.
    pub start: Option<Start>,
    /// When that was.
    pub started: Option<f64>,
    /// Starts in this run.
    pub starts: u32,
    /// As the runner counts.
    pub restarts: u32,
    /// What the runner saw last.
    pub life: Option<Life>,
    /// It has ended; with this error, if it failed.
    pub end: Option<Option<String>>,
}

impl Process {
    /// How often it was started again.
    pub fn restarts(&self) -> u32 {
        self.restarts.max(self.starts.saturating_sub(1))
    }
}

/// A finished pass of a trainer.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    /// Number of arrival.
    pub order: u64,
    /// The trainer.
    pub node: u32,
    /// When it ended.
    pub t: f64,
    /// Figures of the whole pass.
    pub figures: Figures,
    /// How long it took.
    pub seconds: f64,
    /// How long of that it waited.
    pub waited: f64,
    /// The test after it.
    pub test: Option<(Option<f64>, Evaluators)>,
}

/// Sizes of a sparse table over time, summed over servers.
#[derive(Debug, Clone, Default)]
pub struct Growth {
    newest: BTreeMap<u32, (u64, u64)>,
    /// Rows.
    pub rows: Series,
    /// Bytes held now.
    pub bytes: u64,
}

/// All that was told of a job so far.
#[derive(Debug, Default)]
pub struct History {
    order: u64,
    /// The job as its runner began it.
    pub run: Option<Run>,
    /// When the first record was made.
    pub began: Option<f64>,
    /// When the last was.
    pub last: Option<f64>,
    /// The processes.
    pub processes: BTreeMap<(u32, Role), Process>,
    /// The curves.
    pub series: BTreeMap<Key, Series>,
    /// Marks on them.
    pub marks: VecDeque<Mark>,
    /// Finished passes of all trainers.
    pub passes: Vec<Pass>,
    /// Statistics of parameters by pass, with the number of arrival.
    pub parameters: BTreeMap<u64, (u64, Vec<ParameterStatistics>)>,
    /// Sparse tables.
    pub tables: BTreeMap<String, Growth>,
    /// How the job ended, if it did.
    pub end: Option<(f64, Outcome, String)>,
    places: BTreeMap<u32, Place>,
    runs: BTreeMap<Source, String>,
}

impl History {
    /// Number of the newest point or mark.
    pub fn order(&self) -> u64 {
        self.order
    }

    fn next(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Takes in a record.
    pub fn take(&mut self, source: Source, line: Line) {
        let t = line.t;
        self.began = Some(self.began.map_or(t, |began| began.min(t)));
        self.last = Some(self.last.map_or(t, |last| last.max(t)));
        match (source, line.record) {
            (_, Record::Run(run)) => self.begin_run(run),
            (Source::Process(node, role), record) => self.of_process(node, role, t, record),
            (source, record) => self.of_runner(source, t, record),
        }
    }

    fn begin_run(&mut self, run: Run) {
        self.run = Some(run);
        self.end = None;
    }

    fn of_runner(&mut self, source: Source, t: f64, record: Record) {
        match record {
            Record::Process {
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
                    Life::Died => {
                        self.mark(
                            source,
                            t,
                            MarkKind::Died,
                            Some(node),
                            format!("{name} {node} {text}"),
                        );
                    }
                    Life::Restarting => self.mark(
                        source,
                        t,
                        MarkKind::Restarted,
                        Some(node),
                        format!("{name} {node} is started again ({restarts}×)"),
                    ),
                    Life::Started => process.end = None,
                    Life::Ready | Life::Ended => {}
                }
            }
            Record::Note { text } => self.mark(source, t, MarkKind::Note, None, text),
            Record::JobEnd { outcome, text } => {
                let words = match outcome {
                    Outcome::Finished => "the job finished",
                    Outcome::Failed => "the job failed",
                    Outcome::Interrupted => "the job was interrupted",
                };
                let told = if text.is_empty() {
                    String::new()
                } else {
                    format!(": {text}")
                };
                self.mark(source, t, MarkKind::End, None, format!("{words}{told}"));
                if source == Source::Runner {
                    self.end = Some((t, outcome, text));
                }
            }
            _ => {}
        }
    }

    fn of_process(&mut self, node: u32, role: Role, t: f64, record: Record) {
        let source = Source::Process(node, role);
        match record {
            Record::Start(start) => self.started(source, node, role, t, *start),
            Record::PassStarted { pass, batch } => self.pass_started(node, pass, batch),
            Record::Batch(figures) => {
                let place = self.places.entry(node).or_default();
                let samples = place.samples(&figures);
                place.note((figures.pass, figures.batch), samples);
                place.evaluated += u32::from(!figures.evaluators.is_empty());
                self.points(node, false, samples, t, figures.cost, &figures.evaluators);
            }
            Record::Tested(figures) => {
                let samples = self.places.entry(node).or_default().samples(&figures);
                let pass = self.passes.iter_mut().rev().find(|pass| pass.node == node);
                if let Some(pass) = pass.filter(|pass| pass.figures.pass == figures.pass) {
                    pass.test = Some((figures.cost, figures.evaluators.clone()));
                }
                self.points(node, true, samples, t, figures.cost, &figures.evaluators);
            }
            Record::PassFinished {
                figures,
                seconds,
                waited,
            } => self.pass_finished(node, t, figures, (seconds, waited)),
            Record::Parameters { pass, parameters } => {
                let order = self.next();
                self.parameters.insert(pass, (order, parameters));
                while self.parameters.len() > PASSES {
                    self.parameters.pop_first();
                }
            }
            Record::Saved { pass, path } => {
                let name = path.rsplit('/').next().unwrap_or(&path);
                let text = format!("model of pass {pass} saved: {name}");
                self.mark(source, t, MarkKind::Saved, Some(node), text);
            }
            Record::RolledBack { pass, batch } => {
                let text = format!("the job went back to pass {pass}, batch {batch}");
                if !self.told_lately(MarkKind::RolledBack, t, &text) {
                    self.mark(source, t, MarkKind::RolledBack, None, text);
                }
            }
            Record::Snapshot { step } => {
                let text = format!("snapshot of step {step}");
                if !self.told_lately(MarkKind::Snapshot, t, &text) {
                    self.mark(source, t, MarkKind::Snapshot, None, text);
                }
            }
            Record::Recovery { epoch, step } => {
                let text = format!("life {epoch} of the job goes on from step {step}");
                if !self.told_lately(MarkKind::Recovery, t, &text) {
                    self.mark(source, t, MarkKind::Recovery, None, text);
                }
            }
            Record::Tables { tables } => self.sizes(node, t, tables),
            Record::End { error } => {
                if let Some(error) = &error {
                    let text = format!("{} {node} failed: {error}", role.name());
                    self.mark(source, t, MarkKind::Died, Some(node), text);
                }
                self.processes.entry((node, role)).or_default().end = Some(error);
            }
            Record::Note { text } => self.mark(source, t, MarkKind::Note, Some(node), text),
            _ => {}
        }
    }

    fn started(&mut self, source: Source, node: u32, role: Role, t: f64, start: Start) {
        let run = self.runs.insert(source, start.run.clone());
        if run.is_some_and(|run| run != start.run) {
            self.forget(source, node, role);
        }
        let process = self.processes.entry((node, role)).or_default();
        process.starts += 1;
        process.start = Some(start);
        process.started = Some(t);
        process.end = None;
        let text = format!("{} {node} runs again", role.name());
        if process.starts > 1 {
            self.mark(source, t, MarkKind::Restarted, Some(node), text);
        }
    }

    /// A file goes on with another run: what it told before is of no use.
    fn forget(&mut self, source: Source, node: u32, role: Role) {
        self.processes.remove(&(node, role));
        self.marks.retain(|mark| mark.source != source);
        if role == Role::Trainer {
            self.series.retain(|key, _| key.node != node);
            self.passes.retain(|pass| pass.node != node);
            self.places.remove(&node);
            if node == 0 {
                self.parameters.clear();
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
        // A pass without a progress line still shows where its evaluators ended.
        if place.evaluated == 0 {
            self.points(node, false, samples, t, None, &figures.evaluators);
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
        evaluators: &Evaluators,
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

    /// Where trainer 0, or the first that there is, was at a time.
    pub fn samples_at(&self, t: f64) -> f64 {
        let mut curves = self
            .series
            .iter()
            .filter(|(key, _)| key.metric == "cost" && !key.test);
        let Some((_, series)) = curves.next() else {
            return 0.0;
        };
        let points = series.points();
        let after = points.partition_point(|point| point.t <= t);
        after.checked_sub(1).map_or(0.0, |at| points[at].samples)
    }

    /// All processes of a role tell the same; once is enough.
    fn told_lately(&self, kind: MarkKind, t: f64, text: &str) -> bool {
        let mut same = self
            .marks
            .iter()
            .filter(|mark| mark.kind == kind && mark.text == text);
        same.any(|mark| (mark.t - t).abs() < 30.0)
    }

    fn mark(&mut self, source: Source, t: f64, kind: MarkKind, node: Option<u32>, text: String) {
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
