//! The simulated world: clock, network, faults. `plan`: the job and what must come of it. `message`: what is said and
//! what happens. `server`, `trainer`: the processes.

mod message;
mod plan;
mod server;
mod trainer;

use message::{Event, Message, Outbox};
pub(crate) use plan::Plan;
use plan::{Chance, Place, mix};
use server::SimServer;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use trainer::SimTrainer;
use wire::Step;
use wire::owed::Save;
use wire::recovery::Boundary;

/// Milliseconds.
pub(crate) type Time = u64;

pub(crate) const HEARTBEAT: Time = 50;
pub(crate) const SILENCE: Time = 400;
/// A trainer gives up when it is not let in for so long.
pub(crate) const JOIN: Time = 20_000;
/// A trainer joins again when an answer takes longer than this.
pub(crate) const PATIENCE: Time = 900;

struct Entry(Time, u64, Event);

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// A process slot: what runs in it, which life, and until when it is stopped.
struct Slot<P> {
    process: Option<P>,
    life: u64,
    stopped_until: Time,
    /// What came while it was stopped, in order.
    backlog: Vec<Event>,
}

pub(crate) struct World {
    plan: Plan,
    chance: Chance,
    now: Time,
    sequence: u64,
    queue: BinaryHeap<Reverse<Entry>>,
    trainers: Vec<Slot<SimTrainer>>,
    servers: Vec<Slot<SimServer>>,
    disks: Vec<server::Disk>,
    links: Vec<Link>,
    models: Vec<Option<Vec<Vec<u64>>>>,
    /// All that trainer 0 ever saved; what is saved again replaces what was there.
    pub saved: Vec<(Place, Vec<Vec<u64>>)>,
    /// Trainers 0 that were lost while they saved.
    pub interrupted_saves: u64,
    /// Snapshots that were taken because one was ordered.
    pub ordered: u64,
    /// The largest age of the newest common snapshot, in periods.
    pub oldest: u64,
}

/// What lies between a trainer and a server. As with TCP, messages keep their order, and after a loss nothing more
/// arrives until the trainer connects anew.
#[derive(Clone, Default)]
struct Link {
    cut_until: Time,
    broken: bool,
    last: [Time; 2],
}

impl World {
    pub(crate) fn new(plan: Plan, seed: u64) -> Self {
        let slot = |_| Slot {
            process: None,
            life: 0,
            stopped_until: 0,
            backlog: Vec::new(),
        };
        let mut world = Self {
            trainers: (0..plan.trainers).map(slot).collect(),
            servers: (0..plan.servers)
                .map(|_| Slot {
                    process: None,
                    life: 0,
                    stopped_until: 0,
                    backlog: Vec::new(),
                })
                .collect(),
            disks: (0..plan.servers).map(|_| server::Disk::default()).collect(),
            links: vec![Link::default(); plan.trainers * plan.servers],
            models: vec![None; plan.trainers],
            ordered: 0,
            saved: Vec::new(),
            interrupted_saves: 0,
            oldest: 0,
            chance: Chance::new(seed),
            now: 0,
            sequence: 0,
            queue: BinaryHeap::new(),
            plan,
        };
        for trainer in 0..world.plan.trainers {
            let after = world.chance.below(100);
            world.later(after, Event::StartTrainer { trainer });
        }
        for server in 0..world.plan.servers {
            let after = world.chance.below(100);
            world.later(after, Event::StartServer { server });
        }
        world.later(50, Event::Fault);
        world
    }

    fn later(&mut self, after: Time, event: Event) {
        self.sequence += 1;
        self.queue
            .push(Reverse(Entry(self.now + after, self.sequence, event)));
    }

    /// Runs to the end of the job.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        let limit = self.plan.faults_until + 60_000;
        while let Some(Reverse(Entry(time, _, event))) = self.queue.pop() {
            self.now = time;
            if self.over() {
                return Ok(());
            }
            if time > limit {
                let states: Vec<String> = self
                    .trainers
                    .iter()
                    .map(|s| {
                        s.process
                            .as_ref()
                            .map_or("dead".into(), SimTrainer::describe)
                    })
                    .collect();
                let servers: Vec<String> = self
                    .servers
                    .iter()
                    .map(|s| {
                        s.process
                            .as_ref()
                            .map_or("dead".into(), SimServer::describe)
                    })
                    .collect();
                return Err(format!("the job hangs: {states:?} {servers:?}"));
            }
            self.happen(event);
            self.check_age()?;
        }
        Err("nothing more happens".to_owned())
    }

    /// While all servers run the same generation, what a loss costs is bounded: the newest snapshot on all disks is not
    /// older than three periods.
    fn check_age(&mut self) -> Result<(), String> {
        let process = |slot: &Slot<SimServer>| slot.process.as_ref().and_then(SimServer::running);
        let running: Option<Vec<_>> = self.servers.iter().map(process).collect();
        let Some(running) = running.filter(|all| all.iter().all(|(epoch, _)| *epoch == all[0].0))
        else {
            return Ok(());
        };
        let running = &running[..self.plan.holders];
        let step = running.iter().map(|(_, step)| *step).max().unwrap_or(0);
        let common = self.disks[0].snapshots.keys().rev().find(|step| {
            self.disks[..self.plan.holders]
                .iter()
                .all(|disk| disk.snapshots.contains_key(*step))
        });
        let age = step - common.copied().unwrap_or(0).min(step);
        self.oldest = self.oldest.max(age / self.plan.snapshot_every);
        if self.plan.failing || age <= 3 * self.plan.snapshot_every {
            return Ok(());
        }
        Err(format!(
            "at step {step} the newest common snapshot is {common:?}"
        ))
    }

    /// All trainers are done. Once trainer 0 has the model and somebody has heard of the end, a trainer that was
    /// replaced after the others had left may give up instead.
    fn over(&self) -> bool {
        let ended = |slot: &Slot<SimTrainer>| {
            let process = slot.process.as_ref();
            process.is_some_and(|process| process.done() || process.gives_up(self.now))
        };
        let done = |slot: &Slot<SimTrainer>| slot.process.as_ref().is_some_and(SimTrainer::done);
        let saved = self.models[0].is_some() && self.trainers.iter().any(done);
        saved && self.trainers.iter().all(ended)
    }

    /// The models that the trainers had at the end; a trainer that was lost after the end has none.
    pub(crate) fn results(&self) -> Vec<Vec<Vec<u64>>> {
        self.models.iter().flatten().cloned().collect()
    }

    pub(crate) fn recoveries(&self) -> u64 {
        self.servers
            .iter()
            .filter_map(|s| s.process.as_ref())
            .map(SimServer::epoch)
            .max()
            .unwrap_or(0)
            .saturating_sub(1)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Fault => self.fault(),
            Event::Resume { trainer, server } => self.resume(trainer, server),
            Event::StartTrainer { trainer } => self.start_trainer(trainer),
            Event::StartServer { server } => self.start_server(server),
            Event::ToServer {
                trainer,
                server,
                life,
                message,
            } => {
                if self.hold_server(
                    server,
                    life,
                    Event::ToServer {
                        trainer,
                        server,
                        life,
                        message: message.clone(),
                    },
                ) {
                    return;
                }
                let mut out = Outbox::new();
                let (now, slot, disk) =
                    (self.now, &mut self.servers[server], &mut self.disks[server]);
                let Some(process) = slot.process.as_mut().filter(|_| slot.life == life) else {
                    return;
                };
                process.hear(trainer, message, now, disk, &mut out);
                self.send_from_server(server, out);
            }
            Event::ServerTick { server, life } => {
                if self.hold_server(server, life, Event::ServerTick { server, life }) {
                    return;
                }
                let mut out = Outbox::new();
                let (now, slot) = (self.now, &mut self.servers[server]);
                let Some(process) = slot.process.as_mut().filter(|_| slot.life == life) else {
                    return;
                };
                process.tick(now, &mut out);
                self.send_from_server(server, out);
                self.later(HEARTBEAT, Event::ServerTick { server, life });
            }
            Event::Written {
                server,
                life,
                snapshot,
            } => {
                let good = !self.plan.failing || self.chance.below(3) > 0;
                let mut out = Outbox::new();
                let slot = &mut self.servers[server];
                let Some(process) = slot.process.as_mut().filter(|_| slot.life == life) else {
                    return;
                };
                process.written(snapshot, good, &mut self.disks[server], &mut out);
                self.send_from_server(server, out);
            }
            Event::ToTrainer {
                server,
                trainer,
                life,
                message,
            } => {
                if self.hold_trainer(
                    trainer,
                    life,
                    Event::ToTrainer {
                        server,
                        trainer,
                        life,
                        message: message.clone(),
                    },
                ) {
                    return;
                }
                let mut out = Outbox::new();
                let (now, slot) = (self.now, &mut self.trainers[trainer]);
                let Some(process) = slot.process.as_mut().filter(|_| slot.life == life) else {
                    return;
                };
                process.hear(server, message, now, &mut out);
                self.send_from_trainer(trainer, out);
            }
            Event::TrainerTick { trainer, life } => {
                if self.hold_trainer(trainer, life, Event::TrainerTick { trainer, life }) {
                    return;
                }
                let mut out = Outbox::new();
                let (now, slot) = (self.now, &mut self.trainers[trainer]);
                let Some(process) = slot.process.as_mut().filter(|_| slot.life == life) else {
                    return;
                };
                process.tick(now, &mut out);
                self.send_from_trainer(trainer, out);
                self.later(HEARTBEAT / 2, Event::TrainerTick { trainer, life });
            }
        }
    }

    /// A stopped process gets its events when it continues, in the order in which they came.
    fn hold_server(&mut self, server: usize, life: u64, event: Event) -> bool {
        let now = self.now;
        let slot = &mut self.servers[server];
        let held = slot.life == life && (slot.stopped_until > now || !slot.backlog.is_empty());
        if held {
            slot.backlog.push(event);
        }
        held
    }

    fn hold_trainer(&mut self, trainer: usize, life: u64, event: Event) -> bool {
        let now = self.now;
        let slot = &mut self.trainers[trainer];
        let held = slot.life == life && (slot.stopped_until > now || !slot.backlog.is_empty());
        if held {
            slot.backlog.push(event);
        }
        held
    }

    fn resume(&mut self, trainer: Option<usize>, server: usize) {
        let until = match trainer {
            Some(trainer) => self.trainers[trainer].stopped_until,
            None => self.servers[server].stopped_until,
        };
        if until > self.now {
            self.later(until - self.now, Event::Resume { trainer, server });
            return;
        }
        let backlog = match trainer {
            Some(trainer) => std::mem::take(&mut self.trainers[trainer].backlog),
            None => std::mem::take(&mut self.servers[server].backlog),
        };
        for event in backlog {
            self.happen(event);
        }
    }

    fn start_trainer(&mut self, trainer: usize) {
        let instance = self.chance.below(u64::MAX);
        let slot = &mut self.trainers[trainer];
        slot.life += 1;
        let life = slot.life;
        let mut process = SimTrainer::new(trainer, self.plan.clone(), instance);
        let saved = self.disks[0].saved.as_ref();
        process.saved = saved.map(|(boundary, _)| (boundary.step, boundary.pass));
        slot.process = Some(process);
        self.later(1, Event::TrainerTick { trainer, life });
    }

    fn start_server(&mut self, server: usize) {
        let slot = &mut self.servers[server];
        slot.life += 1;
        let life = slot.life;
        let mut process = SimServer::new(server, self.plan.clone());
        process.find(&self.disks[server]);
        slot.process = Some(process);
        self.later(1, Event::ServerTick { server, life });
    }

    fn send_from_trainer(&mut self, trainer: usize, out: Outbox) {
        if let Some(((pass, Save::Pass), values)) = &out.saved
            && let Some(process) = &mut self.trainers[trainer].process
        {
            let boundary = Boundary {
                step: Step(process.step()),
                pass: pass + 1,
                batches: vec![0; self.plan.trainers],
            };
            process.saved = Some((boundary.step, boundary.pass));
            for (disk, values) in self.disks.iter_mut().zip(values) {
                disk.saved = Some((boundary.clone(), values.clone()));
            }
        }
        self.saved.extend(out.saved);
        if out.model.is_some() {
            self.models[trainer] = out.model;
        }
        for (server, message) in out.to_server {
            let life = self.servers[server].life;
            let anew = matches!(message, Message::Hello { .. });
            for delay in self.deliveries(trainer, server, 0, anew) {
                let message = message.clone();
                self.later(
                    delay,
                    Event::ToServer {
                        trainer,
                        server,
                        life,
                        message,
                    },
                );
            }
        }
    }

    fn send_from_server(&mut self, server: usize, out: Outbox) {
        self.ordered += u64::from(out.ordered);
        if let Some(snapshot) = out.snapshot {
            let after = 1 + self.chance.below(self.plan.disks[server]);
            let life = self.servers[server].life;
            self.later(
                after,
                Event::Written {
                    server,
                    life,
                    snapshot,
                },
            );
        }
        for (trainer, message) in out.to_trainer {
            let life = self.trainers[trainer].life;
            for delay in self.deliveries(trainer, server, 1, false) {
                let message = message.clone();
                self.later(
                    delay,
                    Event::ToTrainer {
                        server,
                        trainer,
                        life,
                        message,
                    },
                );
            }
        }
    }

    /// When a message arrives: never, once, or twice.
    fn deliveries(
        &mut self,
        trainer: usize,
        server: usize,
        direction: usize,
        anew: bool,
    ) -> Vec<Time> {
        let faulty = self.now < self.plan.faults_until;
        let lost = faulty && self.chance.one_in(300);
        let twice = faulty && self.chance.one_in(50);
        let delay = 1 + if self.chance.one_in(10) {
            self.chance.below(60)
        } else {
            self.chance.below(4)
        };
        let link = &mut self.links[trainer * self.plan.servers + server];
        link.broken = (link.broken && !anew) || lost || link.cut_until > self.now;
        if link.broken {
            return Vec::new();
        }
        let arrival = (self.now + delay).max(link.last[direction]);
        link.last[direction] = arrival;
        let mut times = vec![arrival - self.now];
        if twice {
            // A stale copy, after whatever comes in between.
            times.push(arrival - self.now + 20);
        }
        times
    }

    fn fault(&mut self) {
        if self.now >= self.plan.faults_until {
            return;
        }
        let trainer = self.chance.below(self.plan.trainers as u64) as usize;
        let server = self.chance.below(self.plan.servers as u64) as usize;
        let back = 10 + self.chance.below(500);
        match self.chance.below(6) {
            0 if self.trainers[trainer].process.is_some() => {
                let lost = self.trainers[trainer].process.take();
                self.interrupted_saves += u64::from(lost.is_some_and(|t| t.saves()));
                self.trainers[trainer].life += 1;
                self.later(back, Event::StartTrainer { trainer });
            }
            1 if self.servers[server].process.take().is_some() => {
                self.servers[server].life += 1;
                self.later(back, Event::StartServer { server });
            }
            2 => {
                self.trainers[trainer].stopped_until = self.now + 3 * back;
                self.later(
                    3 * back,
                    Event::Resume {
                        trainer: Some(trainer),
                        server,
                    },
                );
            }
            3 => {
                self.servers[server].stopped_until = self.now + 3 * back;
                self.later(
                    3 * back,
                    Event::Resume {
                        trainer: None,
                        server,
                    },
                );
            }
            4 => {
                if let Some(process) = &mut self.servers[server].process {
                    process.want_snapshot();
                }
            }
            _ => self.links[trainer * self.plan.servers + server].cut_until = self.now + 2 * back,
        }
        let next = 20 + self.chance.below(600);
        self.later(next, Event::Fault);
    }
}
