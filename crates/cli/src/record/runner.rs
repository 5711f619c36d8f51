//! The runner's part of a record: what happens to the processes, and how the job ends.

use std::path::Path;

use run::event::JobEvent;
use run::local::RunEnd;
use watch::recorder::{RecordError, Recorder};
use words::event::{Event, JobOutcome, ProcessChange, Run};
use words::process::ProcessId;

/// Writes what a runner sees.
#[derive(Debug)]
pub(crate) struct RunnerRecord {
    recorder: Option<Recorder>,
}

impl RunnerRecord {
    /// Continues a file, or creates it.
    pub(crate) fn append(path: &Path) -> Result<RunnerRecord, RecordError> {
        Ok(RunnerRecord {
            recorder: Some(Recorder::append(path)?),
        })
    }

    /// The job begins.
    pub(crate) fn begin(&mut self, run: Run) {
        self.write(Event::Run(run));
    }

    /// Records an event; those that processes record themselves are left out.
    pub(crate) fn take(&mut self, event: &JobEvent) {
        if let Some(event) = event_of(event) {
            self.write(event);
        }
    }

    /// The job has ended.
    pub(crate) fn end(&mut self, end: &RunEnd) {
        self.write(end_of(end));
    }

    /// These records are rare and each is important, so each is written immediately.
    fn write(&mut self, event: Event) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        // A write error ends the record, not the job.
        if recorder
            .record(event)
            .and_then(|()| recorder.flush())
            .is_err()
        {
            self.recorder = None;
        }
    }
}

fn end_of(end: &RunEnd) -> Event {
    let (outcome, text) = match end {
        RunEnd::Succeeded => (JobOutcome::Finished, String::new()),
        RunEnd::Interrupted => (JobOutcome::Interrupted, String::new()),
        // The reason names the process.
        RunEnd::Failed(cause) => (JobOutcome::Failed, cause.reason.clone()),
    };
    Event::JobEnd { outcome, text }
}

fn event_of(event: &JobEvent) -> Option<Event> {
    let process =
        |process: &ProcessId, what: ProcessChange, restarts: u32, text: String| Event::Process {
            role: process.role,
            node: process.node,
            what,
            restarts,
            text,
        };
    Some(match event {
        JobEvent::Started {
            process: id,
            restart,
            ..
        } => process(id, ProcessChange::Started, *restart, String::new()),
        JobEvent::Ready { process: id } => process(id, ProcessChange::Ready, 0, String::new()),
        JobEvent::Died {
            process: id, exit, ..
        } => process(id, ProcessChange::Died, 0, exit.to_string()),
        JobEvent::Restarting {
            process: id,
            restart,
            ..
        } => process(id, ProcessChange::Restarting, *restart, String::new()),
        JobEvent::Ended { process: id } => process(id, ProcessChange::Ended, 0, String::new()),
        JobEvent::Warning { text } => Event::Note { text: text.clone() },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use run::event::{Cause, ProcessExit};

    #[test]
    fn the_end_names_the_process_that_failed_once() {
        let end = end_of(&RunEnd::Failed(Cause {
            process: Some(ProcessId::trainer(0)),
            reason: "trainer 0 exited with code 1".to_owned(),
            exit: None,
            tail: vec![],
            log: None,
        }));
        let text = "trainer 0 exited with code 1".to_owned();
        let outcome = JobOutcome::Failed;
        assert_eq!(end, Event::JobEnd { outcome, text });
    }

    #[test]
    fn deaths_are_recorded_and_progress_is_not() {
        let died = JobEvent::Died {
            process: ProcessId::trainer(1),
            exit: ProcessExit::Signal(9),
            tail: vec![],
        };
        let Some(Event::Process {
            what, node, text, ..
        }) = event_of(&died)
        else {
            panic!()
        };
        assert_eq!((what, node), (ProcessChange::Died, 1));
        assert!(text.contains("SIGKILL"));
        let progress = JobEvent::Progress {
            process: ProcessId::trainer(1),
            status: words::status::Status::default(),
        };
        assert_eq!(event_of(&progress), None);
    }
}
