//! The data plane of one connection: pushes, pulls, the end of batches and passes. `dense` has those of dense tables,
//! `rows` those of sparse ones.

mod dense;
mod rows;

use self::dense::Outbox;
use self::rows::{RowPull, RowsOfPush};
use crate::barrier::Apply;
use crate::host::{Host, RunListener};
use crate::run::GenerationRun;
use crate::service::{FinishedBatch, Push, Service, ServiceContext, Staged, TablePiece, invalid};
use crate::sparse::FoundRows;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;
use wire::channel::{Channel, ChannelError};
use wire::data::{Carrier, Encoded, Reply, Request, Stamped, Ticket};
use wire::frame::{FrameError, Head};
use wire::handshake::refuse;
use wire::message::{Code, Refusal};
use wire::shared::SharedRegion;
use wire::{Step, TableId};

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

/// A trainer's data connection to one service.
struct Line<'a> {
    host: &'a Host,
    run: &'a Arc<GenerationRun>,
    service: &'a Service,
    trainer: usize,
    channel: &'a mut Channel,
    /// Rows of the last pull of each table, for the push that follows.
    pulled: HashMap<u32, (Ticket, FoundRows)>,
    /// Row lists to be reused.
    spare: Vec<FoundRows>,
    tickets: u64,
    values: Vec<f32>,
    /// Memory to which a trainer on this host writes its gradients.
    outbox: Option<Outbox>,
    /// The row buffers that a trainer on this host has requested, by table.
    trays: HashMap<u32, Arc<SharedRegion>>,
}

/// Serves a data connection until it or the generation ends.
pub(crate) fn serve(
    host: &Host,
    run: &Arc<GenerationRun>,
    port: usize,
    trainer: usize,
    channel: &mut Channel,
) -> Result<(), ChannelError> {
    let Some(service) = run.services.get(port) else {
        refuse(
            channel,
            &invalid(format!("this server has no port number {port}")),
        );
        return Ok(());
    };
    channel.gather();
    let mut line = Line {
        host,
        run,
        service,
        trainer,
        channel,
        pulled: HashMap::new(),
        spare: Vec::new(),
        tickets: 0,
        values: Vec::new(),
        outbox: None,
        trays: HashMap::new(),
    };
    loop {
        match line.one() {
            Ok(()) => {}
            Err(Stop::Channel(error)) => return Err(error),
            Err(Stop::Refused(refusal)) => {
                refuse(line.channel, &refusal);
                if refusal.code == Code::Interrupted {
                    return Ok(());
                }
                return Err(ChannelError::Refused {
                    peer: line.channel.peer().to_owned(),
                    refusal,
                });
            }
        }
    }
}

impl Line<'_> {
    fn one(&mut self) -> Result<(), Stop> {
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
            Request::FinishPass { pass } => self.finish_pass(step, pass),
            Request::EndPass { pass } => self.end_pass(pass),
            Request::Reduce { round, count } => self.reduce(&head, round, count),
            Request::Share => self.share(),
            Request::ShareRows { table, rows } => self.share_rows(table, rows),
            Request::Initial { .. } => {
                let error = self
                    .channel
                    .unexpected(&head, "a push, pull, finish or reduce");
                Err(error.into())
            }
        }
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
            host: self.host,
            run: self.run,
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
        let (lead, apply) = self.service.begin_push(self.host.config.stall, push)?;
        self.host.metrics.pushes.add(1);
        self.host.metrics.staleness.raise(lead);
        Ok(apply)
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

    fn finish_pass(&mut self, step: Step, pass: u64) -> Result<(), Stop> {
        let over = {
            let listener = self.listener();
            let context = self.context(&listener);
            self.service
                .finish_pass(&context, self.trainer, step, pass)?
        };
        let message = self.encode(over.step, Reply::PassOver { pass: over.pass });
        Ok(self.channel.send_bytes(&message, &[])?)
    }

    fn end_pass(&mut self, pass: u64) -> Result<(), Stop> {
        let ended = {
            let listener = self.listener();
            let context = self.context(&listener);
            self.service.end_pass(&context, self.trainer, pass)?
        };
        let message = self.encode(ended.step, Reply::PassEnded { pass: ended.pass });
        Ok(self.channel.send_bytes(&message, &[])?)
    }

    /// Waits until the tables have `step` steps applied.
    fn wait_readable(&mut self, tables: &[TableId], step: Step) -> Result<(), Stop> {
        let (service, trainer) = (self.service, self.trainer);
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
        let limit = self.host.config.stall;
        let sum = self.service.reduce(limit, self.trainer, round, numbers)?;
        let message = self.encode(Step(0), Reply::Reduced { round });
        Ok(self
            .channel
            .send_bytes(&message, &[bytemuck::cast_slice(&sum)])?)
    }
}
