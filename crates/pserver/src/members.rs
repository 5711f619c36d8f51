//! Who takes part: decides who may join, when an epoch ends and when the next may begin. Pure; time is given.
//!
//! Each trainer has a seat. A seat waits (its trainer wants to be let in) or is in an epoch. Losing anybody while
//! an epoch runs ends the epoch: everybody comes back to wait, and trainer 0 opens the next one.

use crate::snapshot::Wanted;
use wire::message::{Code, Hello, Refusal};
use wire::recovery::Phase;
use wire::{Epoch, Topology, TrainerId};

/// Milliseconds on the server's clock.
pub type Millis = u64;

/// What all trainers of a job must agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Terms {
    topology: Topology,
    server: u32,
    servers_hash: u64,
    job_hash: u64,
    job: String,
    shapes: u64,
    first: TrainerId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seat {
    instance: u64,
    connection: u64,
    heard: Millis,
    /// The epoch that its heartbeats name.
    at: Epoch,
    /// It has data connections in the present epoch. Kept apart from `at`: a heartbeat from before it entered may
    /// arrive after them.
    attached: bool,
}

impl Seat {
    fn waits(self) -> bool {
        self.at == Epoch(0) && !self.attached
    }
}

/// The members of a job as one server sees them.
#[derive(Debug)]
pub struct Members {
    silence: Millis,
    seats: Vec<Option<Seat>>,
    left: Vec<bool>,
    terms: Option<Terms>,
    epoch: Epoch,
    phase: Phase,
    reason: String,
}

/// Whether a call ended the epoch that was running.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing of note.
    None,
    /// The epoch is over; everything that waits in it must be told.
    Broken,
}

impl Members {
    /// Nobody has come yet. `silence`: how long a trainer may say nothing.
    pub fn new(trainers: u32, silence: Millis) -> Self {
        Self {
            silence,
            seats: vec![None; trainers as usize],
            left: vec![false; trainers as usize],
            terms: None,
            epoch: Epoch(0),
            phase: Phase::Lobby,
            reason: String::new(),
        }
    }

    /// What the server does.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The newest epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Why nothing runs.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Whose snapshots may be restored and where this server stands, once a trainer has told it.
    pub fn wanted(&self) -> Option<Wanted> {
        self.terms.as_ref().map(|terms| Wanted {
            job: terms.job.clone(),
            shapes: terms.shapes,
            topology: terms.topology,
            server: terms.server,
        })
    }

    /// Trainers that wait to be let in.
    pub fn waiting(&self) -> Vec<TrainerId> {
        self.list(|seat| seat.is_some_and(Seat::waits))
    }

    /// Trainers that are not here.
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

    /// Checks what every connection must satisfy, whatever it is for.
    pub fn check(&mut self, hello: &Hello) -> Result<(), Refusal> {
        let trainers = self.seats.len() as u32;
        if hello.trainers != trainers {
            return Err(mismatch(format!(
                "trainer {} believes in {} trainers, this server in {trainers}; check --num_gradient_servers",
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
            first: hello.trainer,
        };
        let known = match &self.terms {
            Some(known) if self.epoch != Epoch(0) || self.seats.iter().any(Option::is_some) => {
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
                "trainer {me} has another list of servers or ports than trainer {first}; give all the same --pservers, --ports_num and --ports_num_for_sparse"
            )));
        }
        if known.job_hash != terms.job_hash {
            return Err(mismatch(format!(
                "trainer {me} trains another model or with other settings than trainer {first}; give all the same configuration"
            )));
        }
        Ok(())
    }

    /// A trainer's pulse connection begins: it takes its seat and waits.
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
                    "trainer id {} is taken by a process that was heard {} ms ago",
                    hello.trainer,
                    now - old.heard
                ),
            });
        }
        let was = seat.replace(Seat {
            instance: hello.instance,
            connection,
            heard: now,
            at: Epoch(0),
            attached: false,
        });
        self.left[hello.trainer.index()] = false;
        // A server and trainer 0 that were both replaced would count epochs from 1 again, and a trainer that has seen
        // a later one would never enter.
        if self.phase != Phase::Running {
            self.epoch = self.epoch.max(hello.epoch);
        }
        if was.is_some_and(|seat| !seat.waits()) {
            return Ok(self.end(format!("trainer {} joins again", hello.trainer)));
        }
        Ok(Effect::None)
    }

    /// A heartbeat. A trainer that was in the epoch and says that it waits has left it. Refused if the seat is no
    /// longer this connection's: its trainer must join again.
    pub fn beat(
        &mut self,
        trainer: TrainerId,
        connection: u64,
        at: Epoch,
        now: Millis,
    ) -> Result<Effect, Refusal> {
        let Some(seat) = self.own(trainer, connection) else {
            let text = format!("trainer {trainer} has lost its seat");
            return Err(Refusal {
                code: Code::Interrupted,
                text,
            });
        };
        let before = seat.at;
        seat.heard = now;
        seat.at = at;
        if before != Epoch(0) && at != before {
            return Ok(self.end(format!("trainer {trainer} left")));
        }
        Ok(Effect::None)
    }

    /// A command connection begins: only a trainer that has its seat may command, so that a process with an id that
    /// is not its own cannot end the job of the others.
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

    /// A data connection begins: only members that run in the present epoch may have one.
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
                text: format!("epoch {} is over: {}", hello.epoch, self.reason),
            }),
        }
    }

    /// A pulse connection has ended.
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

    /// Looks for trainers that have been silent for too long; answers their connections, to be cut.
    pub fn tick(&mut self, now: Millis) -> (Effect, Vec<u64>) {
        let mut cut = Vec::new();
        let mut effect = Effect::None;
        for at in 0..self.seats.len() {
            let Some(seat) = self.seats[at] else { continue };
            let quiet = now.saturating_sub(seat.heard);
            if quiet < self.silence {
                continue;
            }
            self.seats[at] = None;
            cut.push(seat.connection);
            let reason = format!(
                "trainer {at} is lost: not heard for {:.1} s",
                quiet as f64 / 1000.0
            );
            if self.end(reason) == Effect::Broken {
                effect = Effect::Broken;
            }
        }
        (effect, cut)
    }

    /// May this epoch begin? All trainers must be here and wait.
    pub fn may_open(&self, trainer: TrainerId, epoch: Epoch) -> Result<(), Refusal> {
        let interrupted = |text: String| {
            Err(Refusal {
                code: Code::Interrupted,
                text,
            })
        };
        if trainer != TrainerId(0) {
            let text = format!("only trainer 0 opens epochs, not trainer {trainer}");
            return Err(Refusal {
                code: Code::Invalid,
                text,
            });
        }
        if epoch <= self.epoch {
            return interrupted(format!("epoch {epoch} is not newer than {}", self.epoch));
        }
        if self.waiting().len() != self.seats.len() {
            return interrupted("not all trainers wait to be let in".to_owned());
        }
        Ok(())
    }

    /// The epoch begins.
    pub fn opened(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.phase = Phase::Running;
        self.reason.clear();
        self.left.fill(false);
        self.seats
            .iter_mut()
            .flatten()
            .for_each(|seat| seat.attached = false);
    }

    /// A trainer is done. True when all are.
    pub fn leave(&mut self, trainer: TrainerId) -> bool {
        self.left[trainer.index()] = true;
        if self.left.iter().all(|left| *left) && self.phase == Phase::Running {
            self.phase = Phase::Finished;
        }
        self.phase == Phase::Finished
    }

    /// The job cannot go on. The first reason stays.
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
    use wire::message::Role;

    fn hello(trainer: u32, instance: u64) -> Hello {
        Hello {
            nonce: String::new(),
            proof: String::new(),
            role: Role::Pulse,
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
            epoch: Epoch(1),
        }
    }

    fn running() -> Members {
        let mut m = Members::new(2, 1000);
        let new = |trainer, instance| Hello {
            epoch: Epoch(0),
            ..hello(trainer, instance)
        };
        assert_eq!(m.join(&new(0, 10), 1, 0), Ok(Effect::None));
        assert_eq!(m.join(&new(1, 11), 2, 0), Ok(Effect::None));
        assert_eq!(m.may_open(TrainerId(0), Epoch(1)), Ok(()));
        m.opened(Epoch(1));
        assert_eq!(m.attach(&hello(0, 10)), Ok(()));
        assert_eq!(m.attach(&hello(1, 11)), Ok(()));
        m
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
                "another model",
            ),
        ];
        for (hello, words) in cases {
            let refusal = m.check(&hello).unwrap_err();
            assert_eq!(refusal.code, Code::Mismatch);
            assert!(refusal.text.contains(words), "{}", refusal.text);
        }
        assert_eq!(m.phase(), Phase::Running, "the others go on");
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
        assert!(m.beat(TrainerId(1), 2, Epoch(1), 1).is_err());
        assert_eq!(m.beat(TrainerId(1), 5, Epoch(0), 1), Ok(Effect::None));
    }

    #[test]
    fn epochs_go_on_from_the_newest_that_any_trainer_has_seen() {
        let mut m = Members::new(2, 1000);
        let from = |trainer, epoch| Hello {
            epoch: Epoch(epoch),
            ..hello(trainer, 10)
        };
        assert_eq!(m.join(&from(0, 0), 1, 0), Ok(Effect::None));
        assert_eq!(m.join(&from(1, 7), 2, 0), Ok(Effect::None));
        assert_eq!(m.epoch(), Epoch(7));
        assert!(m.may_open(TrainerId(0), Epoch(7)).is_err());
        assert_eq!(m.may_open(TrainerId(0), Epoch(8)), Ok(()));
    }

    #[test]
    fn silence_is_a_loss() {
        let mut m = running();
        assert_eq!(m.beat(TrainerId(0), 1, Epoch(1), 900), Ok(Effect::None));
        assert_eq!(m.tick(1100), (Effect::Broken, vec![2]));
        assert!(m.reason().contains("trainer 1"), "{}", m.reason());
    }

    #[test]
    fn an_epoch_opens_only_when_all_have_come_back_to_wait() {
        let mut m = running();
        assert_eq!(m.lost(TrainerId(1), 2), Effect::Broken);
        assert_eq!(m.join(&hello(1, 12), 5, 10), Ok(Effect::None));
        assert!(
            m.may_open(TrainerId(0), Epoch(2)).is_err(),
            "trainer 0 is still in the old epoch"
        );
        assert_eq!(m.join(&hello(0, 10), 6, 20), Ok(Effect::None));
        assert!(m.may_open(TrainerId(0), Epoch(1)).is_err(), "an old number");
        assert!(m.may_open(TrainerId(1), Epoch(2)).is_err(), "not trainer 0");
        assert_eq!(m.may_open(TrainerId(0), Epoch(2)), Ok(()));
    }

    #[test]
    fn a_heartbeat_from_before_entering_is_no_departure() {
        let mut m = running();
        assert_eq!(m.beat(TrainerId(0), 1, Epoch(0), 5), Ok(Effect::None));
        assert_eq!(m.beat(TrainerId(0), 1, Epoch(1), 6), Ok(Effect::None));
        assert_eq!(m.phase(), Phase::Running);
        assert_eq!(m.beat(TrainerId(0), 1, Epoch(0), 7), Ok(Effect::Broken));
    }

    #[test]
    fn the_job_ends_when_the_last_has_left() {
        let mut m = running();
        assert!(!m.leave(TrainerId(1)));
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
