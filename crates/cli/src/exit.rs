//! How the program ends: the numbers that scripts and Kubernetes see.

use std::process::ExitCode;

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All went well.
    Success,
    /// Something failed; the message says what.
    Failure,
    /// The command line is wrong.
    Usage,
    /// The command worked, the job that it ran failed.
    JobFailed,
    /// Ended by Ctrl-C or a termination signal.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
            Exit::JobFailed => 3,
            Exit::Interrupted => 130,
        })
    }
}
