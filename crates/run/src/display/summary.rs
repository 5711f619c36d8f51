//! Totals of the events: what each node has done so far, and the table at the end of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::text;
use crate::event::{Cause, JobEvent};
use words::event::{Event, Figures};
use words::process::{ProcessId, Role};
use words::result::{self, Best, Stopped};
use words::status::Status;

/// The state of a process, as the display shows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProcessState {
    /// Not started, or about to be restarted.
    #[default]
    Waiting,
    /// Started, not ready.
    Starting,
    /// Ready.
    Running,
    /// Ended as expected.
    Ended,
    /// Crashed or ended too early.
    Dead,
}

/// What one node has done.
#[derive(Debug, Clone, Default)]
pub struct NodeSummary {
    /// State of its server.
    pub pserver: ProcessState,
    /// State of its trainer.
    pub trainer: ProcessState,
    /// The trainer's last status.
    pub status: Status,
    /// What the trainer waits for.
    pub trainer_waits: Option<String>,
    /// What the server waits for.
    pub pserver_waits: Option<String>,
    /// Restarts of both processes.
    pub restarts: u32,
    /// Finished passes, by number.
    passes: BTreeMap<u64, Figures>,
    began: Option<Duration>,
    last: Duration,
}

impl NodeSummary {
    /// Samples in all passes, the current one included.
    pub fn samples(&self) -> u64 {
        let finished: u64 = self.passes.values().map(|figures| figures.samples).sum();
        finished.max(self.status.samples)
    }

    /// Finished passes.
    pub fn passes(&self) -> usize {
        self.passes.len()
    }

    /// Mean speed from the trainer's start to its last status.
    pub fn samples_per_s(&self) -> Option<f64> {
        let seconds = self.last.saturating_sub(self.began?).as_secs_f64();
        (seconds > 0.0).then(|| self.samples() as f64 / seconds)
    }

    /// Cost per sample of the last finished pass, or of the current one.
    pub fn cost(&self) -> Option<f64> {
        self.passes
            .values()
            .next_back()
            .and_then(|figures| figures.cost)
            .or(self.status.cost)
    }
}

/// Totals of the events of a run.
#[derive(Debug, Clone, Default)]
pub struct RunTally {
    /// By node id.
    pub nodes: BTreeMap<u32, NodeSummary>,
    /// How many passes the trainers run, if the user said so.
    pub num_passes: Option<u64>,
    /// Saved models, in the order of saving.
    pub saved: Vec<PathBuf>,
    /// Figures of the last test.
    pub test: Option<Figures>,
    /// The best pass, by its tests.
    pub best: Option<Best>,
    /// Set when training ended before its last pass.
    pub stopped: Option<Stopped>,
    /// Generations of the job that began with a restored snapshot.
    pub roll_backs: BTreeSet<u64>,
    /// The newest message for a line of its own: the preparation of data, a crash, a roll-back, or a warning.
    pub note: Option<String>,
}

impl RunTally {
    /// Nothing has happened yet.
    pub fn new(num_passes: Option<u64>) -> Self {
        Self {
            num_passes,
            ..Self::default()
        }
    }

    /// Adds an event that happened at `at`, counted from the start.
    pub fn take(&mut self, at: Duration, event: &JobEvent) {
        match event {
            JobEvent::Preparing { what } => self.note = Some(what.clone()),
            JobEvent::Started { process, .. } => {
                self.note = None;
                self.set_life(*process, ProcessState::Starting);
                if process.role == Role::Trainer {
                    self.node(*process).began.get_or_insert(at);
                }
            }
            JobEvent::Ready { process } => self.set_life(*process, ProcessState::Running),
            JobEvent::Ended { process } => self.set_life(*process, ProcessState::Ended),
            JobEvent::Died { process, .. } => self.set_life(*process, ProcessState::Dead),
            JobEvent::Progress { process, status } if process.role == Role::Trainer => {
                let node = self.node(*process);
                (node.status, node.last) = (status.clone(), at);
            }
            JobEvent::Waits { process, reason } => match process.role {
                Role::Trainer => self.node(*process).trainer_waits.clone_from(reason),
                Role::Pserver => self.node(*process).pserver_waits.clone_from(reason),
            },
            JobEvent::Recorded { process, event } => self.recorded(at, *process, event),
            JobEvent::Restarting { process, .. } => {
                self.node(*process).restarts += 1;
                self.set_life(*process, ProcessState::Waiting);
                self.note = Some(format!("{process} crashed and is being restarted"));
            }
            JobEvent::Warning { text } | JobEvent::Stopping { reason: text } => {
                self.note = Some(text.clone())
            }
            _ => {}
        }
    }

    fn recorded(&mut self, at: Duration, process: ProcessId, event: &Event) {
        match event {
            Event::PassFinished { figures, .. } => {
                let node = self.node(process);
                node.passes.insert(figures.pass, figures.clone());
                node.last = at;
            }
            Event::Tested(figures) => self.test = Some(figures.clone()),
            Event::Best(best) => self.best = Some(best.clone()),
            Event::Stopped(stopped) => self.stopped = Some(*stopped),
            Event::Saved { path, .. }
                if !self.saved.iter().any(|saved| saved == Path::new(path)) =>
            {
                self.saved.push(path.into());
            }
            // Every server reports it. A resumed run also begins with a restored snapshot, but repeats nothing.
            Event::Recovery {
                epoch,
                step,
                restored: true,
            } => {
                self.note = Some(format!("restored the state of step {step}"));
                if *epoch > 1 {
                    self.roll_backs.insert(*epoch);
                }
            }
            _ => {}
        }
    }

    fn node(&mut self, process: ProcessId) -> &mut NodeSummary {
        self.nodes.entry(process.node).or_default()
    }

    fn set_life(&mut self, process: ProcessId, life: ProcessState) {
        let node = self.node(process);
        match process.role {
            Role::Pserver => (node.pserver, node.pserver_waits) = (life, None),
            Role::Trainer => (node.trainer, node.trainer_waits) = (life, None),
        }
    }

    /// The last pass that every node has finished: its number, and the figures of all nodes together.
    pub(crate) fn last_pass(&self) -> Option<(u64, Figures)> {
        let pass = self
            .nodes
            .values()
            .filter_map(|node| node.passes.keys().next_back().copied())
            .min()?;
        let parts: Vec<&Figures> = self
            .nodes
            .values()
            .filter_map(|node| node.passes.get(&pass))
            .collect();
        Some((pass, weighted(&parts)))
    }

    /// The table at the end of a run. Paths are shown relative to `base` where they are in it.
    pub fn table(&self, base: &Path, elapsed: Duration) -> String {
        let mut rows =
            vec![["node", "samples", "samples/s", "passes", "cost", "restarts"].map(str::to_owned)];
        for (id, node) in &self.nodes {
            rows.push([
                id.to_string(),
                text::count(node.samples()),
                node.samples_per_s().map_or("-".to_owned(), text::rate),
                node.passes().to_string(),
                node.cost().map_or("-".to_owned(), text::number),
                node.restarts.to_string(),
            ]);
        }
        let mut table = align(&rows);
        let samples: u64 = self.nodes.values().map(NodeSummary::samples).sum();
        let speed: f64 = self
            .nodes
            .values()
            .filter_map(NodeSummary::samples_per_s)
            .sum();
        let (samples, speed) = (text::count(samples), text::rate(speed));
        table += &format!(
            "\nall nodes: {samples} samples in {}, {speed} samples/s\n",
            text::duration(elapsed)
        );
        if let Some((pass, figures)) = self.last_pass() {
            table += &format!(
                "pass {pass}: cost {}{}\n",
                text::number(figures.cost.unwrap_or(f64::NAN)),
                evals(&figures)
            );
        }
        if let Some(test) = &self.test {
            table += &format!(
                "last test: cost {}{}\n",
                text::number(test.cost.unwrap_or(f64::NAN)),
                evals(test)
            );
        }
        if let Some(times) = text::roll_backs(self.roll_backs.len()) {
            table += &format!("{times}\n");
        }
        table += &self.result(base);
        table
    }

    /// The folder of the models; the usual one if this run had nothing to save.
    fn folder(&self, job: &Path) -> PathBuf {
        let of_save = self.saved.last().and_then(|path| path.parent());
        of_save.map_or_else(|| job.join("output"), Path::to_owned)
    }

    /// The pass directories that exist: older ones may have been removed (`--keep`), and a resumed run finds some.
    fn models(&self, job: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder(job))
            .into_iter()
            .flatten()
            .flatten();
        let is_model = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let number = name.strip_prefix("pass-").unwrap_or_default();
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        };
        let mut models: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_model).collect();
        models.sort();
        models
    }

    /// The link to the best model, if it exists.
    fn best_model(&self, job: &Path) -> Option<PathBuf> {
        let link = self.folder(job).join("best");
        Some(link).filter(|link| link.is_symlink() && link.exists())
    }

    /// The same as the table, for programs.
    pub fn json(&self, job: &Path, elapsed: Duration) -> serde_json::Value {
        let nodes: Vec<_> = self
            .nodes
            .iter()
            .map(|(id, node)| {
                serde_json::json!({
                    "node": id,
                    "samples": node.samples(),
                    "samples_per_s": node.samples_per_s(),
                    "passes": node.passes(),
                    "cost": node.cost(),
                    "restarts": node.restarts,
                })
            })
            .collect();
        serde_json::json!({
            "seconds": elapsed.as_secs_f64(),
            "nodes": nodes,
            "last_pass": self.last_pass().map(|(pass, figures)| serde_json::json!({
                "pass": pass, "cost": figures.cost, "evaluators": figures.evaluators,
            })),
            "last_test": self.test.as_ref().map(|test| serde_json::json!({
                "pass": test.pass, "cost": test.cost, "evaluators": test.evaluators,
            })),
            "best": self.best,
            "stopped": self.stopped,
            "best_model": self.best_model(job),
            "models": self.models(job),
            "roll_backs": self.roll_backs.len(),
        })
    }

    /// The last lines of the table: which models there are, and the best one.
    fn result(&self, base: &Path) -> String {
        let shown = |path: &Path| {
            let path = path.strip_prefix(base).unwrap_or(path);
            path.display().to_string()
        };
        let models = self.models(base);
        let mut text = match models.as_slice() {
            [] => "no model was saved\n".to_owned(),
            [one] => format!("model: {}\n", shown(one)),
            [.., last] => format!("{} models, the last is {}\n", models.len(), shown(last)),
        };
        if let Some(best) = &self.best {
            text += &result::sentence(best, self.stopped);
            if let Some(link) = self.best_model(base) {
                text += &format!(": {}", shown(&link));
            }
            text.push('\n');
        }
        text
    }
}

/// The first cause of a failure with the last lines of its log, for people.
pub fn failure(cause: &Cause) -> String {
    let mut text = format!("the job failed: {}\n", cause.reason);
    if !cause.tail.is_empty() {
        text += "last lines of its log:\n";
        for line in &cause.tail {
            text += &format!("  | {line}\n");
        }
    }
    if let Some(log) = &cause.log {
        text += &format!("its log: {}\n", log.display());
    }
    text
}

/// Mean of costs and evaluators, weighted by samples.
fn weighted(parts: &[&Figures]) -> Figures {
    let samples: u64 = parts.iter().map(|part| part.samples).sum();
    let weight = |part: &Figures| {
        if samples == 0 {
            1.0 / parts.len() as f64
        } else {
            part.samples as f64 / samples as f64
        }
    };
    let mut sum = Figures {
        samples,
        ..Figures::default()
    };
    for part in parts {
        let cost = part.cost.unwrap_or(f64::NAN) * weight(part);
        sum.cost = Some(sum.cost.unwrap_or(0.0) + cost);
        for (name, value) in &part.evaluators {
            *sum.evaluators.entry(name.clone()).or_insert(0.0) += value * weight(part);
        }
    }
    sum
}

fn evals(figures: &Figures) -> String {
    figures
        .evaluators
        .iter()
        .map(|(name, value)| format!("  {name}={}", text::number(*value)))
        .collect()
}

/// Columns as wide as their widest cell, numbers to the right.
fn align<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut table = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:>width$}"))
            .collect();
        table += &cells.join("  ");
        table.push('\n');
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn figures(samples: u64, cost: f64, error: f64) -> Figures {
        Figures {
            batch: 10,
            samples,
            cost: Some(cost),
            evaluators: BTreeMap::from([("error".to_owned(), error)]),
            ..Figures::default()
        }
    }

    fn finished(node: u32, pass: u64, figures: Figures) -> JobEvent {
        JobEvent::Recorded {
            process: ProcessId::trainer(node),
            event: Event::PassFinished {
                figures: Figures { pass, ..figures },
                seconds: 1.0,
                waited: 0.0,
            },
        }
    }

    fn two_nodes(job: &Path) -> RunTally {
        let mut tally = RunTally::new(Some(2));
        for node in 0..2 {
            let process = ProcessId::trainer(node);
            tally.take(
                at(1),
                &JobEvent::Started {
                    process,
                    pid: 7,
                    restart: 0,
                },
            );
            for pass in 0..2 {
                let figures = figures(1000 + 2000 * u64::from(node), 0.5 + f64::from(node), 0.25);
                tally.take(at(11), &finished(node, pass, figures));
            }
        }
        let model = |pass| format!("{}/output/pass-0000{pass}", job.display());
        for pass in 0..2 {
            std::fs::create_dir_all(model(pass)).unwrap();
            tally.take(
                at(12),
                &JobEvent::Recorded {
                    process: ProcessId::trainer(0),
                    event: Event::Saved {
                        pass,
                        path: model(pass),
                    },
                },
            );
        }
        tally
    }

    #[test]
    fn the_table_of_a_run() {
        let job = tempfile::tempdir().unwrap();
        let mut tally = two_nodes(job.path());
        tally.take(
            at(12),
            &JobEvent::Restarting {
                process: ProcessId::pserver(1),
                restart: 1,
                after: at(1),
            },
        );
        tally.take(
            at(12),
            &JobEvent::Recorded {
                process: ProcessId::trainer(0),
                event: Event::Tested(figures(50, 0.125, 0.5)),
            },
        );
        std::os::unix::fs::symlink("pass-00001", job.path().join("output/best")).unwrap();
        let (measure, value) = ("__classification_error_evaluator_0__".to_owned(), 0.25);
        let best = Best {
            pass: 0,
            measure,
            value,
            kept: None,
        };
        let stopped = Stopped {
            pass: 1,
            patience: 1,
        };
        for event in [Event::Best(best), Event::Stopped(stopped)] {
            let process = ProcessId::trainer(0);
            tally.take(at(12), &JobEvent::Recorded { process, event });
        }
        for node in 0..2 {
            tally.take(
                at(13),
                &JobEvent::Recorded {
                    process: ProcessId::pserver(node),
                    event: Event::Recovery {
                        epoch: 2,
                        step: 7,
                        restored: true,
                    },
                },
            );
        }
        assert_eq!(
            tally.table(job.path(), at(75)),
            "node  samples  samples/s  passes  cost  restarts\n\
             \u{20}  0    2,000        200       2   0.5         0\n\
             \u{20}  1    6,000        600       2   1.5         1\n\
             \nall nodes: 8,000 samples in 1:15, 800 samples/s\n\
             pass 1: cost 1.25  error=0.25\n\
             last test: cost 0.125  error=0.5\n\
             rolled back to a snapshot once\n\
             2 models, the last is output/pass-00001\n\
             best test error 25.0 % after pass 0; stopped after pass 1: output/best\n"
        );
    }

    #[test]
    fn a_pass_that_is_repeated_after_a_roll_back_counts_once() {
        let job = tempfile::tempdir().unwrap();
        let mut tally = two_nodes(job.path());
        let process = ProcessId::trainer(0);
        let before = tally.nodes[&0].samples();
        tally.take(at(20), &finished(0, 1, figures(1000, 0.4, 0.2)));
        assert_eq!(tally.nodes[&0].samples(), before);
        let status = Status {
            pass: Some(2),
            samples: before + 30,
            ..Status::default()
        };
        tally.take(at(21), &JobEvent::Progress { process, status });
        assert_eq!(tally.nodes[&0].samples(), before + 30);
    }

    #[test]
    fn a_failure_names_cause_last_words_and_log() {
        let cause = Cause {
            process: Some(ProcessId::pserver(1)),
            reason: "pserver 1 ended with code 1".into(),
            exit: None,
            tail: vec!["disk full".into()],
            log: Some("/job/output/node_1/server.log".into()),
        };
        assert_eq!(
            failure(&cause),
            "the job failed: pserver 1 ended with code 1\nlast lines of its log:\n  | disk full\n\
             its log: /job/output/node_1/server.log\n"
        );
    }
}
