//! What happens in a job, as values.
//!
//! The supervisor emits these, the terminal display and the dashboard fold them into what they
//! show. They serialise to JSON with a `kind` field, so a page can read them as a stream.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::logline::Figures;
use crate::status::Status;

/// What a process does in its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Holds a part of the model.
    Pserver,
    /// Reads a shard of the data and computes gradients.
    Trainer,
}

/// One process of the job: the role and the id of its node, which a restart keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// Server or trainer.
    pub role: Role,
    /// The node, counted from 0; v1's trainer id.
    pub node: u32,
}

impl ProcessId {
    /// The parameter server of a node.
    pub fn pserver(node: u32) -> Self {
        Self {
            role: Role::Pserver,
            node,
        }
    }

    /// The trainer of a node.
    pub fn trainer(node: u32) -> Self {
        Self {
            role: Role::Trainer,
            node,
        }
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Pserver => "pserver",
            Role::Trainer => "trainer",
        };
        write!(f, "{role} {}", self.node)
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}

impl Exit {
    /// The code was 0.
    pub fn is_success(self) -> bool {
        self == Exit::Code(0)
    }

    /// What a shell would report: the code, or 128 plus the signal.
    pub fn code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "ended with code {code}"),
            Exit::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "was ended by {name}"),
                None => write!(f, "was ended by signal {signal}"),
            },
        }
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGHUP => "SIGHUP (terminal closed)",
        libc::SIGINT => "SIGINT (interrupt)",
        libc::SIGILL => "SIGILL (this CPU does not know an instruction of the program)",
        libc::SIGABRT => "SIGABRT (abort)",
        libc::SIGBUS => "SIGBUS (file truncated or disk full under a mapped file)",
        libc::SIGFPE => "SIGFPE (arithmetic error)",
        libc::SIGKILL => "SIGKILL (by hand, or by the kernel because memory was used up)",
        libc::SIGSEGV => "SIGSEGV (segmentation fault)",
        libc::SIGPIPE => "SIGPIPE (reader went away)",
        libc::SIGTERM => "SIGTERM (asked to end)",
        _ => return None,
    })
}

/// Why a job ended without a model: the first thing that went wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The process it happened to, if it was one.
    pub process: Option<ProcessId>,
    /// What happened, as a sentence without full stop.
    pub reason: String,
    /// How that process ended, if it did.
    pub exit: Option<Exit>,
    /// The last lines of its log, oldest first.
    pub tail: Vec<String>,
    /// The whole log.
    pub log: Option<PathBuf>,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum JobEvent {
    /// The data are being prepared by a program that runs before all others.
    Preparing {
        /// What it does, for people.
        what: String,
    },
    /// A process runs; it may not be ready.
    Started {
        /// Which one.
        process: ProcessId,
        /// Its system id.
        pid: u32,
        /// 0 the first time.
        restart: u32,
    },
    /// A process can be talked to.
    Ready {
        /// Which one.
        process: ProcessId,
    },
    /// A process told where it is.
    Progress {
        /// Which one.
        process: ProcessId,
        /// What it told.
        status: Status,
    },
    /// What a process waits for changed; `None` when it goes on.
    Waits {
        /// Who waits.
        process: ProcessId,
        /// For whom or what, in words.
        reason: Option<String>,
    },
    /// A pass ended in a trainer.
    PassFinished {
        /// Which trainer.
        process: ProcessId,
        /// The pass, counted from 0.
        pass: u64,
        /// Its samples, cost and evaluators.
        figures: Figures,
    },
    /// A trainer tested the model.
    Tested {
        /// Which trainer.
        process: ProcessId,
        /// Samples, cost and evaluators of the test set.
        figures: Figures,
    },
    /// A model was saved.
    PassSaved {
        /// The folder.
        directory: PathBuf,
    },
    /// Servers have a snapshot to go back to.
    Snapshot {
        /// The server that told.
        process: ProcessId,
        /// The step it holds.
        step: u64,
    },
    /// The job went back to a snapshot after a failure.
    RolledBack {
        /// The process that told.
        process: ProcessId,
        /// The step it went back to.
        step: u64,
    },
    /// A process ended when it should not have.
    Died {
        /// Which one.
        process: ProcessId,
        /// How.
        exit: Exit,
        /// The last lines of its log.
        tail: Vec<String>,
    },
    /// A died process will be started again under the same id.
    Restarting {
        /// Which one.
        process: ProcessId,
        /// 1 for the first restart.
        restart: u32,
        /// The pause before it.
        after: Duration,
    },
    /// A process ended as it should.
    Ended {
        /// Which one.
        process: ProcessId,
    },
    /// A line of a process's log; only if asked for.
    Line {
        /// Whose log.
        process: ProcessId,
        /// Without the line break.
        line: String,
    },
    /// Something that a person should know and that does not stop the job.
    Warning {
        /// What, with the thing it is about.
        text: String,
    },
    /// The processes are being ended.
    Stopping {
        /// Why.
        reason: String,
    },
    /// All trainers have finished.
    Finished,
    /// The job ended without finishing.
    Failed {
        /// The first thing that went wrong.
        cause: Cause,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_read_as_sentences_and_shell_codes() {
        assert_eq!(
            format!("{} {}", ProcessId::trainer(2), Exit::Code(78)),
            "trainer 2 ended with code 78"
        );
        assert!(
            Exit::Signal(libc::SIGKILL)
                .to_string()
                .contains("memory was used up")
        );
        assert_eq!(Exit::Signal(9).code(), 137);
        assert_eq!(Exit::Signal(63).to_string(), "was ended by signal 63");
    }

    #[test]
    fn events_keep_their_kind_in_json() {
        let event = JobEvent::Died {
            process: ProcessId::pserver(1),
            exit: Exit::Signal(9),
            tail: vec!["x".into()],
        };
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(
            json,
            r#"{"kind":"died","process":{"role":"pserver","node":1},"exit":{"signal":9},"tail":["x"]}"#
        );
        assert_eq!(serde_json::from_str::<JobEvent>(&json).unwrap(), event);
    }
}
