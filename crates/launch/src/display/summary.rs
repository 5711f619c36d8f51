//! Adds events up: what each node has done so far, and the table at the end of a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::text;
use crate::event::{Cause, JobEvent, ProcessId, Role};
use crate::logline::Figures;
use crate::status::Status;

/// Where a process is in its life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Life {
    /// Not started, or about to be started again.
    #[default]
    Waiting,
    /// Started, not ready.
    Starting,
    /// Ready.
    Running,
    /// Ended as it should.
    Ended,
    /// Ended as it should not.
    Dead,
}

/// What one node has done.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The server's life.
    pub pserver: Life,
    /// The trainer's life.
    pub trainer: Life,
    /// The trainer's last words.
    pub status: Status,
    /// What the trainer waits for.
    pub trainer_waits: Option<String>,
    /// What the server waits for.
    pub pserver_waits: Option<String>,
    /// Restarts of both processes.
    pub restarts: u32,
    /// Finished passes.
    passes: BTreeMap<u64, Figures>,
    began: Option<Duration>,
    last: Duration,
}

impl Node {
    /// Samples in all passes, the current one included.
    pub fn samples(&self) -> u64 {
        let finished: u64 = self.passes.values().map(|figures| figures.samples).sum();
        finished.max(self.status.samples.unwrap_or(0))
    }

    /// Finished passes.
    pub fn passes(&self) -> usize {
        self.passes.len()
    }

    /// Mean speed from the trainer's start to its last words.
    pub fn samples_per_s(&self) -> Option<f64> {
        let seconds = self.last.saturating_sub(self.began?).as_secs_f64();
        (seconds > 0.0).then(|| self.samples() as f64 / seconds)
    }

    /// Cost per sample of the last finished pass, or of the current one.
    pub fn cost(&self) -> Option<f64> {
        self.passes
            .values()
            .next_back()
            .map(|figures| figures.cost)
            .or(self.status.cost)
    }
}

/// Everything that the events of a run add up to.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// By node id.
    pub nodes: BTreeMap<u32, Node>,
    /// How many passes the trainers were asked for, if they were.
    pub num_passes: Option<u64>,
    /// Saved models, in the order of saving.
    pub saved: Vec<PathBuf>,
    /// The last test.
    pub test: Option<Figures>,
    /// The newest snapshot.
    pub snapshot: Option<u64>,
    /// How often the job went back to a snapshot.
    pub roll_backs: u32,
    /// The last thing worth a line of its own.
    pub note: Option<String>,
}

impl Tally {
    /// Nothing has happened yet.
    pub fn new(num_passes: Option<u64>) -> Self {
        Self {
            num_passes,
            ..Self::default()
        }
    }

    /// Takes in an event that happened at `at`, counted from the start.
    pub fn take(&mut self, at: Duration, event: &JobEvent) {
        match event {
            JobEvent::Preparing { what } => self.note = Some(what.clone()),
            JobEvent::Started { process, .. } => {
                self.note = None;
                self.set_life(*process, Life::Starting);
                if process.role == Role::Trainer {
                    self.node(*process).began.get_or_insert(at);
                }
            }
            JobEvent::Ready { process } => self.set_life(*process, Life::Running),
            JobEvent::Ended { process } => self.set_life(*process, Life::Ended),
            JobEvent::Died { process, .. } => self.set_life(*process, Life::Dead),
            JobEvent::Progress { process, status } if process.role == Role::Trainer => {
                let node = self.node(*process);
                (node.status, node.last) = (status.clone(), at);
            }
            JobEvent::Waits { process, reason } => match process.role {
                Role::Trainer => self.node(*process).trainer_waits.clone_from(reason),
                Role::Pserver => self.node(*process).pserver_waits.clone_from(reason),
            },
            JobEvent::PassFinished {
                process,
                pass,
                figures,
            } => {
                let node = self.node(*process);
                node.passes.insert(*pass, figures.clone());
                node.last = at;
            }
            JobEvent::Tested { figures, .. } => self.test = Some(figures.clone()),
            JobEvent::PassSaved { directory } if !self.saved.contains(directory) => {
                self.saved.push(directory.clone())
            }
            JobEvent::Snapshot { step, .. } => self.snapshot = Some(*step),
            JobEvent::RolledBack { step, .. } => {
                self.roll_backs += 1;
                self.note = Some(format!("went back to the snapshot of step {step}"));
            }
            JobEvent::Restarting { process, .. } => {
                self.node(*process).restarts += 1;
                self.set_life(*process, Life::Waiting);
                self.note = Some(format!("{process} died and is started again"));
            }
            JobEvent::Warning { text } | JobEvent::Stopping { reason: text } => {
                self.note = Some(text.clone())
            }
            _ => {}
        }
    }

    fn node(&mut self, process: ProcessId) -> &mut Node {
        self.nodes.entry(process.node).or_default()
    }

    fn set_life(&mut self, process: ProcessId, life: Life) {
        let node = self.node(process);
        match process.role {
            Role::Pserver => (node.pserver, node.pserver_waits) = (life, None),
            Role::Trainer => (node.trainer, node.trainer_waits) = (life, None),
        }
    }

    /// The last pass that every node has finished: its number and the figures of all together.
    pub fn last_pass(&self) -> Option<(u64, Figures)> {
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
        let samples: u64 = self.nodes.values().map(Node::samples).sum();
        let speed: f64 = self.nodes.values().filter_map(Node::samples_per_s).sum();
        let (samples, speed) = (text::count(samples), text::rate(speed));
        table += &format!(
            "\nall nodes: {samples} samples in {}, {speed} samples/s\n",
            text::duration(elapsed)
        );
        if let Some((pass, figures)) = self.last_pass() {
            table += &format!(
                "pass {pass}: cost {}{}\n",
                text::number(figures.cost),
                evals(&figures)
            );
        }
        if let Some(test) = &self.test {
            table += &format!(
                "last test: cost {}{}\n",
                text::number(test.cost),
                evals(test)
            );
        }
        if self.roll_backs > 0 {
            table += &format!("went back to a snapshot {} times\n", self.roll_backs);
        }
        let shown = |path: &PathBuf| {
            path.strip_prefix(base)
                .unwrap_or(path)
                .display()
                .to_string()
        };
        match self.saved.as_slice() {
            [] => table += "no model was saved\n",
            [one] => table += &format!("model: {}\n", shown(one)),
            [first, .., last] => {
                table += &format!(
                    "{} models: {} … {}\n",
                    self.saved.len(),
                    shown(first),
                    shown(last)
                );
            }
        }
        table
    }
}

/// The first cause of a failure with the last lines of its log, for people.
pub fn failure(cause: &Cause) -> String {
    let mut text = format!("the job failed: {}\n", cause.reason);
    if !cause.tail.is_empty() {
        text += "its last words:\n";
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
        sum.cost += part.cost * weight(part);
        for (name, value) in &part.evals {
            *sum.evals.entry(name.clone()).or_insert(0.0) += value * weight(part);
        }
    }
    sum
}

fn evals(figures: &Figures) -> String {
    figures
        .evals
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
            batch: Some(10),
            samples,
            cost,
            evals: BTreeMap::from([("error".to_owned(), error)]),
        }
    }

    fn two_nodes() -> Tally {
        let mut tally = Tally::new(Some(2));
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
                tally.take(
                    at(11),
                    &JobEvent::PassFinished {
                        process,
                        pass,
                        figures,
                    },
                );
            }
        }
        for pass in 0..2 {
            tally.take(
                at(12),
                &JobEvent::PassSaved {
                    directory: format!("/job/output/pass-0000{pass}").into(),
                },
            );
        }
        tally
    }

    #[test]
    fn the_table_of_a_run() {
        let mut tally = two_nodes();
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
            &JobEvent::Tested {
                process: ProcessId::trainer(0),
                figures: figures(50, 0.125, 0.5),
            },
        );
        assert_eq!(
            tally.table(Path::new("/job"), at(75)),
            "node  samples  samples/s  passes  cost  restarts\n\
             \u{20}  0    2,000        200       2   0.5         0\n\
             \u{20}  1    6,000        600       2   1.5         1\n\
             \nall nodes: 8,000 samples in 1:15, 800 samples/s\n\
             pass 1: cost 1.25  error=0.25\n\
             last test: cost 0.125  error=0.5\n\
             2 models: output/pass-00000 … output/pass-00001\n"
        );
    }

    #[test]
    fn a_pass_that_is_repeated_after_a_roll_back_counts_once() {
        let mut tally = two_nodes();
        let process = ProcessId::trainer(0);
        let before = tally.nodes[&0].samples();
        tally.take(
            at(20),
            &JobEvent::PassFinished {
                process,
                pass: 1,
                figures: figures(1000, 0.4, 0.2),
            },
        );
        assert_eq!(tally.nodes[&0].samples(), before);
        let status = Status {
            pass: Some(2),
            samples: Some(before + 30),
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
            "the job failed: pserver 1 ended with code 1\nits last words:\n  | disk full\n\
             its log: /job/output/node_1/server.log\n"
        );
    }
}
