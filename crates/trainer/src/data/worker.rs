//! One provider process: starts it, sends it requests, receives its frames, and kills it when dropped.
//!
//! A thread reads the frames of the process into a bounded channel; when that is full the pipe fills up and the
//! process waits. Dropping a worker kills its process and joins the thread.

use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::io::{BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::error::DataError;
use super::frame::{self, ProviderFrame};
use super::starter;
use super::stop::Stop;

/// Blocks that the channel holds; each is up to about a megabyte.
const WAITING: usize = 8;

/// How Python is started.
#[derive(Clone, Debug)]
pub(super) struct Python {
    /// Path or name of the interpreter.
    pub program: PathBuf,
    /// The directory that holds our `paddle` package.
    pub package: PathBuf,
    /// The process's `PYTHONPATH`; by default that of this process.
    pub search_path: Option<OsString>,
    /// The job's directory, in which the process runs.
    pub directory: PathBuf,
}

/// A provider process.
pub(crate) struct Worker {
    child: Child,
    commands: Option<ChildStdin>,
    frames: Option<Receiver<std::io::Result<ProviderFrame>>>,
    reader: Option<JoinHandle<()>>,
}

/// What was received from a worker, or why nothing was.
pub(crate) enum Heard {
    /// A valid frame.
    Frame(ProviderFrame),
    /// The process has ended; its exit code or signal, as text.
    Ended(String),
    /// The process sent bytes that are not a frame; says what is wrong.
    Broken(String),
    /// The owner of this thread asked it to stop.
    Stopped,
}

impl Worker {
    /// Starts a process and sends it its first line.
    pub(super) fn start(python: &Python, setup: &str) -> Result<Self, DataError> {
        let failed = |source| DataError::Start {
            program: python.program.clone(),
            source,
        };
        let mut child = starter::start(command(python)).map_err(failed)?;
        let (sender, frames) = sync_channel(WAITING);
        let output = child.stdout.take();
        let mut worker = Self {
            commands: child.stdin.take(),
            child,
            frames: Some(frames),
            reader: None,
        };
        let reader = std::thread::Builder::new()
            .name("provider".to_owned())
            .spawn(move || {
                if let Some(output) = output {
                    listen(BufReader::with_capacity(1 << 16, output), &sender);
                }
            });
        worker.reader = Some(reader.map_err(failed)?);
        worker.ask(setup);
        Ok(worker)
    }

    /// Sends a line; a process that has ended is noticed by the next [`Worker::hear`].
    pub(super) fn ask(&mut self, line: &str) {
        let sent = self.commands.as_mut().map(|commands| {
            commands.write_all(format!("{line}\n").as_bytes())?;
            commands.flush()
        });
        if let Some(Err(_)) = sent {
            self.commands = None;
        }
    }

    /// Waits for the next frame.
    pub(super) fn hear(&mut self, stop: &Stop) -> Heard {
        loop {
            let Some(frames) = &self.frames else {
                return Heard::Ended("stopped".to_owned());
            };
            match frames.recv_timeout(Duration::from_millis(100)) {
                Ok(Ok(frame)) => return Heard::Frame(frame),
                Ok(Err(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
                    return Heard::Broken(error.to_string());
                }
                Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return self.ended(),
                Err(RecvTimeoutError::Timeout) if stop.is_asked() => return Heard::Stopped,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// The pipe is closed: the process has ended, or gets one second to end.
    fn ended(&mut self) -> Heard {
        for _ in 0..100 {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Heard::Ended(describe(status));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        Heard::Ended("it closed its output".to_owned())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.commands = None;
        self.frames = None;
        kill_group(&mut self.child);
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Ends a process and what it has started, which is in its group.
fn kill_group(child: &mut Child) {
    // A child that has been reaped has no group any more, and its number may be another's.
    if let (Ok(None), Ok(group)) = (child.try_wait(), child.id().try_into())
        && let Some(group) = Pid::from_raw(group)
    {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.kill();
}

/// Python's start code: whatever the user's environment says, our package comes first on the search path.
const START: &str = "import sys; sys.path.insert(0, sys.argv[1]); \
     from paddle.trainer import provider_worker; provider_worker.main()";

fn command(python: &Python) -> Command {
    let mut command = Command::new(&python.program);
    command
        // -S: third-party packages are found when they are imported, which saves most of the startup time.
        .args(["-S", "-c", START])
        .arg(&python.package)
        .current_dir(&python.directory)
        .env("PYTHONHASHSEED", "0")
        // A provider only reads data, so it does not get the job token.
        .env_remove(words::process::TOKEN_VARIABLE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    if let Some(path) = &python.search_path {
        command.env("PYTHONPATH", path);
    }
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        command.process_group(0);
    }
    command
}

fn listen(mut output: impl std::io::Read, sender: &SyncSender<std::io::Result<ProviderFrame>>) {
    loop {
        match frame::read(&mut output) {
            Ok(Some(frame)) => {
                if sender.send(Ok(frame)).is_err() {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                let _ = sender.send(Err(error));
                return;
            }
        }
    }
}

fn describe(status: ExitStatus) -> String {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        if let Some(signal) = status.signal() {
            return format!("killed by signal {signal}");
        }
    }
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => status.to_string(),
    }
}
