//! One line per event, for pipes and files. Progress is told now and then, in v1's words.

use std::collections::BTreeMap;
use std::time::Duration;

use super::text;
use crate::event::{JobEvent, ProcessId, Role};
use crate::logline::Figures;
use crate::status::Status;

/// Remembers when each process's progress was told last.
#[derive(Debug)]
pub struct Plain {
    every: Duration,
    told: BTreeMap<ProcessId, Duration>,
}

impl Plain {
    /// Tells the progress of one trainer at most this often.
    pub fn new(every: Duration) -> Self {
        Self {
            every,
            told: BTreeMap::new(),
        }
    }

    /// The line for an event that happened at `at`, if it deserves one.
    pub fn line(&mut self, at: Duration, event: &JobEvent) -> Option<String> {
        Some(match event {
            JobEvent::Preparing { what } => what.clone(),
            JobEvent::Started {
                process,
                pid,
                restart: 0,
            } => format!("{process}: started, process {pid}"),
            JobEvent::Started { process, pid, .. } => {
                format!("{process}: started again, process {pid}")
            }
            JobEvent::Ready { process } if process.role == Role::Pserver => {
                format!("{process}: ready")
            }
            JobEvent::Progress { process, status } => return self.progress(at, *process, status),
            JobEvent::Waits {
                process,
                reason: Some(reason),
            } => format!("{process}: waits for {reason}"),
            JobEvent::PassFinished {
                process,
                pass,
                figures,
            } => {
                let batch = figures
                    .batch
                    .map_or(String::new(), |batch| format!(" Batch={batch}"));
                let cost = text::number(figures.cost);
                format!(
                    "{process}:  Pass={pass}{batch} samples={} AvgCost={cost} Eval: {}",
                    figures.samples,
                    evals(figures)
                )
            }
            JobEvent::Tested { process, figures } => {
                let cost = text::number(figures.cost);
                format!(
                    "{process}:  Test samples={} cost={cost} Eval: {}",
                    figures.samples,
                    evals(figures)
                )
            }
            JobEvent::PassSaved { directory } => format!("saved {}", directory.display()),
            JobEvent::RolledBack { process, step } => {
                format!("{process}: went back to the snapshot of step {step}")
            }
            JobEvent::Died { process, exit, .. } => format!("{process}: {exit}"),
            JobEvent::Restarting {
                process,
                restart,
                after,
            } => {
                format!("{process}: restart {restart} in {} ms", after.as_millis())
            }
            JobEvent::Ended { process } => format!("{process}: finished"),
            JobEvent::Line { process, line } => format!("{process}| {line}"),
            JobEvent::Warning { text } => format!("warning: {text}"),
            JobEvent::Stopping { reason } => format!("ending all processes: {reason}"),
            _ => return None,
        })
    }

    fn progress(&mut self, at: Duration, process: ProcessId, status: &Status) -> Option<String> {
        let (batch, samples) = (status.batch?, status.samples?);
        let is_due = self
            .told
            .get(&process)
            .is_none_or(|last| at >= *last + self.every);
        if process.role != Role::Trainer || !is_due {
            return None;
        }
        self.told.insert(process, at);
        let cost = status.cost.map_or(String::new(), |cost| {
            format!(" AvgCost={}", text::number(cost))
        });
        let evals = pairs(&status.evals);
        Some(format!(
            "{process}:  Batch={batch} samples={samples}{cost} Eval: {evals}"
        ))
    }
}

fn evals(figures: &Figures) -> String {
    pairs(&figures.evals)
}

fn pairs(evals: &BTreeMap<String, f64>) -> String {
    evals
        .iter()
        .map(|(name, value)| format!("{name}={} ", text::number(*value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logline::{self, Fact};

    #[test]
    fn progress_is_told_in_words_that_v1_tools_read_and_not_too_often() {
        let mut plain = Plain::new(Duration::from_secs(5));
        let process = ProcessId::trainer(1);
        let evals = BTreeMap::from([("error".to_owned(), 0.25)]);
        let status = Status {
            batch: Some(20),
            samples: Some(2560),
            cost: Some(0.628761),
            evals,
            ..Status::default()
        };
        let event = JobEvent::Progress { process, status };
        let line = plain.line(Duration::from_secs(1), &event).unwrap();
        assert_eq!(
            line,
            "trainer 1:  Batch=20 samples=2560 AvgCost=0.628761 Eval: error=0.25 "
        );
        let Some(Fact::Batch(figures)) = logline::parse(line.strip_prefix("trainer 1:").unwrap())
        else {
            panic!()
        };
        assert_eq!((figures.samples, figures.cost), (2560, 0.628761));
        assert_eq!(plain.line(Duration::from_secs(5), &event), None);
        assert!(plain.line(Duration::from_secs(6), &event).is_some());
    }

    #[test]
    fn pass_ends_are_always_told() {
        let mut plain = Plain::new(Duration::from_secs(5));
        let figures = Figures {
            batch: Some(565),
            samples: 902_826,
            cost: 3.52368,
            evals: BTreeMap::new(),
        };
        let event = JobEvent::PassFinished {
            process: ProcessId::trainer(0),
            pass: 0,
            figures,
        };
        let want = "trainer 0:  Pass=0 Batch=565 samples=902826 AvgCost=3.52368 Eval: ";
        assert_eq!(plain.line(Duration::ZERO, &event).unwrap(), want);
        assert_eq!(plain.line(Duration::ZERO, &event).unwrap(), want);
    }
}
