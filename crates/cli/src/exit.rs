//! How the program ends: the exit codes that scripts and Kubernetes see.

use std::process::ExitCode;

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Success,
    /// Something failed; the message says what.
    Failure,
    /// The command line is wrong.
    Usage,
    /// The command worked, the job that it ran failed.
    JobFailed,
    /// Configuration, flags or files cannot be used: starting again cannot help (Kubernetes fails the job immediately).
    Configuration,
    /// Another code, such as those of `canoe node`, which the Job's failure policy reads.
    Code(u8),
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
            Exit::Configuration => 78,
            Exit::Code(code) => code,
            Exit::Interrupted => 130,
        })
    }
}
