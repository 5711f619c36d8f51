//! One child process: its own process group, its output in a log file, its end reported.
//!
//! A child leads a process group, so that the processes it starts end with it. It asks the kernel to send it SIGKILL when
//! the thread that started it ends (`PR_SET_PDEATHSIG`). Therefore all children are started by the thread that supervises
//! them, and that thread stays until they have ended.
//!
//! Two small threads serve a child: one copies its output to the log, one waits for its end
//! without reaping it (`WNOWAIT`). So its id, and that of its group, remain reserved until
//! [`Child::collect`], and a signal can never hit an unrelated process that got the same id.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
#[cfg(target_os = "linux")]
use rustix::process::{getpid, getppid, set_parent_process_death_signal};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{self, Stdio};
use std::sync::mpsc::Sender;
use std::thread;

use super::plan::ProcessCommand;
use crate::event::ProcessExit;

/// Longest line that is passed on; longer ones are truncated (the log file has all bytes).
const LONGEST_LINE: u64 = 16 * 1024;

/// What the two threads of a child report.
#[derive(Debug)]
pub(crate) enum ChildReport {
    /// A line of output, without the line break.
    Line(String),
    /// The output ended: the child and all processes that shared its output have closed it.
    Silent,
    /// The child ended and waits to be reaped.
    Ended,
    /// The log cannot be written any more, for example because the disk is full.
    LogFailed(io::Error),
}

/// A started process. Dropping it kills its group.
#[derive(Debug)]
pub(crate) struct Child {
    child: process::Child,
    collected: bool,
}

/// Where the output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChildOutput {
    /// Begin a new file.
    New,
    /// Append to the file of the process that this one replaces.
    Append,
}

impl Child {
    /// Starts `command`, with output to `log`, and reports through `send`.
    pub(crate) fn start<T, F>(
        command: &ProcessCommand,
        log: &Path,
        mode: ChildOutput,
        reports: Sender<T>,
        wrap: F,
    ) -> io::Result<Self>
    where
        T: Send + 'static,
        F: Fn(ChildReport) -> T + Send + Clone + 'static,
    {
        let file = open_log(log, mode)?;
        let (output, input) = io::pipe()?;
        let mut process = process::Command::new(&command.program);
        process
            .args(&command.args)
            .envs(&command.environment)
            .current_dir(&command.directory)
            .stdin(Stdio::null())
            .stdout(input.try_clone()?)
            .stderr(input)
            .process_group(0);
        end_with_parent(&mut process);
        let child = process.spawn()?;
        // The command holds the writing end of the pipe; without it the output ends with the child.
        drop(process);
        let pid = child.id();
        let child = Self {
            child,
            collected: false,
        };
        let (lines, wrap_line) = (reports.clone(), wrap.clone());
        thread::Builder::new()
            .name(format!("log-{pid}"))
            .spawn(move || {
                copy_output(output, file, &mut |report| {
                    drop(lines.send(wrap_line(report)))
                });
            })?;
        thread::Builder::new()
            .name(format!("wait-{pid}"))
            .spawn(move || {
                wait_for_end(pid);
                drop(reports.send(wrap(ChildReport::Ended)));
            })?;
        Ok(child)
    }

    /// The process id, which is also the id of its group.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the whole group.
    pub(crate) fn signal(&self, signal: Signal) {
        if !self.collected {
            signal_group(self.child.id(), signal);
        }
    }

    /// Kills what is left of the group and reaps a child that has ended.
    pub(crate) fn collect(&mut self) -> io::Result<ProcessExit> {
        self.signal(Signal::KILL);
        let status = self.child.wait()?;
        self.collected = true;
        let signal = status.signal().map(ProcessExit::Signal);
        Ok(signal
            .or(status.code().map(ProcessExit::Code))
            .unwrap_or(ProcessExit::Code(-1)))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.collected {
            self.signal(Signal::KILL);
            drop(self.child.wait());
        }
    }
}

fn open_log(path: &Path, mode: ChildOutput) -> io::Result<File> {
    let mut options = OpenOptions::new();
    match mode {
        ChildOutput::New => options.write(true).create(true).truncate(true),
        ChildOutput::Append => options.append(true).create(true),
    };
    let named = |error: io::Error| {
        let text = format!("open its log {}: {error}", path.display());
        io::Error::new(error.kind(), text)
    };
    options.open(path).map_err(named)
}

/// Requests that the kernel kill the child when this thread ends.
#[cfg(target_os = "linux")]
fn end_with_parent(process: &mut process::Command) {
    let parent = Some(getpid());
    let before_exec = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the request was made.
        if getppid() != parent {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec; it makes two system calls, allocates nothing and takes no lock.
    unsafe { process.pre_exec(before_exec) };
}

/// Other systems have no such request; the guard ends the children there.
#[cfg(not(target_os = "linux"))]
fn end_with_parent(_process: &mut process::Command) {}

/// Sends a signal to a process group; a group that is gone is no error.
fn signal_group(group: u32, signal: Signal) {
    if let Some(group) = pid(group) {
        let _ = kill_process_group(group, signal);
    }
}

fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(number.try_into().ok()?)
}

/// Blocks until the child has ended, without reaping it.
fn wait_for_end(number: u32) {
    let Some(child) = pid(number) else { return };
    let look_only = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while waitid(WaitId::Pid(child), look_only).is_err_and(|error| error == Errno::INTR) {}
}

/// Copies all output to the log and reports its lines. A log that cannot be written is reported
/// once; reading continues, so that the child does not block.
fn copy_output(output: impl Read, mut log: File, send: &mut dyn FnMut(ChildReport)) {
    let mut output = BufReader::new(output);
    let mut log_works = true;
    let mut line = Vec::new();
    loop {
        line.clear();
        match output
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)
        {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        if log_works && let Err(error) = log.write_all(&line) {
            log_works = false;
            send(ChildReport::LogFailed(error));
        }
        while matches!(line.last(), Some(b'\n' | b'\r')) {
            line.pop();
        }
        send(ChildReport::Line(harmless(&String::from_utf8_lossy(&line))));
    }
    send(ChildReport::Silent);
}

/// A line without control characters: what a provider prints may reach a terminal, which must not obey it. The log file
/// has the bytes as they were.
fn harmless(line: &str) -> String {
    let shown = |c: char| match c {
        '\t' => c,
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    line.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn shell(script: &str) -> ProcessCommand {
        ProcessCommand {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            environment: BTreeMap::from([("COLOUR".into(), "green".into())]),
            directory: "/".into(),
        }
    }

    fn run(script: &str, mode: ChildOutput, log: &Path) -> (ProcessExit, Vec<String>) {
        let (send, receive) = mpsc::channel();
        let mut child = Child::start(&shell(script), log, mode, send, |report| report).unwrap();
        let mut lines = Vec::new();
        let (mut ended, mut silent, mut exit) = (false, false, None);
        while !(ended && silent) {
            match receive.recv_timeout(Duration::from_secs(240)).unwrap() {
                ChildReport::Line(line) => lines.push(line),
                ChildReport::Silent => silent = true,
                ChildReport::LogFailed(error) => panic!("{error}"),
                ChildReport::Ended => {
                    ended = true;
                    exit = Some(child.collect().unwrap());
                }
            }
        }
        (exit.unwrap(), lines)
    }

    #[test]
    fn output_goes_to_the_log_and_is_reported_by_line() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let (exit, lines) = run(
            "echo one; echo $COLOUR >&2; printf end; exit 7",
            ChildOutput::New,
            &log,
        );
        assert_eq!(
            (exit, lines.join(",")),
            (ProcessExit::Code(7), "one,green,end".into())
        );
        assert_eq!(fs::read_to_string(&log).unwrap(), "one\ngreen\nend");
        run("echo more", ChildOutput::Append, &log);
        assert_eq!(fs::read_to_string(&log).unwrap(), "one\ngreen\nendmore\n");
        run("echo anew", ChildOutput::New, &log);
        assert_eq!(fs::read_to_string(&log).unwrap(), "anew\n");
    }

    #[test]
    fn what_a_child_leaves_running_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let (exit, lines) = run(
            "sleep 1000 & echo $!; kill -9 $$",
            ChildOutput::New,
            &folder.path().join("log"),
        );
        assert_eq!(exit, ProcessExit::Signal(9));
        let left = format!("/proc/{}/stat", lines[0]);
        // The output ended, so the sleeper has been killed; it may not be gone yet.
        let is_gone = || fs::read_to_string(&left).map_or(true, |stat| stat.contains(") Z "));
        let mut patience = (0..24_000).map(|_| thread::sleep(Duration::from_millis(10)));
        assert!(is_gone() || patience.any(|()| is_gone()));
    }

    #[test]
    fn a_line_without_end_is_cut_and_bytes_that_are_no_text_are_shown() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let (_, lines) = run(
            "head -c 40000 /dev/zero | tr '\\0' x; printf '\\n\\377\\n'",
            ChildOutput::New,
            &log,
        );
        assert_eq!(
            lines.iter().map(String::len).collect::<Vec<_>>(),
            [16384, 16384, 7232, 3]
        );
        assert_eq!(fs::metadata(&log).unwrap().len(), 40_003);
    }

    #[test]
    fn a_terminal_is_not_told_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let (_, lines) = run(
            "printf 'a\\033]0;title\\007b\\tc\\n'",
            ChildOutput::New,
            &log,
        );
        assert_eq!(lines, ["a\u{fffd}]0;title\u{fffd}b\tc"]);
        assert!(
            fs::read(&log).unwrap().contains(&0x1b),
            "the log has it all"
        );
    }

    #[test]
    fn a_full_disk_is_reported_once_and_does_not_stop_the_child() {
        let (send, receive) = mpsc::channel();
        let log = Path::new("/dev/full");
        let mut child = Child::start(
            &shell("for i in 1 2 3; do echo $i; done"),
            log,
            ChildOutput::Append,
            send,
            |r| r,
        )
        .unwrap();
        let reports: Vec<ChildReport> = receive.iter().collect();
        assert_eq!(
            reports
                .iter()
                .filter(|report| matches!(report, ChildReport::LogFailed(_)))
                .count(),
            1
        );
        assert_eq!(
            reports
                .iter()
                .filter(|report| matches!(report, ChildReport::Line(_)))
                .count(),
            3
        );
        assert_eq!(child.collect().unwrap(), ProcessExit::Code(0));
    }

    #[test]
    fn a_log_that_cannot_be_opened_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("missing/train.log");
        let (send, _receive) = mpsc::channel();
        let error = Child::start(&shell(""), &log, ChildOutput::New, send, |r| r).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("missing/train.log"), "{error}");
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = shell("");
        command.program = "/no/such/program".into();
        let (send, _receive) = mpsc::channel();
        let error = Child::start(
            &command,
            &folder.path().join("log"),
            ChildOutput::New,
            send,
            |r| r,
        )
        .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
