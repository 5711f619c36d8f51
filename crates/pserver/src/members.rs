//! The trainers of a job: decides which may join, when a generation ends and when the next may begin. Pure; time is a
//! parameter.
//!
//! Each trainer has a seat. A seat waits (its trainer wants to be admitted) or is in a generation. The loss of any
//! trainer while a generation runs ends it: all trainers return to waiting, and trainer 0 opens the next one.

use crate::snapshot::SnapshotOwner;
use wire::message::{Code, Hello, Refusal};
use wire::{Generation, Topology, TrainerId};
use words::status::Phase;

/// Milliseconds of the server's clock.
pub(crate) type Millis = u64;

/// What all trainers of a job must agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Terms {
    topology: Topology,
    server: u32,
    servers_hash: u64,
    job_hash: u64,
    job: String,
    shapes: u64,
    holders: u32,
    map: u64,
    first: TrainerId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seat {
    instance: u64,
    connection: u64,
    heard: Millis,
    /// The generation in the trainer's last heartbeat.
    at: Generation,
    /// The trainer has data connections in the present generation. Kept apart from `at`: a heartbeat that it sent
    /// before it joined may arrive after they are open.
    attached: bool,
}

impl Seat {
    fn waits(self) -> bool {
        self.at == Generation(0) && !self.attached
    }
}

/// The members of a job as one server sees them.
#[derive(Debug)]
pub struct Members {
    silence: Millis,
    seats: Vec<Option<Seat>>,
    left: Vec<bool>,
    terms: Option<Terms>,
    epoch: Generation,
    phase: Phase,
    reason: String,
}

/// Whether a call ended the generation that was running.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It did not.
    None,
    /// The generation is over; every request that waits in it must get an error.
    Broken,
}

/// Trainers that were silent for too long, found by [`Members::tick`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SilentTrainers {
    /// Whether their silence ended the generation.
    pub effect: Effect,
    /// Their connections, to be cut.
    pub connections: Vec<u64>,
}

impl Members {
    /// Members of a job that no trainer has joined yet. `silence`: how long a trainer may send nothing.
    pub fn new(trainers: u32, silence: Millis) -> Self {
        Self {
            silence,
            seats: vec![None; trainers as usize],
            left: vec![false; trainers as usize],
            terms: None,
            epoch: Generation(0),
            phase: Phase::Lobby,
            reason: String::new(),
        }
    }

    /// What the server is doing.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The newest generation.
    pub fn epoch(&self) -> Generation {
        self.epoch
    }

    /// Why no generation runs; empty while one does.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Which snapshots may be restored and which server this is; known from the first hello of a trainer on.
    pub fn wanted(&self) -> Option<SnapshotOwner> {
        self.terms.as_ref().map(|terms| SnapshotOwner {
            job: terms.job.clone(),
            shapes: terms.shapes,
            topology: terms.topology,
            server: terms.server,
            holders: terms.holders,
            map: terms.map,
        })
    }

    /// Whether this server holds part of a table, as far as is known.
    fn holds(&self) -> bool {
        let terms = self.terms.as_ref();
        terms.is_none_or(|terms| terms.server < terms.holders)
    }

    /// Whether a generation runs and every trainer is in it: until one is lost, nobody can join.
    pub fn is_complete(&self) -> bool {
        // Without tables there are no data connections.
        let inside = |seat: Seat| seat.attached || (!self.holds() && seat.at == self.epoch);
        let attached = |seat: &Option<Seat>| seat.is_some_and(inside);
        self.phase == Phase::Running && self.seats.iter().all(attached)
    }

    /// Trainers that wait to be admitted.
    pub fn waiting(&self) -> Vec<TrainerId> {
        self.list(|seat| seat.is_some_and(Seat::waits))
    }

    /// Trainers that are not connected.
    pub fn missing(&self) -> Vec<TrainerId> {
        self.list(|seat| seat.is_none())
    }

    fn list(&self, wanted: impl Fn(Option<Seat>) -> bool) -> Vec<TrainerId> {
        let seats = self.seats.iter().enumerate();
        seats
            .filter(|(_, seat)| wanted(**seat))
            .map(|(at, _)| TrainerId(at as u32))
            .collect()
    }

    /// Checks what every connection must satisfy, whatever its purpose.
    pub fn check(&mut self, hello: &Hello) -> Result<(), Refusal> {
        let trainers = self.seats.len() as u32;
        if hello.trainers != trainers {
            return Err(mismatch(format!(
                "trainer {} was started for {} trainers, this server for {trainers}; check --num_gradient_servers",
                hello.trainer, hello.trainers
            )));
        }
        if hello.trainer.0 >= trainers {
            return Err(mismatch(format!(
                "trainer id {} is out of range: the job has {trainers} trainers (0 to {})",
                hello.trainer,
                trainers - 1
            )));
        }
        if self.phase == Phase::Failed {
            return Err(Refusal {
                code: Code::Failed,
                text: self.reason.clone(),
            });
        }
        self.agree(hello)
    }

    fn agree(&mut self, hello: &Hello) -> Result<(), Refusal> {
        let terms = Terms {
            topology: hello.topology,
            server: hello.server,
            servers_hash: hello.servers_hash,
            job_hash: hello.job_hash,
            job: hello.job.clone(),
            shapes: hello.shapes,
            holders: hello.holders,
            map: hello.map,
            first: hello.trainer,
        };
        let known = match &self.terms {
            Some(known)
                if self.epoch != Generation(0) || self.seats.iter().any(Option::is_some) =>
            {
                known
            }
            _ => {
                self.terms = Some(terms);
                return Ok(());
            }
        };
        let (me, first) = (hello.trainer, known.first);
        let same_place = known.servers_hash == terms.servers_hash && known.server == terms.server;
        if !same_place || known.topology != terms.topology {
            return Err(mismatch(format!(
                "trainer {me} has a different list of servers or ports than trainer {first}; start all with the same --pservers, --ports_num and --ports_num_for_sparse"
            )));
        }
        if known.job_hash != terms.job_hash {
            return Err(mismatch(format!(
                "trainer {me} trains a different model or uses different settings than trainer {first}; start all with the same configuration"
            )));
        }
        Ok(())
    }

    /// A trainer's pulse connection opens: it takes its seat and waits.
    pub fn join(&mut self, hello: &Hello, connection: u64, now: Millis) -> Result<Effect, Refusal> {
        self.check(hello)?;
        let seat = &mut self.seats[hello.trainer.index()];
        if let Some(old) = seat
            && old.instance != hello.instance
            && now.saturating_sub(old.heard) < self.silence
        {
            return Err(Refusal {
                code: Code::InUse,
                text: format!(
                    "trainer id {} is in use by a process that was heard from {} ms ago",
                    hello.trainer,
                    now - old.heard
                ),
            });
        }
        let was = seat.replace(Seat {
            instance: hello.instance,
            connection,
            heard: now,
            at: Generation(0),
            attached: false,
        });
        self.left[hello.trainer.index()] = false;
        // A server and trainer 0 that were both replaced would count generations from 1 again, and a trainer that has
        // seen a later one would never join.
        if self.phase != Phase::Running {
            self.epoch = self.epoch.max(hello.epoch);
        }
        if was.is_some_and(|seat| !seat.waits()) {
            return Ok(self.end(format!("trainer {} joins again", hello.trainer)));
        }
        Ok(Effect::None)
    }

    /// A heartbeat arrived. If it says that a trainer of the present generation waits, the trainer has left it. Refused
    /// if another connection has taken the seat: then the trainer must join again.
    pub fn beat(
        &mut self,
        trainer: TrainerId,
        connection: u64,
        at: Generation,
        now: Millis,
    ) -> Result<Effect, Refusal> {
        let Some(seat) = self.own(trainer, connection) else {
            let text = format!("another process has taken over the id of trainer {trainer}");
            return Err(Refusal {
                code: Code::Interrupted,
                text,
            });
        };
        let before = seat.at;
        seat.heard = now;
        seat.at = at;
        if before != Generation(0) && at != before {
            return Ok(self.end(format!("trainer {trainer} left")));
        }
        Ok(Effect::None)
    }

    /// A command connection opens: only a trainer that has its seat may send commands, so that a process with an id
    /// that is not its own cannot end the job of the others.
    pub fn command(&mut self, hello: &Hello) -> Result<(), Refusal> {
        self.check(hello)?;
        let seat = self.seats[hello.trainer.index()];
        if seat.is_some_and(|seat| seat.instance == hello.instance) {
            return Ok(());
        }
        Err(Refusal {
            code: Code::Interrupted,
            text: format!("trainer {} has not joined", hello.trainer),
        })
    }

    /// A data connection opens: only members that run in the present generation may have one.
    pub fn attach(&mut self, hello: &Hello) -> Result<(), Refusal> {
        self.check(hello)?;
        let (epoch, running) = (self.epoch, self.phase == Phase::Running);
        let seat = self.seats[hello.trainer.index()].as_mut();
        match seat.filter(|seat| seat.instance == hello.instance) {
            Some(seat) if running && hello.epoch == epoch => {
                seat.attached = true;
                Ok(())
            }
            _ => Err(Refusal {
                code: Code::Interrupted,
                text: format!("generation {} is over: {}", hello.epoch, self.reason),
            }),
        }
    }

    /// A pulse connection has closed.
    pub fn lost(&mut self, trainer: TrainerId, connection: u64) -> Effect {
        if self.own(trainer, connection).is_none() {
            return Effect::None;
        }
        self.seats[trainer.index()] = None;
        if self.phase == Phase::Finished {
            return Effect::None;
        }
        self.end(format!("trainer {trainer} is lost: its connection closed"))
    }

    /// Call it regularly: finds trainers that have been silent for too long.
    pub fn tick(&mut self, now: Millis) -> SilentTrainers {
        let mut silent = SilentTrainers {
            effect: Effect::None,
            connections: Vec::new(),
        };
        for at in 0..self.seats.len() {
            let Some(seat) = self.seats[at] else { continue };
            let quiet = now.saturating_sub(seat.heard);
            if quiet < self.silence {
                continue;
            }
            self.seats[at] = None;
            silent.connections.push(seat.connection);
            let reason = format!(
                "trainer {at} is lost: not heard for {:.1} s",
                quiet as f64 / 1000.0
            );
            if self.end(reason) == Effect::Broken {
                silent.effect = Effect::Broken;
            }
        }
        silent
    }

    /// Refuses a generation that may not begin: only trainer 0 may open one, when all trainers are connected and waiting.
    pub fn may_open(&self, trainer: TrainerId, epoch: Generation) -> Result<(), Refusal> {
        let interrupted = |text: String| {
            Err(Refusal {
                code: Code::Interrupted,
                text,
            })
        };
        if trainer != TrainerId(0) {
            let text = format!("only trainer 0 may open a generation, not trainer {trainer}");
            return Err(Refusal {
                code: Code::Invalid,
                text,
            });
        }
        if epoch <= self.epoch {
            return interrupted(format!(
                "generation {epoch} is not newer than {}",
                self.epoch
            ));
        }
        if self.waiting().len() != self.seats.len() {
            return interrupted("not all trainers have joined".to_owned());
        }
        Ok(())
    }

    /// The generation begins.
    pub fn opened(&mut self, epoch: Generation) {
        self.epoch = epoch;
        self.phase = Phase::Running;
        self.reason.clear();
        self.left.fill(false);
        self.seats
            .iter_mut()
            .flatten()
            .for_each(|seat| seat.attached = false);
    }

    /// A trainer has finished. Returns true when all have.
    pub fn leave(&mut self, trainer: TrainerId) -> bool {
        self.left[trainer.index()] = true;
        if self.left.iter().all(|left| *left) && self.phase == Phase::Running {
            self.phase = Phase::Finished;
        }
        self.phase == Phase::Finished
    }

    /// Trainers that have not left although another one has.
    pub fn staying(&self) -> Vec<u32> {
        let some_left = self.left.iter().any(|left| *left);
        let ids = (0..).zip(&self.left);
        ids.filter(|(_, left)| some_left && !**left)
            .map(|(id, _)| id)
            .collect()
    }

    /// Marks the job as finished, because it ended before this process began: trainers that join learn that it is over.
    pub fn finish(&mut self) {
        self.phase = Phase::Finished;
    }

    /// The job cannot continue. Only the first reason is kept.
    pub fn fail(&mut self, reason: &str) -> Effect {
        if matches!(self.phase, Phase::Failed | Phase::Finished) {
            return Effect::None;
        }
        self.phase = Phase::Failed;
        self.reason = reason.to_owned();
        Effect::Broken
    }

    fn own(&mut self, trainer: TrainerId, connection: u64) -> Option<&mut Seat> {
        let seat = self.seats.get_mut(trainer.index())?.as_mut();
        seat.filter(|seat| seat.connection == connection)
    }

    fn end(&mut self, reason: String) -> Effect {
        if self.phase != Phase::Running {
            return Effect::None;
        }
        self.phase = Phase::Lobby;
        self.reason = reason;
        self.left.fill(false);
        Effect::Broken
    }
}

fn mismatch(text: String) -> Refusal {
    Refusal {
        code: Code::Mismatch,
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::message::ConnectionRole;

    fn hello(trainer: u32, instance: u64) -> Hello {
        Hello {
            nonce: String::new(),
            proof: String::new(),
            role: ConnectionRole::Pulse,
            trainer: TrainerId(trainer),
            instance,
            trainers: 2,
            topology: Topology {
                servers: 1,
                ports: 1,
                sparse_ports: 0,
            },
            server: 0,
            servers_hash: 1,
            job_hash: 1,
            job: "j".to_owned(),
            shapes: 1,
            holders: 1,
            map: 1,
            epoch: Generation(1),
        }
    }

    fn running() -> Members {
        let mut m = Members::new(2, 1000);
        let new = |trainer, instance| Hello {
            epoch: Generation(0),
            ..hello(trainer, instance)
        };
        assert_eq!(m.join(&new(0, 10), 1, 0), Ok(Effect::None));
        assert_eq!(m.join(&new(1, 11), 2, 0), Ok(Effect::None));
        assert_eq!(m.may_open(TrainerId(0), Generation(1)), Ok(()));
        m.opened(Generation(1));
        assert_eq!(m.attach(&hello(0, 10)), Ok(()));
        assert_eq!(m.attach(&hello(1, 11)), Ok(()));
        m
    }

    #[test]
    fn a_job_is_complete_while_every_trainer_is_in_the_generation() {
        let mut m = running();
        assert!(m.is_complete());
        assert_eq!(m.lost(TrainerId(1), 2), Effect::Broken);
        assert!(!m.is_complete());
    }

    #[test]
    fn a_taken_id_is_refused_until_its_owner_is_silent() {
        let mut m = running();
        let refused = m.join(&hello(1, 99), 3, 500).unwrap_err();
        assert_eq!(refused.code, Code::InUse);
        assert_eq!(m.join(&hello(1, 99), 3, 1500), Ok(Effect::Broken));
        assert_eq!(m.phase(), Phase::Lobby);
    }

    #[test]
    fn contradictions_are_named() {
        let mut m = running();
        let cases = [
            (
                Hello {
                    trainers: 3,
                    ..hello(0, 10)
                },
                "--num_gradient_servers",
            ),
            (
                Hello {
                    trainer: TrainerId(7),
                    ..hello(0, 10)
                },
                "out of range",
            ),
            (
                Hello {
                    servers_hash: 2,
                    ..hello(0, 10)
                },
                "list of servers",
            ),
            (
                Hello {
                    job_hash: 2,
                    ..hello(0, 10)
                },
                "a different model",
            ),
        ];
        for (hello, words) in cases {
            let refusal = m.check(&hello).unwrap_err();
            assert_eq!(refusal.code, Code::Mismatch);
            assert!(refusal.text.contains(words), "{}", refusal.text);
        }
        assert_eq!(m.phase(), Phase::Running, "the others continue");
    }

    #[test]
    fn a_process_without_a_seat_cannot_command() {
        let mut m = running();
        assert_eq!(m.command(&hello(1, 11)), Ok(()));
        assert!(m.command(&hello(1, 99)).is_err());
    }

    #[test]
    fn any_loss_ends_the_epoch_once() {
        let mut m = running();
        assert_eq!(
            m.lost(TrainerId(1), 77),
            Effect::None,
            "an old connection of it"
        );
        assert_eq!(m.lost(TrainerId(1), 2), Effect::Broken);
        assert_eq!(m.lost(TrainerId(0), 1), Effect::None);
        assert_eq!(m.missing(), vec![TrainerId(0), TrainerId(1)]);
    }

    #[test]
    fn a_connection_without_its_seat_is_told_so() {
        let mut m = running();
        assert_eq!(m.join(&hello(1, 11), 5, 0), Ok(Effect::Broken));
        assert!(m.beat(TrainerId(1), 2, Generation(1), 1).is_err());
        assert_eq!(m.beat(TrainerId(1), 5, Generation(0), 1), Ok(Effect::None));
    }

    #[test]
    fn generations_continue_from_the_newest_that_any_trainer_has_seen() {
        let mut m = Members::new(2, 1000);
        let from = |trainer, epoch| Hello {
            epoch: Generation(epoch),
            ..hello(trainer, 10)
        };
        assert_eq!(m.join(&from(0, 0), 1, 0), Ok(Effect::None));
        assert_eq!(m.join(&from(1, 7), 2, 0), Ok(Effect::None));
        assert_eq!(m.epoch(), Generation(7));
        assert!(m.may_open(TrainerId(0), Generation(7)).is_err());
        assert_eq!(m.may_open(TrainerId(0), Generation(8)), Ok(()));
    }

    #[test]
    fn silence_is_a_loss() {
        let mut m = running();
        assert_eq!(
            m.beat(TrainerId(0), 1, Generation(1), 900),
            Ok(Effect::None)
        );
        let silent = m.tick(1100);
        assert_eq!(silent.effect, Effect::Broken);
        assert_eq!(silent.connections, [2]);
        assert!(m.reason().contains("trainer 1"), "{}", m.reason());
    }

    #[test]
    fn an_epoch_opens_only_when_all_have_come_back_to_wait() {
        let mut m = running();
        assert_eq!(m.lost(TrainerId(1), 2), Effect::Broken);
        assert_eq!(m.join(&hello(1, 12), 5, 10), Ok(Effect::None));
        assert!(
            m.may_open(TrainerId(0), Generation(2)).is_err(),
            "trainer 0 is still in the old generation"
        );
        assert_eq!(m.join(&hello(0, 10), 6, 20), Ok(Effect::None));
        assert!(
            m.may_open(TrainerId(0), Generation(1)).is_err(),
            "an old number"
        );
        assert!(
            m.may_open(TrainerId(1), Generation(2)).is_err(),
            "not trainer 0"
        );
        assert_eq!(m.may_open(TrainerId(0), Generation(2)), Ok(()));
    }

    #[test]
    fn a_heartbeat_from_before_entering_is_no_departure() {
        let mut m = running();
        assert_eq!(m.beat(TrainerId(0), 1, Generation(0), 5), Ok(Effect::None));
        assert_eq!(m.beat(TrainerId(0), 1, Generation(1), 6), Ok(Effect::None));
        assert_eq!(m.phase(), Phase::Running);
        assert_eq!(
            m.beat(TrainerId(0), 1, Generation(0), 7),
            Ok(Effect::Broken)
        );
    }

    #[test]
    fn the_job_ends_when_the_last_has_left() {
        let mut m = running();
        assert!(m.staying().is_empty());
        assert!(!m.leave(TrainerId(1)));
        assert_eq!(m.staying(), [0], "it alone keeps the job from ending");
        assert!(m.leave(TrainerId(0)));
        assert_eq!(m.lost(TrainerId(0), 1), Effect::None);
        assert_eq!(m.phase(), Phase::Finished);
    }

    #[test]
    fn a_failure_stays_and_is_told_to_newcomers() {
        let mut m = running();
        assert_eq!(m.fail("disk is gone"), Effect::Broken);
        assert_eq!(m.fail("second"), Effect::None);
        let refusal = m.join(&hello(1, 11), 9, 0).unwrap_err();
        assert_eq!(
            (refusal.code, refusal.text.as_str()),
            (Code::Failed, "disk is gone")
        );
    }
}
