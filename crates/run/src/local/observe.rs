//! Follows the state file and the record of a process, and turns them into events.
//!
//! The runner reads the same files as every other viewer and requests nothing from the process. Of a process that cannot
//! write its record, only the exit status and the log are shown.

use std::path::Path;

use watch::follow::Follow;
use watch::{files, state_file};
use words::event::{Event, EventLine};
use words::process::ProcessId;
use words::status::{Phase, Status};

use crate::event::JobEvent;

/// What is known about one process id; a restarted process continues with it.
#[derive(Debug)]
pub(crate) struct ObservedProcess {
    process: ProcessId,
    state: std::path::PathBuf,
    events: Follow,
    /// The process that runs now; states of its predecessors are ignored.
    pid: u32,
    status: Option<Status>,
}

impl ObservedProcess {
    /// Follows a process whose record is in `output`. Lines that the files have already were written by an earlier
    /// process.
    pub(crate) fn new(output: &Path, process: ProcessId) -> Self {
        Self {
            process,
            state: files::state(output, process),
            events: Follow::from_end(&files::events(output, process)),
            pid: 0,
            status: None,
        }
    }

    /// The process was started or restarted.
    pub(crate) fn started(&mut self, pid: u32) {
        self.pid = pid;
        self.status = None;
    }

    /// All trainers have finished with this server.
    pub(crate) fn is_done(&self) -> bool {
        let phase = self.status.as_ref().and_then(|status| status.phase);
        phase == Some(Phase::Finished)
    }

    /// The events since the last look.
    pub(crate) fn look(&mut self) -> Vec<JobEvent> {
        let mut events = Vec::new();
        let process = self.process;
        let mut lines = Vec::new();
        // A record with a read error now may be readable at the next look.
        let _ = self
            .events
            .look(&mut |line| lines.extend(EventLine::parse(line)));
        let told = lines.into_iter().map(|line| line.event);
        events.extend(
            told.filter(is_shown)
                .map(|event| JobEvent::Recorded { process, event }),
        );
        if let Some(status) = state_file::read(&self.state) {
            events.extend(self.status(status));
        }
        events
    }

    fn status(&mut self, status: Status) -> Vec<JobEvent> {
        if status.pid != self.pid || self.status.as_ref() == Some(&status) {
            return Vec::new();
        }
        let process = self.process;
        let mut events = Vec::new();
        let before = self.status.replace(status.clone());
        if before.is_none() {
            events.push(JobEvent::Ready { process });
        }
        let waited = before.map(|before| before.waits_for).unwrap_or_default();
        if status.waits_for != waited {
            let reason = Some(status.waits_for.clone()).filter(|reason| !reason.is_empty());
            events.push(JobEvent::Waits { process, reason });
        }
        events.push(JobEvent::Progress { process, status });
        events
    }
}

/// Kinds that a terminal or a summary shows; curves and statistics are for pages.
fn is_shown(event: &Event) -> bool {
    matches!(
        event,
        Event::PassFinished { .. }
            | Event::Tested(_)
            | Event::Saved { .. }
            | Event::Best(_)
            | Event::Stopped(_)
            | Event::Snapshot { .. }
            | Event::RolledBack { .. }
            | Event::Recovery { .. }
            | Event::Note { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use watch::recorder::Recorder;

    fn waits(pid: u32, reason: &str) -> Status {
        Status {
            pid,
            waits_for: reason.to_owned(),
            ..Status::default()
        }
    }

    #[test]
    fn states_of_the_running_process_and_new_events_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let (output, process) = (folder.path(), ProcessId::pserver(1));
        let path = files::events(output, process);
        let mut recorder = Recorder::append(&path).unwrap();
        recorder.record(Event::Snapshot { step: 3 }).unwrap();
        recorder.flush().unwrap();
        let mut observer = ObservedProcess::new(output, process);
        observer.started(7);
        state_file::write(&waits(6, ""), &files::state(output, process)).unwrap();
        assert_eq!(observer.look(), [], "what was there before is history");
        recorder.record(Event::Snapshot { step: 5 }).unwrap();
        recorder.flush().unwrap();
        state_file::write(&waits(7, "trainer 0"), &files::state(output, process)).unwrap();
        let events = observer.look();
        assert_eq!(
            events[0],
            JobEvent::Recorded {
                process,
                event: Event::Snapshot { step: 5 }
            }
        );
        assert!(matches!(events[1], JobEvent::Ready { .. }));
        assert!(matches!(&events[2], JobEvent::Waits { reason: Some(r), .. } if r == "trainer 0"));
        assert!(matches!(events[3], JobEvent::Progress { .. }));
        assert_eq!(observer.look(), []);
        state_file::write(&waits(7, ""), &files::state(output, process)).unwrap();
        assert!(matches!(
            observer.look()[0],
            JobEvent::Waits { reason: None, .. }
        ));
    }
}
