//! Turns what one process says, on its page and in its log, into events: pure.
//!
//! The page is the better source. As long as a process has not served one, its v1 log lines give
//! the same picture, and the speed is taken from the times at which they came.

use std::path::PathBuf;
use std::time::Duration;

use crate::event::{JobEvent, ProcessId};
use crate::logline::{self, Fact, Figures};
use crate::status::Status;

/// What is known about one process. A restarted process goes on with the same one.
#[derive(Debug)]
pub struct Observer {
    process: ProcessId,
    status: Status,
    has_page: bool,
    next_pass: u64,
    /// Samples of the passes that have ended.
    earlier_samples: u64,
    last_line: Option<(Duration, u64)>,
}

impl Observer {
    /// Nothing is known yet.
    pub fn new(process: ProcessId) -> Self {
        Self {
            process,
            status: Status::default(),
            has_page: false,
            next_pass: 0,
            earlier_samples: 0,
            last_line: None,
        }
    }

    /// All trainers have finished with this server.
    pub fn is_done(&self) -> bool {
        self.status.done == Some(true)
    }

    /// The process was started again: what it waited for and when it spoke last is history.
    pub fn restarted(&mut self) {
        self.last_line = None;
        self.has_page = false;
        self.status.done = None;
        self.status.phase = None;
        self.status.waits_for = None;
    }

    /// A new page came.
    pub fn page(&mut self, page: Status) -> Vec<JobEvent> {
        let process = self.process;
        self.has_page = true;
        let before = self.status.clone();
        self.status.merge(page);
        let status = &self.status;
        let mut events = vec![JobEvent::Progress {
            process,
            status: status.clone(),
        }];
        if status.waits_for != before.waits_for {
            events.push(JobEvent::Waits {
                process,
                reason: status.waits_for.clone(),
            });
        }
        if let (Some(step), true) = (
            status.snapshot_step,
            status.snapshot_step != before.snapshot_step,
        ) {
            events.push(JobEvent::Snapshot { process, step });
        }
        if let (Some(step), true) = (
            status.rolled_back_to,
            status.rolled_back_to != before.rolled_back_to,
        ) {
            events.push(JobEvent::RolledBack { process, step });
        }
        events
    }

    /// A line of the log came at `now`. A folder that is being saved is returned, because the line
    /// comes before the folder.
    pub fn line(&mut self, line: &str, now: Duration) -> (Vec<JobEvent>, Option<PathBuf>) {
        let process = self.process;
        match logline::parse(line) {
            Some(Fact::Batch(figures)) if !self.has_page => {
                (vec![self.progress(&figures, now)], None)
            }
            Some(Fact::Pass(pass, figures)) => {
                let mut events = Vec::new();
                if !self.has_page {
                    self.status.pass_batches = figures.batch;
                    self.next_pass = pass;
                    events.push(self.progress(&figures, now));
                }
                self.next_pass = pass + 1;
                self.earlier_samples += figures.samples;
                self.last_line = Some((now, 0));
                events.push(JobEvent::PassFinished {
                    process,
                    pass,
                    figures,
                });
                (events, None)
            }
            Some(Fact::Test(figures)) => (vec![JobEvent::Tested { process, figures }], None),
            Some(Fact::Saved(directory)) => (Vec::new(), Some(directory)),
            _ => (Vec::new(), None),
        }
    }

    fn progress(&mut self, figures: &Figures, now: Duration) -> JobEvent {
        let (since, samples) = self.last_line.unwrap_or((now, figures.samples));
        let seconds = now.saturating_sub(since).as_secs_f64();
        if seconds > 0.0 && figures.samples > samples {
            self.status.samples_per_s = Some((figures.samples - samples) as f64 / seconds);
        }
        self.last_line = Some((now, figures.samples));
        self.status.pass = Some(self.next_pass);
        self.status.batch = figures.batch;
        self.status.samples = Some(self.earlier_samples + figures.samples);
        self.status.cost = Some(figures.cost);
        self.status.evals.clone_from(&figures.evals);
        JobEvent::Progress {
            process: self.process,
            status: self.status.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: ProcessId = ProcessId {
        role: crate::event::Role::Trainer,
        node: 1,
    };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn progress(events: &[JobEvent]) -> &Status {
        match &events[0] {
            JobEvent::Progress { status, .. } => status,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn log_lines_give_progress_and_speed() {
        let mut observer = Observer::new(T);
        let (events, _) = observer.line("Batch=10 samples=1000 AvgCost=0.5 Eval: e=0.25", at(1));
        assert_eq!(progress(&events).samples_per_s, None);
        let (events, _) = observer.line("Batch=20 samples=2000 AvgCost=0.4 Eval: e=0.25", at(3));
        let status = progress(&events);
        assert_eq!(
            (status.pass, status.batch, status.samples_per_s),
            (Some(0), Some(20), Some(500.0))
        );
        let (events, _) = observer.line(" Pass=0 Batch=25 samples=2500 AvgCost=0.3 Eval: ", at(4));
        assert!(matches!(events[1], JobEvent::PassFinished { pass: 0, .. }));
        let (events, _) = observer.line("Batch=10 samples=1000 AvgCost=0.2 Eval: ", at(5));
        let status = progress(&events);
        assert_eq!(
            (status.pass, status.pass_batches, status.samples_per_s),
            (Some(1), Some(25), Some(1000.0))
        );
        let (events, saved) = observer.line("Saving parameters to ./output/pass-00000", at(6));
        assert_eq!(
            (events.len(), saved),
            (0, Some("./output/pass-00000".into()))
        );
    }

    #[test]
    fn a_page_beats_the_log_and_its_changes_become_events() {
        let mut observer = Observer::new(T);
        let page = Status {
            waits_for: Some("pserver 0".into()),
            snapshot_step: Some(5),
            ..Status::default()
        };
        let events = observer.page(page.clone());
        assert!(
            matches!(&events[1], JobEvent::Waits { reason: Some(reason), .. } if reason == "pserver 0")
        );
        assert!(matches!(events[2], JobEvent::Snapshot { step: 5, .. }));
        assert_eq!(observer.page(page).len(), 1);
        assert_eq!(
            observer
                .line("Batch=10 samples=1000 AvgCost=0.5 Eval:", at(1))
                .0,
            []
        );
        let events = observer.page(Status {
            rolled_back_to: Some(5),
            ..Status::default()
        });
        assert!(matches!(events[1], JobEvent::Waits { reason: None, .. }));
        assert!(matches!(events[2], JobEvent::RolledBack { step: 5, .. }));
    }
}
