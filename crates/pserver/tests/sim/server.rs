//! A simulated server: the real members and barrier, integers for tables, a map for the disk.

use super::message::{Message, Outbox};
use super::plan::{Plan, initial};
use super::{SILENCE, Time};
use pserver::barrier::{Admission, Apply, Barrier, Event};
use pserver::members::{Effect, Members};
use std::collections::BTreeMap;
use wire::message::{Hello, Role, Start};
use wire::recovery::{Boundary, Phase, Report, expendable};
use wire::{Epoch, Mode, Status, Step, Topology, TrainerId};

/// What survives a crash: snapshots by step.
#[derive(Default)]
pub struct Disk {
    pub snapshots: BTreeMap<u64, (Boundary, Vec<u64>)>,
}

struct Run {
    epoch: Epoch,
    ended: bool,
    barrier: Barrier,
    values: Vec<u64>,
    staged: BTreeMap<(usize, usize), u64>,
    waiting: Vec<(usize, Message)>,
    captured: BTreeMap<u64, (Boundary, Vec<u64>)>,
    ordered: Option<u64>,
}

pub struct SimServer {
    index: usize,
    plan: Plan,
    members: Members,
    run: Option<Run>,
    stable: Option<Step>,
    have: Vec<Step>,
    wish: Option<Step>,
}

impl SimServer {
    pub fn new(index: usize, plan: Plan) -> Self {
        let members = Members::new(plan.trainers as u32, SILENCE);
        Self {
            index,
            members,
            run: None,
            stable: None,
            have: Vec::new(),
            wish: None,
            plan,
        }
    }

    /// Its process is to end.
    pub fn want_snapshot(&mut self) {
        if let (Some(run), Phase::Running) = (&self.run, self.members.phase()) {
            self.wish = Some(Step(run.barrier.step() + 1));
        }
    }

    pub fn describe(&self) -> String {
        let run = self.run.as_ref().map(|run| {
            (
                run.epoch,
                run.ended,
                run.barrier.step(),
                run.barrier.pass(),
                run.barrier.waits_for(),
            )
        });
        let m = &self.members;
        format!(
            "{:?} {} waiting {:?} missing {:?} run {run:?} reason {}",
            m.phase(),
            m.epoch(),
            m.waiting(),
            m.missing(),
            m.reason()
        )
    }

    pub fn epoch(&self) -> u64 {
        self.members.epoch().0
    }

    fn hello(&self, trainer: usize, instance: u64, epoch: Epoch) -> Hello {
        Hello {
            nonce: String::new(),
            proof: String::new(),
            role: Role::Pulse,
            trainer: TrainerId(trainer as u32),
            instance,
            trainers: self.plan.trainers as u32,
            topology: Topology {
                servers: self.plan.servers as u32,
                ports: 1,
                sparse_ports: 0,
            },
            server: self.index as u32,
            servers_hash: 1,
            job_hash: 1,
            job: "sim".to_owned(),
            shapes: 1,
            epoch,
        }
    }

    fn after(&mut self, effect: Effect) {
        if effect == Effect::Broken
            && let Some(run) = &mut self.run
        {
            run.ended = true;
            run.waiting.clear();
        }
    }

    pub fn tick(&mut self, now: Time, _out: &mut Outbox) {
        let (effect, _) = self.members.tick(now);
        self.after(effect);
    }

    pub fn written(&mut self, step: u64, disk: &mut Disk) {
        let Some(run) = &mut self.run else { return };
        let Some(snapshot) = run.captured.remove(&step) else {
            return;
        };
        disk.snapshots.insert(step, snapshot);
        self.have = disk.snapshots.keys().map(|step| Step(*step)).collect();
        for step in expendable(&self.have, self.stable) {
            disk.snapshots.remove(&step.0);
        }
        self.have = disk.snapshots.keys().map(|step| Step(*step)).collect();
    }

    fn report(&self) -> Report {
        let boundary = self.run.as_ref().and_then(|run| run.barrier.boundary());
        Report {
            epoch: self.members.epoch(),
            phase: self.members.phase(),
            reason: self.members.reason().to_owned(),
            waiting: self.members.waiting(),
            missing: self.members.missing(),
            boundary,
            snapshots: self.have.clone(),
            wanted: self.wish,
            status: Status::default(),
        }
    }

    pub fn hear(
        &mut self,
        trainer: usize,
        message: Message,
        now: Time,
        disk: &mut Disk,
        out: &mut Outbox,
    ) {
        self.have = disk.snapshots.keys().map(|step| Step(*step)).collect();
        let id = TrainerId(trainer as u32);
        match message {
            Message::Hello {
                instance,
                connection,
                seen,
            } => {
                let hello = self.hello(trainer, instance, seen);
                match self.members.join(&hello, connection, now) {
                    Ok(effect) => {
                        self.after(effect);
                        out.to_trainer.push((
                            trainer,
                            Message::Report {
                                connection,
                                report: Box::new(self.report()),
                            },
                        ));
                    }
                    Err(_) => out
                        .to_trainer
                        .push((trainer, Message::Closed { connection })),
                }
            }
            Message::Beat {
                connection,
                at,
                stable,
            } => {
                let Ok(effect) = self.members.beat(id, connection, at, now) else {
                    out.to_trainer
                        .push((trainer, Message::Closed { connection }));
                    return;
                };
                self.after(effect);
                if trainer == 0 && at != Epoch(0) {
                    self.stable = stable.max(self.stable);
                }
                out.to_trainer.push((
                    trainer,
                    Message::Report {
                        connection,
                        report: Box::new(self.report()),
                    },
                ));
            }
            Message::Open { epoch, start } => {
                let ok = self.open(id, epoch, start, disk);
                out.to_trainer
                    .push((trainer, Message::Opened { epoch, ok }));
            }
            Message::Attach { instance, epoch } => {
                let ok = self
                    .members
                    .attach(&self.hello(trainer, instance, epoch))
                    .is_ok();
                out.to_trainer
                    .push((trainer, Message::Attached { epoch, ok }));
            }
            Message::Leave { epoch } => {
                if self.members.epoch() == epoch && self.members.phase() == Phase::Running {
                    self.members.leave(id);
                }
                if self.members.phase() == Phase::Finished {
                    (0..self.plan.trainers)
                        .for_each(|t| out.to_trainer.push((t, Message::Finished { epoch })));
                }
            }
            other => {
                if let Some(run) = &mut self.run {
                    run.waiting.push((trainer, other));
                }
                self.work(out);
            }
        }
    }

    fn open(&mut self, trainer: TrainerId, epoch: Epoch, start: Start, disk: &mut Disk) -> bool {
        if self.members.may_open(trainer, epoch).is_err() {
            return false;
        }
        let zero = Boundary {
            step: Step(0),
            pass: 0,
            batches: vec![0; self.plan.trainers],
        };
        let (boundary, values) = match start {
            Start::Fresh => {
                disk.snapshots.clear();
                (
                    zero,
                    (0..self.plan.tables)
                        .map(|table| initial(self.index, table))
                        .collect(),
                )
            }
            Start::Restore(step) => {
                let Some((boundary, values)) = disk.snapshots.get(&step.0).cloned() else {
                    return false;
                };
                disk.snapshots.retain(|have, _| *have <= step.0);
                (boundary, values)
            }
            Start::Continue { step, pass } => {
                let Some(run) = &self.run else { return false };
                let boundary = run
                    .barrier
                    .boundary()
                    .filter(|b| b.step == step && b.pass == pass);
                let Some(boundary) = boundary else {
                    return false;
                };
                (boundary, run.values.clone())
            }
        };
        self.run = Some(Run {
            epoch,
            ended: false,
            barrier: Barrier::new(Mode::Sync, self.plan.tables, &boundary),
            values,
            staged: BTreeMap::new(),
            waiting: Vec::new(),
            captured: BTreeMap::new(),
            ordered: None,
        });
        self.wish = None;
        self.stable = None;
        self.members.opened(epoch);
        true
    }

    /// Takes waiting messages as long as any can be taken.
    fn work(&mut self, out: &mut Outbox) {
        let Some(run) = &mut self.run else { return };
        let every = self.plan.snapshot_every;
        let mut progress = true;
        while progress && !run.ended {
            progress = false;
            for (trainer, message) in std::mem::take(&mut run.waiting) {
                if run.take(trainer, &message, out) {
                    progress = true;
                } else {
                    run.waiting.push((trainer, message));
                }
                while let Event::Step(step) = run.barrier.advance() {
                    let ordered = run.ordered == Some(step);
                    if (ordered || step.is_multiple_of(every))
                        && let Some(boundary) = run.barrier.boundary()
                    {
                        out.ordered |= ordered;
                        run.captured.insert(step, (boundary, run.values.clone()));
                        out.snapshot = Some(step);
                    }
                }
            }
        }
    }
}

impl Run {
    /// True if the message is dealt with (or has no place and is dropped).
    fn take(&mut self, trainer: usize, message: &Message, out: &mut Outbox) -> bool {
        match *message {
            Message::Push {
                epoch,
                step,
                table,
                samples,
                gradient,
            } if epoch == self.epoch => {
                match self.barrier.push(trainer, step, table, samples) {
                    Admission::Later => return false,
                    Admission::Refused(_) => return true,
                    Admission::Now => {}
                }
                self.staged.insert((trainer, table), gradient);
                let applies = self.barrier.stored(trainer, table);
                self.apply(applies);
                true
            }
            Message::Finish {
                epoch,
                step,
                samples,
                order,
            } if epoch == self.epoch => {
                self.ordered = order.max(self.ordered);
                match self.barrier.finish(trainer, step, samples) {
                    Ok(applies) => self.apply(applies),
                    Err(Admission::Later) => return false,
                    Err(_) => {}
                }
                true
            }
            Message::FinishPass { epoch, step, pass } if epoch == self.epoch => {
                if self.barrier.pass() > pass {
                    let (step, pass) = (self.barrier.step(), self.barrier.pass());
                    out.to_trainer
                        .push((trainer, Message::PassEnded { epoch, step, pass }));
                    return true;
                }
                match self.barrier.idle(trainer, step) {
                    Ok(applies) => self.apply(applies),
                    Err(Admission::Later) => return false,
                    Err(_) => {}
                }
                false
            }
            Message::Pull { epoch, step } if epoch == self.epoch => {
                let ready =
                    (0..self.values.len()).all(|table| self.barrier.readable(trainer, table, step));
                if ready {
                    let values = self.values.clone();
                    out.to_trainer.push((
                        trainer,
                        Message::Values {
                            epoch,
                            step,
                            values,
                        },
                    ));
                }
                ready
            }
            _ => true,
        }
    }

    fn apply(&mut self, applies: Vec<Apply>) {
        for apply in applies {
            let parts: Vec<u64> = apply
                .contributors
                .iter()
                .map(|t| self.staged.remove(&(*t, apply.table)).expect("stored"))
                .collect();
            self.values[apply.table] = Plan::apply(self.values[apply.table], apply.samples, &parts);
            self.barrier.applied(apply.table);
        }
    }
}
