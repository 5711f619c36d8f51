//! Ends a node: not before all other nodes have finished with its server, and with the exit code of the whole job.
//!
//! When a trainer has finished, its node's server must stay: other trainers may still pull from it. So each
//! node writes a marker to `output/node_<id>/` when its trainer has finished, and stays until all markers
//! exist. A marker carries the name of the run, so that markers of an earlier run in the same folder do not
//! count.
//!
//! The servers let a trainer leave only when all trainers have reached the end. So one marker means that the
//! whole job has finished: a pod that replaces another after that has nothing left to do, and the wait for
//! the last markers has a time limit.

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

    /// Writes the marker of a node whose trainer has finished.
    pub fn leave(&self, node: u32) -> io::Result<()> {
        let path = self.path(node);
        let new = path.with_extension("new");
        fs::write(&new, &self.run)?;
        fs::rename(&new, &path)
    }

    /// Removes the marker that an earlier pod of this node wrote, because the present pod has not finished.
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

    /// Whether the job is over: one trainer could leave, so all trainers have reached the end.
    pub fn is_over(&self) -> bool {
        self.missing().len() < self.nodes as usize
    }

    fn is_there(&self, path: &Path) -> bool {
        fs::read_to_string(path).is_ok_and(|run| run == self.run)
    }
}

/// A name for the run that a token belongs to; it does not reveal the token.
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

/// The exit code for a node whose processes ended in this way.
pub fn exit_code(end: &RunEnd) -> u8 {
    let cause = match end {
        RunEnd::Succeeded => return 0,
        RunEnd::Interrupted => return code::TERMINATED,
        RunEnd::Failed(cause) => cause,
    };
    match cause.exit {
        Some(ProcessExit::Code(2 | 64)) => code::USAGE,
        Some(ProcessExit::Code(78)) => code::CONFIG,
        // A server that was killed for lack of memory, or crashed, may run on another machine.
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
