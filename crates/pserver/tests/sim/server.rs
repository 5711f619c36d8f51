//! A simulated server: the real members and barrier, integers for tables, a map for the disk.

use super::message::{Message, Outbox};
use super::plan::{Plan, initial};
use super::{SILENCE, Time};
use pserver::barrier::{Admission, Apply, Barrier, BarrierEvent};
use pserver::members::{Effect, Members};
use pserver::snapshot::plan::{PartResult, SnapshotFate, SnapshotPlan as Snapshots, due, fate};
use std::collections::BTreeMap;
use wire::message::{ConnectionRole, GenerationStart, Hello};
use wire::recovery::{Boundary, Disk as Found, ServerReport};
use wire::{Generation, Mode, PeerStatus, Step, Topology, TrainerId};
use words::status::Phase;

/// What survives a crash: snapshots by step.
#[derive(Default)]
pub(super) struct Disk {
    pub snapshots: BTreeMap<u64, (Boundary, Vec<u64>)>,
    /// The newest snapshot that was on all servers.
    pub confirmed: Option<Step>,
    /// What was saved with the newest pass.
    pub saved: Option<(Boundary, Vec<u64>)>,
}

struct Run {
    epoch: Generation,
    ended: bool,
    barrier: Barrier,
    values: Vec<u64>,
    staged: BTreeMap<(usize, usize), u64>,
    waiting: Vec<(usize, Message)>,
    captured: BTreeMap<u64, (Boundary, Vec<u64>)>,
    ordered: Option<u64>,
}

pub(super) struct SimServer {
    index: usize,
    plan: Plan,
    members: Members,
    run: Option<Run>,
    snapshots: Snapshots,
    /// The newest snapshot that was on all servers, as its disk says.
    confirmed: Option<Step>,
    wanted_step: Option<Step>,
}

impl SimServer {
    pub(super) fn new(index: usize, plan: Plan) -> Self {
        let members = Members::new(plan.trainers as u32, SILENCE);
        Self {
            index,
            members,
            run: None,
            snapshots: Snapshots::default(),
            confirmed: None,
            wanted_step: None,
            plan,
        }
    }

    /// Its process is to end.
    pub(super) fn want_snapshot(&mut self) {
        if let (Some(run), Phase::Running) = (&self.run, self.members.phase()) {
            self.wanted_step = Some(Step(run.barrier.step() + 1));
        }
    }

    pub(super) fn describe(&self) -> String {
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

    pub(super) fn epoch(&self) -> u64 {
        self.members.epoch().0
    }

    fn hello(&self, trainer: usize, instance: u64, epoch: Generation) -> Hello {
        Hello {
            nonce: String::new(),
            proof: String::new(),
            role: ConnectionRole::Pulse,
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
            holders: self.plan.holders as u32,
            map: 1,
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

    pub(super) fn tick(&mut self, now: Time, _out: &mut Outbox) {
        let effect = self.members.tick(now).effect;
        self.after(effect);
    }

    /// The disk has ended with a snapshot that was taken in `life`, well or not.
    pub(super) fn written(
        &mut self,
        (life, step): (u64, u64),
        good: bool,
        disk: &mut Disk,
        out: &mut Outbox,
    ) {
        let Some(run) = &mut self.run else { return };
        let captured = run.captured.remove(&step);
        if let (PartResult::Last, Some(snapshot)) = (self.snapshots.written(life, good), captured)
            && self.snapshots.sealed(life, Step(step), true)
        {
            disk.snapshots.insert(step, snapshot);
        }
        self.work(out);
    }

    /// Where it stands, while a generation runs.
    pub(super) fn running(&self) -> Option<(Generation, u64)> {
        let run = self.run.as_ref().filter(|run| !run.ended)?;
        Some((run.epoch, run.barrier.step()))
    }

    fn report(&self) -> ServerReport {
        let boundary = self.run.as_ref().and_then(|run| run.barrier.boundary());
        ServerReport {
            epoch: self.members.epoch(),
            phase: self.members.phase(),
            reason: self.members.reason().to_owned(),
            waiting: self.members.waiting(),
            missing: self.members.missing(),
            boundary,
            snapshots: self.snapshots.have().to_vec(),
            settled: self.snapshots.settled(),
            disk: Found {
                confirmed: self.confirmed,
                ..Found::default()
            },
            wanted: self.wanted_step,
            lines: Vec::new(),
            status: PeerStatus::default(),
        }
    }

    pub(super) fn hear(
        &mut self,
        trainer: usize,
        message: Message,
        now: Time,
        disk: &mut Disk,
        out: &mut Outbox,
    ) {
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
                dead,
            } => {
                let Ok(effect) = self.members.beat(id, connection, at, now) else {
                    out.to_trainer
                        .push((trainer, Message::Closed { connection }));
                    return;
                };
                self.after(effect);
                if trainer == 0 && at != Generation(0) {
                    for step in self.snapshots.confirm(stable, &dead) {
                        disk.snapshots.remove(&step.0);
                    }
                    disk.confirmed = self.snapshots.stable().max(disk.confirmed);
                    self.confirmed = disk.confirmed;
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

    fn open(
        &mut self,
        trainer: TrainerId,
        epoch: Generation,
        start: GenerationStart,
        disk: &mut Disk,
    ) -> bool {
        if self.members.may_open(trainer, epoch).is_err() {
            return false;
        }
        let zero = Boundary {
            step: Step(0),
            pass: 0,
            batches: vec![0; self.plan.trainers],
        };
        let (boundary, values) = match start {
            _ if self.index >= self.plan.holders => (zero, Vec::new()),
            GenerationStart::Fresh => (
                zero,
                (0..self.plan.tables)
                    .map(|table| initial(self.index, table))
                    .collect(),
            ),
            GenerationStart::Restore(step) => {
                let Some((boundary, values)) = disk.snapshots.get(&step.0).cloned() else {
                    return false;
                };
                (boundary, values)
            }
            GenerationStart::Saved { step, pass } => {
                let saved = disk.saved.clone();
                let saved = saved.filter(|(at, _)| at.step == step && at.pass == pass);
                let Some((boundary, values)) = saved else {
                    return false;
                };
                (boundary, values)
            }
            GenerationStart::Continue { step, pass } => {
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
        match fate(start, self.snapshots.have().last().copied()) {
            SnapshotFate::Keep => {}
            SnapshotFate::Rewind(step) => self.rewind(Some(step), disk),
            // A real server keeps them under another name, where no generation finds them.
            SnapshotFate::PutAside => self.rewind(None, disk),
        }
        // What was taken is still being written if the job continues from where it stood.
        let captured = match (start, &mut self.run) {
            (GenerationStart::Continue { .. }, Some(run)) => std::mem::take(&mut run.captured),
            _ => BTreeMap::new(),
        };
        self.run = Some(Run {
            epoch,
            ended: false,
            barrier: Barrier::new(Mode::Sync, values.len(), &boundary),
            values,
            staged: BTreeMap::new(),
            waiting: Vec::new(),
            captured,
            ordered: None,
        });
        self.wanted_step = None;
        self.members.opened(epoch);
        true
    }

    fn rewind(&mut self, step: Option<Step>, disk: &mut Disk) {
        for step in self.snapshots.rewind(step) {
            disk.snapshots.remove(&step.0);
        }
    }

    /// What a process that starts finds on its disk.
    pub(super) fn find(&mut self, disk: &Disk) {
        let steps = disk.snapshots.keys().map(|step| Step(*step));
        self.snapshots.found(steps.collect());
        self.confirmed = disk.confirmed;
    }

    /// Takes waiting messages as long as any can be taken.
    fn work(&mut self, out: &mut Outbox) {
        let Some(run) = &mut self.run else { return };
        let every = self.plan.snapshot_every;
        let mut progress = true;
        while progress && !run.ended {
            progress = false;
            // A connection is read in order: behind a message that waits for a snapshot all others wait.
            let mut held = Vec::new();
            for (trainer, message) in std::mem::take(&mut run.waiting) {
                if held.contains(&trainer) || run.must_wait(&message, every, &mut self.snapshots) {
                    held.push(trainer);
                    run.waiting.push((trainer, message));
                    continue;
                }
                if run.take(trainer, &message, out) {
                    progress = true;
                } else {
                    run.waiting.push((trainer, message));
                }
                while let BarrierEvent::Step(step) = run.barrier.advance() {
                    let ordered = run.ordered == Some(step);
                    if !due(Step(step), every, ordered) {
                        continue;
                    }
                    let boundary = run.barrier.boundary().expect("a step is complete");
                    assert!(
                        self.snapshots.take(Step(step), 1).is_some(),
                        "one is left out"
                    );
                    self.snapshots.handed_over();
                    out.ordered |= ordered;
                    run.captured.insert(step, (boundary, run.values.clone()));
                    out.snapshot = Some((self.snapshots.life(), step));
                }
            }
        }
    }
}

impl Run {
    /// True if the message would complete a step whose snapshot must wait.
    fn must_wait(&mut self, message: &Message, every: u64, snapshots: &mut Snapshots) -> bool {
        let Message::Finish {
            epoch, step, order, ..
        } = *message
        else {
            return false;
        };
        if epoch != self.epoch {
            return false;
        }
        self.ordered = order.max(self.ordered);
        let next = self.barrier.step_after(step);
        due(Step(next), every, self.ordered == Some(next)) && snapshots.must_wait(Step(next))
    }

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
                ..
            } if epoch == self.epoch => {
                match self.barrier.finish(trainer, step, samples) {
                    Ok(applies) => self.apply(applies),
                    Err(Admission::Later) => return false,
                    Err(_) => {}
                }
                true
            }
            Message::FinishPass { epoch, step, pass } if epoch == self.epoch => {
                if self.barrier.pass() > pass || self.barrier.over() {
                    let step = self.barrier.step();
                    out.to_trainer
                        .push((trainer, Message::PassOver { epoch, step, pass }));
                    return true;
                }
                match self.barrier.idle(trainer, step) {
                    Ok(applies) => self.apply(applies),
                    Err(Admission::Later) => return false,
                    Err(_) => {}
                }
                false
            }
            Message::EndPass { epoch, pass } if epoch == self.epoch => {
                if self.barrier.pass() > pass {
                    let (step, pass) = (self.barrier.step(), self.barrier.pass());
                    out.to_trainer
                        .push((trainer, Message::PassEnded { epoch, step, pass }));
                    return true;
                }
                // A stale copy of another pass has no place.
                self.barrier.end_pass(trainer).is_err()
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
