//! The runner's part of a record: what happens to the processes, and how the job ends.

use std::path::Path;

use launch::event::{JobEvent, ProcessId};
use launch::local::End;
use watch::record::{Life, Outcome, Record, Role, Run};
use watch::recorder::{RecordError, Recorder};

/// Writes what a runner sees.
#[derive(Debug)]
pub struct RunnerRecord {
    recorder: Option<Recorder>,
}

impl RunnerRecord {
    /// Goes on with a file, or begins it.
    pub fn append(path: &Path) -> Result<RunnerRecord, RecordError> {
        Ok(RunnerRecord {
            recorder: Some(Recorder::append(path)?),
        })
    }

    /// The job begins.
    pub fn begin(&mut self, run: Run) {
        self.write(Record::Run(run));
    }

    /// Takes an event; those that processes tell themselves are left to them.
    pub fn take(&mut self, event: &JobEvent) {
        if let Some(record) = record(event) {
            self.write(record);
        }
    }

    /// The job has ended.
    pub fn end(&mut self, end: &End) {
        let (outcome, text) = match end {
            End::Succeeded => (Outcome::Finished, String::new()),
            End::Interrupted => (Outcome::Interrupted, String::new()),
            End::Failed(cause) => {
                let whose = cause
                    .process
                    .map(|process| format!("{process} "))
                    .unwrap_or_default();
                (Outcome::Failed, format!("{whose}{}", cause.reason))
            }
        };
        self.write(Record::JobEnd { outcome, text });
    }

    /// These records are rare and each matters, so each is written at once.
    fn write(&mut self, record: Record) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        // A record that cannot be written ends the record, not the job.
        if recorder
            .record(record)
            .and_then(|()| recorder.flush())
            .is_err()
        {
            self.recorder = None;
        }
    }
}

fn record(event: &JobEvent) -> Option<Record> {
    let process = |process: &ProcessId, what: Life, restarts: u32, text: String| Record::Process {
        role: match process.role {
            launch::event::Role::Pserver => Role::Pserver,
            launch::event::Role::Trainer => Role::Trainer,
        },
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
        } => process(id, Life::Started, *restart, String::new()),
        JobEvent::Ready { process: id } => process(id, Life::Ready, 0, String::new()),
        JobEvent::Died {
            process: id, exit, ..
        } => process(id, Life::Died, 0, exit.to_string()),
        JobEvent::Restarting {
            process: id,
            restart,
            ..
        } => process(id, Life::Restarting, *restart, String::new()),
        JobEvent::Ended { process: id } => process(id, Life::Ended, 0, String::new()),
        JobEvent::Warning { text } => Record::Note { text: text.clone() },
        _ => return None,
    })
}

/// Removes the record of an earlier run from an output folder.
pub fn clear(output: &Path) -> std::io::Result<()> {
    let remove = |path: &Path| match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    remove(&output.join("events.jsonl"))?;
    let boards = output.join("tensorboard");
    if boards.is_dir() {
        std::fs::remove_dir_all(&boards)?;
    }
    let entries = match std::fs::read_dir(output) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let is_node = entry.file_name().to_string_lossy().starts_with("node_");
        if is_node && entry.file_type()?.is_dir() {
            for name in [
                "train.events.jsonl",
                "server.events.jsonl",
                "node.events.jsonl",
                "train.beat.json",
                "server.beat.json",
                "network.svg",
                "config.txt",
            ] {
                remove(&entry.path().join(name))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use launch::event::Exit;

    #[test]
    fn deaths_are_recorded_and_progress_is_not() {
        let died = JobEvent::Died {
            process: ProcessId::trainer(1),
            exit: Exit::Signal(9),
            tail: vec![],
        };
        let Some(Record::Process {
            what, node, text, ..
        }) = record(&died)
        else {
            panic!()
        };
        assert_eq!((what, node), (Life::Died, 1));
        assert!(text.contains("SIGKILL"));
        let progress = JobEvent::Progress {
            process: ProcessId::trainer(1),
            status: launch::status::Status::default(),
        };
        assert_eq!(record(&progress), None);
    }

    #[test]
    fn the_record_of_an_earlier_run_goes_and_models_stay() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path();
        clear(&output.join("nowhere")).unwrap();
        for file in [
            "node_0/train.events.jsonl",
            "node_0/train.log",
            "pass-00000/done",
            "tensorboard/train/x",
            "events.jsonl",
        ] {
            let path = output.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        clear(output).unwrap();
        let left = |file: &str| output.join(file).exists();
        assert!(left("node_0/train.log") && left("pass-00000/done"));
        assert!(
            !left("node_0/train.events.jsonl") && !left("tensorboard") && !left("events.jsonl")
        );
    }
}
