//! Ends a node: not before all peers are done with its server, and with an exit code that is true of the whole job.
//!
//! A trainer that has finished must not take its node's server along: others may still fetch from it.
//! So each node leaves a marker in `output/node_<id>/` when its trainer has finished, and stays until
//! all markers are there. A marker carries a name of the run, so that those of an earlier run with
//! the same folder do not count.
//!
//! The servers let a trainer go only when all trainers have come to the end. So one marker means that the
//! whole job is done: a node that is replaced after that has nothing left to do, and waiting for the
//! last markers is a courtesy with a limit.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::event::ProcessExit;
use crate::local::RunEnd;

const MARKER: &str = "finished";
/// How long a node whose trainer has finished waits for the markers of the others. A shared file system may
/// show them late.
pub(crate) const COURTESY: Duration = Duration::from_secs(75);

/// The markers of one run.
#[derive(Debug)]
pub struct Markers {
    output: PathBuf,
    nodes: u32,
    run: String,
}

impl Markers {
    /// `token` distinguishes this run from others; it cannot be read from the marker.
    pub fn new(output: PathBuf, nodes: u32, token: &str) -> Self {
        Self {
            output,
            nodes,
            run: run_name(token),
        }
    }

    fn path(&self, node: u32) -> PathBuf {
        self.output.join(format!("node_{node}")).join(MARKER)
    }

    /// Says that the trainer of a node has finished.
    pub fn leave(&self, node: u32) -> io::Result<()> {
        let path = self.path(node);
        let new = path.with_extension("new");
        fs::write(&new, &self.run)?;
        fs::rename(&new, &path)
    }

    /// Takes back what an earlier pod of this node said: its successor has not finished.
    pub(crate) fn withdraw(&self, node: u32) -> io::Result<()> {
        match fs::remove_file(self.path(node)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The nodes whose trainers have not finished.
    pub fn missing(&self) -> Vec<u32> {
        (0..self.nodes)
            .filter(|node| !self.is_there(&self.path(*node)))
            .collect()
    }

    /// Whether the job is over: one trainer was let go, so all have come to the end.
    pub fn is_over(&self) -> bool {
        self.missing().len() < self.nodes as usize
    }

    fn is_there(&self, path: &Path) -> bool {
        fs::read_to_string(path).is_ok_and(|run| run == self.run)
    }
}

/// A name for the run that a token belongs to; it does not give the token away.
pub fn run_name(token: &str) -> String {
    let mut hasher = DefaultHasher::new();
    token.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The exit codes of a node, which the Job's failure policy reads.
pub mod code {
    /// Wrong flags or variables: a new pod would fail in the same way.
    pub const USAGE: u8 = 64;
    /// A temporary failure: a new pod may succeed.
    pub(crate) const TEMPORARY: u8 = 75;
    /// Wrong configuration: a new pod would fail in the same way.
    pub const CONFIG: u8 = 78;
    /// Ended on request (SIGTERM).
    pub(crate) const TERMINATED: u8 = 143;
}

/// The code of a node whose processes ended like this.
pub fn exit_code(end: &RunEnd) -> u8 {
    let cause = match end {
        RunEnd::Succeeded => return 0,
        RunEnd::Interrupted => return code::TERMINATED,
        RunEnd::Failed(cause) => cause,
    };
    match cause.exit {
        Some(ProcessExit::Code(2 | 64)) => code::USAGE,
        Some(ProcessExit::Code(78)) => code::CONFIG,
        // A server that is killed for its memory, or crashed, may live on another machine.
        Some(ProcessExit::Signal(_)) | None => code::TEMPORARY,
        Some(ProcessExit::Code(code)) => u8::try_from(code)
            .ok()
            .filter(|code| *code != 0 && *code != code::TERMINATED)
            .unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Cause;

    #[test]
    fn markers_of_another_run_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        for node in 0..2 {
            fs::create_dir(folder.path().join(format!("node_{node}"))).unwrap();
        }
        let earlier = Markers::new(folder.path().into(), 2, "yesterday");
        earlier.leave(0).unwrap();
        earlier.leave(1).unwrap();
        assert_eq!(earlier.missing(), Vec::<u32>::new());
        let now = Markers::new(folder.path().into(), 2, "today");
        assert_eq!(now.missing(), [0, 1]);
        now.leave(1).unwrap();
        assert_eq!(now.missing(), [0]);
        now.withdraw(1).unwrap();
        now.withdraw(1).unwrap();
        assert_eq!(now.missing(), [0, 1]);
    }

    #[test]
    fn codes_follow_the_contract() {
        let failed = |exit| {
            RunEnd::Failed(Cause {
                process: None,
                reason: String::new(),
                exit,
                tail: vec![],
                log: None,
            })
        };
        for (end, code) in [
            (RunEnd::Succeeded, 0),
            (RunEnd::Interrupted, 143),
            (failed(Some(ProcessExit::Code(2))), 64),
            (failed(Some(ProcessExit::Code(64))), 64),
            (failed(Some(ProcessExit::Code(78))), 78),
            (failed(Some(ProcessExit::Code(1))), 1),
            (failed(Some(ProcessExit::Code(0))), 1),
            (failed(Some(ProcessExit::Code(143))), 1),
            (failed(Some(ProcessExit::Signal(9))), 75),
            (failed(None), 75),
        ] {
            assert_eq!(exit_code(&end), code, "{end:?}");
        }
    }
}
