//! Runs a user's configuration file in a Python subprocess of its own.
//!
//! The subprocess gets the file, the arguments and a path for the result; it writes JSON there, because user files
//! print freely. What they print goes to our stderr. It runs in its own process group, which is ended as a whole
//! when the deadline passes or when this process dies.

use std::ffi::OsString;
use std::fmt;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, io, thread};

use serde::Deserialize;

pub use crate::package::{PackageError, package_dir};
use crate::training::TrainerConfig;

/// What the interpreter runs; it must parse under every Python, to say which one is needed.
const LAUNCH: &str = "\
import sys
if sys.version_info < (3, 8):
    open(sys.argv[4], 'w').write('{\"old_python\":\"%d.%d.%d\"}' % tuple(sys.version_info[:3]))
    sys.exit(0)
sys.path.insert(0, sys.argv[1])
theirs, sys.dont_write_bytecode = sys.dont_write_bytecode, False
from paddle.core.evaluate import main
sys.dont_write_bytecode = theirs
main(sys.argv[2:])
";

/// What to evaluate, and how.
#[derive(Debug, Clone)]
pub struct EvaluateOptions {
    /// The configuration file.
    pub file: PathBuf,
    /// What `get_config_arg` answers: `name=value,name=value`.
    pub args: String,
    /// The interpreter; by default the first of `python3` and `python` on the path.
    pub python: Option<PathBuf>,
    /// The subprocess's `PYTHONPATH`; by default ours.
    pub python_path: Option<OsString>,
    /// The working directory of the evaluation, from which the user's file opens its own files; by default ours.
    pub directory: Option<PathBuf>,
    /// After so long the evaluation is given up.
    pub deadline: Duration,
    /// Where the user's prints go.
    pub prints: Prints,
}

/// Where the prints of a user's file go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prints {
    /// To our stderr: stdout is for results.
    Stderr,
    /// Nowhere.
    Nowhere,
}

impl EvaluateOptions {
    /// Evaluates `file` here, with no arguments, within five minutes.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            args: String::new(),
            python: None,
            python_path: None,
            directory: None,
            deadline: Duration::from_secs(300),
            prints: Prints::Stderr,
        }
    }

    fn path(&self) -> PathBuf {
        match &self.directory {
            Some(directory) => directory.join(&self.file),
            None => self.file.clone(),
        }
    }
}

/// Why a configuration file gave no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is not there or cannot be read.
    #[error("read configuration file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The Python package has no place on disk.
    #[error("lay out the Python package")]
    Package(#[from] PackageError),
    /// There is no interpreter.
    #[error("start {}: install Python 3.8 or newer, or name it with --python_bin", python.display())]
    Start {
        /// The interpreter that was tried.
        python: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The interpreter is too old.
    #[error("{} is Python {version}: 3.8 or newer is needed; name one with --python_bin", python.display())]
    OldPython {
        /// The interpreter.
        python: PathBuf,
        /// Its version.
        version: String,
    },
    /// The user's file failed; the text is the user's own traceback.
    #[error("{0}")]
    Script(Box<Failure>),
    /// The user's file did not end in time.
    #[error("evaluating {} took longer than {} s: it was ended", file.display(), deadline.as_secs_f64())]
    Deadline {
        /// The configuration file.
        file: PathBuf,
        /// The time it had.
        deadline: Duration,
    },
    /// The interpreter ended without leaving a result.
    #[error("evaluating {}: Python ended with {status} and left no result", file.display())]
    Died {
        /// The configuration file.
        file: PathBuf,
        /// How it ended.
        status: ExitStatus,
    },
    /// The result file could not be made or read.
    #[error("exchange the result of {} with Python", file.display())]
    Exchange {
        /// The configuration file.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The result is not what it should be.
    #[error("understand the result of {}", file.display())]
    Result {
        /// The configuration file.
        file: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The description contradicts itself.
    #[error("{}: {}", file.display(), crate::validate::listed(problems))]
    Invalid {
        /// The configuration file.
        file: PathBuf,
        /// Everything that is wrong.
        problems: Vec<crate::validate::Problem>,
    },
}

/// How the user's file failed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// The Python exception.
    pub exception: String,
    /// Its text.
    pub message: String,
    /// The way out, if there is a usual one; otherwise empty.
    pub hint: String,
    /// Where, outermost first: frames of the user's own files only.
    pub frames: Vec<Frame>,
}

/// What kind of failure a user's file had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The network it describes is wrong.
    Description,
    /// It is not Python 3.
    Syntax,
    /// It imports what is not there.
    Import,
    /// It ended the interpreter.
    Exit,
    /// It raised.
    Exception,
}

/// One line of a user's file that was being executed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Frame {
    /// The file.
    pub file: String,
    /// Its line, from 1.
    pub line: u64,
    /// The function; empty at a syntax error.
    pub function: String,
    /// The text of the line.
    pub text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(last) = self.frames.last() {
            write!(out, "{}:{}: ", last.file, last.line)?;
        }
        match self.kind {
            FailureKind::Description => write!(out, "{}", self.message)?,
            _ if self.message.is_empty() => write!(out, "{}", self.exception)?,
            _ => write!(out, "{}: {}", self.exception, self.message)?,
        }
        if !self.hint.is_empty() {
            write!(out, " ({})", self.hint)?;
        }
        for frame in &self.frames {
            write!(out, "\n  {}:{}", frame.file, frame.line)?;
            if !frame.function.is_empty() && frame.function != "<module>" {
                write!(out, " in {}", frame.function)?;
            }
            if !frame.text.is_empty() {
                write!(out, "\n    {}", frame.text)?;
            }
        }
        Ok(())
    }
}

/// What Python leaves: one of the first three.
#[derive(Deserialize)]
struct Answer {
    config: Option<Box<TrainerConfig>>,
    failure: Option<Box<Failure>>,
    old_python: Option<String>,
    /// With `config`: the interpreter's own path.
    #[serde(default)]
    python: PathBuf,
}

/// What a file describes, unchecked.
pub(crate) struct Run {
    pub config: TrainerConfig,
    /// What Python left; the description is its field `config`.
    pub json: Vec<u8>,
    /// The interpreter that ran the file; what was started may have been a script that chooses one.
    pub python: PathBuf,
}

/// Runs the file.
pub(crate) fn run(options: &EvaluateOptions) -> Result<Run, ConfigError> {
    let path = options.path();
    fs::File::open(&path).map_err(|source| ConfigError::Read { path, source })?;
    let exchange = |source| ConfigError::Exchange {
        file: options.file.clone(),
        source,
    };
    let place = tempfile::tempdir().map_err(exchange)?;
    let result = place.path().join("result.json");
    let (python, status) = start_and_wait(options, package_dir()?, &result)?;
    let json = match fs::read(&result) {
        Ok(json) => json,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ConfigError::Died {
                file: options.file.clone(),
                status,
            });
        }
        Err(error) => return Err(exchange(error)),
    };
    let answer: Answer = serde_json::from_slice(&json).map_err(|source| ConfigError::Result {
        file: options.file.clone(),
        source,
    })?;
    match answer {
        Answer {
            old_python: Some(version),
            ..
        } => Err(ConfigError::OldPython { python, version }),
        Answer {
            failure: Some(failure),
            ..
        } => Err(ConfigError::Script(failure)),
        Answer {
            config: Some(config),
            python: real,
            ..
        } => Ok(Run {
            config: *config,
            json,
            python: if real.as_os_str().is_empty() {
                python
            } else {
                real
            },
        }),
        Answer { config: None, .. } => Err(ConfigError::Died {
            file: options.file.clone(),
            status,
        }),
    }
}

/// Tries the interpreters in order; the first that can be started decides.
fn start_and_wait(
    options: &EvaluateOptions,
    package: &Path,
    result: &Path,
) -> Result<(PathBuf, ExitStatus), ConfigError> {
    let choices = match &options.python {
        Some(python) => vec![python.clone()],
        None => vec![PathBuf::from("python3"), PathBuf::from("python")],
    };
    let mut missing = None;
    for python in choices {
        let mut command = command(&python, options, package, result);
        match run_within(&mut command, options.deadline) {
            Ok(Some(status)) => return Ok((python, status)),
            Ok(None) => {
                return Err(ConfigError::Deadline {
                    file: options.file.clone(),
                    deadline: options.deadline,
                });
            }
            Err(source) => missing = missing.or(Some(ConfigError::Start { python, source })),
        }
    }
    Err(missing.expect("there is at least one interpreter to try, and none was started"))
}

fn command(python: &Path, options: &EvaluateOptions, package: &Path, result: &Path) -> Command {
    let mut command = Command::new(python);
    // -S: third-party packages are found when they are asked for, which makes the start four times faster.
    command.args(["-S", "-c", LAUNCH]).env("PYTHONUTF8", "1");
    if let Some(path) = &options.python_path {
        command.env("PYTHONPATH", path);
    }
    let arguments: [OsString; 4] = [
        package.into(),
        options.file.clone().into(),
        options.args.clone().into(),
        result.into(),
    ];
    command.args(arguments).stdin(Stdio::null());
    if let Some(directory) = &options.directory {
        command.current_dir(directory);
    }
    match options.prints {
        Prints::Stderr => command.stdout(
            io::stderr()
                .as_fd()
                .try_clone_to_owned()
                .map_or_else(|_| Stdio::null(), Stdio::from),
        ),
        Prints::Nowhere => command.stdout(Stdio::null()).stderr(Stdio::null()),
    };
    command.process_group(0);
    end_with_parent(&mut command);
    command
}

/// Waits for the command; None when the deadline passed and its process group was ended.
fn run_within(command: &mut Command, deadline: Duration) -> io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let group = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    let (done, ended) = mpsc::channel();
    let waiter = thread::spawn(move || {
        // The receiver may have given up; then nobody wants the answer.
        let _ = done.send(child.wait());
    });
    let answer = ended.recv_timeout(deadline);
    if answer.is_err() {
        // SAFETY: plain system call. The waiter has not reaped the child, or has this instant: the group's number
        // is the child's, which the system does not give away while a member of the group lives.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
    let _ = waiter.join();
    match answer {
        Ok(status) => status.map(Some),
        Err(_) => Ok(None),
    }
}

/// The subprocess dies with the thread that waits for it, so an interrupted program leaves none behind.
#[cfg(target_os = "linux")]
fn end_with_parent(command: &mut Command) {
    // SAFETY: between fork and exec only prctl is called, which is async-signal-safe and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == -1 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
}

#[cfg(not(target_os = "linux"))]
fn end_with_parent(_: &mut Command) {}
