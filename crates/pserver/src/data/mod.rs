//! The data plane of one connection: pushes, pulls, the end of batches and passes. `dense` has those of dense tables,
//! `rows` those of sparse ones. A connection that has to wait for other trainers says so before it reads a payload, and
//! holds no thread meanwhile ([`crate::line_pool`]).

mod dense;
mod rows;

use self::dense::{DenseRows, Outbox};
use self::rows::{RowPull, RowsOfPush};
use crate::barrier::Apply;
use crate::connection::ConnectionId;
use crate::host::{Host, RunListener};
use crate::line_pool::FEW;
use crate::run::GenerationRun;
use crate::service::{
    FinishedBatch, Listener, Push, Service, ServiceContext, Staged, TablePiece, invalid,
};
use crate::sparse::FoundRows;
use crate::waiters::{Awaited, Waiter};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;
use wire::channel::{Channel, ChannelError, GATHERED};
use wire::data::{Carrier, Encoded, Reply, Request, Stamped, Ticket};
use wire::frame::{FrameError, Head};
use wire::handshake::refuse;
use wire::message::{Code, Refusal};
use wire::shared::SharedRegion;
use wire::{Mode, Step, TableId};

/// Most values in one reduction.
const REDUCED: u32 = 1 << 16;

/// Why a connection ends.
enum Stop {
    Channel(ChannelError),
    Refused(Refusal),
}

impl From<ChannelError> for Stop {
    fn from(error: ChannelError) -> Self {
        Self::Channel(error)
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// What a connection does next.
pub(crate) enum LineTurn {
    /// It waits for its trainer.
    Reads,
    /// It waits for other trainers.
    Waits,
    /// It has ended.
    Ends(Result<(), ChannelError>),
}

/// A request whose payload has not been read.
struct Asked {
    head: Head,
    step: Step,
    message: Request,
}

/// What a connection does as soon as the other trainers let it.
enum Wait {
    /// Serves a request.
    Request(Asked),
    /// Tells that a pass is over.
    PassOver { pass: u64 },
    /// Tells that a pass has ended.
    PassEnded { pass: u64 },
    /// Sends a sum.
    Reduced { round: u64 },
}

/// A trainer's data connection to one service.
pub(crate) struct Line {
    host: Arc<Host>,
    run: Arc<GenerationRun>,
    service: Arc<Service>,
    trainer: usize,
    /// The number of the connection.
    number: u64,
    channel: Box<Channel>,
    /// Rows of the last pull of each table, for the push that follows.
    pulled: HashMap<u32, (Ticket, FoundRows)>,
    /// Rows of the last pull of dense tables, for the push that follows.
    looked_up: HashMap<u32, DenseRows>,
    /// Row lists to be reused.
    spare: Vec<FoundRows>,
    tickets: u64,
    values: Vec<f32>,
    /// Memory to which a trainer on this host writes its gradients.
    outbox: Option<Outbox>,
    /// The row buffers that a trainer on this host has requested, by table.
    trays: HashMap<u32, Arc<SharedRegion>>,
    /// What it waits to do, since when, and how often the service had changed when it last looked.
    wait: Option<Wait>,
    since: Option<Instant>,
    seen: u64,
    /// Values are sent when all tables are applied, not each as soon as it is.
    together: bool,
}

impl Line {
    /// A connection of a trainer to a port of a server, after its welcome. Refused if the server has no such port.
    pub(crate) fn open(
        host: &Arc<Host>,
        run: &Arc<GenerationRun>,
        id: ConnectionId,
        trainer: usize,
        mut channel: Channel,
    ) -> Option<Box<Self>> {
        let Some(service) = run.services.get(id.port) else {
            let refusal = invalid(format!("this server has no port number {}", id.port));
            refuse(&mut channel, &refusal);
            return None;
        };
        channel.gather();
        let len = |piece: &TablePiece| match piece {
            TablePiece::Dense(piece) => piece.len(),
            TablePiece::Sparse(_) | TablePiece::Absent => 0,
        };
        let bytes: usize = service.pieces().iter().map(|piece| 4 * len(piece)).sum();
        Some(Box::new(Self {
            host: host.clone(),
            run: run.clone(),
            service: service.clone(),
            trainer,
            number: id.number,
            channel: Box::new(channel),
            pulled: HashMap::new(),
            looked_up: HashMap::new(),
            spare: Vec::new(),
            tickets: 0,
            values: Vec::new(),
            outbox: None,
            trays: HashMap::new(),
            wait: None,
            since: None,
            seen: 0,
            together: bytes <= GATHERED || service.trainers() > FEW,
        }))
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Works for as long as there is something to do. Unless it waits for other trainers, there is something to read, or
    /// the connection has ended.
    pub(crate) fn turn(&mut self) -> LineTurn {
        loop {
            let done = match self.wait.take() {
                Some(wait) => self.go_on(wait),
                None => self.receive(),
            };
            match done {
                Ok(Some(wait)) => {
                    self.wait = Some(wait);
                    return LineTurn::Waits;
                }
                Ok(None) if self.channel.has_bytes() => {}
                Ok(None) => match self.channel.flush() {
                    Ok(()) => return LineTurn::Reads,
                    Err(error) => return LineTurn::Ends(Err(error)),
                },
                Err(Stop::Channel(error)) => return LineTurn::Ends(Err(error)),
                Err(Stop::Refused(refusal)) => {
                    refuse(&mut self.channel, &refusal);
                    if refusal.code == Code::Interrupted {
                        return LineTurn::Ends(Ok(()));
                    }
                    let peer = self.channel.peer().to_owned();
                    return LineTurn::Ends(Err(ChannelError::Refused { peer, refusal }));
                }
            }
        }
    }

    /// Has its service keep it until what it waits for may have happened.
    pub(crate) fn park(self: Box<Self>) {
        let awaited = match &self.wait {
            Some(Wait::Request(Asked {
                step,
                message: Request::PullDense { .. },
                ..
            })) if self.together && self.run.spec.mode == Mode::Sync => Awaited::Steps(*step),
            _ => Awaited::Change(self.seen),
        };
        let service = self.service.clone();
        service.park(awaited, self);
    }

    /// Receives a request, and serves it unless it has to wait.
    fn receive(&mut self) -> Result<Option<Wait>, Stop> {
        let head = self.channel.receive()?;
        let Stamped {
            generation,
            step,
            message,
        } = self
            .channel
            .request(&head)
            .map_err(|error| self.malformed(error))?;
        if generation != self.run.epoch {
            let text = format!("generation {generation} is over");
            return Err(Refusal {
                code: Code::Interrupted,
                text,
            }
            .into());
        }
        self.host.metrics.bytes_in.add(head.payload);
        if !matches!(
            message,
            Request::PullDense { .. } | Request::PullRows { .. } | Request::PullDenseRows { .. }
        ) {
            // The trainer may need the replies that wait before it does what this request waits for.
            self.channel.flush()?;
        }
        self.go_on(Wait::Request(Asked {
            head,
            step,
            message,
        }))
    }

    /// Does what it waits to do, if the other trainers let it; otherwise returns it.
    fn go_on(&mut self, wait: Wait) -> Result<Option<Wait>, Stop> {
        self.seen = self.service.changes();
        self.service.check_running()?;
        let reply = match &wait {
            Wait::Request(asked) if self.is_ready(asked) => None,
            Wait::Request(_) => return self.not_yet(wait),
            Wait::PassOver { pass } => match self.service.pass_over(*pass) {
                Some(over) => Some(self.encode(over.step, Reply::PassOver { pass: over.pass })),
                None => return self.not_yet(wait),
            },
            Wait::PassEnded { pass } => match self.service.pass_ended(*pass) {
                Some(end) => Some(self.encode(end.step, Reply::PassEnded { pass: end.pass })),
                None => return self.not_yet(wait),
            },
            Wait::Reduced { round } => match self.service.reduced(*round) {
                Some(sum) => {
                    let message = self.encode(Step(0), Reply::Reduced { round: *round });
                    self.waited(&wait);
                    self.channel
                        .send_bytes(&message, &[bytemuck::cast_slice(&sum)])?;
                    return Ok(None);
                }
                None => return self.not_yet(wait),
            },
        };
        self.waited(&wait);
        match (wait, reply) {
            (_, Some(reply)) => self.channel.send_bytes(&reply, &[])?,
            (Wait::Request(asked), None) => return self.perform(asked),
            _ => {}
        }
        Ok(None)
    }

    /// It has to wait, and has not waited for too long.
    fn not_yet(&mut self, wait: Wait) -> Result<Option<Wait>, Stop> {
        // The trainer may need these replies before it does what this waits for.
        self.channel.flush()?;
        let limit = self.host.config.stall;
        let since = self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= limit {
            return Err(self.service.overdue(limit).into());
        }
        Ok(Some(wait))
    }

    /// Counts the time that it has waited.
    fn waited(&mut self, wait: &Wait) {
        let Some(since) = self.since.take() else {
            return;
        };
        let Wait::Request(asked) = wait else {
            return;
        };
        match asked.message {
            Request::PullDense { .. }
            | Request::PullRows { .. }
            | Request::PullDenseRows { .. } => {
                self.host.metrics.barrier_wait.add_time(since.elapsed());
            }
            Request::FinishBatch { .. } => {
                self.listener().waited(asked.step.0 + 1, since.elapsed());
            }
            _ => {}
        }
    }

    /// Whether a request can be served without waiting for other trainers, or is refused.
    fn is_ready(&self, asked: &Asked) -> bool {
        let (service, trainer, step) = (&self.service, self.trainer, asked.step);
        let known = |table: TableId| table.index() < self.run.tables.len();
        match asked.message {
            Request::PushDense { .. }
            | Request::PushDenseRows { .. }
            | Request::PushRows { .. }
            | Request::FinishPass { .. } => service.may_begin(trainer, step),
            Request::FinishBatch { samples, order, .. } => {
                let batch = FinishedBatch {
                    trainer,
                    step,
                    samples,
                    order,
                };
                service.may_finish(&self.listener(), &batch)
            }
            Request::PullDense { .. } => {
                let dense = (0..).map(TableId).zip(service.pieces());
                let held = dense.filter(
                    |(_, piece)| matches!(piece, TablePiece::Dense(piece) if !piece.is_empty()),
                );
                let held = held.map(|(id, _)| id);
                // Of large ones each is sent as soon as it is applied.
                let count = if self.together { usize::MAX } else { 1 };
                let tables: Vec<TableId> = held.take(count).collect();
                service.is_readable(trainer, &tables, step)
            }
            Request::PullDenseRows { table, .. } | Request::PullRows { table, .. } => {
                !known(table) || service.is_readable(trainer, &[table], step)
            }
            _ => true,
        }
    }

    fn perform(&mut self, asked: Asked) -> Result<Option<Wait>, Stop> {
        let Asked {
            head,
            step,
            message,
        } = asked;
        let large = head.payload > GATHERED as u64;
        if large || (matches!(message, Request::PullDense { .. }) && !self.together) {
            self.host.lines.occupied(&self.host);
        }
        let trainer = self.trainer;
        match message {
            Request::PushDense {
                table,
                samples,
                blocks,
                carrier,
            } => {
                let push = Push {
                    trainer,
                    step,
                    table,
                    samples,
                };
                match carrier {
                    Carrier::Payload => self.push_dense(&head, &push, blocks),
                    Carrier::Memory => self.push_placed(&head, &push, blocks),
                }
            }
            Request::PushDenseRows {
                table,
                rows,
                samples,
                ticket,
            } => {
                let push = Push {
                    trainer,
                    step,
                    table,
                    samples,
                };
                self.push_dense_rows(&head, &push, &RowsOfPush { rows, ticket })
            }
            Request::PushRows {
                table,
                rows,
                samples,
                ticket,
                carrier,
            } => {
                let push = Push {
                    trainer,
                    step,
                    table,
                    samples,
                };
                let rows = RowsOfPush { rows, ticket };
                match carrier {
                    Carrier::Payload => self.push_rows(&head, &push, &rows),
                    Carrier::Memory => self.push_rows_placed(&head, &push, &rows),
                }
            }
            Request::FinishBatch { samples, order, .. } => self.finish(&FinishedBatch {
                trainer,
                step,
                samples,
                order,
            }),
            Request::PullDense { view, except } => self.pull_dense(&head, step, view, except),
            Request::PullDenseRows { table, rows } => {
                self.pull_dense_rows(&head, step, table, rows)
            }
            Request::PullRows { table, rows, view } => {
                self.pull_rows(&head, step, &RowPull { table, rows, view })
            }
            Request::FinishPass { pass } => {
                let listener = self.listener();
                let context = self.context(&listener);
                let (service, trainer) = (&self.service, self.trainer);
                service.finish_pass(&context, trainer, step, pass)?;
                return self.go_on(Wait::PassOver { pass });
            }
            Request::EndPass { pass } => {
                let listener = self.listener();
                let context = self.context(&listener);
                self.service.end_pass(&context, self.trainer, pass)?;
                return self.go_on(Wait::PassEnded { pass });
            }
            Request::Reduce { round, count } => {
                self.reduce(&head, round, count)?;
                return self.go_on(Wait::Reduced { round });
            }
            Request::Share => self.share(),
            Request::ShareRows { table, rows } => self.share_rows(table, rows),
            Request::Initial { .. } => {
                let error = self
                    .channel
                    .unexpected(&head, "a push, pull, finish or reduce");
                Err(error.into())
            }
        }?;
        Ok(None)
    }

    /// A body without a meaning is refused, so that the trainer learns why; anything else breaks the protocol.
    fn malformed(&self, error: FrameError) -> Stop {
        match error {
            FrameError::Malformed { reason, .. } => invalid(reason).into(),
            other => self.channel.violation(other).into(),
        }
    }

    /// A reply of this generation, as it is sent.
    fn encode(&self, step: Step, message: Reply) -> Encoded {
        let reply = Stamped {
            generation: self.run.epoch,
            step,
            message,
        };
        reply.encode()
    }

    fn listener(&self) -> RunListener<'_> {
        RunListener {
            host: &self.host,
            run: &self.run,
        }
    }

    fn context<'a>(&'a self, listener: &'a RunListener<'_>) -> ServiceContext<'a> {
        ServiceContext {
            tables: &self.run.tables,
            limit: self.host.config.stall,
            metrics: &self.host.metrics,
            listener,
        }
    }

    fn piece(&self, table: TableId) -> Result<&TablePiece, Stop> {
        let piece = self.service.pieces().get(table.index());
        Ok(piece.ok_or_else(|| invalid(format!("there is no table {table}")))?)
    }

    /// Replies to a request for shared memory with descriptors; no descriptors mean that there is no such memory.
    fn hand_over(&mut self, descriptors: &[BorrowedFd<'_>]) -> Result<(), Stop> {
        let shared = Reply::Shared {
            descriptors: descriptors.len() as u32,
        };
        let message = self.encode(Step(0), shared);
        self.channel.send_bytes(&message, &[])?;
        self.channel.flush()?;
        if descriptors.is_empty() {
            return Ok(());
        }
        let sent = self.channel.stream().send_descriptors(descriptors);
        Ok(sent.map_err(|source| ChannelError::Io {
            peer: self.channel.peer().to_owned(),
            source,
        })?)
    }

    fn begin_push(&self, push: &Push) -> Result<Option<Apply>, Stop> {
        let begun = self.service.begin_push(self.host.config.stall, push)?;
        self.host.metrics.pushes.add(1);
        self.host.metrics.staleness.raise(begun.lead);
        Ok(begun.apply)
    }

    fn end_push(&self, table: TableId, push: Staged) {
        let listener = self.listener();
        let context = self.context(&listener);
        self.service.end_push(&context, self.trainer, table, push);
    }

    fn finish(&mut self, batch: &FinishedBatch) -> Result<(), Stop> {
        let listener = self.listener();
        Ok(self.service.finish(&self.context(&listener), batch)?)
    }

    /// Waits until the tables have `step` steps applied.
    fn wait_readable(&mut self, tables: &[TableId], step: Step) -> Result<(), Stop> {
        let (service, trainer) = (self.service.clone(), self.trainer);
        if service.is_readable(trainer, tables, step) {
            return Ok(());
        }
        self.channel.flush()?;
        let begun = Instant::now();
        service.readable(self.host.config.stall, trainer, tables, step)?;
        self.host.metrics.barrier_wait.add_time(begun.elapsed());
        Ok(())
    }

    fn reduce(&mut self, head: &Head, round: u64, count: u32) -> Result<(), Stop> {
        if count > REDUCED || head.payload != u64::from(count) * 8 {
            return Err(invalid(format!("at most {REDUCED} numbers can be summed at once")).into());
        }
        let mut numbers = vec![0.0_f64; count as usize];
        self.channel
            .read_bytes(bytemuck::cast_slice_mut(&mut numbers))?;
        Ok(self.service.reduce(self.trainer, round, numbers)?)
    }
}

impl Waiter for Line {
    fn wake(self: Box<Self>) {
        let host = self.host.clone();
        host.lines.wake(self);
    }
}
