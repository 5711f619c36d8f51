//! The events of a run, as values.
//!
//! The supervisor emits these; the terminal display and the record are made from them.
//! They serialise to JSON with a `kind` field.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use words::event::Event;
use words::process::ProcessId;
use words::status::Status;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessExit {
    /// It exited with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}

impl ProcessExit {
    /// Whether the process exited with code 0.
    pub fn is_success(self) -> bool {
        self == ProcessExit::Code(0)
    }

    /// What a shell would report: the code, or 128 plus the signal.
    pub fn code(self) -> i32 {
        match self {
            ProcessExit::Code(code) => code,
            ProcessExit::Signal(signal) => 128 + signal,
        }
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessExit::Code(code) => write!(f, "exited with code {code}"),
            ProcessExit::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "was killed by {name}"),
                None => write!(f, "was killed by signal {signal}"),
            },
        }
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match Signal::from_named_raw(signal)? {
        Signal::HUP => "SIGHUP (terminal closed)",
        Signal::INT => "SIGINT (interrupt)",
        Signal::ILL => "SIGILL (this CPU lacks an instruction that the program uses)",
        Signal::ABORT => "SIGABRT (abort)",
        Signal::BUS => "SIGBUS (file truncated or disk full under a mapped file)",
        Signal::FPE => "SIGFPE (arithmetic error)",
        Signal::KILL => "SIGKILL (by a person, or by the kernel because memory ran out)",
        Signal::SEGV => "SIGSEGV (segmentation fault)",
        Signal::PIPE => "SIGPIPE (the reader closed the pipe)",
        Signal::TERM => "SIGTERM (termination requested)",
        _ => return None,
    })
}

/// Why a job failed: the first thing that went wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The process that failed first; `None` if no process did.
    pub process: Option<ProcessId>,
    /// What happened, as a sentence without full stop.
    pub reason: String,
    /// How that process ended, if it did.
    pub exit: Option<ProcessExit>,
    /// The last lines of its log, oldest first.
    pub tail: Vec<String>,
    /// Path of the whole log.
    pub log: Option<PathBuf>,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
#[expect(
    clippy::large_enum_variant,
    reason = "events are handed on one at a time, not kept in numbers"
)]
pub enum JobEvent {
    /// The data are being prepared by a program that runs before all others.
    Preparing {
        /// A sentence for people.
        what: String,
    },
    /// A process was started; it may not be ready.
    Started {
        /// Which one.
        process: ProcessId,
        /// Process id.
        pid: u32,
        /// 0 for the first start, then the number of restarts.
        restart: u32,
    },
    /// A process accepts connections.
    Ready {
        /// Which one.
        process: ProcessId,
    },
    /// A process wrote a new status.
    Progress {
        /// Which one.
        process: ProcessId,
        /// Its newest status.
        status: Status,
    },
    /// What a process waits for has changed; `None` when it continues.
    Waits {
        /// The process that waits.
        process: ProcessId,
        /// The processes or the work that it waits for, as a sentence.
        reason: Option<String>,
    },
    /// A process wrote this to its record.
    Recorded {
        /// Which one.
        process: ProcessId,
        /// What happened.
        event: Event,
    },
    /// A process crashed or ended too early.
    Died {
        /// Which one.
        process: ProcessId,
        /// How it ended.
        exit: ProcessExit,
        /// The last lines of its log, oldest first.
        tail: Vec<String>,
    },
    /// A crashed process will be restarted under the same id.
    Restarting {
        /// Which one.
        process: ProcessId,
        /// 1 for the first restart.
        restart: u32,
        /// The pause before it.
        after: Duration,
    },
    /// A process ended as expected.
    Ended {
        /// Which one.
        process: ProcessId,
    },
    /// A line of a process's log; only if requested.
    Line {
        /// The process whose log has the line.
        process: ProcessId,
        /// Without the line break.
        line: String,
    },
    /// Something that a person should know and that does not stop the job.
    Warning {
        /// A sentence that names the thing it is about.
        text: String,
    },
    /// The processes are being ended.
    Stopping {
        /// A sentence for people.
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
            format!("{} {}", ProcessId::trainer(2), ProcessExit::Code(78)),
            "trainer 2 exited with code 78"
        );
        assert!(
            ProcessExit::Signal(9)
                .to_string()
                .contains("memory ran out")
        );
        assert_eq!(ProcessExit::Signal(9).code(), 137);
        assert_eq!(
            ProcessExit::Signal(63).to_string(),
            "was killed by signal 63"
        );
    }

    #[test]
    fn events_keep_their_kind_in_json() {
        let event = JobEvent::Died {
            process: ProcessId::pserver(1),
            exit: ProcessExit::Signal(9),
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
