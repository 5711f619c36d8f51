//! Runs the processes of a job: does what the [`Machine`] decides and tells what happens.
//!
//! One thread owns everything here; it is also the one whose end the kernel watches for the
//! children. Other threads only send messages: two per child, and the prober.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::child::{Child, Log, Report};
use super::guard::Guard;
use super::machine::{Action, Input, Limits, Machine, ServersEnd, Verdict};
use super::observe::Observer;
use super::probe::{Answer, Pace, Prober};
use super::shutdown::Shutdown;
use super::work::Work;
use crate::event::{Cause, Exit, JobEvent, ProcessId, Role};
use crate::logline::{self, Fact};

/// How a supervisor works.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Times and restarts.
    pub limits: Limits,
    /// How often processes are asked for their status.
    pub pace: Pace,
    /// Whether every line of every log becomes an event.
    pub lines: bool,
}

/// How the run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// All trainers finished.
    Succeeded,
    /// The first cause.
    Failed(Cause),
    /// The user ended it.
    Interrupted,
}

/// Lines of a log that are kept for the report of a death.
const TAIL: usize = 20;
/// Output of a dead process is waited for this long: something it started may hold the pipe.
const LATE_OUTPUT: Duration = Duration::from_millis(500);
/// The user's wish to end and saved folders are looked for this often.
const LOOK_AROUND: Duration = Duration::from_millis(50);

enum Message {
    Report(ProcessId, u32, Report),
    Answer(ProcessId, Answer),
}

struct Running {
    child: Child,
    generation: u32,
    ready: bool,
    silent: bool,
    exit: Option<(Exit, Duration)>,
    tail: VecDeque<String>,
    directory: PathBuf,
}

struct Supervisor<'a> {
    work: &'a mut dyn Work,
    options: &'a Options,
    emit: &'a mut dyn FnMut(Duration, JobEvent),
    machine: Machine,
    running: BTreeMap<ProcessId, Running>,
    ended: VecDeque<ProcessId>,
    observers: BTreeMap<ProcessId, Observer>,
    tails: BTreeMap<ProcessId, Vec<String>>,
    start_errors: BTreeMap<ProcessId, io::Error>,
    saving: Vec<PathBuf>,
    send: Sender<Message>,
    prober: Prober,
    guard: Guard,
    begun: Instant,
    actions: VecDeque<Action>,
    generations: u32,
    trainers_left: usize,
    told_wait: Option<String>,
    end: Option<End>,
}

/// Runs the processes until all have ended. Events come with the time since the start.
pub fn supervise(
    work: &mut dyn Work,
    options: &Options,
    shutdown: &Shutdown,
    emit: &mut dyn FnMut(Duration, JobEvent),
) -> io::Result<End> {
    let (send, receive) = mpsc::channel();
    let answers = send.clone();
    let prober = Prober::start(options.pace.clone(), move |process, answer| {
        drop(answers.send(Message::Answer(process, answer)));
    })?;
    let processes = work.processes();
    let supervisor = Supervisor {
        machine: Machine::new(&processes, options.limits.clone()),
        work,
        options,
        emit,
        running: BTreeMap::new(),
        ended: VecDeque::new(),
        observers: processes
            .iter()
            .map(|id| (*id, Observer::new(*id)))
            .collect(),
        tails: BTreeMap::new(),
        start_errors: BTreeMap::new(),
        saving: Vec::new(),
        send,
        prober,
        guard: Guard::start()?,
        begun: Instant::now(),
        actions: VecDeque::new(),
        generations: 0,
        trainers_left: processes
            .iter()
            .filter(|id| id.role == Role::Trainer)
            .count(),
        told_wait: None,
        end: None,
    };
    Ok(supervisor.run(&receive, shutdown))
}

impl Supervisor<'_> {
    fn run(mut self, messages: &Receiver<Message>, shutdown: &Shutdown) -> End {
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
                self.signal(server, libc::SIGUSR1);
            }
            self.look_for_saved();
            self.ask_for_peers();
            self.act();
            let mut input = Input::Tick;
            if requests_seen < shutdown.requests() {
                requests_seen += 1;
                input = Input::Shutdown;
            }
            self.tell_machine(input);
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
        deadline.unwrap_or(LOOK_AROUND).min(LOOK_AROUND)
    }

    fn emit(&mut self, event: JobEvent) {
        let now = self.now();
        (self.emit)(now, event);
    }

    fn tell_machine(&mut self, input: Input) {
        self.actions.extend(self.machine.on(input, self.now()));
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Report(id, generation, report) => {
                if self
                    .running
                    .get(&id)
                    .is_some_and(|running| running.generation == generation)
                {
                    self.take_report(id, report);
                }
            }
            Message::Answer(id, answer) => {
                if self
                    .running
                    .get(&id)
                    .is_some_and(|running| running.exit.is_none())
                {
                    self.take_answer(id, answer);
                }
            }
        }
    }

    fn take_report(&mut self, id: ProcessId, report: Report) {
        let now = self.now();
        let Some(running) = self.running.get_mut(&id) else {
            return;
        };
        match report {
            Report::Line(line) => self.take_line(id, line),
            Report::Silent => running.silent = true,
            Report::LogFailed(error) => {
                let log = self.work.log(id);
                self.emit(JobEvent::Warning {
                    text: format!("write {}: {error}; the log is cut there", log.display()),
                });
            }
            Report::Ended => {
                // A child that cannot be collected is gone all the same.
                let exit = running.child.collect().unwrap_or(Exit::Code(-1));
                running.exit = Some((exit, now));
                self.guard.forget(running.child.pid());
                self.prober.forget(id);
                self.ended.push_back(id);
            }
        }
    }

    fn take_line(&mut self, id: ProcessId, line: String) {
        let now = self.now();
        let Some(running) = self.running.get_mut(&id) else {
            return;
        };
        if running.tail.len() == TAIL {
            running.tail.pop_front();
        }
        running.tail.push_back(line.clone());
        let directory = running.directory.clone();
        if let Some(observer) = self.observers.get_mut(&id) {
            let (events, saved) = observer.line(&line, now);
            self.saving
                .extend(saved.map(|folder| directory.join(folder)));
            events.into_iter().for_each(|event| self.emit(event));
        }
        if matches!(
            logline::parse(&line),
            Some(Fact::Listening | Fact::Batch(_))
        ) {
            self.ready(id);
        }
        if self.options.lines {
            self.emit(JobEvent::Line { process: id, line });
        }
    }

    fn take_answer(&mut self, id: ProcessId, answer: Answer) {
        match answer {
            Answer::Ready => self.ready(id),
            Answer::Page(page) => {
                let Some(observer) = self.observers.get_mut(&id) else {
                    return;
                };
                let events = observer.page(*page);
                let done = observer.is_done();
                events.into_iter().for_each(|event| self.emit(event));
                if done {
                    self.tell_machine(Input::Done(id));
                }
            }
        }
    }

    fn ready(&mut self, id: ProcessId) {
        let Some(running) = self.running.get_mut(&id) else {
            return;
        };
        if !std::mem::replace(&mut running.ready, true) {
            self.emit(JobEvent::Ready { process: id });
            self.tell_machine(Input::Ready(id));
        }
    }

    /// Tells the machine of ended processes, in the order in which they ended, once their last
    /// output is in.
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
            self.ended.pop_front();
            if let Some(running) = self.running.remove(&id) {
                self.tails.insert(id, running.tail.into());
            }
            let before_ready = !was_ready && !exit.is_success() && id.role == Role::Pserver;
            if before_ready && self.work.port_taken(id) {
                self.tell_machine(Input::PortTaken(id, exit));
            } else {
                self.tell_machine(Input::Exited(id, exit));
            }
        }
    }

    /// A folder that a trainer began to save is there when its marker is.
    fn look_for_saved(&mut self) {
        let (saved, saving) = std::mem::take(&mut self.saving)
            .into_iter()
            .partition(|path| path.join("done").exists());
        self.saving = saving;
        let saved: Vec<PathBuf> = saved;
        for directory in saved {
            self.emit(JobEvent::PassSaved { directory });
        }
    }

    /// Works off what the machine wants, in its order; an action may bring about further ones.
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
                Action::Terminate(id) => self.signal(id, libc::SIGTERM),
                Action::Kill(id) => self.signal(id, libc::SIGKILL),
                Action::Finish(verdict) => self.finish(verdict),
            }
        }
    }

    fn trainer_finished(&mut self, process: ProcessId) {
        self.trainers_left = self.trainers_left.saturating_sub(1);
        self.emit(JobEvent::Ended { process });
        if let Err(error) = self.work.trainer_finished(process) {
            self.emit(JobEvent::Warning {
                text: format!("tell the others that {process} has finished: {error}"),
            });
        }
    }

    /// On a cluster the servers stay until the trainers of all nodes have finished.
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
                self.tell_machine(Input::Done(process));
            } else if reason != self.told_wait {
                self.emit(JobEvent::Waits {
                    process,
                    reason: reason.clone(),
                });
            }
        }
        self.told_wait = reason;
    }

    fn signal(&self, id: ProcessId, signal: i32) {
        if let Some(running) = self.running.get(&id) {
            running.child.signal(signal);
            if signal == libc::SIGTERM {
                // A stopped process takes the request only when it runs.
                running.child.signal(libc::SIGCONT);
            }
        }
    }

    fn start(&mut self, id: ProcessId, restart: u32) {
        let command = self.work.command(id);
        let mode = if restart == 0 {
            self.work.first_log()
        } else {
            Log::Append
        };
        self.generations += 1;
        let generation = self.generations;
        let wrap = move |report| Message::Report(id, generation, report);
        match Child::start(&command, &self.work.log(id), mode, self.send.clone(), wrap) {
            Ok(child) => self.started(id, restart, child, command.directory),
            Err(error) => self.not_started(id, error),
        }
    }

    fn started(&mut self, id: ProcessId, restart: u32, child: Child, directory: PathBuf) {
        let pid = child.pid();
        self.guard.watch(pid);
        self.prober.watch(id, self.work.status_port(id));
        if let Some(observer) = self.observers.get_mut(&id) {
            observer.restarted();
        }
        let running = Running {
            child,
            generation: self.generations,
            ready: false,
            silent: false,
            exit: None,
            tail: VecDeque::new(),
            directory,
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
        self.tell_machine(Input::NotStarted(id));
    }

    fn finish(&mut self, verdict: Verdict) {
        self.look_for_saved();
        let end = match verdict {
            Verdict::Succeeded => End::Succeeded,
            Verdict::Interrupted => End::Interrupted,
            Verdict::Failed(reason) => {
                let id = reason.process;
                let text = match self.start_errors.get(&id) {
                    Some(error) => format!("{id} {}: {error}", reason.text),
                    None => format!("{id} {}", reason.text),
                };
                End::Failed(Cause {
                    process: Some(id),
                    reason: text,
                    exit: reason.exit,
                    tail: self.tails.get(&id).cloned().unwrap_or_default(),
                    log: Some(self.work.log(id)),
                })
            }
        };
        match &end {
            End::Succeeded => self.emit(JobEvent::Finished),
            End::Failed(cause) => self.emit(JobEvent::Failed {
                cause: cause.clone(),
            }),
            End::Interrupted => {}
        }
        self.end = Some(end);
    }
}
