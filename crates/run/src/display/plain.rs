//! Lines for pipes and files. Progress is one line per interval, in v1's words. Only a long wait gets a line, because in
//! synchronous training every process waits for another in every step.

use std::collections::BTreeMap;
use std::time::Duration;

use super::text;
use crate::event::JobEvent;
use words::event::{Event, Figures};
use words::process::{ProcessId, Role};
use words::status::Status;

/// Remembers when each process's progress was last printed.
#[derive(Debug)]
pub struct Plain {
    every: Duration,
    told: BTreeMap<ProcessId, Duration>,
    waits: BTreeMap<ProcessId, Wait>,
    /// The last pass of each trainer that has ended.
    ended: BTreeMap<ProcessId, Figures>,
}

/// A wait that may be worth a line.
#[derive(Debug)]
struct Wait {
    since: Duration,
    reason: String,
    told: bool,
}

/// A shorter wait is not printed.
const LONG: Duration = Duration::from_secs(3);

impl Plain {
    /// Prints the progress of one trainer at most this often.
    pub fn new(every: Duration) -> Self {
        Self {
            every,
            told: BTreeMap::new(),
            waits: BTreeMap::new(),
            ended: BTreeMap::new(),
        }
    }

    /// The line for an event that happened at `at`, if it is worth one; several are joined by line breaks.
    pub fn line(&mut self, at: Duration, event: &JobEvent) -> Option<String> {
        self.remember_wait(at, event);
        self.remember_end(event);
        let mut lines = self.long_waits(at);
        lines.extend(self.own_line(at, event));
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    fn remember_wait(&mut self, at: Duration, event: &JobEvent) {
        match event {
            JobEvent::Waits {
                process,
                reason: Some(reason),
            } => {
                let before = self.waits.remove(process);
                let same = before.filter(|wait| subject(&wait.reason) == subject(reason));
                let wait = Wait {
                    since: same.as_ref().map_or(at, |wait| wait.since),
                    reason: reason.clone(),
                    told: same.is_some_and(|wait| wait.told),
                };
                self.waits.insert(*process, wait);
            }
            JobEvent::Waits {
                process,
                reason: None,
            }
            | JobEvent::Started { process, .. }
            | JobEvent::Ended { process } => {
                self.waits.remove(process);
            }
            _ => {}
        }
    }

    fn remember_end(&mut self, event: &JobEvent) {
        match event {
            JobEvent::Recorded {
                process,
                event: Event::PassFinished { figures, .. },
            } => {
                self.ended.insert(*process, figures.clone());
            }
            JobEvent::Recorded {
                process,
                event: Event::RolledBack { .. },
            }
            | JobEvent::Started { process, .. } => {
                self.ended.remove(process);
            }
            _ => {}
        }
    }

    fn long_waits(&mut self, at: Duration) -> Vec<String> {
        let due = self
            .waits
            .iter_mut()
            .filter(|(_, wait)| !wait.told && at >= wait.since + LONG);
        due.map(|(process, wait)| {
            wait.told = true;
            format!("{process}: {}", text::wait(&wait.reason))
        })
        .collect()
    }

    fn own_line(&mut self, at: Duration, event: &JobEvent) -> Option<String> {
        Some(match event {
            JobEvent::Preparing { what } => what.clone(),
            JobEvent::Started {
                process,
                pid,
                restart: 0,
            } => format!("{process}: started, pid {pid}"),
            JobEvent::Started { process, pid, .. } => {
                format!("{process}: restarted, pid {pid}")
            }
            JobEvent::Ready { process } if process.role == Role::Pserver => {
                format!("{process}: ready")
            }
            JobEvent::Progress { process, status } => return self.progress(at, *process, status),
            JobEvent::Recorded { process, event } => return recorded(*process, event),
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
            JobEvent::Stopping { reason } => format!("stopping all processes: {reason}"),
            _ => return None,
        })
    }

    fn progress(&mut self, at: Duration, process: ProcessId, status: &Status) -> Option<String> {
        let (batch, samples) = (status.batch?, status.samples);
        let is_due = self
            .told
            .get(&process)
            .is_none_or(|last| at >= *last + self.every);
        let ended = self.ended.get(&process);
        // State files are written once a second: this one is older than the line about the end of its pass.
        let is_late = ended.is_some_and(|ended| status.pass <= Some(ended.pass));
        if process.role != Role::Trainer || !is_due || is_late {
            return None;
        }
        self.told.insert(process, at);
        let cost = status.cost.map_or(String::new(), |cost| {
            format!(" AvgCost={}", text::number(cost))
        });
        // Until a pass has evaluated something, its state has the values of the pass before.
        let old = ended.is_some_and(|ended| ended.evaluators == status.evaluators);
        let evals = match status.evaluators.is_empty() || old {
            true => String::new(),
            false => format!(" Eval: {}", pairs(&status.evaluators)),
        };
        Some(format!(
            "{process}:  Batch={batch} samples={samples}{cost}{evals}"
        ))
    }
}

/// The line for what a process wrote to its record, in v1's words where v1 has some.
fn recorded(process: ProcessId, event: &Event) -> Option<String> {
    Some(match event {
        Event::PassFinished { figures, .. } => format!(
            "{process}:  Pass={} Batch={} samples={} AvgCost={} Eval: {}",
            figures.pass,
            figures.batch,
            figures.samples,
            cost(figures),
            pairs(&figures.evaluators)
        ),
        Event::Tested(figures) => format!(
            "{process}:  Test cost={} Eval: {}",
            cost(figures),
            pairs(&figures.evaluators)
        ),
        Event::Saved { path, .. } => format!("saved {path}"),
        Event::Best(best) => words::result::sentence(best, None),
        // All trainers report it.
        Event::Stopped(stopped) if process.node == 0 => format!(
            "stopped after pass {}: {} passes without improvement (--patience)",
            stopped.pass, stopped.patience
        ),
        Event::RolledBack { pass, batch } => {
            format!("{process}: rolled back to pass {pass}, batch {batch}")
        }
        Event::Recovery {
            epoch,
            step,
            restored: true,
        } => format!("{process}: restored the state of step {step} (generation {epoch})"),
        Event::Recovery { epoch, step, .. } => {
            format!("{process}: continues at step {step} (generation {epoch})")
        }
        Event::Note { text } => format!("{process}: {text}"),
        _ => return None,
    })
}

fn cost(figures: &Figures) -> String {
    text::number(figures.cost.unwrap_or(f64::NAN))
}

fn pairs(evals: &BTreeMap<String, f64>) -> String {
    evals
        .iter()
        .map(|(name, value)| format!("{name}={} ", text::number(*value)))
        .collect()
}

/// A reason to wait without its duration, which grows: `step 7 waits for trainer 2 (3 s)`.
fn subject(reason: &str) -> &str {
    let is_duration = |end: &str| {
        let seconds = end.strip_suffix(" s)");
        seconds.is_some_and(|seconds| seconds.parse::<u64>().is_ok())
    };
    match reason.rsplit_once(" (") {
        Some((subject, end)) if is_duration(end) => subject,
        _ => reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_words_that_v1_tools_read_and_not_too_often() {
        let mut plain = Plain::new(Duration::from_secs(5));
        let process = ProcessId::trainer(1);
        let evaluators = BTreeMap::from([("error".to_owned(), 0.25)]);
        let status = Status {
            batch: Some(20),
            samples: 2560,
            cost: Some(0.628761),
            evaluators,
            ..Status::default()
        };
        let event = JobEvent::Progress { process, status };
        let line = plain.line(Duration::from_secs(1), &event).unwrap();
        assert_eq!(
            line,
            "trainer 1:  Batch=20 samples=2560 AvgCost=0.628761 Eval: error=0.25 "
        );
        assert_eq!(plain.line(Duration::from_secs(5), &event), None);
        assert!(plain.line(Duration::from_secs(6), &event).is_some());
    }

    #[test]
    fn progress_is_of_the_pass_that_runs() {
        let mut plain = Plain::new(Duration::ZERO);
        let process = ProcessId::trainer(1);
        let error = |value: f64| BTreeMap::from([("error".to_owned(), value)]);
        let progress = |pass, batch, evaluators| JobEvent::Progress {
            process,
            status: Status {
                pass: Some(pass),
                batch: Some(batch),
                samples: 10,
                evaluators,
                ..Status::default()
            },
        };
        let at = Duration::ZERO;
        let line = plain.line(at, &progress(0, 5, BTreeMap::new()));
        assert_eq!(line.unwrap(), "trainer 1:  Batch=5 samples=10");
        let figures = Figures {
            evaluators: error(0.25),
            ..Figures::default()
        };
        let event = Event::PassFinished {
            figures,
            seconds: 1.0,
            waited: 0.0,
        };
        assert!(
            plain
                .line(at, &JobEvent::Recorded { process, event })
                .is_some()
        );
        assert_eq!(plain.line(at, &progress(0, 9, error(0.3))), None, "late");
        let line = plain.line(at, &progress(1, 2, error(0.25)));
        assert_eq!(line.unwrap(), "trainer 1:  Batch=2 samples=10");
        let line = plain.line(at, &progress(1, 4, error(0.2)));
        assert_eq!(
            line.unwrap(),
            "trainer 1:  Batch=4 samples=10 Eval: error=0.2 "
        );
    }

    #[test]
    fn a_wait_is_told_when_it_lasts() {
        let mut plain = Plain::new(Duration::from_secs(5));
        let at = Duration::from_secs;
        let process = ProcessId::pserver(1);
        let waits = |reason: Option<&str>| JobEvent::Waits {
            process,
            reason: reason.map(str::to_owned),
        };
        let event = Event::Snapshot { step: 1 };
        let other = JobEvent::Recorded { process, event };
        assert_eq!(
            plain.line(at(0), &waits(Some("step 7 waits for trainer 2"))),
            None
        );
        assert_eq!(plain.line(at(2), &other), None);
        assert_eq!(
            plain.line(at(3), &other).unwrap(),
            "pserver 1: step 7 waits for trainer 2"
        );
        assert_eq!(plain.line(at(9), &other), None);
        plain.line(at(10), &waits(Some("trainer 0")));
        plain.line(at(11), &waits(None));
        assert_eq!(plain.line(at(20), &other), None);
    }

    #[test]
    fn a_wait_whose_duration_is_told_every_second_lasts_too() {
        let mut plain = Plain::new(Duration::from_secs(5));
        let mut said = Vec::new();
        for second in 1..8 {
            let event = JobEvent::Waits {
                process: ProcessId::trainer(0),
                reason: Some(format!("step 7 waits for trainer 2 ({second} s)")),
            };
            said.extend(plain.line(Duration::from_secs(second), &event));
        }
        assert_eq!(said, ["trainer 0: step 7 waits for trainer 2 (4 s)"]);
    }

    #[test]
    fn pass_ends_are_always_told() {
        let mut plain = Plain::new(Duration::from_secs(5));
        let figures = Figures {
            batch: 565,
            samples: 902_826,
            cost: Some(3.52368),
            ..Figures::default()
        };
        let event = JobEvent::Recorded {
            process: ProcessId::trainer(0),
            event: Event::PassFinished {
                figures,
                seconds: 1.0,
                waited: 0.0,
            },
        };
        let want = "trainer 0:  Pass=0 Batch=565 samples=902826 AvgCost=3.52368 Eval: ";
        assert_eq!(plain.line(Duration::ZERO, &event).unwrap(), want);
        assert_eq!(plain.line(Duration::ZERO, &event).unwrap(), want);
    }
}
