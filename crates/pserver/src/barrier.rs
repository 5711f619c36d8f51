//! Decides when gradients may be applied and when a step or a pass is complete, for one service.
//!
//! The barrier is a value, not a task: it takes what arrived and returns what to do. Sockets, timeouts and locks
//! belong to the caller, so every order of arrival can be tested and simulated.
//!
//! Synchronous: a table is applied when every trainer has pushed it, has finished its batch without it, or has no
//! more data in this pass; a step is complete when all tables are applied and every trainer has finished. The caller
//! sums in the order of trainer ids. A pass is over when no trainer has more data, and ends when trainer 0, which tests
//! and saves in between, says so; until then a recovery returns to it. Asynchronous: a push is applied immediately, and
//! a trainer that is more than the allowed number of batches ahead of the slowest one waits.

use wire::Mode;
use wire::recovery::Boundary;
use wire::{Step, TrainerId};

/// What the caller must do with a table now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apply {
    /// Index of the table.
    pub table: usize,
    /// Samples of the step, over all trainers.
    pub samples: u64,
    /// Whose pushes to sum, in this order.
    pub contributors: Vec<usize>,
}

/// What became complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarrierEvent {
    /// Nothing.
    None,
    /// This many steps are applied now.
    Step(u64),
    /// All trainers have finished the pass; the next one has this number.
    Pass(u64),
}

/// Why a message is not allowed now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BarrierError {
    /// For a step that is complete or too far ahead.
    #[error("trainer {trainer} sent step {got}, the open step is {open}")]
    WrongStep {
        /// The sender.
        trainer: usize,
        /// The step of the message.
        got: u64,
        /// The step that is open.
        open: u64,
    },
    /// A second push of the same table in the same step.
    #[error("trainer {trainer} pushed table {table} twice in step {step}")]
    Twice {
        /// The sender.
        trainer: usize,
        /// Its number in the job.
        table: usize,
        /// Counted from the start of the job.
        step: u64,
    },
    /// The end of a pass in which a trainer still has data.
    #[error("trainer {trainer} ends pass {pass}, which is not over")]
    NotOver {
        /// The sender.
        trainer: usize,
        /// Counted from 0.
        pass: u64,
    },
    /// A push or finish of a trainer that has finished the batch or pass.
    #[error("trainer {trainer} sent more after it had finished")]
    Finished {
        /// The sender.
        trainer: usize,
    },
}

/// Whether a message may be accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// Accept it.
    Now,
    /// Its step opens when the others have finished the present one: try again then.
    Later,
    /// It violates the protocol.
    Refused(BarrierError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Working { samples: u64 },
    Finished { samples: u64 },
    Idle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Push {
    None,
    Arriving,
    Stored,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Applied {
    No,
    Under,
    Yes,
}

/// The barrier of one service.
#[derive(Debug, Clone)]
pub struct Barrier {
    mode: Mode,
    step: u64,
    pass: u64,
    batches: Vec<u64>,
    finished: u64,
    turns: Vec<Turn>,
    pushes: Vec<Push>,
    applied: Vec<Applied>,
    /// Trainer 0 has finished its work at the end of the pass.
    paid: bool,
}

impl Barrier {
    /// A barrier that continues at `boundary`, whose list of batches has one entry per trainer.
    pub fn new(mode: Mode, tables: usize, boundary: &Boundary) -> Self {
        let trainers = boundary.batches.len();
        Self {
            mode,
            step: boundary.step.0,
            pass: boundary.pass,
            batches: boundary.batches.clone(),
            finished: boundary.step.0 * trainers as u64,
            turns: vec![Turn::Working { samples: 0 }; trainers],
            pushes: vec![Push::None; trainers * tables],
            applied: vec![Applied::No; tables],
            paid: false,
        }
    }

    /// Steps applied.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The number of steps that may be applied once a trainer's batch of `step` is finished.
    pub fn step_after(&self, step: u64) -> u64 {
        match self.mode {
            Mode::Sync => step.saturating_add(1),
            Mode::Async { .. } => (self.finished + 1) / self.turns.len() as u64,
        }
    }

    /// Passes finished.
    pub fn pass(&self) -> u64 {
        self.pass
    }

    /// The present boundary; `None` while something is half applied.
    pub fn boundary(&self) -> Option<Boundary> {
        let whole = self.applied.iter().all(|a| *a == Applied::No);
        whole.then(|| Boundary {
            step: Step(self.step),
            pass: self.pass,
            batches: self.batches.clone(),
        })
    }

    /// No trainer has more data in this pass.
    pub fn over(&self) -> bool {
        self.turns.iter().all(|turn| *turn == Turn::Idle)
    }

    /// Where a job would continue from what is saved now: if the pass is over, at the beginning of the next one.
    pub(crate) fn saved_boundary(&self) -> Boundary {
        let over = self.over();
        let batches = self.batches.iter().map(|b| if over { 0 } else { *b });
        Boundary {
            step: Step(self.step),
            pass: self.pass + u64::from(over),
            batches: batches.collect(),
        }
    }

    /// May `trainer` push `table` in `step`? If so, the push is in progress until [`Barrier::stored`].
    pub fn push(&mut self, trainer: usize, step: u64, table: usize, samples: u64) -> Admission {
        match self.admission(trainer, step) {
            Admission::Now => {}
            other => return other,
        }
        let slot = trainer * self.applied.len() + table;
        if self.pushes[slot] != Push::None {
            return Admission::Refused(BarrierError::Twice {
                trainer,
                table,
                step,
            });
        }
        self.pushes[slot] = Push::Arriving;
        self.turns[trainer] = Turn::Working { samples };
        Admission::Now
    }

    /// If the push in progress is the last one that its table waits for, the table may be applied while the
    /// push still arrives. The caller must then call [`Barrier::applied`] instead of [`Barrier::stored`]; if the push
    /// never arrives, the table is half applied and the service is at no boundary.
    pub fn last(&mut self, trainer: usize, table: usize) -> Option<Apply> {
        if self.mode != Mode::Sync {
            return None;
        }
        let slot = trainer * self.applied.len() + table;
        self.pushes[slot] = Push::Stored;
        let apply = self.ready(table);
        if apply.is_none() {
            self.pushes[slot] = Push::Arriving;
        }
        apply
    }

    /// Would a message of `trainer` for `step` be accepted?
    pub fn admission(&self, trainer: usize, step: u64) -> Admission {
        if self.mode != Mode::Sync {
            return match self.turns[trainer] {
                Turn::Idle => Admission::Refused(BarrierError::Finished { trainer }),
                _ if self.lead(trainer) > self.staleness() => Admission::Later,
                _ => Admission::Now,
            };
        }
        let finished = !matches!(self.turns[trainer], Turn::Working { .. });
        if step == self.step + 1 && matches!(self.turns[trainer], Turn::Finished { .. }) {
            return Admission::Later;
        }
        if step != self.step {
            return Admission::Refused(BarrierError::WrongStep {
                trainer,
                got: step,
                open: self.step,
            });
        }
        if finished {
            return Admission::Refused(BarrierError::Finished { trainer });
        }
        Admission::Now
    }

    fn staleness(&self) -> u64 {
        match self.mode {
            Mode::Sync => 0,
            Mode::Async { staleness } => u64::from(staleness),
        }
    }

    /// Batches that a trainer is ahead of the slowest one that still has data.
    pub fn lead(&self, trainer: usize) -> u64 {
        let busy = self
            .turns
            .iter()
            .zip(&self.batches)
            .filter(|(turn, _)| **turn != Turn::Idle);
        let slowest = busy.map(|(_, batches)| *batches).min();
        slowest.map_or(0, |slowest| self.batches[trainer].saturating_sub(slowest))
    }

    /// The whole push has arrived. Returns what can be applied now.
    pub fn stored(&mut self, trainer: usize, table: usize) -> Vec<Apply> {
        let slot = trainer * self.applied.len() + table;
        if self.mode != Mode::Sync {
            self.pushes[slot] = Push::None;
            let samples = self.samples_of(trainer);
            return vec![Apply {
                table,
                samples,
                contributors: vec![trainer],
            }];
        }
        self.pushes[slot] = Push::Stored;
        self.ready(table).into_iter().collect()
    }

    /// The trainer has pushed all of its batch.
    pub fn finish(
        &mut self,
        trainer: usize,
        step: u64,
        samples: u64,
    ) -> Result<Vec<Apply>, Admission> {
        match self.admission(trainer, step) {
            Admission::Now => {}
            other => return Err(other),
        }
        if self.mode != Mode::Sync {
            self.batches[trainer] += 1;
            self.finished += 1;
            return Ok(Vec::new());
        }
        self.turns[trainer] = Turn::Finished { samples };
        Ok((0..self.applied.len())
            .filter_map(|table| self.ready(table))
            .collect())
    }

    /// The trainer has no more data in this pass.
    pub fn idle(&mut self, trainer: usize, step: u64) -> Result<Vec<Apply>, Admission> {
        match self.admission(trainer, step) {
            Admission::Now => {}
            other => return Err(other),
        }
        self.turns[trainer] = Turn::Idle;
        if self.mode != Mode::Sync {
            return Ok(Vec::new());
        }
        Ok((0..self.applied.len())
            .filter_map(|table| self.ready(table))
            .collect())
    }

    /// The trainer has finished its work at the end of a pass. The others wait only for trainer 0.
    pub fn end_pass(&mut self, trainer: usize) -> Result<(), BarrierError> {
        if !self.over() {
            let pass = self.pass;
            return Err(BarrierError::NotOver { trainer, pass });
        }
        self.paid |= trainer == 0;
        Ok(())
    }

    fn samples_of(&self, trainer: usize) -> u64 {
        match self.turns[trainer] {
            Turn::Working { samples } | Turn::Finished { samples } => samples,
            Turn::Idle => 0,
        }
    }

    fn ready(&mut self, table: usize) -> Option<Apply> {
        let tables = self.applied.len();
        let stored = |trainer: usize| self.pushes[trainer * tables + table] == Push::Stored;
        let working = |turn: &Turn| matches!(turn, Turn::Working { .. });
        let trainers = 0..self.turns.len();
        let complete = trainers
            .clone()
            .all(|t| stored(t) || !working(&self.turns[t]));
        let somebody = self.turns.iter().any(|turn| *turn != Turn::Idle);
        if !complete || !somebody || self.applied[table] != Applied::No {
            return None;
        }
        let apply = Apply {
            table,
            samples: trainers.clone().map(|t| self.samples_of(t)).sum(),
            contributors: trainers.filter(|t| stored(*t)).collect(),
        };
        self.applied[table] = Applied::Under;
        Some(apply)
    }

    /// The table has been applied. Always followed by [`Barrier::advance`].
    pub fn applied(&mut self, table: usize) {
        if self.mode == Mode::Sync {
            self.applied[table] = Applied::Yes;
        }
    }

    /// Whether all tables of the open step have been applied.
    pub(crate) fn all_applied(&self) -> bool {
        self.applied.iter().all(|applied| *applied == Applied::Yes)
    }

    /// Whether trainers take every step together.
    pub(crate) fn is_sync(&self) -> bool {
        self.mode == Mode::Sync
    }

    /// Opens the next step or pass if one is complete. Call it after every message.
    pub fn advance(&mut self) -> BarrierEvent {
        if self.over() {
            if !std::mem::take(&mut self.paid) {
                return BarrierEvent::None;
            }
            self.pass += 1;
            self.batches.fill(0);
            self.turns.fill(Turn::Working { samples: 0 });
            return BarrierEvent::Pass(self.pass);
        }
        if self.mode != Mode::Sync {
            let step = self.finished / self.turns.len() as u64;
            if step > self.step {
                self.step = step;
                return BarrierEvent::Step(step);
            }
            return BarrierEvent::None;
        }
        let working = self
            .turns
            .iter()
            .any(|turn| matches!(turn, Turn::Working { .. }));
        if working || self.applied.iter().any(|a| *a != Applied::Yes) {
            return BarrierEvent::None;
        }
        for (turn, batches) in self.turns.iter_mut().zip(&mut self.batches) {
            if matches!(turn, Turn::Finished { .. }) {
                *turn = Turn::Working { samples: 0 };
                *batches += 1;
            }
        }
        self.pushes.fill(Push::None);
        self.applied.fill(Applied::No);
        self.step += 1;
        BarrierEvent::Step(self.step)
    }

    /// Whether `trainer` may read `table` with `step` steps applied.
    pub fn readable(&self, trainer: usize, table: usize, step: u64) -> bool {
        match self.mode {
            Mode::Sync => {
                step <= self.step || (step == self.step + 1 && self.applied[table] == Applied::Yes)
            }
            Mode::Async { staleness } => self.lead(trainer) <= u64::from(staleness),
        }
    }

    /// The trainers that the others wait for.
    pub fn waits_for(&self) -> Vec<TrainerId> {
        let list = |wanted: &dyn Fn(usize) -> bool| {
            (0..self.turns.len())
                .filter(|t| wanted(*t))
                .map(|t| TrainerId(t as u32))
                .collect()
        };
        match self.mode {
            _ if self.over() => list(&|t| t == 0),
            Mode::Sync
                if self
                    .turns
                    .iter()
                    .any(|turn| !matches!(turn, Turn::Working { .. })) =>
            {
                list(&|t| matches!(self.turns[t], Turn::Working { .. }))
            }
            Mode::Async { staleness } => {
                let most = (0..self.turns.len())
                    .map(|t| self.lead(t))
                    .max()
                    .unwrap_or(0);
                if most > u64::from(staleness) {
                    list(&|t| self.turns[t] != Turn::Idle && self.lead(t) == 0)
                } else {
                    Vec::new()
                }
            }
            Mode::Sync => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn barrier(mode: Mode, trainers: usize, tables: usize) -> Barrier {
        let boundary = Boundary {
            step: Step(0),
            pass: 0,
            batches: vec![0; trainers],
        };
        Barrier::new(mode, tables, &boundary)
    }

    #[test]
    fn a_table_is_applied_when_the_last_trainer_has_pushed_it() {
        let mut b = barrier(Mode::Sync, 2, 1);
        assert_eq!(b.push(1, 0, 0, 5), Admission::Now);
        assert_eq!(b.stored(1, 0), vec![]);
        assert_eq!(b.push(0, 0, 0, 3), Admission::Now);
        let apply = Apply {
            table: 0,
            samples: 8,
            contributors: vec![0, 1],
        };
        assert_eq!(b.stored(0, 0), vec![apply]);
        assert_eq!(b.boundary(), None);
        b.applied(0);
        assert_eq!(b.advance(), BarrierEvent::None);
        assert!(b.readable(0, 0, 1) && !b.readable(0, 0, 2));
        assert_eq!(b.finish(0, 0, 3), Ok(vec![]));
        assert_eq!(b.push(0, 1, 0, 3), Admission::Later);
        assert_eq!(b.finish(1, 0, 5), Ok(vec![]));
        assert_eq!(b.advance(), BarrierEvent::Step(1));
        assert_eq!(b.push(0, 1, 0, 3), Admission::Now);
    }

    #[test]
    fn the_last_push_may_be_applied_while_it_arrives() {
        let mut b = barrier(Mode::Sync, 2, 1);
        assert_eq!(b.push(1, 0, 0, 5), Admission::Now);
        assert_eq!(b.last(1, 0), None);
        assert_eq!(b.stored(1, 0), vec![]);
        assert_eq!(b.push(0, 0, 0, 3), Admission::Now);
        let apply = Apply {
            table: 0,
            samples: 8,
            contributors: vec![0, 1],
        };
        assert_eq!(b.last(0, 0), Some(apply));
        assert_eq!(b.boundary(), None);
        b.applied(0);
        assert!(b.readable(1, 0, 1));
    }

    #[test]
    fn a_trainer_without_data_does_not_hold_up_the_others() {
        let mut b = barrier(Mode::Sync, 2, 1);
        assert_eq!(b.push(0, 0, 0, 4), Admission::Now);
        assert_eq!(b.stored(0, 0), vec![]);
        let apply = Apply {
            table: 0,
            samples: 4,
            contributors: vec![0],
        };
        assert_eq!(b.idle(1, 0), Ok(vec![apply]));
        b.applied(0);
        assert_eq!(b.finish(0, 0, 4), Ok(vec![]));
        assert_eq!(b.advance(), BarrierEvent::Step(1));
        assert_eq!(b.idle(0, 1), Ok(vec![]));
        assert_eq!(b.end_pass(0), Ok(()));
        assert_eq!(b.advance(), BarrierEvent::Pass(1));
        assert_eq!(b.boundary().unwrap().batches, vec![0, 0]);
    }

    #[test]
    fn a_pass_that_is_over_stands_until_trainer_0_has_ended_it() {
        for mode in [Mode::Sync, Mode::Async { staleness: 0 }] {
            let mut b = barrier(mode, 2, 0);
            let inside = b.end_pass(0);
            let (trainer, pass) = (0, 0);
            assert_eq!(inside, Err(BarrierError::NotOver { trainer, pass }));
            assert_eq!(b.finish(1, 0, 4), Ok(vec![]));
            assert_eq!(b.idle(0, 0), Ok(vec![]));
            b.advance();
            let step = b.step();
            assert_eq!(b.idle(1, step), Ok(vec![]));
            for trainer in [1, 1] {
                assert_eq!(b.advance(), BarrierEvent::None);
                assert_eq!(b.end_pass(trainer), Ok(()));
            }
            assert!(b.over() && b.readable(1, 0, step), "it can be read");
            assert_eq!(b.waits_for(), vec![TrainerId(0)]);
            let boundary = b.boundary().unwrap();
            assert_eq!((boundary.pass, boundary.batches), (0, vec![0, 1]));
            let saved = b.saved_boundary();
            assert_eq!((saved.pass, &saved.batches), (1, &vec![0, 0]));
            assert_eq!(b.end_pass(0), Ok(()));
            assert_eq!(b.advance(), BarrierEvent::Pass(1));
            assert_eq!(
                b.advance(),
                BarrierEvent::None,
                "the next pass is not ended"
            );
            assert_eq!(b.boundary(), Some(saved));
        }
    }

    #[test]
    fn repeated_stale_and_late_messages_are_refused() {
        let mut b = barrier(Mode::Sync, 2, 1);
        assert_eq!(b.push(0, 0, 0, 1), Admission::Now);
        let twice = BarrierError::Twice {
            trainer: 0,
            table: 0,
            step: 0,
        };
        assert_eq!(b.push(0, 0, 0, 1), Admission::Refused(twice));
        let wrong = BarrierError::WrongStep {
            trainer: 0,
            got: 4,
            open: 0,
        };
        assert_eq!(b.push(0, 4, 0, 1), Admission::Refused(wrong));
        assert_eq!(b.finish(1, 0, 1), Ok(vec![]));
        let finished = BarrierError::Finished { trainer: 1 };
        assert_eq!(b.push(1, 0, 0, 1), Admission::Refused(finished));
    }

    #[test]
    fn a_table_that_nobody_pushes_is_applied_without_gradients() {
        let mut b = barrier(Mode::Sync, 2, 2);
        assert_eq!(b.finish(0, 0, 1), Ok(vec![]));
        let applies = b.finish(1, 0, 2).unwrap();
        assert_eq!(applies.len(), 2);
        assert!(
            applies
                .iter()
                .all(|a| a.contributors.is_empty() && a.samples == 3)
        );
    }

    #[test]
    fn async_bounds_the_lead_and_drops_nothing() {
        let mut b = barrier(Mode::Async { staleness: 1 }, 2, 1);
        for _ in 0..2 {
            assert_eq!(b.push(0, 0, 0, 1), Admission::Now);
            assert_eq!(b.stored(0, 0).len(), 1);
            assert_eq!(b.finish(0, 0, 1), Ok(vec![]));
            b.advance();
        }
        assert_eq!(b.lead(0), 2);
        assert!(!b.readable(0, 0, 0) && b.readable(1, 0, 0));
        assert_eq!(b.push(0, 0, 0, 1), Admission::Later);
        assert_eq!(b.waits_for(), vec![TrainerId(1)]);
        assert_eq!(b.idle(1, 0), Ok(vec![]));
        assert_eq!(b.lead(0), 0);
        assert_eq!(b.push(0, 0, 0, 1), Admission::Now);
    }

    #[test]
    fn one_async_trainer_never_waits() {
        let mut b = barrier(Mode::Async { staleness: 0 }, 1, 1);
        for batch in 0..50 {
            assert_eq!(b.push(0, batch, 0, 1), Admission::Now);
            assert_eq!(b.stored(0, 0).len(), 1);
            assert_eq!(b.finish(0, batch, 1), Ok(vec![]));
            assert_eq!(b.advance(), BarrierEvent::Step(batch + 1));
        }
    }
}
