//! One port's part of the job: pieces of all tables, the barrier, and the pushes that wait for it.
//!
//! Threads of connections meet here. The barrier decides under one short lock; payloads are read, summed and
//! applied outside of it.

use crate::barrier::{Admission, Apply, Barrier, Event};
use crate::dense::DensePiece;
use crate::gradient::{Held, Receive};
use crate::metrics::Metrics;
use crate::sparse::{RowPush, SparsePiece};
use crate::table::Table;
use optim::Progress;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wire::message::{Code, Refusal};
use wire::recovery::Boundary;

/// One service's part of a table.
#[derive(Debug, Clone)]
pub enum Piece {
    /// Blocks of a dense table.
    Dense(Arc<DensePiece>),
    /// Rows of a sparse table.
    Sparse(Arc<SparsePiece>),
    /// Tables of this kind do not live on this port.
    Absent,
}

impl Piece {
    /// The scalars of the table, if any of it is here.
    pub fn progress(&self) -> Option<Progress> {
        match self {
            Self::Dense(piece) => Some(piece.read().progress.clone()),
            Self::Sparse(piece) => Some(piece.progress()),
            Self::Absent => None,
        }
    }

    /// Changes the scalars.
    pub fn change_progress(&self, with: impl FnOnce(&mut Progress)) {
        match self {
            Self::Dense(piece) => piece.change(|data| with(&mut data.progress)),
            Self::Sparse(piece) => piece.change_progress(with),
            Self::Absent => {}
        }
    }

    fn want(&self) {
        match self {
            Self::Dense(piece) => piece.want(),
            Self::Sparse(piece) => piece.want(),
            Self::Absent => {}
        }
    }
}

/// What a service holds.
#[derive(Debug, Default)]
pub struct Pieces {
    /// One a table.
    pub all: Vec<Piece>,
    /// The memory of the dense pieces' values, if it can be shared.
    pub values: Option<Arc<OwnedFd>>,
}

/// A push that waits for the others.
#[derive(Debug)]
pub enum Staged {
    /// Nothing.
    Empty,
    /// The gradient of a dense piece.
    Dense(Held),
    /// Gradients of rows.
    Rows(RowPush),
}

/// The push that a table waited for.
pub enum Last<'a, E> {
    /// It is here.
    Held(Held),
    /// It arrives while the others are summed.
    Arriving(Receive<'a, E>),
}

/// What is asked of the rest of the server when something is complete.
pub trait Listener: Sync {
    /// That many steps are applied on service `port`. Answers whether to take a snapshot now; a trainer may have
    /// ordered one.
    fn step(&self, port: usize, step: u64, ordered: bool) -> bool;
    /// The pieces have been asked to keep the boundary; they can be written.
    fn captured(&self, port: usize, boundary: Boundary, progress: Vec<Option<Progress>>);
    /// A pass has ended on service `port`.
    fn pass(&self, port: usize, step: u64, pass: u64);
}

#[derive(Debug)]
struct State {
    barrier: Barrier,
    reductions: Vec<Option<Vec<f64>>>,
    reduced: (u64, Vec<f64>),
    /// The step of the snapshot that was ordered last.
    ordered: u64,
}

/// One port's part of the job in one epoch.
#[derive(Debug)]
pub struct Service {
    port: usize,
    state: Mutex<State>,
    changed: Condvar,
    pieces: Vec<Piece>,
    /// The memory of the dense pieces' values, if it can be shared.
    values: Option<Arc<OwnedFd>>,
    trainers: usize,
    staged: Vec<Mutex<Staged>>,
    ended: AtomicBool,
    reason: Mutex<String>,
}

impl Service {
    /// A service that goes on at a boundary.
    pub fn new(port: usize, pieces: Pieces, barrier: Barrier, trainers: usize) -> Self {
        let Pieces {
            all: pieces,
            values,
        } = pieces;
        let staged = (0..pieces.len() * trainers)
            .map(|_| Mutex::new(Staged::Empty))
            .collect();
        let state = State {
            barrier,
            reductions: vec![None; trainers],
            reduced: (0, Vec::new()),
            ordered: 0,
        };
        Self {
            port,
            state: Mutex::new(state),
            changed: Condvar::new(),
            pieces,
            values,
            trainers,
            staged,
            ended: AtomicBool::new(false),
            reason: Mutex::default(),
        }
    }

    /// The pieces, one a table.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The pieces for the service of the next epoch.
    pub fn same_pieces(&self) -> Pieces {
        Pieces {
            all: self.pieces.clone(),
            values: self.values.clone(),
        }
    }

    /// The memory of the dense pieces' values, one after another as [`wire::shared::layout`] says; none if it cannot be
    /// shared.
    pub fn values(&self) -> Option<&OwnedFd> {
        self.values.as_deref()
    }

    /// Where the service stands, if at a boundary.
    pub fn boundary(&self) -> Option<Boundary> {
        self.lock().barrier.boundary()
    }

    /// Step, pass, and whom the service waits for.
    pub fn look(&self) -> (u64, u64, Vec<wire::TrainerId>) {
        let state = self.lock();
        (
            state.barrier.step(),
            state.barrier.pass(),
            state.barrier.waits_for(),
        )
    }

    /// The epoch is over: everybody who waits is told so.
    pub fn end(&self, reason: &str) {
        reason.clone_into(&mut self.reason.lock().unwrap_or_else(PoisonError::into_inner));
        let _state = self.lock();
        self.ended.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<T>(
        &self,
        limit: Duration,
        mut attempt: impl FnMut(&mut State) -> Option<Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        let begun = Instant::now();
        let mut state = self.lock();
        loop {
            if self.ended.load(Ordering::Acquire) {
                let text = self
                    .reason
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone();
                return Err(Refusal {
                    code: Code::Interrupted,
                    text,
                });
            }
            if let Some(answer) = attempt(&mut state) {
                return answer;
            }
            let Some(rest) = limit
                .checked_sub(begun.elapsed())
                .filter(|rest| !rest.is_zero())
            else {
                let trainers = state.barrier.waits_for();
                let list: Vec<String> = trainers.iter().map(ToString::to_string).collect();
                let (seconds, list) = (limit.as_secs(), list.join(", "));
                let text = format!("waited {seconds} s for trainer {list}");
                return Err(Refusal {
                    code: Code::Interrupted,
                    text,
                });
            };
            (state, _) = self
                .changed
                .wait_timeout(state, rest)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the trainer may push, and registers the push. Answers its lead over the slowest trainer and, if
    /// the table is dense and waits for this push alone, what to apply while it arrives.
    pub fn begin_push(
        &self,
        limit: Duration,
        (trainer, step): (usize, u64),
        table: usize,
        samples: u64,
    ) -> Result<(u64, Option<Apply>), Refusal> {
        let dense = matches!(self.pieces[table], Piece::Dense(_));
        self.wait(limit, |state| {
            match state.barrier.push(trainer, step, table, samples) {
                Admission::Now => {
                    let apply = if dense {
                        state.barrier.last(trainer, table)
                    } else {
                        None
                    };
                    Some(Ok((state.barrier.lead(trainer), apply)))
                }
                Admission::Later => None,
                Admission::Refused(error) => Some(Err(invalid(error.to_string()))),
            }
        })
    }

    /// Applies a dense table with its last push.
    pub fn apply_last<E>(
        &self,
        tables: &[Table],
        (trainer, apply): (usize, &Apply),
        report: (&Metrics, &dyn Listener),
        last: Last<'_, E>,
    ) -> Result<(), E> {
        let Piece::Dense(piece) = &self.pieces[apply.table] else {
            return Ok(());
        };
        let others = apply.contributors.iter().filter(|t| **t != trainer);
        let before = others.clone().filter(|t| **t < trainer).count();
        let mut pushes: Vec<Held> = others
            .clone()
            .map(|t| self.take_dense(*t, apply.table, piece))
            .collect();
        let table = &tables[apply.table];
        match last {
            Last::Held(held) => {
                pushes.insert(before, held);
                piece.apply(table, apply.samples, &pushes);
                pushes.remove(before);
            }
            Last::Arriving(receive) => {
                piece.apply_arriving(table, apply.samples, (&pushes, before), receive)?;
            }
        }
        for (other, push) in others.zip(pushes) {
            *self.place(*other, apply.table) = Staged::Dense(push);
        }
        self.lock().barrier.applied(apply.table);
        self.perform(tables, Vec::new(), report);
        Ok(())
    }

    /// Takes what the trainer's last push of the table left, to be filled again.
    pub fn take_staged(&self, trainer: usize, table: usize) -> Staged {
        let mut place = self.place(trainer, table);
        std::mem::replace(&mut *place, Staged::Empty)
    }

    /// The gradient that the trainer pushed; zeros if it pushed none.
    fn take_dense(&self, trainer: usize, table: usize, piece: &DensePiece) -> Held {
        match self.take_staged(trainer, table) {
            Staged::Dense(gradient) => gradient,
            _ => Held::Whole(vec![0.0; piece.len()]),
        }
    }

    fn place(&self, trainer: usize, table: usize) -> MutexGuard<'_, Staged> {
        self.staged[trainer * self.pieces.len() + table]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The push has arrived; applies what is complete.
    pub fn end_push(
        &self,
        tables: &[Table],
        trainer: usize,
        table: usize,
        push: Staged,
        report: (&Metrics, &dyn Listener),
    ) {
        *self.place(trainer, table) = push;
        let applies = {
            let mut state = self.lock();
            // What arrives after the end of the epoch is not counted.
            if self.ended.load(Ordering::Acquire) {
                return;
            }
            state.barrier.stored(trainer, table)
        };
        self.perform(tables, applies, report);
    }

    /// The trainer has finished its batch, and may order the snapshot of a step (0: none).
    pub fn finish(
        &self,
        limit: Duration,
        tables: &[Table],
        (trainer, step, samples): (usize, u64, u64),
        order: u64,
        report: (&Metrics, &dyn Listener),
    ) -> Result<(), Refusal> {
        let applies = self.wait(limit, |state| {
            state.ordered = state.ordered.max(order);
            settle(state.barrier.finish(trainer, step, samples))
        })?;
        self.perform(tables, applies, report);
        Ok(())
    }

    /// The trainer has finished its pass; returns step and pass when all have.
    pub fn finish_pass(
        &self,
        limit: Duration,
        tables: &[Table],
        (trainer, step, pass): (usize, u64, u64),
        report: (&Metrics, &dyn Listener),
    ) -> Result<(u64, u64), Refusal> {
        let applies = self.wait(limit, |state| {
            if state.barrier.pass() != pass {
                let text = format!(
                    "trainer {trainer} finished pass {pass}, the open one is {}",
                    state.barrier.pass()
                );
                return Some(Err(invalid(text)));
            }
            settle(state.barrier.idle(trainer, step))
        })?;
        self.perform(tables, applies, report);
        self.wait(limit, |state| {
            let barrier = &state.barrier;
            (barrier.pass() > pass).then(|| Ok((barrier.step(), barrier.pass())))
        })
    }

    /// Waits until the trainer may read the table with that many steps applied.
    pub fn readable(
        &self,
        limit: Duration,
        trainer: usize,
        table: usize,
        step: u64,
    ) -> Result<(), Refusal> {
        self.wait(limit, |state| {
            state
                .barrier
                .readable(trainer, table, step)
                .then_some(Ok(()))
        })
    }

    /// Sums numbers over all trainers, in their order.
    pub fn reduce(
        &self,
        limit: Duration,
        trainer: usize,
        round: u64,
        numbers: Vec<f64>,
    ) -> Result<Vec<f64>, Refusal> {
        let mut offered = Some(numbers);
        self.wait(limit, |state| {
            if let Some(numbers) = offered.take() {
                let first = state.reductions.iter().flatten().next();
                if first.is_some_and(|first| first.len() != numbers.len()) {
                    return Some(Err(invalid(format!(
                        "trainer {trainer} sums another number of values"
                    ))));
                }
                state.reductions[trainer] = Some(numbers);
                if state.reductions.iter().all(Option::is_some) {
                    let parts: Vec<Vec<f64>> = state
                        .reductions
                        .iter_mut()
                        .filter_map(Option::take)
                        .collect();
                    state.reduced = (round, sum(&parts));
                    self.changed.notify_all();
                }
            }
            (state.reduced.0 >= round).then(|| Ok(state.reduced.1.clone()))
        })
    }

    fn perform(
        &self,
        tables: &[Table],
        applies: Vec<Apply>,
        (metrics, listener): (&Metrics, &dyn Listener),
    ) {
        for apply in applies {
            let begun = Instant::now();
            self.apply(&tables[apply.table], &apply);
            metrics.apply.add_time(begun.elapsed());
            self.lock().barrier.applied(apply.table);
            self.changed.notify_all();
        }
        self.changed.notify_all();
        let mut state = self.lock();
        loop {
            match state.barrier.advance() {
                Event::None => break,
                Event::Step(step) => self.step(&state, step, listener),
                Event::Pass(pass) => {
                    for (table, piece) in tables.iter().zip(&self.pieces) {
                        piece.change_progress(|progress| {
                            table.rule.finish_pass(progress);
                            table.rule.start_pass(progress, pass);
                        });
                    }
                    listener.pass(self.port, state.barrier.step(), pass);
                }
            }
            self.changed.notify_all();
        }
    }

    fn step(&self, state: &State, step: u64, listener: &dyn Listener) {
        if !listener.step(self.port, step, state.ordered == step) {
            return;
        }
        let Some(boundary) = state.barrier.boundary() else {
            return;
        };
        self.pieces.iter().for_each(Piece::want);
        let progress = self.pieces.iter().map(Piece::progress).collect();
        listener.captured(self.port, boundary, progress);
    }

    fn apply(&self, table: &Table, apply: &Apply) {
        match &self.pieces[apply.table] {
            Piece::Absent => {}
            Piece::Dense(piece) => {
                let pushes: Vec<Held> = apply
                    .contributors
                    .iter()
                    .map(|t| self.take_dense(*t, apply.table, piece))
                    .collect();
                piece.apply(table, apply.samples, &pushes);
                for (trainer, push) in apply.contributors.iter().zip(pushes) {
                    *self.place(*trainer, apply.table) = Staged::Dense(push);
                }
            }
            Piece::Sparse(piece) => {
                let pushes: Vec<RowPush> = apply
                    .contributors
                    .iter()
                    .filter_map(|t| match self.take_staged(*t, apply.table) {
                        Staged::Rows(push) => Some(push),
                        _ => None,
                    })
                    .collect();
                piece.apply(table, apply.samples, &pushes);
                for (trainer, push) in apply.contributors.iter().zip(pushes) {
                    *self.place(*trainer, apply.table) = Staged::Rows(push);
                }
            }
        }
    }

    /// Number of trainers.
    pub fn trainers(&self) -> usize {
        self.trainers
    }
}

fn settle(answer: Result<Vec<Apply>, Admission>) -> Option<Result<Vec<Apply>, Refusal>> {
    match answer {
        Ok(applies) => Some(Ok(applies)),
        Err(Admission::Refused(error)) => Some(Err(invalid(error.to_string()))),
        Err(Admission::Later | Admission::Now) => None,
    }
}

fn sum(parts: &[Vec<f64>]) -> Vec<f64> {
    let mut total = parts[0].clone();
    for part in &parts[1..] {
        total
            .iter_mut()
            .zip(part)
            .for_each(|(sum, value)| *sum += *value);
    }
    total
}

pub(crate) fn invalid(text: String) -> Refusal {
    Refusal {
        code: Code::Invalid,
        text,
    }
}
