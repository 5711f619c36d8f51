//! The record of a whole job on a cluster, `output/events.jsonl`. No runner sees all nodes there, so node 0 writes when
//! the job begins and how it ends. Events of a node's processes are in the node's own record.
//!
//! A pod of node 0 may be replaced, and a pod that was thought lost may come back, so each first reads the existing
//! record.

use std::path::{Path, PathBuf};

use run::local::RunEnd;
use run::node::finish::{code, exit_code};
use words::event::{Event, EventLine, Run};

use super::runner::RunnerRecord;

/// Most bytes that are read; a larger file has lines of other programs.
const LARGEST: u64 = 16 << 20;

/// The job's record, as node 0 continues it.
#[derive(Debug)]
pub(crate) struct ClusterJobRecord {
    path: PathBuf,
    run: Run,
}

/// What the record already has about a run.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Begun,
    Ended,
}

impl ClusterJobRecord {
    /// The record in this output folder.
    pub(crate) fn new(output: &Path, run: Run) -> Self {
        Self {
            path: output.join("events.jsonl"),
            run,
        }
    }

    /// The processes of node 0 begin. A write error costs the record, not the job.
    pub(crate) fn begin(&self) {
        if self.told() == Told::Nothing
            && let Ok(mut record) = RunnerRecord::append(&self.path)
        {
            record.begin(self.run.clone());
        }
    }

    /// Node 0 ended like this.
    pub(crate) fn end(&self, end: &RunEnd) {
        if is_final(end)
            && self.told() == Told::Begun
            && let Ok(mut record) = RunnerRecord::append(&self.path)
        {
            record.end(end);
        }
    }

    fn told(&self) -> Told {
        use std::io::Read;
        let mut text = Vec::new();
        // Without a file, nothing has been recorded.
        let _ = std::fs::File::open(&self.path)
            .and_then(|file| file.take(LARGEST).read_to_end(&mut text));
        let mut told = Told::Nothing;
        for line in text
            .split(|byte| *byte == b'\n')
            .filter_map(EventLine::parse)
        {
            match line.event {
                Event::Run(run) if run.run == self.run.run => told = Told::Begun,
                Event::Run(_) => told = Told::Nothing,
                Event::JobEnd { .. } if told == Told::Begun => told = Told::Ended,
                _ => {}
            }
        }
        told
    }
}

/// Whether the end of node 0 is the end of its job: the job has finished, or another pod would fail too. Otherwise the
/// cluster creates another pod, or gives up later.
fn is_final(end: &RunEnd) -> bool {
    matches!(exit_code(end), 0 | code::USAGE | code::CONFIG)
}

#[cfg(test)]
mod tests {
    use super::*;
    use run::event::{Cause, ProcessExit};
    use words::event::JobOutcome;

    fn events(path: &Path) -> Vec<Event> {
        let text = std::fs::read(path).unwrap_or_default();
        let lines = text.split(|byte| *byte == b'\n');
        let lines = lines.filter_map(EventLine::parse);
        lines.map(|line| line.event).collect()
    }

    #[test]
    fn a_job_begins_and_ends_once_whatever_becomes_of_its_pods() {
        let folder = tempfile::tempdir().unwrap();
        let run = |name: &str| Run {
            run: name.to_owned(),
            nodes: 3,
            passes: Some(2),
            first_pass: None,
            config: "trainer_config.py".to_owned(),
            version: String::new(),
        };
        let failed = |code| {
            RunEnd::Failed(Cause {
                process: None,
                reason: "exited with code 78".to_owned(),
                exit: Some(ProcessExit::Code(code)),
                tail: vec![],
                log: None,
            })
        };
        let done = Event::JobEnd {
            outcome: JobOutcome::Finished,
            text: String::new(),
        };
        let path = folder.path().join("events.jsonl");
        let first = ClusterJobRecord::new(folder.path(), run("one"));
        first.end(&RunEnd::Succeeded);
        assert_eq!(events(&path), [], "it has not begun");
        first.begin();
        first.end(&RunEnd::Interrupted);
        first.end(&failed(137));
        first.begin();
        assert_eq!(events(&path), [Event::Run(run("one"))]);
        first.end(&RunEnd::Succeeded);
        first.end(&RunEnd::Succeeded);
        assert_eq!(events(&path), [Event::Run(run("one")), done.clone()]);
        let second = ClusterJobRecord::new(folder.path(), run("two"));
        second.begin();
        second.end(&failed(78));
        let Some(Event::JobEnd { outcome, text }) = events(&path).pop() else {
            panic!("no end");
        };
        assert_eq!(
            (outcome, text.as_str()),
            (JobOutcome::Failed, "exited with code 78")
        );
        assert_eq!(events(&path).len(), 4);
    }
}
