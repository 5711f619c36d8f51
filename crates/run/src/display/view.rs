//! The live picture of a run for a terminal: a bar, a line per node, the cost so far.
//!
//! ```text
//! pass 2 (3 of 10) ████████░░░░░░░░░░░░ 42%  12,345 samples/s  cost 0.3123  0:12
//! node 0  batch 120/250  4,100/s  cost 0.3118
//! node 1  batch 119/250  4,080/s  cost 0.3127  waits for trainer 2 at step 871 (3 s)
//! node 2  trainer is restarting
//! cost    █▇▅▄▃▃▂▂▁▁
//! ```
//!
//! No line is wider than requested, so that a terminal never wraps one and the picture can be redrawn
//! where it is after any resize.

use std::time::Duration;

use super::summary::{NodeSummary, ProcessState, RunTally};
use super::text;
use crate::event::JobEvent;
use words::process::Role;

/// How many costs are kept; beyond that, neighbours are averaged.
const HISTORY: usize = 512;

/// The picture: everything it shows comes from events.
#[derive(Debug, Default)]
pub struct TerminalView {
    tally: RunTally,
    costs: Vec<f64>,
    /// Each kept cost is the mean of this many.
    stride: usize,
    part: (f64, usize),
    last_batch: Option<(u64, u64)>,
}

impl TerminalView {
    /// An empty picture of a run of `num_passes` passes, if that is known.
    pub fn new(num_passes: Option<u64>) -> Self {
        Self {
            tally: RunTally::new(num_passes),
            stride: 1,
            ..Self::default()
        }
    }

    /// Adds an event that happened at `at`, counted from the start.
    pub fn take(&mut self, at: Duration, event: &JobEvent) {
        self.tally.take(at, event);
        if let JobEvent::Progress { process, status } = event {
            let batch = status.pass.zip(status.batch);
            if process.role == Role::Trainer && process.node == 0 && batch != self.last_batch {
                self.last_batch = batch;
                self.remember(self.cost());
            }
        }
    }

    fn remember(&mut self, cost: Option<f64>) {
        let Some(cost) = cost else { return };
        self.part = (self.part.0 + cost, self.part.1 + 1);
        if self.part.1 < self.stride {
            return;
        }
        self.costs.push(self.part.0 / self.part.1 as f64);
        self.part = (0.0, 0);
        if self.costs.len() == HISTORY {
            self.costs = self
                .costs
                .chunks(2)
                .map(|pair| pair.iter().sum::<f64>() / pair.len() as f64)
                .collect();
            self.stride *= 2;
        }
    }

    /// Mean of the trainers' costs of their current pass.
    fn cost(&self) -> Option<f64> {
        let costs: Vec<f64> = self
            .tally
            .nodes
            .values()
            .filter_map(|node| node.status.cost)
            .collect();
        (!costs.is_empty()).then(|| costs.iter().sum::<f64>() / costs.len() as f64)
    }

    /// The picture, at most `height` lines of at most `width` characters.
    pub fn lines(&self, elapsed: Duration, width: usize, height: usize) -> Vec<String> {
        let mut lines = vec![self.head(elapsed, width)];
        let foot: Vec<String> = [self.cost_line(width), self.tally.note.clone()]
            .into_iter()
            .flatten()
            .collect();
        let room = height.saturating_sub(1 + foot.len());
        let nodes = self.tally.nodes.len();
        let shown = if nodes > room {
            room.saturating_sub(1)
        } else {
            nodes
        };
        lines.extend(
            self.most_telling(shown)
                .map(|(id, node)| node_line(id, node)),
        );
        if shown < nodes {
            lines.push(format!("and {} more nodes", nodes - shown));
        }
        lines.extend(foot);
        lines.truncate(height);
        lines.iter().map(|line| text::fit(line, width)).collect()
    }

    /// The nodes to show if there is no room for all: those that restart or wait first, then in the order of their ids.
    fn most_telling(&self, count: usize) -> impl Iterator<Item = (u32, &NodeSummary)> {
        let mut nodes: Vec<(u32, &NodeSummary)> = self
            .tally
            .nodes
            .iter()
            .map(|(id, node)| (*id, node))
            .collect();
        if count < nodes.len() {
            nodes.sort_by_key(|(id, node)| {
                (node.trainer_waits.is_none() && trouble(node).is_none(), *id)
            });
            nodes.truncate(count);
            nodes.sort_by_key(|(id, _)| *id);
        }
        nodes.into_iter()
    }

    fn head(&self, elapsed: Duration, width: usize) -> String {
        let Some(pass) = self
            .tally
            .nodes
            .values()
            .filter_map(|node| node.status.pass)
            .min()
        else {
            return format!("starting  {}", text::duration(elapsed));
        };
        let part = self.part_of_pass(pass);
        let start = match self.tally.num_passes {
            // Passes are named from 0, as in lines about their ends and in the names of models.
            Some(passes) => format!(
                "pass {pass} ({} of {passes}) ",
                (pass + 1).min(passes.max(1))
            ),
            None => format!("pass {pass} "),
        };
        let speed: f64 = self
            .tally
            .nodes
            .values()
            .filter_map(|node| node.status.samples_per_second)
            .sum();
        let mut end = format!("  {} samples/s", text::rate(speed));
        if let Some(cost) = self.cost() {
            end += &format!("  cost {}", text::number(cost));
        }
        end += &format!("  {}", text::duration(elapsed));
        let middle = match part {
            Some(part) => {
                let percent = format!(" {:>3}%", (part * 100.0).floor());
                let taken = start.chars().count() + end.chars().count() + percent.chars().count();
                text::bar(part, width.saturating_sub(taken).min(40)) + &percent
            }
            None => self
                .batches()
                .map(|batch| format!("batch {batch}"))
                .unwrap_or_default(),
        };
        start + &middle + &end
    }

    fn batches(&self) -> Option<u64> {
        self.tally
            .nodes
            .values()
            .filter_map(|node| node.status.batch)
            .min()
    }

    /// The fraction of the pass that the slowest node has done, if the length of a pass is known.
    fn part_of_pass(&self, pass: u64) -> Option<f64> {
        let part = |node: &NodeSummary| {
            let batches = node.status.pass_batches.filter(|batches| *batches > 0)?;
            let done = if node.status.pass > Some(pass) {
                batches
            } else {
                node.status.batch.unwrap_or(0)
            };
            Some(done as f64 / batches as f64)
        };
        let parts: Option<Vec<f64>> = self.tally.nodes.values().map(part).collect();
        parts?
            .into_iter()
            .reduce(f64::min)
            .map(|part| part.min(1.0))
    }

    fn cost_line(&self, width: usize) -> Option<String> {
        let spark = text::spark(&self.costs, width.saturating_sub(8).min(60));
        (self.costs.len() > 1).then(|| format!("cost    {spark}"))
    }
}

fn node_line(id: u32, node: &NodeSummary) -> String {
    let mut line = format!("node {id}");
    if let Some(batch) = node.status.batch {
        line += &format!("  batch {batch}");
        if let Some(batches) = node.status.pass_batches {
            line += &format!("/{batches}");
        }
    }
    if let Some(speed) = node.status.samples_per_second {
        line += &format!("  {}/s", text::rate(speed));
    }
    if let Some(cost) = node.status.cost {
        line += &format!("  cost {}", text::number(cost));
    }
    if node.restarts > 0 {
        line += &format!("  restarted {}×", node.restarts);
    }
    let trainer_waits = node.trainer_waits.as_deref().map(text::wait);
    let pserver_waits = node
        .pserver_waits
        .as_deref()
        .map(|reason| format!("server: {}", text::wait(reason)));
    let waits = trainer_waits.or(pserver_waits);
    if let Some(trouble) = trouble(node).map(str::to_owned).or(waits) {
        line += &format!("  {trouble}");
    }
    line
}

fn trouble(node: &NodeSummary) -> Option<&'static str> {
    match (node.pserver, node.trainer) {
        (ProcessState::Dead, _) => Some("server crashed"),
        (_, ProcessState::Dead) => Some("trainer crashed"),
        (ProcessState::Waiting, _) if node.restarts > 0 => Some("server is restarting"),
        (_, ProcessState::Waiting) if node.restarts > 0 => Some("trainer is restarting"),
        (ProcessState::Starting, _) => Some("server is starting"),
        (_, ProcessState::Starting) if node.status.batch.is_none() => Some("trainer is starting"),
        (_, ProcessState::Ended) => Some("finished"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ProcessExit;
    use words::process::ProcessId;
    use words::status::Status;

    fn view(nodes: u32) -> TerminalView {
        let mut view = TerminalView::new(Some(10));
        for node in 0..nodes {
            for process in [ProcessId::pserver(node), ProcessId::trainer(node)] {
                view.take(
                    Duration::ZERO,
                    &JobEvent::Started {
                        process,
                        pid: 1,
                        restart: 0,
                    },
                );
                view.take(Duration::ZERO, &JobEvent::Ready { process });
            }
        }
        view
    }

    fn progress(view: &mut TerminalView, node: u32, batch: u64, cost: f64) {
        let status = Status {
            pass: Some(2),
            batch: Some(batch),
            pass_batches: Some(250),
            samples_per_second: Some(4100.0),
            cost: Some(cost),
            ..Status::default()
        };
        view.take(
            Duration::from_secs(9),
            &JobEvent::Progress {
                process: ProcessId::trainer(node),
                status,
            },
        );
    }

    #[test]
    fn the_picture_of_a_run() {
        let mut view = view(2);
        for (batch, cost) in [(60, 0.5), (90, 0.25), (120, 0.125)] {
            progress(&mut view, 0, batch, cost);
            progress(&mut view, 1, batch + 5, cost);
        }
        let process = ProcessId::trainer(1);
        view.take(
            Duration::ZERO,
            &JobEvent::Waits {
                process,
                reason: Some("trainer 0 at step 620".into()),
            },
        );
        assert_eq!(
            view.lines(Duration::from_secs(12), 80, 24),
            [
                "pass 2 (3 of 10) ███████████░░░░░░░░░░░░  48%  8,200 samples/s  cost 0.125  0:12",
                "node 0  batch 120/250  4,100/s  cost 0.125",
                "node 1  batch 125/250  4,100/s  cost 0.125  waits for trainer 0 at step 620",
                "cost    █▅▁",
            ]
        );
    }

    #[test]
    fn no_size_is_exceeded() {
        let mut view = view(7);
        for node in 0..7 {
            progress(&mut view, node, 3, 0.5);
            progress(&mut view, node, 4, 0.4);
        }
        view.take(
            Duration::ZERO,
            &JobEvent::Warning {
                text: "a very long warning ".repeat(20),
            },
        );
        for width in 0..130 {
            for height in 0..14 {
                let lines = view.lines(Duration::from_secs(4000), width, height);
                assert!(lines.len() <= height, "{lines:?}");
                assert!(
                    lines.iter().all(|line| line.chars().count() <= width),
                    "{width}: {lines:?}"
                );
            }
        }
    }

    #[test]
    fn with_little_room_trouble_is_shown_first() {
        let mut view = view(9);
        let process = ProcessId::trainer(7);
        view.take(
            Duration::ZERO,
            &JobEvent::Died {
                process,
                exit: ProcessExit::Signal(9),
                tail: vec![],
            },
        );
        let lines = view.lines(Duration::ZERO, 80, 4);
        assert_eq!(
            lines[1..],
            ["node 0", "node 7  trainer crashed", "and 7 more nodes"]
        );
    }

    #[test]
    fn before_the_first_batch_it_says_what_starts() {
        let mut view = TerminalView::new(None);
        view.take(
            Duration::ZERO,
            &JobEvent::Started {
                process: ProcessId::pserver(0),
                pid: 1,
                restart: 0,
            },
        );
        assert_eq!(
            view.lines(Duration::ZERO, 80, 9),
            ["starting  0:00", "node 0  server is starting"]
        );
    }

    #[test]
    fn the_history_of_costs_is_bounded_and_keeps_its_shape() {
        let mut view = view(1);
        for batch in 0..5000 {
            progress(&mut view, 0, batch, 1.0 / (1.0 + batch as f64));
        }
        assert!(view.costs.len() < HISTORY);
        assert!(view.costs.windows(2).all(|pair| pair[0] > pair[1]));
    }
}
