//! The data plane of one connection: pushes, pulls, the end of batches and passes. `dense` has those of dense tables,
//! `rows` those of sparse ones.

mod dense;
mod rows;

use self::dense::Outbox;
use crate::barrier::Apply;
use crate::connection::unexpected;
use crate::host::{Host, RunListener};
use crate::run::Run;
use crate::service::{Piece, Service, Staged, invalid};
use crate::sparse::Found;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;
use wire::channel::{Channel, ChannelError};
use wire::frame::{Head, Kind};
use wire::handshake::refuse;
use wire::message::{Code, Hot, Refusal};
use wire::shared::Region;
use wire::{TableId, View};

/// Numbers that one reduction may have.
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
    run: &'a Arc<Run>,
    service: &'a Service,
    trainer: usize,
    channel: &'a mut Channel,
    /// Rows of the last pull of each table, for the push that follows.
    pulled: HashMap<u32, (u64, Found)>,
    /// Row lists to be used again.
    spare: Vec<Found>,
    tickets: u64,
    values: Vec<f32>,
    /// Where a trainer on this host lays its gradients down.
    outbox: Option<Outbox>,
    /// Memory for the rows of each table that a trainer on this host has asked for.
    trays: HashMap<u32, Arc<Region>>,
}

/// Serves a data connection until it or the epoch ends.
pub(crate) fn serve(
    host: &Host,
    run: &Arc<Run>,
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
        if (head.kind as u8) < Kind::Initial as u8 {
            return Err(unexpected(self.channel, head.kind).into());
        }
        let hot = self.channel.hot(&head)?;
        if hot.epoch != self.run.epoch {
            let text = format!("epoch {} is over", hot.epoch);
            return Err(Refusal {
                code: Code::Interrupted,
                text,
            }
            .into());
        }
        self.host.metrics.bytes_in.add(head.payload);
        match head.kind {
            Kind::PushDense => self.push_dense(&head, &hot),
            Kind::PushPlaced => self.push_placed(&head, &hot),
            Kind::Share => self.share(&hot),
            Kind::PushRows => self.push_rows(&head, &hot),
            Kind::PushRowsPlaced => self.push_rows_placed(&head, &hot),
            Kind::ShareRows => self.share_rows(&hot),
            Kind::FinishBatch => self.finish(&hot),
            Kind::PullDense => self.pull_dense(&head, &hot),
            Kind::PullRows => self.pull_rows(&head, &hot),
            Kind::FinishPass => self.finish_pass(&hot),
            Kind::Reduce => self.reduce(&head, &hot),
            other => Err(unexpected(self.channel, other).into()),
        }
    }

    fn listener(&self) -> RunListener<'_> {
        RunListener {
            host: self.host,
            run: self.run,
        }
    }

    fn piece(&self, table: TableId) -> Result<&Piece, Stop> {
        let piece = self.service.pieces().get(table.index());
        Ok(piece.ok_or_else(|| invalid(format!("there is no table {table}")))?)
    }

    /// Answers a request for shared memory with descriptors; none says that there is no such memory.
    fn hand_over(&mut self, hot: &Hot, descriptors: &[BorrowedFd<'_>]) -> Result<(), Stop> {
        let answer = Hot {
            count: descriptors.len() as u32,
            ..*hot
        };
        self.channel.send_bytes(Kind::Shared, &answer, &[])?;
        if descriptors.is_empty() {
            return Ok(());
        }
        let sent = self.channel.stream().send_descriptors(descriptors);
        Ok(sent.map_err(|source| ChannelError::Io {
            peer: self.channel.peer().to_owned(),
            source,
        })?)
    }

    fn begin_push(&self, hot: &Hot) -> Result<Option<Apply>, Stop> {
        let stall = self.host.config.stall;
        let who = (self.trainer, hot.step.0);
        let (lead, apply) = self
            .service
            .begin_push(stall, who, hot.table.index(), hot.samples)?;
        self.host.metrics.pushes.add(1);
        self.host.metrics.staleness.raise(lead);
        Ok(apply)
    }

    fn end_push(&self, table: TableId, push: Staged) {
        let report: (_, &dyn crate::service::Listener) = (&*self.host.metrics, &self.listener());
        self.service
            .end_push(&self.run.tables, self.trainer, table.index(), push, report);
    }

    fn finish(&mut self, hot: &Hot) -> Result<(), Stop> {
        let report: (_, &dyn crate::service::Listener) = (&*self.host.metrics, &self.listener());
        let what = (self.trainer, hot.step.0, hot.samples);
        Ok(self.service.finish(
            self.host.config.stall,
            &self.run.tables,
            what,
            hot.ticket,
            report,
        )?)
    }

    fn finish_pass(&mut self, hot: &Hot) -> Result<(), Stop> {
        let what = (self.trainer, hot.step.0, hot.value);
        let (step, pass) = {
            let report: (_, &dyn crate::service::Listener) =
                (&*self.host.metrics, &self.listener());
            self.service
                .finish_pass(self.host.config.stall, &self.run.tables, what, report)?
        };
        let answer = Hot {
            epoch: self.run.epoch,
            step: wire::Step(step),
            value: pass,
            ..Hot::default()
        };
        Ok(self.channel.send_bytes(Kind::PassEnded, &answer, &[])?)
    }

    fn wait_readable(&self, table: usize, hot: &Hot) -> Result<(), Stop> {
        let begun = Instant::now();
        self.service
            .readable(self.host.config.stall, self.trainer, table, hot.step.0)?;
        self.host.metrics.barrier_wait.add_time(begun.elapsed());
        Ok(())
    }

    fn view(hot: &Hot) -> Result<View, Stop> {
        Ok(View::from_number(hot.value)
            .ok_or_else(|| invalid(format!("there is no view {}", hot.value)))?)
    }

    fn reduce(&mut self, head: &Head, hot: &Hot) -> Result<(), Stop> {
        if hot.count > REDUCED || head.payload != u64::from(hot.count) * 8 {
            return Err(invalid(format!("at most {REDUCED} numbers can be summed at once")).into());
        }
        let mut numbers = vec![0.0_f64; hot.count as usize];
        self.channel
            .read_bytes(bytemuck::cast_slice_mut(&mut numbers))?;
        let sum = self
            .service
            .reduce(self.host.config.stall, self.trainer, hot.value, numbers)?;
        Ok(self
            .channel
            .send_bytes(Kind::Reduced, hot, &[bytemuck::cast_slice(&sum)])?)
    }
}
