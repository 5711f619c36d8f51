//! The data plane of one connection: pushes, pulls, the end of batches and passes. `dense` has those of dense tables.

mod dense;

use self::dense::Outbox;
use crate::barrier::Apply;
use crate::connection::unexpected;
use crate::host::{Host, RunListener};
use crate::run::Run;
use crate::service::{Piece, Service, Staged, invalid};
use crate::sparse::{Found, RowPush};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use wire::channel::{Channel, ChannelError};
use wire::frame::{Head, Kind};
use wire::handshake::refuse;
use wire::message::{Code, Hot, Refusal};
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

    fn push_rows(&mut self, head: &Head, hot: &Hot) -> Result<(), Stop> {
        let Piece::Sparse(piece) = self.piece(hot.table)?.clone() else {
            return Err(invalid(format!("table {} is not sparse on this port", hot.table)).into());
        };
        let table = &self.run.tables[hot.table.index()];
        let (count, cols) = (hot.count as usize, table.cols());
        let ids = if hot.ticket == 0 { count * 4 } else { 0 };
        if u64::from(hot.count) > table.spec.rows
            || head.payload != (ids + count * cols * head.encoding.bytes()) as u64
        {
            let text = format!(
                "{} bytes are not {count} rows of table {}",
                head.payload, hot.table
            );
            return Err(invalid(text).into());
        }
        let mut found = self.rows_of_push(hot)?;
        if hot.ticket == 0 {
            found.ids_mut().resize(count, 0);
            self.channel
                .read_bytes(bytemuck::cast_slice_mut(found.ids_mut()))?;
            piece.group(&mut found).map_err(invalid)?;
        }
        self.begin_push(hot)?;
        let mut gradients = match self.service.take_staged(self.trainer, hot.table.index()) {
            Staged::Rows(old) => {
                self.spare.push(old.found);
                old.gradients
            }
            _ => Vec::new(),
        };
        gradients.resize(count * cols, 0.0);
        self.channel.read_values(head.encoding, &mut gradients)?;
        piece.find(table, &mut found);
        self.host.metrics.rows_pushed.add(u64::from(hot.count));
        self.end_push(hot.table, Staged::Rows(RowPush { found, gradients }));
        Ok(())
    }

    /// The rows that a push's ticket names, or an empty list to be filled.
    fn rows_of_push(&mut self, hot: &Hot) -> Result<Found, Stop> {
        if hot.ticket == 0 {
            return Ok(self.spare.pop().unwrap_or_default());
        }
        match self.pulled.remove(&hot.table.0) {
            Some((ticket, found)) if ticket == hot.ticket && found.len() == hot.count as usize => {
                Ok(found)
            }
            _ => Err(invalid(format!(
                "ticket {} of table {} is not known",
                hot.ticket, hot.table
            ))
            .into()),
        }
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

    fn pull_rows(&mut self, head: &Head, hot: &Hot) -> Result<(), Stop> {
        let view = Self::view(hot)?;
        let Piece::Sparse(piece) = self.piece(hot.table)?.clone() else {
            return Err(invalid(format!("table {} is not sparse on this port", hot.table)).into());
        };
        let table = &self.run.tables[hot.table.index()];
        if u64::from(hot.count) > table.spec.rows || head.payload != u64::from(hot.count) * 4 {
            let text = format!(
                "{} bytes are not {} row ids of table {}",
                head.payload, hot.count, hot.table
            );
            return Err(invalid(text).into());
        }
        let mut found = match self.pulled.remove(&hot.table.0) {
            Some((_, found)) => found,
            None => self.spare.pop().unwrap_or_default(),
        };
        found.ids_mut().resize(hot.count as usize, 0);
        self.channel
            .read_bytes(bytemuck::cast_slice_mut(found.ids_mut()))?;
        piece.group(&mut found).map_err(invalid)?;
        self.wait_readable(hot.table.index(), hot)?;
        self.host.metrics.pulls.add(1);
        self.host.metrics.rows_pulled.add(u64::from(hot.count));
        let count = found.len() * table.cols();
        self.host
            .metrics
            .bytes_out
            .add((count * head.encoding.bytes()) as u64);
        if view != View::Training {
            piece.peek(table, &found, view, &mut self.values);
            let runs = std::iter::once(self.values.as_slice());
            self.channel
                .send_values(Kind::Values, head.encoding, hot, &[], runs)?;
            self.spare.push(found);
            return Ok(());
        }
        self.tickets += 1;
        let answer = Hot {
            ticket: self.tickets,
            ..*hot
        };
        self.channel
            .begin_values(Kind::Values, head.encoding, &answer, &[], count)?;
        let channel = &mut *self.channel;
        let send = |numbers: &[f32]| channel.more(head.encoding, numbers);
        piece.pull(table, &mut found, &mut self.values, send)?;
        self.pulled.insert(hot.table.0, (self.tickets, found));
        Ok(())
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
