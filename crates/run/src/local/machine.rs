//! Decides what to do when a process of the job becomes ready, ends, or does not become ready: pure, with time as a
//! value.
//!
//! Servers start first, all together; when every server is ready, the trainers start; when every
//! trainer has finished, the servers are ended. A process that crashes ends the job, or is restarted under its id
//! if there is a restart policy. The first cause is kept: processes that crash after it,
//! because of it, do not replace it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::restart::{CrashHistory, RestartPolicy};
use crate::event::ProcessExit;
use words::process::{ProcessId, Role};

/// Time since the start of the run.
pub type Elapsed = Duration;

/// Time limits and restarts of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunLimits {
    /// A server that is not ready after this long fails the job.
    pub ready: Duration,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    /// A server that exited with 0 before the trainers counts as crashed after this long.
    pub early_end: Duration,
    /// Restarts; `None` ends the job when a process crashes.
    pub restart: Option<RestartPolicy>,
    /// When the servers may end.
    pub servers_end: ServersEnd,
}

/// When servers end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServersEnd {
    /// When all trainers of this run have finished: the job has no others.
    AfterTrainers,
    /// When the servers report that all trainers of the job have finished, those in other pods included.
    WhenDone,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            ready: Duration::from_secs(60),
            grace: Duration::from_secs(10),
            early_end: Duration::from_secs(5),
            restart: None,
            servers_end: ServersEnd::AfterTrainers,
        }
    }
}

/// An input of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineInput {
    /// A process is ready.
    Ready(ProcessId),
    /// A process ended.
    Exited(ProcessId, ProcessExit),
    /// A server ended before it was ready because another program uses its port.
    PortTaken(ProcessId, ProcessExit),
    /// A server reports that all trainers of the job have finished with it.
    Done(ProcessId),
    /// The system could not start the program.
    NotStarted(ProcessId),
    /// The user wants to end the run; the second time, immediately.
    Shutdown,
    /// Time has passed since the last input.
    Tick,
}

/// What the supervisor has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Start a process; the number counts its earlier starts.
    Start(ProcessId, u32),
    /// Find other ports for a server, and restart all servers, because each knows the ports of all.
    MovePorts(ProcessId),
    /// Report that a process crashed.
    TellDeath(ProcessId, ProcessExit),
    /// Report that a process will be restarted.
    TellRestart(ProcessId, u32, Duration),
    /// Report that a process ended as expected.
    TellEnd(ProcessId),
    /// Report that all processes are being ended.
    TellStop(String),
    /// Send SIGTERM to a process.
    Terminate(ProcessId),
    /// Send SIGKILL to a process.
    Kill(ProcessId),
    /// No process runs any more.
    Finish(RunVerdict),
}

/// How the run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum RunVerdict {
    /// All trainers finished.
    Succeeded,
    /// A process failed; this was the first.
    Failed(FirstFailure),
    /// The user ended it.
    Interrupted,
}

/// The first cause of a failure.
#[derive(Debug, Clone, PartialEq)]
pub struct FirstFailure {
    /// The process that failed first.
    pub process: ProcessId,
    /// How it ended, if it did.
    pub exit: Option<ProcessExit>,
    /// What happened, without the name of the process.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    NotStarted,
    Starting {
        since: Elapsed,
    },
    Running,
    Pausing {
        until: Elapsed,
    },
    /// Killed, to be restarted with other ports.
    Moving,
    /// A server that exited with 0 although trainers still run.
    EndedEarly {
        since: Elapsed,
    },
    Ended,
}

#[derive(Debug)]
struct Process {
    state: State,
    starts: u32,
    deaths: Vec<Elapsed>,
    deaths_before_ready: usize,
    done: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Servers,
    Training,
    /// Ending; SIGKILL follows at the given time (once).
    Ending {
        verdict: RunVerdict,
        kill_at: Option<Elapsed>,
    },
    Over,
}

/// The decisions of one run.
#[derive(Debug)]
pub struct Machine {
    limits: RunLimits,
    processes: BTreeMap<ProcessId, Process>,
    phase: Phase,
    moves: u32,
}

/// Servers may move to other ports this often.
const PORT_MOVES: u32 = 5;

impl Machine {
    /// A run of these processes; nothing is started yet.
    pub fn new(processes: &[ProcessId], limits: RunLimits) -> Self {
        let new = || Process {
            state: State::NotStarted,
            starts: 0,
            deaths: Vec::new(),
            deaths_before_ready: 0,
            done: false,
        };
        let processes = processes.iter().map(|id| (*id, new())).collect();
        Self {
            limits,
            processes,
            phase: Phase::Servers,
            moves: 0,
        }
    }

    /// The first actions.
    pub fn begin(&mut self, now: Elapsed) -> Vec<Action> {
        let mut actions = Vec::new();
        self.advance(now, &mut actions);
        actions
    }

    /// Processes an input and returns what to do.
    pub fn on(&mut self, input: MachineInput, now: Elapsed) -> Vec<Action> {
        let mut actions = Vec::new();
        match input {
            MachineInput::Ready(id) => self.ready(id),
            MachineInput::Exited(id, exit) => self.exited(id, exit, now, &mut actions),
            MachineInput::PortTaken(id, exit) => self.port_taken(id, exit, now, &mut actions),
            MachineInput::Done(id) => self.process(id).done = true,
            MachineInput::NotStarted(id) => {
                self.process(id).state = State::Ended;
                self.fail(
                    id,
                    None,
                    "could not be started".to_owned(),
                    now,
                    &mut actions,
                );
            }
            MachineInput::Shutdown => self.shutdown(now, &mut actions),
            MachineInput::Tick => {}
        }
        self.time(now, &mut actions);
        self.advance(now, &mut actions);
        actions
    }

    /// When [`MachineInput::Tick`] is needed at the latest, if time alone will change something.
    pub(crate) fn next_deadline(&self) -> Option<Elapsed> {
        let ending = match &self.phase {
            Phase::Ending { kill_at, .. } => *kill_at,
            _ => None,
        };
        let waits = self
            .processes
            .iter()
            .filter_map(|(id, process)| match process.state {
                State::Pausing { until } => Some(until),
                State::Starting { since } if id.role == Role::Pserver => {
                    Some(since + self.limits.ready)
                }
                State::EndedEarly { since } => Some(since + self.limits.early_end),
                _ => None,
            });
        waits.chain(ending).min()
    }

    fn process(&mut self, id: ProcessId) -> &mut Process {
        self.processes
            .get_mut(&id)
            .expect("inputs name only processes that the machine was made with")
    }

    fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Ending { .. } | Phase::Over)
    }

    fn ready(&mut self, id: ProcessId) {
        let process = self.process(id);
        if matches!(process.state, State::Starting { .. }) {
            process.state = State::Running;
            process.deaths_before_ready = 0;
        }
    }

    fn start(&mut self, id: ProcessId, now: Elapsed, actions: &mut Vec<Action>) {
        let process = self.process(id);
        process.state = State::Starting { since: now };
        actions.push(Action::Start(id, process.starts));
        process.starts += 1;
    }

    fn start_role(&mut self, role: Role, now: Elapsed, actions: &mut Vec<Action>) {
        let ids: Vec<_> = self
            .processes
            .keys()
            .filter(|id| id.role == role)
            .copied()
            .collect();
        for id in ids {
            self.start(id, now, actions);
        }
    }

    fn exited(
        &mut self,
        id: ProcessId,
        exit: ProcessExit,
        now: Elapsed,
        actions: &mut Vec<Action>,
    ) {
        if self.is_ending() {
            self.process(id).state = State::Ended;
            return;
        }
        if self.process(id).state == State::Moving {
            self.process(id).state = State::NotStarted;
            return;
        }
        match (id.role, exit.is_success()) {
            (Role::Trainer, true) => {
                self.process(id).state = State::Ended;
                actions.push(Action::TellEnd(id));
            }
            (Role::Pserver, true) => self.process(id).state = State::EndedEarly { since: now },
            (_, false) => self.died(id, exit, now, actions),
        }
    }

    fn died(&mut self, id: ProcessId, exit: ProcessExit, now: Elapsed, actions: &mut Vec<Action>) {
        actions.push(Action::TellDeath(id, exit));
        let process = self.process(id);
        process.deaths_before_ready += usize::from(matches!(process.state, State::Starting { .. }));
        let history = CrashHistory {
            deaths: &self.processes[&id].deaths,
            before_ready: self.processes[&id].deaths_before_ready,
        };
        let pause = match &self.limits.restart {
            Some(policy) => policy.pause_after(&history, exit, now),
            None => Err(exit.to_string()),
        };
        match pause {
            Ok(pause) => {
                let process = self.process(id);
                process.deaths.push(now);
                process.state = State::Pausing { until: now + pause };
                actions.push(Action::TellRestart(id, process.starts, pause));
            }
            Err(text) => {
                self.process(id).state = State::Ended;
                self.fail(id, Some(exit), text, now, actions);
            }
        }
    }

    fn port_taken(
        &mut self,
        id: ProcessId,
        exit: ProcessExit,
        now: Elapsed,
        actions: &mut Vec<Action>,
    ) {
        if self.phase != Phase::Servers || self.process(id).state == State::Moving {
            // Trainers know the ports already, or a move is in progress.
            return self.exited(id, exit, now, actions);
        }
        self.moves += 1;
        if self.moves > PORT_MOVES {
            self.process(id).state = State::Ended;
            let text = format!(
                "found its ports in use {PORT_MOVES} times; other programs keep taking them"
            );
            return self.fail(id, None, text, now, actions);
        }
        self.process(id).state = State::NotStarted;
        actions.push(Action::MovePorts(id));
        for (other, process) in &mut self.processes {
            if matches!(process.state, State::Starting { .. } | State::Running) {
                process.state = State::Moving;
                actions.push(Action::Kill(*other));
            }
        }
    }

    fn fail(
        &mut self,
        id: ProcessId,
        exit: Option<ProcessExit>,
        text: String,
        now: Elapsed,
        actions: &mut Vec<Action>,
    ) {
        let stop = format!("{id} {text}");
        self.end(
            RunVerdict::Failed(FirstFailure {
                process: id,
                exit,
                text,
            }),
            stop,
            now,
            actions,
        );
    }

    fn shutdown(&mut self, now: Elapsed, actions: &mut Vec<Action>) {
        match &mut self.phase {
            Phase::Over => {}
            Phase::Ending { kill_at, .. } => *kill_at = kill_at.map(|_| now),
            _ => self.end(
                RunVerdict::Interrupted,
                "interrupted".to_owned(),
                now,
                actions,
            ),
        }
    }

    fn end(&mut self, verdict: RunVerdict, stop: String, now: Elapsed, actions: &mut Vec<Action>) {
        if self.is_ending() {
            return;
        }
        if verdict != RunVerdict::Succeeded {
            actions.push(Action::TellStop(stop));
        }
        for (id, process) in &mut self.processes {
            match process.state {
                State::Starting { .. } | State::Running => actions.push(Action::Terminate(*id)),
                State::Moving => {}
                _ => process.state = State::Ended,
            }
        }
        self.phase = Phase::Ending {
            verdict,
            kill_at: Some(now + self.limits.grace),
        };
    }

    /// Adds the actions that become due because time has passed.
    fn time(&mut self, now: Elapsed, actions: &mut Vec<Action>) {
        if let Phase::Ending { kill_at, .. } = &mut self.phase {
            if kill_at.is_some_and(|at| at <= now) {
                *kill_at = None;
                let left = self
                    .processes
                    .iter()
                    .filter(|(_, process)| process.state != State::Ended);
                actions.extend(left.map(|(id, _)| Action::Kill(*id)));
            }
            return;
        }
        let ids: Vec<_> = self.processes.keys().copied().collect();
        for id in ids {
            let state = self.process(id).state;
            match state {
                State::Pausing { until } if until <= now && !self.is_ending() => {
                    self.start(id, now, actions)
                }
                State::Starting { since }
                    if id.role == Role::Pserver && since + self.limits.ready <= now =>
                {
                    let text = format!("was not ready after {} s", self.limits.ready.as_secs());
                    self.fail(id, None, text, now, actions);
                }
                State::EndedEarly { since }
                    if since + self.limits.early_end <= now && !self.trainers_ended() =>
                {
                    self.died(id, ProcessExit::Code(0), now, actions);
                }
                _ => {}
            }
        }
    }

    fn trainers_ended(&self) -> bool {
        let mut trainers = self
            .processes
            .iter()
            .filter(|(id, _)| id.role == Role::Trainer);
        trainers.all(|(_, process)| process.state == State::Ended)
    }

    fn servers_all(&self, test: impl Fn(&Process) -> bool) -> bool {
        self.processes
            .iter()
            .filter(|(id, _)| id.role == Role::Pserver)
            .all(|(_, process)| test(process))
    }

    /// Adds the actions that follow from the states of all processes together.
    fn advance(&mut self, now: Elapsed, actions: &mut Vec<Action>) {
        if self.phase == Phase::Servers
            && self.servers_all(|server| server.state == State::NotStarted)
        {
            self.start_role(Role::Pserver, now, actions);
        }
        if self.phase == Phase::Servers && self.servers_all(|server| server.state == State::Running)
        {
            self.phase = Phase::Training;
            self.start_role(Role::Trainer, now, actions);
        }
        if self.phase == Phase::Training && self.trainers_ended() && self.servers_may_end() {
            self.end(RunVerdict::Succeeded, String::new(), now, actions);
        }
        let nothing_runs = self
            .processes
            .values()
            .all(|process| process.state == State::Ended);
        if let Phase::Ending { verdict, .. } = &self.phase
            && nothing_runs
        {
            actions.push(Action::Finish(verdict.clone()));
            self.phase = Phase::Over;
        }
    }

    fn servers_may_end(&self) -> bool {
        let gone =
            |server: &Process| matches!(server.state, State::EndedEarly { .. } | State::Ended);
        match self.limits.servers_end {
            ServersEnd::AfterTrainers => true,
            ServersEnd::WhenDone => self.servers_all(|server| server.done || gone(server)),
        }
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
