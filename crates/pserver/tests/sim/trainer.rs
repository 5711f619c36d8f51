//! A simulated trainer: joins, opens, trains and joins again by the rules of `wire::client`.

use super::message::{Message, Outbox};
use super::{HEARTBEAT, JOIN, PATIENCE, Plan, SILENCE, Time};
use wire::order::{self, Orders};
use wire::owed::{Save, passed};
use wire::recovery::{
    AdmissionVerdict, Boundary, CoordinatorKnowledge, ServerReport, dead, held, judge, stable,
};
use wire::{Generation, Mode, Step, TrainerId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Waits to be let in.
    Joining,
    /// Has said that it enters; waits for the servers' word.
    Attaching,
    /// Waits for values with so many steps applied.
    Pulling,
    /// Tests and saves until a time.
    Saving(Save, Time),
    /// Waits until nobody has more data.
    PassEnd,
    /// Waits for the next pass, until trainer 0 has saved.
    Ending,
    /// Waits for the others to leave.
    Leaving,
    Done,
}

pub(super) struct SimTrainer {
    index: usize,
    plan: Plan,
    instance: u64,
    connection: u64,
    state: State,
    since: Time,
    beaten: Time,
    reports: Vec<Option<ServerReport>>,
    heard: Vec<Time>,
    seen: Generation,
    at: Generation,
    opening: Option<Generation>,
    opened: Generation,
    answers: Vec<bool>,
    values: Vec<Option<Vec<u64>>>,
    step: u64,
    pass: u64,
    batch: u64,
    /// The pass is over: nobody has more data.
    over: bool,
    /// What is owed at this position is done.
    settled: bool,
    closed: bool,
    /// When it began to wait to be let in.
    joining_since: Time,
    orders: Orders,
    /// What the disk says is saved with the newest pass: steps, and the pass that comes next.
    pub saved: Option<(Step, u64)>,
}

impl SimTrainer {
    pub(super) fn new(index: usize, plan: Plan, instance: u64) -> Self {
        let (servers, holders) = (plan.servers, plan.holders);
        Self {
            index,
            plan,
            instance,
            connection: instance,
            state: State::Joining,
            since: 0,
            beaten: 0,
            reports: vec![None; servers],
            heard: vec![0; servers],
            seen: Generation(0),
            at: Generation(0),
            opening: None,
            opened: Generation(0),
            answers: vec![false; servers],
            values: vec![None; holders],
            step: 0,
            pass: 0,
            batch: 0,
            over: false,
            settled: false,
            closed: false,
            joining_since: 0,
            orders: Orders::default(),
            saved: None,
        }
    }

    /// Steps that are applied, as far as it knows.
    pub(super) fn step(&self) -> u64 {
        self.step
    }

    pub(super) fn saves(&self) -> bool {
        matches!(self.state, State::Saving(..))
    }

    pub(super) fn done(&self) -> bool {
        self.state == State::Done
    }

    /// Has waited to be let in for so long that a real one gives up with an error.
    pub(super) fn gives_up(&self, now: Time) -> bool {
        self.state == State::Joining && now.saturating_sub(self.joining_since) > JOIN
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "{:?} epoch {} step {} pass {} batch {}",
            self.state, self.at, self.step, self.pass, self.batch
        )
    }

    fn all(&self, out: &mut Outbox, message: &Message) {
        (0..self.plan.servers).for_each(|server| out.to_server.push((server, message.clone())));
    }

    /// To the servers that hold something, over data connections.
    fn holders(&self, out: &mut Outbox, message: &Message) {
        (0..self.plan.holders).for_each(|server| out.to_server.push((server, message.clone())));
    }

    fn go(&mut self, state: State, now: Time) {
        self.state = state;
        self.since = now;
        self.answers.fill(false);
    }

    /// New connections to all servers.
    fn rejoin(&mut self, now: Time, out: &mut Outbox) {
        if self.at != Generation(0) || self.joining_since == 0 {
            self.joining_since = now;
        }
        // A generation that no server has let it into is tried again.
        if self.state != State::Attaching {
            self.seen = self.seen.max(self.at);
        }
        self.at = Generation(0);
        self.opening = None;
        self.opened = Generation(0);
        self.closed = false;
        self.connection = super::mix(self.connection + 1);
        self.reports.fill(None);
        self.heard.fill(now);
        self.go(State::Joining, now);
        self.all(
            out,
            &Message::Hello {
                instance: self.instance,
                connection: self.connection,
                seen: self.seen,
            },
        );
    }

    pub(super) fn tick(&mut self, now: Time, out: &mut Outbox) {
        if self.state == State::Done {
            return;
        }
        if self.since == 0 {
            self.since = now;
            self.rejoin(now, out);
            return;
        }
        let silent = self
            .heard
            .iter()
            .any(|heard| now.saturating_sub(*heard) > SILENCE);
        let impatient = now.saturating_sub(self.since) > PATIENCE
            && !matches!(
                self.state,
                State::PassEnd | State::Ending | State::Saving(..) | State::Leaving
            );
        let refused = self.state == State::Joining
            && self.reports.iter().any(Option::is_none)
            && now - self.since > 100;
        if silent || impatient || refused || self.closed {
            self.rejoin(now, out);
            return;
        }
        if let State::Saving(save, until) = self.state
            && now >= until
        {
            let values = self.values.iter().flatten().cloned().collect();
            out.saved = Some(((self.pass, save), values));
            self.settled = true;
            self.compute(now, out);
        }
        if now.saturating_sub(self.beaten) >= HEARTBEAT {
            self.beaten = now;
            let known: Vec<ServerReport> = self.reports.iter().flatten().cloned().collect();
            let (stable, dead) = if known.len() == self.plan.servers {
                let known = held(&known, self.plan.holders as u32);
                (stable(known), dead(known))
            } else {
                (None, Vec::new())
            };
            self.all(
                out,
                &Message::Beat {
                    connection: self.connection,
                    at: self.at,
                    stable,
                    dead,
                },
            );
            self.repeat(out);
        }
        self.look(now, out);
    }

    /// Messages whose loss a connection would notice are asked again.
    fn repeat(&self, out: &mut Outbox) {
        match self.state {
            State::PassEnd => {
                self.holders(
                    out,
                    &Message::FinishPass {
                        epoch: self.at,
                        step: self.step,
                        pass: self.pass,
                    },
                );
            }
            State::Ending => {
                let (epoch, pass) = (self.at, self.pass);
                self.holders(out, &Message::EndPass { epoch, pass });
            }
            State::Leaving => self.all(out, &Message::Leave { epoch: self.at }),
            _ => {}
        }
    }

    /// Decides by the reports.
    fn look(&mut self, now: Time, out: &mut Outbox) {
        if self.at != Generation(0) {
            let ended = |report: &ServerReport| report.ends(self.at);
            if self.reports.iter().flatten().any(ended) {
                self.rejoin(now, out);
            }
            return;
        }
        let known: Vec<ServerReport> = self.reports.iter().flatten().cloned().collect();
        if self.state != State::Joining
            || known.len() != self.plan.servers
            || self.opening.is_some()
        {
            return;
        }
        let trainers = self.plan.trainers as u32;
        let saved = self.saved.filter(|_| self.index == 0);
        let also = CoordinatorKnowledge {
            fresh: false,
            saved,
            passes_saved: u64::from(saved.is_some()),
        };
        let me = TrainerId(self.index as u32);
        let holders = self.plan.holders as u32;
        let verdict = judge(&known, self.seen, also, trainers, holders, |server| {
            server.to_string()
        });
        match verdict.of_trainer(me, self.opened, &known) {
            AdmissionVerdict::Lost(text) => panic!("no disk is lost in these schedules: {text}"),
            AdmissionVerdict::Enter(epoch, boundary) => self.enter(epoch, &boundary, now, out),
            AdmissionVerdict::Open(epoch, start) => {
                self.opening = Some(epoch);
                self.since = now;
                self.answers.fill(false);
                self.all(out, &Message::Open { epoch, start });
            }
            AdmissionVerdict::Over => self.state = State::Done,
            AdmissionVerdict::Wait(_) => {}
        }
    }

    fn enter(&mut self, epoch: Generation, boundary: &Boundary, now: Time, out: &mut Outbox) {
        self.at = epoch;
        self.step = boundary.step.0;
        self.pass = boundary.pass;
        self.batch = boundary.batches[self.index];
        self.over = false;
        self.settled = passed(Mode::Sync, &boundary.batches, self.index);
        self.go(State::Attaching, now);
        self.holders(
            out,
            &Message::Attach {
                instance: self.instance,
                epoch,
            },
        );
    }

    fn pull(&mut self, now: Time, out: &mut Outbox) {
        self.values.fill(None);
        self.go(State::Pulling, now);
        self.holders(
            out,
            &Message::Pull {
                epoch: self.at,
                step: self.step,
            },
        );
    }

    pub(super) fn hear(&mut self, server: usize, message: Message, now: Time, out: &mut Outbox) {
        if self.state == State::Done {
            return;
        }
        match message {
            Message::Report { connection, report } if connection == self.connection => {
                // Connections keep their order: an older report does not follow a newer one.
                if self.reports[server]
                    .as_ref()
                    .is_none_or(|old| old.epoch <= report.epoch)
                {
                    self.reports[server] = Some(*report);
                }
                self.heard[server] = now;
                self.look(now, out);
            }
            Message::Closed { connection } if connection == self.connection => {
                // The next tick joins again; a server may refuse for a while.
                self.closed = true;
            }
            Message::Opened { epoch, ok } if self.opening == Some(epoch) => {
                if !ok {
                    self.rejoin(now, out);
                    return;
                }
                self.answers[server] = true;
                if self.answers.iter().all(|answer| *answer) {
                    self.opening = None;
                    self.opened = epoch;
                }
            }
            Message::Attached { epoch, ok }
                if epoch == self.at && self.state == State::Attaching =>
            {
                if !ok {
                    self.rejoin(now, out);
                    return;
                }
                self.answers[server] = true;
                if self.answered() {
                    self.pull(now, out);
                }
            }
            Message::Values {
                epoch,
                step,
                values,
            } if epoch == self.at && step == self.step && self.state == State::Pulling => {
                self.values[server] = Some(values);
                if self.values.iter().all(Option::is_some) {
                    self.compute(now, out);
                }
            }
            Message::PassOver { epoch, step, pass }
                if epoch == self.at && self.state == State::PassEnd && pass == self.pass =>
            {
                self.answers[server] = true;
                if self.answered() {
                    (self.step, self.over, self.settled) = (step, true, false);
                    self.pull(now, out);
                }
            }
            Message::PassEnded { epoch, step, pass }
                if epoch == self.at && self.state == State::Ending && pass > self.pass =>
            {
                self.answers[server] = true;
                if self.answered() {
                    (self.step, self.pass, self.batch) = (step, pass, 0);
                    (self.over, self.settled) = (false, false);
                    self.pull(now, out);
                }
            }
            Message::Finished { epoch } if epoch == self.at => self.state = State::Done,
            _ => {}
        }
    }

    /// All servers that hold something have answered.
    fn answered(&self) -> bool {
        self.answers[..self.plan.holders]
            .iter()
            .all(|answer| *answer)
    }

    /// What trainer 0 has to save before it continues.
    fn owed(&self) -> Option<Save> {
        let periods = &self.plan.periods;
        let owed = match self.over {
            true => periods.at_end(self.pass, self.pass + 1 == self.plan.passes),
            false => periods.inside(self.batch),
        };
        owed.save.filter(|_| self.index == 0 && !self.settled)
    }

    /// All values are here: saves, pushes a batch, or ends the pass or the job.
    fn compute(&mut self, now: Time, out: &mut Outbox) {
        if self.pass >= self.plan.passes {
            out.model = Some(self.values.iter().flatten().cloned().collect());
            self.go(State::Leaving, now);
            self.all(out, &Message::Leave { epoch: self.at });
            return;
        }
        if let Some(save) = self.owed() {
            let time = super::mix(self.instance ^ (self.pass * 100 + self.batch)) % 300;
            self.go(State::Saving(save, now + time), now);
            return;
        }
        if self.over {
            self.go(State::Ending, now);
            let (epoch, pass) = (self.at, self.pass);
            self.holders(out, &Message::EndPass { epoch, pass });
            return;
        }
        if self.batch >= self.plan.batches[self.index] {
            self.go(State::PassEnd, now);
            self.holders(
                out,
                &Message::FinishPass {
                    epoch: self.at,
                    step: self.step,
                    pass: self.pass,
                },
            );
            return;
        }
        let samples = Plan::samples(self.index, self.batch);
        let known: Vec<ServerReport> = self.reports.iter().flatten().cloned().collect();
        let me = TrainerId(self.index as u32);
        let ordered = self
            .orders
            .due(me, order::wanted(&known, self.plan.holders as u32), now);
        for (server, values) in self.values.iter().enumerate() {
            for (table, value) in values.iter().flatten().enumerate() {
                let gradient = Plan::gradient(*value, self.index, self.pass, self.batch);
                let push = Message::Push {
                    epoch: self.at,
                    step: self.step,
                    table,
                    samples,
                    gradient,
                };
                out.to_server.push((server, push));
            }
            out.to_server.push((
                server,
                Message::Finish {
                    epoch: self.at,
                    step: self.step,
                    samples,
                    order: ordered.then_some(self.step + 1),
                },
            ));
        }
        self.step += 1;
        self.batch += 1;
        self.settled = false;
        self.pull(now, out);
    }
}
