//! The engine of `canoe run`: a job folder as N nodes on this machine, with the cluster's output tree.
//!
//! ```text
//! folder ─Layout::read→ Layout ─Plan::new→ Plan ─run→ events … Outcome
//!                                 (pure)          └ split, work directories, ports, supervise
//! ```
//!
//! # Map, in reading order
//!
//! - [`layout`]: what is in the folder. - [`plan`]: command lines; pure.
//! - [`ports`], [`workdir`]: what must be there before the start.
//! - [`restart`], [`machine`]: who is started, restarted and ended when; pure.
//! - [`child`], [`guard`], [`probe`], [`shutdown`]: one process, the safety net, status pages, the user.
//! - [`observe`]: pages and log lines to events; pure.
//! - [`work`], [`supervisor`]: the loop that binds them; `canoe node` uses it too.

pub mod child;
pub mod guard;
pub mod layout;
pub mod machine;
pub mod observe;
pub mod plan;
pub mod ports;
pub mod probe;
pub mod restart;
pub mod shutdown;
pub mod supervisor;
pub mod token;
pub mod work;
pub mod workdir;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

pub use layout::{Layout, LayoutError, Wish};
pub use machine::Limits;
pub use plan::{Plan, PlanError, Wishes};
pub use restart::RestartPolicy;
pub use shutdown::{Shutdown, on_announcement};
pub use supervisor::{End, Options};

use crate::display::summary::Tally;
use crate::event::{Exit, JobEvent};
use child::{Child, Log, Report};
use guard::Guard;
use work::{LocalWork, PrepareError};

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// Numbers of all nodes.
    pub tally: Tally,
    /// How long it took.
    pub elapsed: Duration,
}

impl Outcome {
    /// The exit code of `canoe run`: 0 finished, 3 the job failed, 130 interrupted.
    pub fn exit_code(&self) -> u8 {
        match self.end {
            End::Succeeded => 0,
            End::Failed(_) => 3,
            End::Interrupted => 130,
        }
    }
}

/// Why a run could not begin.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Folders, links or ports.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The program that splits the data could not be run.
    #[error("run {program} to split the data")]
    Split {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It ended with a failure.
    #[error("splitting the data {exit}:\n{tail}")]
    SplitFailed {
        /// How.
        exit: Exit,
        /// What it said last.
        tail: String,
    },
    /// Threads or the guard could not be started.
    #[error("start the supervisor")]
    Supervisor(#[source] io::Error),
}

/// Runs the plan to its end. Everything that happens is told to `emit`; asking `shutdown` once ends
/// the run orderly, twice at once. The calling thread must live until this returns, which it does.
pub fn run(
    plan: Plan,
    options: &Options,
    shutdown: &Shutdown,
    emit: &mut dyn FnMut(JobEvent),
) -> Result<Outcome, RunError> {
    let begun = Instant::now();
    let mut tally = Tally::new(plan.wishes.num_passes);
    if !split_data(&plan, shutdown, emit)? {
        return Ok(Outcome {
            end: End::Interrupted,
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
    Ok(Outcome {
        end,
        tally,
        elapsed: begun.elapsed(),
    })
}

/// Splits flat data; `false` if the user did not want to wait.
fn split_data(
    plan: &Plan,
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
            plan.wishes.nodes
        ),
    });
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
        Log::New,
        send,
        |report| report,
    )
    .map_err(failed)?;
    guard.watch(child.pid());
    let mut tail = VecDeque::new();
    loop {
        if shutdown.requests() > 0 {
            return Ok(false);
        }
        match receive.recv_timeout(Duration::from_millis(50)) {
            Ok(Report::Line(line)) => {
                tail.push_back(line);
                if tail.len() > 10 {
                    tail.pop_front();
                }
            }
            Ok(Report::Ended) => break,
            Ok(Report::Silent | Report::LogFailed(_)) | Err(_) => {}
        }
    }
    let exit = child.collect().map_err(failed)?;
    guard.forget(child.pid());
    if exit.is_success() {
        return Ok(true);
    }
    let late = receive
        .iter()
        .take_while(|report| !matches!(report, Report::Silent));
    tail.extend(late.filter_map(|report| {
        if let Report::Line(line) = report {
            Some(line)
        } else {
            None
        }
    }));
    Err(RunError::SplitFailed {
        exit,
        tail: Vec::from(tail).join("\n"),
    })
}
