//! The engine of `canoe run`: a job folder as N nodes on this machine, with the cluster's output tree.
//!
//! ```text
//! folder ─Layout::read→ Layout ─Plan::new→ Plan ─run→ events … Outcome
//!                                 (pure)          └ split, work directories, ports, supervise
//! ```
//!
//! # Map, in reading order
//!
//! - [`layout`]: finds configuration and data in the job folder.
//! - [`listed`]: divides data files that a list names.
//! - [`plan`]: command lines; pure.
//! - [`capacity`]: refuses more nodes than a machine can run.
//! - [`run_file`]: the note of a run. [`found`]: what is in the output folder. [`inputs`]: checksums of configuration and
//!   data. [`claim`]: how a run begins there: new, resumed, or refused; pure.
//! - [`lease`]: one owner per folder. [`holder`]: whether that owner still lives. `proc_files`: what the kernel says of it.
//! - [`archive`]: moves the results of an earlier run aside.
//! - [`ports`], [`workdir`]: free ports and the nodes' working directories, made before the start.
//! - [`restart`], [`machine`]: when which process is started, restarted and ended; pure.
//! - [`watchdog`]: finds processes that run but make no progress; pure.
//! - [`child`]: one process.
//! - [`guard`]: kills the processes that are left if this one is killed.
//! - [`shutdown`]: the user's request to end.
//! - [`observe`]: turns a process's record and state file into events.
//! - [`work`], [`supervisor`]: the loop that connects them; `canoe node` uses it too.

pub mod archive;
pub mod capacity;
pub(crate) mod child;
pub mod claim;
pub mod found;
pub(crate) mod guard;
pub mod holder;
pub mod inputs;
pub mod layout;
pub mod lease;
pub mod listed;
pub mod machine;
pub(crate) mod observe;
pub mod plan;
pub mod ports;
mod proc_files;
mod removal;
pub(crate) mod restart;
pub mod run_file;
pub mod shutdown;
pub(crate) mod supervisor;
pub mod token;
pub mod watchdog;
pub(crate) mod work;
pub mod workdir;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

pub use layout::{FolderLayout, FolderOptions, LayoutError};
pub use machine::RunLimits;
pub use plan::{PlanError, RunOptions, RunPlan};
pub use restart::RestartPolicy;
pub use shutdown::{Shutdown, on_announcement};
pub use supervisor::{RunEnd, SupervisorOptions};

use crate::display::summary::RunTally;
use crate::event::{JobEvent, ProcessExit};
use child::{Child, ChildOutput, ChildReport};
use guard::Guard;
use plan::ProcessCommand;
use restart::CrashHistory;
use work::{LocalWork, PrepareError};

/// The result of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// How it ended.
    pub end: RunEnd,
    /// What the nodes have done.
    pub tally: RunTally,
    /// Wall-clock time.
    pub elapsed: Duration,
}

impl RunOutcome {
    /// The exit code of `canoe run`: 0 finished, 3 the job failed, 130 interrupted.
    pub fn exit_code(&self) -> u8 {
        match self.end {
            RunEnd::Succeeded => 0,
            RunEnd::Failed(_) => 3,
            RunEnd::Interrupted => 130,
        }
    }
}

/// Why a run could not begin.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum RunError {
    /// A folder, link or port could not be created.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The program that splits the data could not be run.
    #[error("run {program} to split the data")]
    Split {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The program that splits the data failed.
    #[error("splitting the data {0}")]
    SplitFailed(SplitEnd),
    /// Threads or the guard could not be started.
    #[error("start the supervisor")]
    Supervisor(#[source] io::Error),
}

/// How the program that splits the data has ended.
#[derive(Debug)]
pub struct SplitEnd {
    exit: ProcessExit,
    /// The last lines of its output.
    tail: String,
}

impl std::fmt::Display for SplitEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { exit, tail } = self;
        match tail.as_str() {
            "" => write!(f, "{exit}; the same command resumes it"),
            tail => write!(f, "{exit}:\n{tail}"),
        }
    }
}

/// Runs the plan to its end. Every event is passed to `emit`. One request to `shutdown` ends
/// the run in order, two end it immediately. The calling thread must exist until this returns, which it does.
pub fn run(
    plan: RunPlan,
    options: &SupervisorOptions,
    shutdown: &Shutdown,
    emit: &mut dyn FnMut(JobEvent),
) -> Result<RunOutcome, RunError> {
    let begun = Instant::now();
    let mut tally = RunTally::new(plan.options.num_passes);
    if !split_data(&plan, options.limits.restart.as_ref(), shutdown, emit)? {
        return Ok(RunOutcome {
            end: RunEnd::Interrupted,
            tally,
            elapsed: begun.elapsed(),
        });
    }
    let mut work = LocalWork::prepare(plan)?;
    let end = supervisor::supervise(&mut work, options, shutdown, &mut |at, event| {
        tally.take(at, &event);
        emit(event);
    })
    .map_err(RunError::Supervisor)?;
    Ok(RunOutcome {
        end,
        tally,
        elapsed: begun.elapsed(),
    })
}

/// Splits flat data into shards; `false` if the user interrupted it. With `restarts`, a program that crashed is started
/// again: an interrupted split is finished by the next one.
fn split_data(
    plan: &RunPlan,
    restarts: Option<&RestartPolicy>,
    shutdown: &Shutdown,
    emit: &mut dyn FnMut(JobEvent),
) -> Result<bool, RunError> {
    let Some(command) = &plan.split else {
        return Ok(true);
    };
    emit(JobEvent::Preparing {
        what: format!(
            "split {} into {} shards",
            command.directory.display(),
            plan.options.nodes
        ),
    });
    let (begun, mut deaths) = (Instant::now(), Vec::new());
    loop {
        let Some(end) = run_split(plan, command, shutdown)? else {
            return Ok(false);
        };
        if end.exit.is_success() {
            return Ok(true);
        }
        let now = begun.elapsed();
        let history = CrashHistory {
            deaths: &deaths,
            before_ready: deaths.len() + 1,
        };
        // What the program itself reports, a restart cannot fix.
        let crashed = matches!(end.exit, ProcessExit::Signal(_));
        let pause = restarts
            .filter(|_| crashed)
            .and_then(|policy| policy.pause_after(&history, end.exit, now).ok());
        let Some(pause) = pause else {
            return Err(RunError::SplitFailed(end));
        };
        emit(JobEvent::Warning {
            text: format!("splitting the data {}; it is started again", end.exit),
        });
        deaths.push(now);
        std::thread::sleep(pause);
    }
}

/// Runs the program that splits the data; `None` if the user interrupted it.
fn run_split(
    plan: &RunPlan,
    command: &ProcessCommand,
    shutdown: &Shutdown,
) -> Result<Option<SplitEnd>, RunError> {
    let failed = |source| RunError::Split {
        program: command.program.clone(),
        source,
    };
    let output = plan.layout.output();
    std::fs::create_dir_all(&output).map_err(failed)?;
    let (send, receive) = mpsc::channel();
    let mut guard = Guard::start().map_err(failed)?;
    let mut child = Child::start(
        command,
        &output.join("split.log"),
        ChildOutput::New,
        send,
        |report| report,
    )
    .map_err(failed)?;
    guard.watch(child.pid());
    let mut tail = VecDeque::new();
    loop {
        if shutdown.requests() > 0 {
            return Ok(None);
        }
        match receive.recv_timeout(Duration::from_millis(50)) {
            Ok(ChildReport::Line(line)) => {
                tail.push_back(line);
                if tail.len() > 10 {
                    tail.pop_front();
                }
            }
            Ok(ChildReport::Ended) => break,
            Ok(ChildReport::Silent | ChildReport::LogFailed(_)) | Err(_) => {}
        }
    }
    let exit = child.collect().map_err(failed)?;
    guard.forget(child.pid());
    let late = receive
        .iter()
        .take_while(|report| !matches!(report, ChildReport::Silent));
    tail.extend(late.filter_map(|report| {
        if let ChildReport::Line(line) = report {
            Some(line)
        } else {
            None
        }
    }));
    let tail = Vec::from(tail).join("\n");
    Ok(Some(SplitEnd { exit, tail }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_that_was_killed_before_it_wrote_anything_is_reported_without_a_colon() {
        let end = |tail: &str| SplitEnd {
            exit: ProcessExit::Signal(9),
            tail: tail.to_owned(),
        };
        let told = RunError::SplitFailed(end("")).to_string();
        assert!(
            told.contains("splitting the data was killed by SIGKILL"),
            "{told}"
        );
        assert!(told.ends_with("resumes it"), "{told}");
        let told = RunError::SplitFailed(end("no room")).to_string();
        assert!(told.ends_with(":\nno room"), "{told}");
    }

    /// Splits with a shell script, in a job folder of its own.
    fn split(script: &str, restarts: Option<&RestartPolicy>) -> (Result<bool, RunError>, String) {
        let folder = tempfile::tempdir().unwrap();
        let layout = FolderLayout {
            job: folder.path().to_owned(),
            config_dir: folder.path().to_owned(),
            config: "trainer_config.py".into(),
            data: layout::JobData::Shards(Vec::new()),
            header: layout::FirstLine::Unknown,
            split_flags: Vec::new(),
        };
        let options = RunOptions::default();
        let mut plan = RunPlan::new("canoe".into(), layout, options, String::new()).unwrap();
        plan.split = Some(ProcessCommand {
            program: "/bin/sh".into(),
            args: vec!["-c".to_owned(), script.to_owned()],
            environment: std::collections::BTreeMap::new(),
            directory: folder.path().to_owned(),
        });
        let mut told = String::new();
        let done = split_data(&plan, restarts, &Shutdown::new(), &mut |event| {
            if let JobEvent::Warning { text } = event {
                told.push_str(&text);
            }
        });
        (done, told)
    }

    #[test]
    fn a_split_that_was_killed_is_started_again_if_the_job_is_to_go_on() {
        let policy = RestartPolicy::default();
        let once = "if [ -e again ]; then exit 0; fi; touch again; kill -KILL $$";
        let (done, told) = split(once, Some(&policy));
        assert!(done.unwrap(), "{told}");
        assert!(told.contains("was killed by SIGKILL") && told.contains("started again"));
        let (done, told) = split(once, None);
        assert!(
            done.unwrap_err()
                .to_string()
                .contains("was killed by SIGKILL")
        );
        assert_eq!(told, "");
        let (done, _) = split("kill -KILL $$", Some(&policy));
        done.unwrap_err();
        let (done, told) = split("echo no room; exit 1", Some(&policy));
        assert!(
            done.unwrap_err()
                .to_string()
                .ends_with("exited with code 1:\nno room")
        );
        assert_eq!(told, "", "a restart cannot fix it");
    }
}
