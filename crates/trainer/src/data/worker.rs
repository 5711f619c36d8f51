//! One provider process: started, asked, listened to, and ended with its owner.
//!
//! A thread reads the frames of the process into a bounded channel; when that is full the pipe fills up and the
//! process waits. Dropping a worker kills its process and joins the thread.

use std::ffi::OsString;
use std::io::{BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::error::DataError;
use super::frame::{self, Frame};
use super::stop::Stop;

/// Blocks that wait on our side; each is up to about a megabyte.
const WAITING: usize = 8;

/// How Python is started.
#[derive(Clone, Debug)]
pub struct Python {
    /// The interpreter.
    pub program: PathBuf,
    /// The directory that holds our `paddle` package.
    pub package: PathBuf,
    /// The process's `PYTHONPATH`; by default ours.
    pub search_path: Option<OsString>,
    /// The job's directory, in which the process runs.
    pub directory: PathBuf,
}

/// A provider process.
pub(crate) struct Worker {
    child: Child,
    commands: Option<ChildStdin>,
    frames: Option<Receiver<std::io::Result<Frame>>>,
    reader: Option<JoinHandle<()>>,
}

/// What a worker said, or why it said nothing.
pub(crate) enum Heard {
    /// A frame.
    Frame(Frame),
    /// The process has ended.
    Ended(String),
    /// The process sent something else.
    Broken(String),
    /// Our owner does not want to hear more.
    Stopped,
}

impl Worker {
    /// Starts a process and sends it its first line.
    pub fn start(python: &Python, setup: &str) -> Result<Self, DataError> {
        let mut child = command(python).spawn().map_err(|source| DataError::Start {
            program: python.program.clone(),
            source,
        })?;
        let (sender, frames) = sync_channel(WAITING);
        let output = child.stdout.take();
        let reader = std::thread::spawn(move || {
            if let Some(output) = output {
                listen(BufReader::with_capacity(1 << 16, output), &sender);
            }
        });
        let mut worker = Self {
            commands: child.stdin.take(),
            child,
            frames: Some(frames),
            reader: Some(reader),
        };
        worker.ask(setup);
        Ok(worker)
    }

    /// Sends a line; a process that is gone is noticed when it is listened to.
    pub fn ask(&mut self, line: &str) {
        let sent = self.commands.as_mut().map(|commands| {
            commands.write_all(format!("{line}\n").as_bytes())?;
            commands.flush()
        });
        if let Some(Err(_)) = sent {
            self.commands = None;
        }
    }

    /// Waits for the next frame.
    pub fn hear(&mut self, stop: &Stop) -> Heard {
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

    /// The pipe is closed: the process has ended, or is given a second to.
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
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// The environment is the user's; our package comes first on the search path all the same.
const START: &str = "import sys; sys.path.insert(0, sys.argv[1]); \
     from paddle.trainer import provider_worker; provider_worker.main()";

fn command(python: &Python) -> Command {
    let mut command = Command::new(&python.program);
    command
        // -S: third-party packages are found when they are asked for, which takes most of the start away.
        .args(["-S", "-c", START])
        .arg(&python.package)
        .current_dir(&python.directory)
        .env("PYTHONHASHSEED", "0")
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

fn listen(mut output: impl std::io::Read, sender: &SyncSender<std::io::Result<Frame>>) {
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
