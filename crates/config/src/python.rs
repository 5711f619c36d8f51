//! Runs a user's configuration file in a separate Python subprocess.
//!
//! The subprocess gets the file, the arguments and a path for the result; it writes JSON there, because user files
//! print freely. Their output goes to our stderr. The subprocess has its own process group, which is killed as a whole
//! when the deadline passes or when this process ends.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, io, thread};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

pub use crate::package::{PackageError, keep_package_below, package_dir};
use crate::training::TrainerConfig;

/// The program text for the interpreter; it must parse under every Python, to report which one is needed.
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
    /// The configuration file, usually `trainer_config.py`.
    pub file: PathBuf,
    /// Values for `get_config_arg`: `name=value,name=value`.
    pub args: String,
    /// The interpreter; by default the first of `python3` and `python` on the path.
    pub python: Option<PathBuf>,
    /// The subprocess's `PYTHONPATH`; by default that of this process.
    pub python_path: Option<OsString>,
    /// The working directory of the evaluation, from which the user's file opens its own files; by default that of this
    /// process.
    pub directory: Option<PathBuf>,
    /// The evaluation is aborted after this time.
    pub deadline: Duration,
    /// Where the output of the user's file goes.
    pub prints: Prints,
}

/// Where the output of a user's file goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prints {
    /// To our stderr: stdout is for results.
    Stderr,
    /// Discarded.
    Nowhere,
}

impl EvaluateOptions {
    /// Evaluates `file` in the current directory, with no arguments, within five minutes.
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

/// Why a configuration file could not be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file does not exist or cannot be read.
    #[error("read configuration file {}", path.display())]
    Read {
        /// Path of the configuration file.
        path: PathBuf,
        /// The error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// The Python package could not be written to disk.
    #[error("lay out the Python package")]
    Package(#[from] PackageError),
    /// The interpreter could not be started.
    #[error("start {}: install Python 3.8 or newer, or name it with --python_bin", python.display())]
    Start {
        /// The interpreter that was tried.
        python: PathBuf,
        /// The error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// The interpreter is too old.
    #[error("{} is Python {version}: 3.8 or newer is needed; name one with --python_bin", python.display())]
    OldPython {
        /// The interpreter that was started.
        python: PathBuf,
        /// Its version, such as `3.6.9`.
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
        /// The time limit.
        deadline: Duration,
    },
    /// The interpreter ended without writing a result.
    #[error("evaluating {}: Python ended with {status} and left no result", file.display())]
    Died {
        /// The configuration file.
        file: PathBuf,
        /// Exit code or signal of the interpreter.
        status: ExitStatus,
    },
    /// The result file could not be created or read.
    #[error("exchange the result of {} with Python", file.display())]
    Exchange {
        /// The configuration file.
        file: PathBuf,
        /// The error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// The result is not valid JSON of a configuration.
    #[error("understand the result of {}", file.display())]
    Result {
        /// The configuration file.
        file: PathBuf,
        /// Names the field or position in the JSON.
        #[source]
        source: serde_json::Error,
    },
    /// The configuration is inconsistent.
    #[error("{}: {}", file.display(), crate::validate::listed(problems))]
    Invalid {
        /// The configuration file.
        file: PathBuf,
        /// All problems that were found.
        problems: Vec<crate::validate::Inconsistency>,
    },
}

/// How the user's file failed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Failure {
    /// The kind of the failure.
    pub kind: FailureKind,
    /// Class of the Python exception.
    pub exception: String,
    /// Text of the exception.
    pub message: String,
    /// What the user can do, if that is known; otherwise empty.
    pub hint: String,
    /// The traceback, outermost first: frames of the user's own files only.
    pub frames: Vec<TracebackFrame>,
}

/// How a user's file failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The network that it describes is wrong.
    Description,
    /// It is not Python 3.
    Syntax,
    /// It imports a module that does not exist.
    Import,
    /// It ended the interpreter.
    Exit,
    /// It raised an exception.
    Exception,
}

/// One line of a user's file that was being executed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TracebackFrame {
    /// Path of the file.
    pub file: String,
    /// The line, from 1.
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

/// The result that Python writes: one of the first three fields.
#[derive(Deserialize)]
struct PythonReply {
    config: Option<Box<TrainerConfig>>,
    failure: Option<Box<Failure>>,
    old_python: Option<String>,
    /// Set with `config`: path of the interpreter.
    #[serde(default)]
    python: PathBuf,
    /// Set with `config`: file and line of layers and data sources.
    #[serde(default)]
    places: SourceLines,
    /// Set with `config`: what the user should know about it.
    #[serde(default)]
    notes: Vec<String>,
}

/// File and line of every layer by its name, and of settings and data sources by the names of their fields (`opt_config`,
/// `data_config`, `test_data_config`).
pub type SourceLines = BTreeMap<String, (PathBuf, u64)>;

/// The result of evaluating a file, before it is checked.
pub(crate) struct Evaluation {
    pub config: TrainerConfig,
    pub places: SourceLines,
    pub notes: Vec<String>,
    /// The result that Python wrote; the configuration is its field `config`.
    pub json: Vec<u8>,
    /// The interpreter that ran the file; the program that was started may have been a wrapper script.
    pub python: PathBuf,
    /// The Python 2 that was asked for, if another interpreter ran the file instead.
    pub instead_of: Option<PathBuf>,
}

/// Runs the file. If the user asks for Python 2, or for a `python` that does not work, Python 3 is used instead: the
/// package runs Python 2 files.
pub(crate) fn run(options: &EvaluateOptions) -> Result<Evaluation, ConfigError> {
    let Some(asked) = &options.python else {
        return run_with(options);
    };
    if !means_python_2(asked) || works(asked, options) {
        match run_with(options) {
            Err(ConfigError::OldPython { version, .. }) if version.starts_with("2.") => {}
            result => return result,
        }
    }
    let others = EvaluateOptions {
        python: None,
        ..options.clone()
    };
    Ok(Evaluation {
        instead_of: Some(asked.clone()),
        ..run_with(&others)?
    })
}

/// Whether v1's scripts mean Python 2 by this name.
fn means_python_2(python: &Path) -> bool {
    let name = python.file_name().unwrap_or_default().to_string_lossy();
    name == "python" || name.starts_with("python2")
}

/// Whether a program is a Python: not the script that `canoe paddle link` writes, nor a placeholder of a version manager
/// that has no such Python.
fn works(python: &Path, options: &EvaluateOptions) -> bool {
    let mut command = Command::new(python);
    command.args(["-S", "-c", "import sys"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).process_group(0);
    if let Some(directory) = &options.directory {
        command.current_dir(directory);
    }
    end_with_parent(&mut command);
    let status = run_within(&mut command, options.deadline);
    status.is_ok_and(|status| status.is_some_and(|status| status.success()))
}

fn run_with(options: &EvaluateOptions) -> Result<Evaluation, ConfigError> {
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
    let answer: PythonReply =
        serde_json::from_slice(&json).map_err(|source| ConfigError::Result {
            file: options.file.clone(),
            source,
        })?;
    match answer {
        PythonReply {
            old_python: Some(version),
            ..
        } => Err(ConfigError::OldPython { python, version }),
        PythonReply {
            failure: Some(failure),
            ..
        } => Err(ConfigError::Script(failure)),
        PythonReply {
            config: Some(config),
            python: real,
            places,
            notes,
            ..
        } => Ok(Evaluation {
            config: *config,
            places,
            notes,
            json,
            python: if real.as_os_str().is_empty() {
                python
            } else {
                real
            },
            instead_of: None,
        }),
        PythonReply { config: None, .. } => Err(ConfigError::Died {
            file: options.file.clone(),
            status,
        }),
    }
}

/// Tries the interpreters in order; the first that can be started is used.
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

/// The variable with the job token; `words::process` names it for those who need it.
const TOKEN_VARIABLE: &str = "CANOE_JOB_TOKEN";

fn command(python: &Path, options: &EvaluateOptions, package: &Path, result: &Path) -> Command {
    let mut command = Command::new(python);
    // -S: third-party packages are found when they are imported, which makes the start four times faster.
    command.args(["-S", "-c", LAUNCH]).env("PYTHONUTF8", "1");
    // A configuration describes a model; it has no business with the servers.
    command.env_remove(TOKEN_VARIABLE);
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

/// Waits for the command; returns `None` if the deadline passed and its process group was killed.
fn run_within(command: &mut Command, deadline: Duration) -> io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let group = child.id().try_into().map_err(io::Error::other)?;
    let (done, ended) = mpsc::channel();
    let waiter = thread::Builder::new()
        .name("configuration".to_owned())
        .spawn(move || {
            // The receiver may have been dropped after the deadline; then the status is not needed.
            let _ = done.send(child.wait());
        })?;
    let answer = ended.recv_timeout(deadline);
    if answer.is_err() {
        // The waiter has not reaped the child, or has this instant: the group's number is the child's, which the system
        // does not give away while a member of the group lives.
        if let Some(group) = Pid::from_raw(group) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
    let _ = waiter.join();
    match answer {
        Ok(status) => status.map(Some),
        Err(_) => Ok(None),
    }
}

/// The subprocess is killed with the thread that waits for it, so an interrupted program leaves no subprocess.
#[cfg(target_os = "linux")]
fn end_with_parent(command: &mut Command) {
    // SAFETY: between fork and exec there is one system call, which allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(|| {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            Ok(())
        });
    }
}

#[cfg(not(target_os = "linux"))]
fn end_with_parent(_: &mut Command) {}
