//! One port's part of the job: pieces of all tables, the barrier, and the pushes that wait for it.
//!
//! The threads of connections meet here. The barrier decides under one short lock; payloads are read, summed and
//! applied outside of it. Who has to wait for others is kept here, without a thread ([`Waiter`]).

use crate::barrier::{Admission, Apply, Barrier, BarrierEvent};
use crate::dense::DensePiece;
use crate::gradient::{Held, Receive};
use crate::metrics::ServerMetrics;
use crate::snapshot::plan::RowScope;
use crate::sparse::{RowPush, SparsePiece};
use crate::table::Table;
use crate::waiters::{Awaited, Waiter, Waiters, wake_all};
use optim::ParameterProgress;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use wire::message::{Code, Refusal};
use wire::recovery::Boundary;
use wire::{Step, TableId, TrainerId};
use words::lock::{Condvar, Mutex, MutexGuard};

/// One service's part of a table.
#[derive(Debug, Clone)]
pub(crate) enum TablePiece {
    /// Blocks of a dense table.
    Dense(Arc<DensePiece>),
    /// Rows of a sparse table.
    Sparse(Arc<SparsePiece>),
    /// Tables of this kind are not stored on this port.
    Absent,
}

impl TablePiece {
    /// The scalars of the table; `None` if nothing of it is stored here.
    pub(crate) fn progress(&self) -> Option<ParameterProgress> {
        match self {
            Self::Dense(piece) => Some(piece.read().progress.clone()),
            Self::Sparse(piece) => Some(piece.progress()),
            Self::Absent => None,
        }
    }

    /// Changes the scalars.
    pub(crate) fn change_progress(&self, with: impl FnOnce(&mut ParameterProgress)) {
        match self {
            Self::Dense(piece) => piece.change(|data| with(&mut data.progress)),
            Self::Sparse(piece) => piece.change_progress(with),
            Self::Absent => {}
        }
    }

    fn want(&self, scope: RowScope) {
        match self {
            Self::Dense(piece) => piece.want(),
            Self::Sparse(piece) => piece.want(scope),
            Self::Absent => {}
        }
    }
}

/// The pieces of all tables that a service holds.
#[derive(Debug, Default)]
pub(crate) struct TablePieces {
    /// One per table.
    pub all: Vec<TablePiece>,
    /// The memory of the dense pieces' values, if it can be shared.
    pub values: Option<Arc<OwnedFd>>,
}

/// A push that waits for the others.
#[derive(Debug)]
pub(crate) enum Staged {
    /// No push is waiting.
    Empty,
    /// The gradient of a dense piece.
    Dense(Held),
    /// Gradients of rows.
    Rows(RowPush),
}

/// The last of the pushes that a table waits for.
pub(crate) enum Last<'a, E> {
    /// It has arrived.
    Held(Held),
    /// It arrives while the others are summed.
    Arriving(Receive<'a, E>),
}

/// A push that a trainer announces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Push {
    /// Who pushes.
    pub trainer: usize,
    /// The batch that the gradient belongs to.
    pub step: Step,
    /// The table.
    pub table: TableId,
    /// Samples in the batch.
    pub samples: u64,
}

/// A push that may be received.
pub(crate) struct BegunPush {
    /// By how many batches the trainer is ahead of the slowest one.
    pub(crate) lead: u64,
    /// What to apply while the push arrives, if its table is dense and waits for nothing else.
    pub(crate) apply: Option<Apply>,
}

/// The end of a trainer's batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FinishedBatch {
    /// Whose batch.
    pub trainer: usize,
    /// The step that the batch is part of.
    pub step: Step,
    /// Samples in the batch.
    pub samples: u64,
    /// The step of a snapshot that the trainer orders.
    pub order: Option<Step>,
}

/// Where a pass is over or has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PassEnd {
    /// Steps applied.
    pub step: Step,
    /// The pass that is over, or the one that begins.
    pub pass: u64,
}

/// What a service calls when something is complete.
pub(crate) trait Listener: Sync {
    /// `step` steps are applied on service `port`. Returns which snapshot to take now, if any; a trainer may have
    /// ordered one.
    fn step(&self, port: usize, step: u64, ordered: bool) -> Option<RowScope>;
    /// Whether `step` steps must not be applied yet, because a snapshot is due then and the one before is still
    /// being written.
    fn must_wait(&self, step: u64, ordered: bool) -> bool;
    /// A batch that completes this step waited this long for the previous snapshot.
    fn waited(&self, step: u64, time: Duration);
    /// The pieces keep their state at the boundary; it can be written now.
    fn captured(&self, port: usize, boundary: Boundary, progress: Vec<Option<ParameterProgress>>);
    /// A pass has ended on service `port`.
    fn pass(&self, port: usize, step: u64, pass: u64);
}

/// What a call of a service needs besides the request.
pub(crate) struct ServiceContext<'a> {
    /// All tables of the job.
    pub tables: &'a [Table],
    /// The longest that the call may wait for other trainers.
    pub limit: Duration,
    /// Where time is counted.
    pub metrics: &'a ServerMetrics,
    /// Whom to notify when something is complete.
    pub listener: &'a dyn Listener,
}

#[derive(Debug)]
struct State {
    barrier: Barrier,
    reductions: Vec<Option<Vec<f64>>>,
    reduced: (u64, Vec<f64>),
    /// The step of the snapshot that was ordered last.
    ordered: u64,
}

impl State {
    fn readable(&self, trainer: usize, tables: &[TableId], step: Step) -> bool {
        tables
            .iter()
            .all(|table| self.barrier.readable(trainer, table.index(), step.0))
    }
}

/// Where a service is.
#[derive(Default)]
pub(crate) struct ServiceStatus {
    pub(crate) step: u64,
    pub(crate) pass: u64,
    pub(crate) waits_for: Vec<TrainerId>,
}

/// What is saved of a service beside values and state.
pub(crate) struct SavedProgress {
    /// Where a job would continue.
    pub(crate) boundary: Boundary,
    /// The scalars of each table; `None` if the service has nothing of it.
    pub(crate) progress: Vec<Option<ParameterProgress>>,
}

/// One port's part of the job in one generation.
#[derive(Debug)]
pub(crate) struct Service {
    port: usize,
    state: Mutex<State>,
    changed: Condvar,
    /// Steps of which all tables have been applied, in synchronous training.
    complete: AtomicU64,
    /// Who waits without a thread. They are woken without the lock of the state, which hundreds would queue for.
    waiting: Mutex<Waiters>,
    /// Counts what happened that somebody may wait for.
    changes: AtomicU64,
    pieces: Vec<TablePiece>,
    /// The memory of the dense pieces' values, if it can be shared.
    values: Option<Arc<OwnedFd>>,
    trainers: usize,
    /// Trainers take every step together.
    sync: bool,
    staged: Vec<Mutex<Staged>>,
    ended: AtomicBool,
    reason: Mutex<String>,
    /// Updates in progress that wait for nobody.
    updates: AtomicUsize,
}

/// An update in progress, as long as it lives.
struct UpdateInProgress<'a>(&'a AtomicUsize);

impl<'a> UpdateInProgress<'a> {
    fn begin(updates: &'a AtomicUsize) -> Self {
        updates.fetch_add(1, Ordering::AcqRel);
        Self(updates)
    }
}

impl Drop for UpdateInProgress<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Service {
    /// A service that continues at a boundary.
    pub(crate) fn new(port: usize, pieces: TablePieces, barrier: Barrier, trainers: usize) -> Self {
        let TablePieces {
            all: pieces,
            values,
        } = pieces;
        let staged = (0..pieces.len() * trainers)
            .map(|_| Mutex::new(Staged::Empty))
            .collect();
        let (complete, sync) = (barrier.step(), barrier.is_sync());
        let state = State {
            barrier,
            reductions: vec![None; trainers],
            reduced: (0, Vec::new()),
            ordered: 0,
        };
        Self {
            port,
            state: Mutex::new(state),
            changed: Condvar::default(),
            complete: AtomicU64::new(complete),
            waiting: Mutex::default(),
            changes: AtomicU64::new(0),
            pieces,
            values,
            trainers,
            sync,
            staged,
            ended: AtomicBool::new(false),
            reason: Mutex::default(),
            updates: AtomicUsize::new(0),
        }
    }

    /// The pieces, one per table.
    pub(crate) fn pieces(&self) -> &[TablePiece] {
        &self.pieces
    }

    /// The pieces for the service of the next generation.
    pub(crate) fn same_pieces(&self) -> TablePieces {
        TablePieces {
            all: self.pieces.clone(),
            values: self.values.clone(),
        }
    }

    /// The memory of the dense pieces' values, one after another in the order of [`wire::shared::layout`]; `None` if it
    /// cannot be shared.
    pub(crate) fn values(&self) -> Option<&OwnedFd> {
        self.values.as_deref()
    }

    /// The boundary that the service is at, if it is at one.
    pub(crate) fn boundary(&self) -> Option<Boundary> {
        self.lock().barrier.boundary()
    }

    /// What is saved now beside values and state.
    pub(crate) fn saved(&self, tables: &[Table]) -> SavedProgress {
        let state = self.lock();
        let boundary = state.barrier.saved_boundary();
        let over = state.barrier.over();
        let parts = tables.iter().zip(&self.pieces);
        let progress = parts.map(|(table, piece)| {
            piece.progress().map(|mut progress| {
                if over {
                    turn(table, &mut progress, boundary.pass);
                }
                progress
            })
        });
        SavedProgress {
            boundary: boundary.clone(),
            progress: progress.collect(),
        }
    }

    /// Where the service is, and whom it waits for.
    pub(crate) fn status(&self) -> ServiceStatus {
        let state = self.lock();
        ServiceStatus {
            step: state.barrier.step(),
            pass: state.barrier.pass(),
            waits_for: state.barrier.waits_for(),
        }
    }

    /// Whether no trainer has more data in the pass.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().barrier.over()
    }

    /// Whether an update is in progress that needs nothing more from a trainer, or values cannot be read now. For long,
    /// this means that the service hangs.
    pub(crate) fn is_busy(&self) -> bool {
        let locked =
            |piece: &TablePiece| matches!(piece, TablePiece::Dense(piece) if !piece.is_free());
        self.updates.load(Ordering::Acquire) > 0 || self.pieces.iter().any(locked)
    }

    /// The generation is over: wakes every waiting request with an error.
    pub(crate) fn end(&self, reason: &str) {
        reason.clone_into(&mut self.reason.lock());
        let _state = self.lock();
        self.ended.store(true, Ordering::Release);
        self.notify();
    }

    /// Makes every waiting request check its condition again.
    pub(crate) fn wake(&self) {
        let _state = self.lock();
        self.notify();
    }

    /// Something has changed that any request may wait for.
    fn notify(&self) {
        self.notify_changes();
        let waiters = self.waiting().take_steps();
        wake_all(waiters);
    }

    /// Something has changed that does not complete a step.
    fn notify_changes(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_all();
        let waiters = self.waiting().take_changes();
        wake_all(waiters);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiters> {
        self.waiting.lock()
    }

    /// How often something has changed. Who does not find what it waits for may wait for a change after this.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Keeps a waiter until what it waits for may have happened.
    pub(crate) fn park(&self, awaited: Awaited, waiter: Box<dyn Waiter>) {
        let mut waiting = self.waiting();
        // It may have happened since the waiter looked; nobody would wake it then.
        let missed = self.ended.load(Ordering::Acquire)
            || match awaited {
                Awaited::Steps(step) => self.complete.load(Ordering::Acquire) >= step.0,
                Awaited::Change(seen) => self.changes() != seen,
            };
        if missed {
            drop(waiting);
            return waiter.wake();
        }
        waiting.add(awaited, waiter);
    }

    /// Wakes those who have waited for so long, who then find that it was too long.
    pub(crate) fn wake_overdue(&self, limit: Duration) {
        let late = self.waiting().take_overdue(limit);
        wake_all(late);
    }

    /// All tables of this many steps have been applied.
    fn completed(&self, steps: u64) {
        self.complete.fetch_max(steps, Ordering::AcqRel);
        let waiters = self.waiting().take_steps();
        wake_all(waiters);
    }

    /// A table has been applied.
    fn applied(&self, table: usize) {
        let mut state = self.lock();
        state.barrier.applied(table);
        let steps = state.barrier.step() + 1;
        let all = state.barrier.all_applied();
        drop(state);
        self.notify_changes();
        if all {
            self.completed(steps);
        }
    }

    /// An error once the generation has ended.
    pub(crate) fn check_running(&self) -> Result<(), Refusal> {
        if !self.ended.load(Ordering::Acquire) {
            return Ok(());
        }
        let text = self.reason.lock();
        Err(Refusal {
            code: Code::Interrupted,
            text: text.clone(),
        })
    }

    /// The error for a request that has waited for `limit`.
    pub(crate) fn overdue(&self, limit: Duration) -> Refusal {
        let trainers = self.lock().barrier.waits_for();
        let list: Vec<String> = trainers.iter().map(ToString::to_string).collect();
        let (seconds, list) = (limit.as_secs(), list.join(", "));
        Refusal {
            code: Code::Interrupted,
            text: format!("waited {seconds} s for trainer {list}"),
        }
    }

    /// Whether a message of a trainer for this step is taken now, or refused: it does not have to wait.
    pub(crate) fn may_begin(&self, trainer: usize, step: Step) -> bool {
        let state = self.lock();
        state.barrier.admission(trainer, step.0) != Admission::Later
    }

    /// Whether the end of a batch can be taken now: it may have to wait for others, or for a snapshot. The order is noted.
    pub(crate) fn may_finish(&self, listener: &dyn Listener, batch: &FinishedBatch) -> bool {
        let mut state = self.lock();
        let order = batch.order.unwrap_or_default();
        state.ordered = state.ordered.max(order.0);
        let next = state.barrier.step_after(batch.step.0);
        !listener.must_wait(next, state.ordered == next)
            && state.barrier.admission(batch.trainer, batch.step.0) != Admission::Later
    }

    /// Number of trainers.
    pub(crate) fn trainers(&self) -> usize {
        self.trainers
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn wait<T>(
        &self,
        limit: Duration,
        mut attempt: impl FnMut(&mut State) -> Option<Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        let begun = Instant::now();
        let mut state = self.lock();
        loop {
            self.check_running()?;
            if let Some(answer) = attempt(&mut state) {
                return answer;
            }
            let Some(rest) = limit
                .checked_sub(begun.elapsed())
                .filter(|rest| !rest.is_zero())
            else {
                drop(state);
                return Err(self.overdue(limit));
            };
            (state, _) = self.changed.wait_timeout(state, rest);
        }
    }

    /// Waits until the trainer may push, and registers the push.
    pub(crate) fn begin_push(&self, limit: Duration, push: &Push) -> Result<BegunPush, Refusal> {
        let (trainer, table) = (push.trainer, push.table.index());
        let dense = matches!(self.pieces[table], TablePiece::Dense(_));
        self.wait(limit, |state| {
            let admission = state
                .barrier
                .push(trainer, push.step.0, table, push.samples);
            match admission {
                Admission::Now => {
                    let apply = if dense {
                        state.barrier.last(trainer, table)
                    } else {
                        None
                    };
                    Some(Ok(BegunPush {
                        lead: state.barrier.lead(trainer),
                        apply,
                    }))
                }
                Admission::Later => None,
                Admission::Refused(error) => Some(Err(invalid(error.to_string()))),
            }
        })
    }

    /// Applies a dense table with its last push.
    pub(crate) fn apply_last<E>(
        &self,
        context: &ServiceContext<'_>,
        trainer: usize,
        apply: &Apply,
        last: Last<'_, E>,
    ) -> Result<(), E> {
        let TablePiece::Dense(piece) = &self.pieces[apply.table] else {
            return Ok(());
        };
        let alone = matches!(last, Last::Held(_)).then(|| UpdateInProgress::begin(&self.updates));
        words::failpoint::reach("applying");
        let others = apply.contributors.iter().filter(|t| **t != trainer);
        let before = others.clone().filter(|t| **t < trainer).count();
        let mut pushes: Vec<Held> = others
            .clone()
            .map(|t| self.take_dense(*t, apply.table, piece))
            .collect();
        let table = &context.tables[apply.table];
        match last {
            Last::Held(held) => {
                pushes.insert(before, held);
                piece.apply(table, apply.samples, &pushes);
                // Its buffers are filled again by the next push.
                *self.place(trainer, apply.table) = Staged::Dense(pushes.remove(before));
            }
            Last::Arriving(receive) => {
                piece.apply_arriving(table, apply.samples, &pushes, before, receive)?;
            }
        }
        for (other, push) in others.zip(pushes) {
            *self.place(*other, apply.table) = Staged::Dense(push);
        }
        drop(alone);
        self.applied(apply.table);
        self.perform(context, Vec::new());
        Ok(())
    }

    /// Takes the buffer of the trainer's last push of the table, to be filled again.
    pub(crate) fn take_staged(&self, trainer: usize, table: usize) -> Staged {
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
        self.staged[trainer * self.pieces.len() + table].lock()
    }

    /// The push has arrived; applies what is complete.
    pub(crate) fn end_push(
        &self,
        context: &ServiceContext<'_>,
        trainer: usize,
        table: TableId,
        push: Staged,
    ) {
        let table = table.index();
        *self.place(trainer, table) = push;
        let applies = {
            let mut state = self.lock();
            // A push that arrives after the end of the generation does not count.
            if self.ended.load(Ordering::Acquire) {
                return;
            }
            state.barrier.stored(trainer, table)
        };
        self.perform(context, applies);
    }

    /// The trainer has finished its batch, and may order the snapshot of a step.
    pub(crate) fn finish(
        &self,
        context: &ServiceContext<'_>,
        batch: &FinishedBatch,
    ) -> Result<(), Refusal> {
        let mut waits = None;
        let applies = self.wait(context.limit, |state| {
            let order = batch.order.unwrap_or_default();
            state.ordered = state.ordered.max(order.0);
            let next = state.barrier.step_after(batch.step.0);
            if context.listener.must_wait(next, state.ordered == next) {
                waits = waits.or(Some((next, Instant::now())));
                return None;
            }
            let barrier = &mut state.barrier;
            settle(barrier.finish(batch.trainer, batch.step.0, batch.samples))
        })?;
        if let Some((next, begun)) = waits {
            context.listener.waited(next, begun.elapsed());
        }
        self.perform(context, applies);
        Ok(())
    }

    /// The trainer has no more data in the pass. [`Service::pass_over`] says when no trainer has.
    pub(crate) fn finish_pass(
        &self,
        context: &ServiceContext<'_>,
        trainer: usize,
        step: Step,
        pass: u64,
    ) -> Result<(), Refusal> {
        let applies = self.wait(context.limit, |state| {
            if state.barrier.pass() != pass {
                let text = format!(
                    "trainer {trainer} finished pass {pass}, the open one is {}",
                    state.barrier.pass()
                );
                return Some(Err(invalid(text)));
            }
            settle(state.barrier.idle(trainer, step.0))
        })?;
        self.perform(context, applies);
        // The pass may be over without another step.
        self.wake();
        Ok(())
    }

    /// Step and pass, once no trainer has more data in the pass.
    pub(crate) fn pass_over(&self, pass: u64) -> Option<PassEnd> {
        let barrier = &self.lock().barrier;
        let over = barrier.over() || barrier.pass() > pass;
        let step = Step(barrier.step());
        over.then_some(PassEnd { step, pass })
    }

    /// The trainer has finished its work at the end of the pass. [`Service::pass_ended`] says when trainer 0 has.
    pub(crate) fn end_pass(
        &self,
        context: &ServiceContext<'_>,
        trainer: usize,
        pass: u64,
    ) -> Result<(), Refusal> {
        {
            let mut state = self.lock();
            let open = state.barrier.pass();
            if open == pass {
                let ended = state.barrier.end_pass(trainer);
                ended.map_err(|error| invalid(error.to_string()))?;
            } else if open != pass + 1 {
                // Trainer 0 may have been faster, but not by more.
                let text = format!("trainer {trainer} ends pass {pass}, the open one is {open}");
                return Err(invalid(text));
            }
        }
        self.perform(context, Vec::new());
        Ok(())
    }

    /// Step and the next pass, once trainer 0 has ended the pass.
    pub(crate) fn pass_ended(&self, pass: u64) -> Option<PassEnd> {
        let barrier = &self.lock().barrier;
        let ended = PassEnd {
            step: Step(barrier.step()),
            pass: barrier.pass(),
        };
        (ended.pass > pass).then_some(ended)
    }

    /// Whether the trainer may read these tables with `step` steps applied, in a generation that continues.
    pub(crate) fn is_readable(&self, trainer: usize, tables: &[TableId], step: Step) -> bool {
        if self.is_complete(step) {
            return true;
        }
        let state = self.lock();
        !self.ended.load(Ordering::Acquire) && state.readable(trainer, tables, step)
    }

    /// Waits until the trainer may read these tables with `step` steps applied.
    pub(crate) fn readable(
        &self,
        limit: Duration,
        trainer: usize,
        tables: &[TableId],
        step: Step,
    ) -> Result<(), Refusal> {
        if self.is_complete(step) {
            return Ok(());
        }
        self.wait(limit, |state| {
            state.readable(trainer, tables, step).then_some(Ok(()))
        })
    }

    /// Whether all tables have this many steps applied, in a generation that continues.
    fn is_complete(&self, step: Step) -> bool {
        self.sync
            && self.complete.load(Ordering::Acquire) >= step.0
            && !self.ended.load(Ordering::Acquire)
    }

    /// Takes a trainer's values of a sum over all trainers, in the order of their ids. [`Service::reduced`] has the sum,
    /// once all have sent theirs.
    pub(crate) fn reduce(
        &self,
        trainer: usize,
        round: u64,
        numbers: Vec<f64>,
    ) -> Result<(), Refusal> {
        let mut state = self.lock();
        let first = state.reductions.iter().flatten().next();
        if first.is_some_and(|first| first.len() != numbers.len()) {
            return Err(invalid(format!(
                "trainer {trainer} reduces a different number of values"
            )));
        }
        state.reductions[trainer] = Some(numbers);
        if state.reductions.iter().all(Option::is_some) {
            let parts: Vec<Vec<f64>> = state
                .reductions
                .iter_mut()
                .filter_map(Option::take)
                .collect();
            state.reduced = (round, sum(&parts));
            drop(state);
            self.notify_changes();
        }
        Ok(())
    }

    /// The sum of a round, once there is one.
    pub(crate) fn reduced(&self, round: u64) -> Option<Vec<f64>> {
        let state = self.lock();
        (state.reduced.0 >= round).then(|| state.reduced.1.clone())
    }

    fn perform(&self, context: &ServiceContext<'_>, applies: Vec<Apply>) {
        let (tables, listener) = (context.tables, context.listener);
        for apply in applies {
            let begun = Instant::now();
            self.apply(&tables[apply.table], &apply);
            context.metrics.apply.add_time(begun.elapsed());
            self.applied(apply.table);
        }
        let mut state = self.lock();
        if !self.sync {
            // A trainer that is ahead may wait for any other one's batch.
            self.notify();
        }
        loop {
            match state.barrier.advance() {
                BarrierEvent::None => break,
                BarrierEvent::Step(step) => {
                    self.step(&state, step, listener);
                    self.completed(step);
                }
                BarrierEvent::Pass(pass) => {
                    for (table, piece) in tables.iter().zip(&self.pieces) {
                        piece.change_progress(|progress| turn(table, progress, pass));
                    }
                    listener.pass(self.port, state.barrier.step(), pass);
                }
            }
            self.notify();
        }
    }

    fn step(&self, state: &State, step: u64, listener: &dyn Listener) {
        let Some(scope) = listener.step(self.port, step, state.ordered == step) else {
            return;
        };
        let Some(boundary) = state.barrier.boundary() else {
            return;
        };
        self.pieces.iter().for_each(|piece| piece.want(scope));
        let progress = self.pieces.iter().map(TablePiece::progress).collect();
        listener.captured(self.port, boundary, progress);
    }

    fn apply(&self, table: &Table, apply: &Apply) {
        let _update = UpdateInProgress::begin(&self.updates);
        words::failpoint::reach("applying");
        match &self.pieces[apply.table] {
            TablePiece::Absent => {}
            TablePiece::Dense(piece) => {
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
            TablePiece::Sparse(piece) => {
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
}

/// Moves a table's scalars from the end of a pass to the beginning of `pass`.
fn turn(table: &Table, progress: &mut ParameterProgress, pass: u64) {
    table.rule.finish_pass(progress);
    table.rule.start_pass(progress, pass);
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
