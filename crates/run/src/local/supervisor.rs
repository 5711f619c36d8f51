//! Runs the processes of a job: does what the [`Machine`] decides and reports what happens.
//!
//! One thread owns everything here; it is also the thread whose end makes the kernel kill the
//! children. Other threads only send messages: two per child.

use rustix::process::Signal;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::child::{Child, ChildOutput, ChildReport};
use super::guard::Guard;
use super::machine::{Action, Machine, MachineInput, RunLimits, RunVerdict, ServersEnd};
use super::observe::ObservedProcess;
use super::shutdown::Shutdown;
use super::watchdog::{StallLimits, Watchdog};
use super::work::RunProcesses;
use crate::event::{Cause, JobEvent, ProcessExit};
use words::process::{ProcessId, Role};

/// Settings of a supervisor.
#[derive(Debug, Clone, Default)]
pub struct SupervisorOptions {
    /// Time limits and restarts.
    pub limits: RunLimits,
    /// Whether every line of every log becomes an event.
    pub lines: bool,
    /// How long a process may do nothing.
    pub patience: StallLimits,
}

/// How the run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum RunEnd {
    /// All trainers finished.
    Succeeded,
    /// A process failed, or the run could not continue.
    Failed(Cause),
    /// The user ended it.
    Interrupted,
}

/// Lines of a log that are kept for the report of a crash.
const TAIL: usize = 20;
/// How long to wait for the last output of an ended process: a process that it started may keep the pipe open.
const LATE_OUTPUT: Duration = Duration::from_millis(500);
/// How often to look for the user's request to end and for saved folders.
const LOOK_AROUND: Duration = Duration::from_millis(50);

/// How often to read what processes write about themselves,
const READ: Duration = Duration::from_millis(200);
/// and how often while one of them is not ready.
const READ_EARLY: Duration = Duration::from_millis(10);

struct Message(ProcessId, u32, ChildReport);

struct Running {
    child: Child,
    /// Counts the starts of all processes, so that a late message of a predecessor is recognised.
    start: u32,
    ready: bool,
    silent: bool,
    exit: Option<(ProcessExit, Duration)>,
    tail: VecDeque<String>,
}

struct Supervisor<'a> {
    work: &'a mut dyn RunProcesses,
    options: &'a SupervisorOptions,
    emit: &'a mut dyn FnMut(Duration, JobEvent),
    machine: Machine,
    running: BTreeMap<ProcessId, Running>,
    ended: VecDeque<ProcessId>,
    observers: BTreeMap<ProcessId, ObservedProcess>,
    tails: BTreeMap<ProcessId, Vec<String>>,
    start_errors: BTreeMap<ProcessId, io::Error>,
    send: Sender<Message>,
    /// When the records were last read.
    read: Duration,
    guard: Guard,
    begun: Instant,
    actions: VecDeque<Action>,
    starts: u32,
    trainers_left: usize,
    told_wait: Option<String>,
    watchdog: Watchdog,
    end: Option<RunEnd>,
}

/// Runs the processes until all have ended. Events come with the time since the start.
pub(crate) fn supervise(
    work: &mut dyn RunProcesses,
    options: &SupervisorOptions,
    shutdown: &Shutdown,
    emit: &mut dyn FnMut(Duration, JobEvent),
) -> io::Result<RunEnd> {
    let (send, receive) = mpsc::channel();
    let processes = work.processes();
    let output = work.output();
    let supervisor = Supervisor {
        machine: Machine::new(&processes, options.limits.clone()),
        work,
        options,
        emit,
        running: BTreeMap::new(),
        ended: VecDeque::new(),
        observers: processes
            .iter()
            .map(|id| (*id, ObservedProcess::new(&output, *id)))
            .collect(),
        tails: BTreeMap::new(),
        start_errors: BTreeMap::new(),
        send,
        read: Duration::ZERO,
        guard: Guard::start()?,
        begun: Instant::now(),
        actions: VecDeque::new(),
        starts: 0,
        trainers_left: processes
            .iter()
            .filter(|id| id.role == Role::Trainer)
            .count(),
        told_wait: None,
        watchdog: Watchdog::new(options.patience.clone()),
        end: None,
    };
    Ok(supervisor.run(&receive, shutdown))
}

impl Supervisor<'_> {
    fn run(mut self, messages: &Receiver<Message>, shutdown: &Shutdown) -> RunEnd {
        self.actions.extend(self.machine.begin(self.now()));
        let mut requests_seen = 0;
        loop {
            self.act();
            if let Some(end) = self.end.take() {
                return end;
            }
            match messages.recv_timeout(self.patience()) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            while let Ok(message) = messages.try_recv() {
                self.take(message);
            }
            self.settle_ended();
            self.work.alive();
            if let Some(server) = self.work.ends_soon() {
                self.signal(server, Signal::USR1);
            }
            self.read_records();
            self.ask_for_peers();
            self.act();
            self.tell_machine(MachineInput::Tick);
            while requests_seen < shutdown.requests() {
                requests_seen += 1;
                self.tell_machine(MachineInput::Shutdown);
            }
        }
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn patience(&self) -> Duration {
        let deadline = self
            .machine
            .next_deadline()
            .map(|at| at.saturating_sub(self.now()));
        deadline
            .unwrap_or(LOOK_AROUND)
            .min(LOOK_AROUND)
            .min(self.pause())
    }

    fn emit(&mut self, event: JobEvent) {
        let now = self.now();
        (self.emit)(now, event);
    }

    fn tell_machine(&mut self, input: MachineInput) {
        self.actions.extend(self.machine.on(input, self.now()));
    }

    /// The pause between two reads of the records.
    fn pause(&self) -> Duration {
        if self.running.values().all(|running| running.ready) {
            READ
        } else {
            READ_EARLY
        }
    }

    fn take(&mut self, Message(id, start, report): Message) {
        if self
            .running
            .get(&id)
            .is_some_and(|running| running.start == start)
        {
            self.take_report(id, report);
        }
    }

    /// Reads what the processes have written about themselves since the last time.
    fn read_records(&mut self) {
        if self.now() < self.read + self.pause() {
            return;
        }
        self.read = self.now();
        let processes: Vec<ProcessId> = self.running.keys().copied().collect();
        for id in processes {
            self.read_record(id);
        }
        self.replace_idle();
    }

    /// Reports the processes that run but make no progress, and kills those that must be replaced.
    fn replace_idle(&mut self) {
        let restarts = self.options.limits.restart.is_some();
        for finding in self.watchdog.look(self.now()) {
            let next = match (finding.replace, restarts) {
                (true, true) => "; it is killed and restarted",
                (true, false) => {
                    "; with --keep-going it would be replaced, and kill -CONT wakes it if it was stopped"
                }
                (false, _) => "",
            };
            let text = format!("{}{next}", finding.text);
            self.emit(JobEvent::Warning { text });
            if finding.replace && restarts {
                self.signal(finding.process, Signal::KILL);
            }
        }
    }

    fn read_record(&mut self, id: ProcessId) {
        let Some(observer) = self.observers.get_mut(&id) else {
            return;
        };
        let events = observer.look();
        let done = observer.is_done();
        for event in events {
            if let JobEvent::Progress { process, status } = &event {
                self.watchdog.state(*process, status, self.begun.elapsed());
            }
            match event {
                JobEvent::Ready { process } => self.ready(process),
                event => self.emit(event),
            }
        }
        if done {
            self.tell_machine(MachineInput::Done(id));
        }
    }

    fn take_report(&mut self, id: ProcessId, report: ChildReport) {
        let now = self.now();
        let Some(running) = self.running.get_mut(&id) else {
            return;
        };
        match report {
            ChildReport::Line(line) => self.take_line(id, line),
            ChildReport::Silent => running.silent = true,
            ChildReport::LogFailed(error) => {
                let log = self.work.log(id);
                self.emit(JobEvent::Warning {
                    text: format!(
                        "write {}: {error}; the log is truncated there",
                        log.display()
                    ),
                });
            }
            ChildReport::Ended => {
                // Even if the child cannot be reaped, it has ended.
                let exit = running.child.collect().unwrap_or(ProcessExit::Code(-1));
                running.exit = Some((exit, now));
                self.guard.forget(running.child.pid());
                self.ended.push_back(id);
            }
        }
    }

    fn take_line(&mut self, id: ProcessId, line: String) {
        let Some(running) = self.running.get_mut(&id) else {
            return;
        };
        if running.tail.len() == TAIL {
            running.tail.pop_front();
        }
        running.tail.push_back(line.clone());
        if id.role == Role::Pserver && says_that_it_listens(&line) {
            self.ready(id);
        }
        if self.options.lines {
            self.emit(JobEvent::Line { process: id, line });
        }
    }

    fn ready(&mut self, id: ProcessId) {
        let Some(running) = self.running.get_mut(&id) else {
            return;
        };
        if !std::mem::replace(&mut running.ready, true) {
            self.emit(JobEvent::Ready { process: id });
            self.tell_machine(MachineInput::Ready(id));
        }
    }

    /// Reports ended processes to the machine, in the order in which they ended, once their last
    /// output has been read.
    fn settle_ended(&mut self) {
        while let Some(id) = self.ended.front().copied() {
            let now = self.now();
            let settled = self.running.get(&id).and_then(|running| {
                let (exit, at) = running.exit?;
                (running.silent || now >= at + LATE_OUTPUT).then_some((exit, running.ready))
            });
            let Some((exit, was_ready)) = settled else {
                return;
            };
            self.read_record(id);
            self.ended.pop_front();
            self.watchdog.ended(id);
            if let Some(running) = self.running.remove(&id) {
                self.tails.insert(id, running.tail.into());
            }
            let before_ready = !was_ready && !exit.is_success() && id.role == Role::Pserver;
            if before_ready && self.work.port_taken(id) {
                self.tell_machine(MachineInput::PortTaken(id, exit));
            } else {
                self.tell_machine(MachineInput::Exited(id, exit));
            }
        }
    }

    /// Executes the machine's actions in order; an action may cause further ones.
    fn act(&mut self) {
        while let Some(action) = self.actions.pop_front() {
            match action {
                Action::Start(id, restart) => self.start(id, restart),
                Action::MovePorts(id) => {
                    if let Err(error) = self.work.move_ports(id) {
                        self.not_started(id, error);
                    }
                }
                Action::TellDeath(process, exit) => {
                    let tail = self.tails.get(&process).cloned().unwrap_or_default();
                    self.emit(JobEvent::Died {
                        process,
                        exit,
                        tail,
                    });
                }
                Action::TellRestart(process, restart, after) => {
                    self.emit(JobEvent::Restarting {
                        process,
                        restart,
                        after,
                    });
                }
                Action::TellEnd(process) => self.trainer_finished(process),
                Action::TellStop(reason) => self.emit(JobEvent::Stopping { reason }),
                Action::Terminate(id) => self.signal(id, Signal::TERM),
                Action::Kill(id) => self.signal(id, Signal::KILL),
                Action::Finish(verdict) => self.finish(verdict),
            }
        }
    }

    fn trainer_finished(&mut self, process: ProcessId) {
        self.trainers_left = self.trainers_left.saturating_sub(1);
        self.emit(JobEvent::Ended { process });
        if let Err(error) = self.work.trainer_finished(process) {
            self.emit(JobEvent::Warning {
                text: format!("write the note that {process} has finished: {error}"),
            });
        }
    }

    /// Checks, on a cluster, whether servers must stay because trainers of other nodes have not finished.
    fn ask_for_peers(&mut self) {
        if self.options.limits.servers_end != ServersEnd::WhenDone || self.trainers_left > 0 {
            return;
        }
        let reason = self.work.servers_wait_for();
        let servers: Vec<ProcessId> = self
            .running
            .keys()
            .copied()
            .filter(|id| id.role == Role::Pserver)
            .collect();
        for process in servers {
            if reason.is_none() {
                self.tell_machine(MachineInput::Done(process));
            } else if reason != self.told_wait {
                self.emit(JobEvent::Waits {
                    process,
                    reason: reason.clone(),
                });
            }
        }
        self.told_wait = reason;
    }

    fn signal(&self, id: ProcessId, signal: Signal) {
        if let Some(running) = self.running.get(&id) {
            running.child.signal(signal);
            if signal == Signal::TERM {
                // A stopped process handles the request only after SIGCONT.
                running.child.signal(Signal::CONT);
            }
        }
    }

    fn start(&mut self, id: ProcessId, restart: u32) {
        let command = self.work.command(id);
        let mode = if restart == 0 {
            self.work.first_log()
        } else {
            ChildOutput::Append
        };
        self.starts += 1;
        let start = self.starts;
        let wrap = move |report| Message(id, start, report);
        match Child::start(&command, &self.work.log(id), mode, self.send.clone(), wrap) {
            Ok(child) => self.started(id, restart, child),
            Err(error) => self.not_started(id, error),
        }
    }

    fn started(&mut self, id: ProcessId, restart: u32, child: Child) {
        let pid = child.pid();
        self.guard.watch(pid);
        self.watchdog.started(id);
        if let Some(observer) = self.observers.get_mut(&id) {
            observer.started(pid);
        }
        let running = Running {
            child,
            start: self.starts,
            ready: false,
            silent: false,
            exit: None,
            tail: VecDeque::new(),
        };
        self.running.insert(id, running);
        self.emit(JobEvent::Started {
            process: id,
            pid,
            restart,
        });
    }

    fn not_started(&mut self, id: ProcessId, error: io::Error) {
        self.start_errors.insert(id, error);
        self.tell_machine(MachineInput::NotStarted(id));
    }

    fn finish(&mut self, verdict: RunVerdict) {
        let end = match verdict {
            RunVerdict::Succeeded => RunEnd::Succeeded,
            RunVerdict::Interrupted => RunEnd::Interrupted,
            RunVerdict::Failed(reason) => {
                let id = reason.process;
                let text = match self.start_errors.get(&id) {
                    Some(error) => format!("{id} {}: {error}", reason.text),
                    None => format!("{id} {}", reason.text),
                };
                RunEnd::Failed(Cause {
                    process: Some(id),
                    reason: text,
                    exit: reason.exit,
                    tail: self.tails.get(&id).cloned().unwrap_or_default(),
                    log: Some(self.work.log(id)),
                })
            }
        };
        match &end {
            RunEnd::Succeeded => self.emit(JobEvent::Finished),
            RunEnd::Failed(cause) => self.emit(JobEvent::Failed {
                cause: cause.clone(),
            }),
            RunEnd::Interrupted => {}
        }
        self.end = Some(end);
    }
}

/// v1's line of a server whose ports are open. It is printed before the first state file, and also when none can be
/// written.
fn says_that_it_listens(line: &str) -> bool {
    line.trim_end().ends_with("] tcp server start")
}
