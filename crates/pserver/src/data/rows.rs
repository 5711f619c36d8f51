//! Pulls and pushes of rows: through the connection, or in a row buffer that a trainer on this host shares.

use super::{Line, Stop};
use crate::service::{Push, Staged, TablePiece, invalid};
use crate::sparse::{FoundRows, RowGradients, RowPush, SparsePiece};
use std::convert::Infallible;
use std::sync::Arc;
use wire::data::{Carrier, Reply, Ticket};
use wire::frame::Head;
use wire::shared::SharedRegion;
use wire::{Encoding, Mode, Step, TableId, View};

/// Values that are gathered before they are sent, so that they stay in the L2 cache and there are few calls.
const SENT: usize = 49_152;
/// Values that are gathered before they are copied to a row buffer, so that they stay in the L1 cache.
const LAID: usize = 4_096;

/// The rows of a push.
pub(super) struct RowsOfPush {
    /// Their number.
    pub(super) rows: u32,
    /// The pull that named them; `None`: their ids are in the payload.
    pub(super) ticket: Option<Ticket>,
}

/// A pull of rows.
pub(super) struct RowPull {
    pub(super) table: TableId,
    /// Number of ids in the payload.
    pub(super) rows: u32,
    /// Which values.
    pub(super) view: View,
}

impl Line {
    fn sparse_piece(&self, table: TableId) -> Result<Arc<SparsePiece>, Stop> {
        match self.piece(table)? {
            TablePiece::Sparse(piece) => Ok(piece.clone()),
            _ => Err(invalid(format!("table {table} is not sparse on this port")).into()),
        }
    }

    /// Gives a trainer on this host a row buffer for `count` rows of a table, instead of the one it had.
    pub(super) fn share_rows(&mut self, id: TableId, rows: u32) -> Result<(), Stop> {
        self.sparse_piece(id)?;
        let table = &self.run.tables[id.index()];
        if u64::from(rows) > table.spec.rows {
            return Err(invalid(format!("table {id} has no {rows} rows")).into());
        }
        let possible = self.channel.stream().is_local() && self.run.spec.mode == Mode::Sync;
        let tray = possible.then(|| SharedRegion::create(rows as usize * table.cols()));
        let Some(Ok(tray)) = tray else {
            return self.hand_over(&[]);
        };
        self.hand_over(&[tray.descriptor()])?;
        self.trays.insert(id.0, Arc::new(tray));
        Ok(())
    }

    /// The row buffer of a table, if it has room for the rows of a request.
    fn tray(&self, table: TableId, rows: u32) -> Option<&Arc<SharedRegion>> {
        let cols = self.run.tables[table.index()].cols();
        let tray = self.trays.get(&table.0);
        tray.filter(|tray| tray.len() >= rows as usize * cols)
    }

    /// Gradients that arrive through the connection.
    pub(super) fn push_rows(
        &mut self,
        head: &Head,
        push: &Push,
        pushed: &RowsOfPush,
    ) -> Result<(), Stop> {
        let piece = self.sparse_piece(push.table)?;
        let table = &self.run.tables[push.table.index()];
        let (count, cols) = (pushed.rows as usize, table.cols());
        let ids = if pushed.ticket.is_none() {
            count * 4
        } else {
            0
        };
        if u64::from(pushed.rows) > table.spec.rows
            || head.payload != (ids + count * cols * head.encoding.bytes()) as u64
        {
            let text = format!(
                "{} bytes are not {count} rows of table {}",
                head.payload, push.table
            );
            return Err(invalid(text).into());
        }
        let mut found = match pushed.ticket {
            None => self.spare.pop().unwrap_or_default(),
            Some(ticket) => self.pulled_rows(push.table, pushed.rows, ticket)?,
        };
        if pushed.ticket.is_none() {
            found.ids_mut().resize(count, 0);
            self.channel
                .read_bytes(bytemuck::cast_slice_mut(found.ids_mut()))?;
            piece.group(&mut found).map_err(invalid)?;
        }
        self.begin_push(push)?;
        let mut gradients = match self.take_old(push.table) {
            Some(RowGradients::Received(buffer)) => buffer,
            _ => Vec::new(),
        };
        gradients.resize(count * cols, 0.0);
        self.channel.read_values(head.encoding, &mut gradients)?;
        let gradients = RowGradients::Received(gradients);
        self.end_row_push(&piece, push.table, RowPush { found, gradients });
        Ok(())
    }

    /// Gradients in the row buffer.
    pub(super) fn push_rows_placed(
        &mut self,
        head: &Head,
        push: &Push,
        pushed: &RowsOfPush,
    ) -> Result<(), Stop> {
        let (table, rows) = (push.table, pushed.rows);
        let piece = self.sparse_piece(table)?;
        let tray = self.tray(table, rows).filter(|_| head.payload == 0);
        let Some(tray) = tray.cloned() else {
            let text = format!("{rows} rows of table {table} are not in the row buffer");
            return Err(invalid(text).into());
        };
        let ticket = pushed.ticket.unwrap_or(Ticket(0));
        let found = self.pulled_rows(table, rows, ticket)?;
        self.begin_push(push)?;
        self.take_old(table);
        let bytes = 4 * rows as usize * self.run.tables[table.index()].cols();
        self.host.metrics.bytes_in.add(bytes as u64);
        let gradients = RowGradients::Tray(tray);
        self.end_row_push(&piece, table, RowPush { found, gradients });
        Ok(())
    }

    /// Takes the buffers of this trainer's previous push; its row list will be reused.
    fn take_old(&mut self, table: TableId) -> Option<RowGradients> {
        let Staged::Rows(old) = self.service.take_staged(self.trainer, table.index()) else {
            return None;
        };
        self.spare.push(old.found);
        Some(old.gradients)
    }

    fn end_row_push(&self, piece: &SparsePiece, table: TableId, mut push: RowPush) {
        piece.find(&self.run.tables[table.index()], &mut push.found);
        self.host.metrics.rows_pushed.add(push.found.len() as u64);
        self.end_push(table, Staged::Rows(push));
    }

    /// The rows that a push's ticket names.
    fn pulled_rows(
        &mut self,
        table: TableId,
        rows: u32,
        ticket: Ticket,
    ) -> Result<FoundRows, Stop> {
        match self.pulled.remove(&table.0) {
            Some((known, found)) if known == ticket && found.len() == rows as usize => Ok(found),
            _ => {
                let text = format!("ticket {} of table {table} is not known", ticket.0);
                Err(invalid(text).into())
            }
        }
    }

    pub(super) fn pull_rows(
        &mut self,
        head: &Head,
        step: Step,
        pull: &RowPull,
    ) -> Result<(), Stop> {
        let rows = pull.rows;
        let piece = self.sparse_piece(pull.table)?;
        let run = self.run.clone();
        let table = &run.tables[pull.table.index()];
        if u64::from(rows) > table.spec.rows || head.payload != u64::from(rows) * 4 {
            let text = format!(
                "{} bytes are not {rows} row ids of table {}",
                head.payload, pull.table
            );
            return Err(invalid(text).into());
        }
        let mut found = match self.pulled.remove(&pull.table.0) {
            Some((_, found)) => found,
            None => self.spare.pop().unwrap_or_default(),
        };
        found.ids_mut().resize(rows as usize, 0);
        self.channel
            .read_bytes(bytemuck::cast_slice_mut(found.ids_mut()))?;
        piece.group(&mut found).map_err(invalid)?;
        self.wait_readable(&[pull.table], step)?;
        self.host.metrics.pulls.add(1);
        self.host.metrics.rows_pulled.add(u64::from(rows));
        let count = found.len() * table.cols();
        self.host
            .metrics
            .bytes_out
            .add((count * head.encoding.bytes()) as u64);
        if pull.view != View::Training {
            piece.peek(table, &found, pull.view, &mut self.values);
            let values = Reply::Values {
                table: pull.table,
                ticket: None,
                carrier: Carrier::Payload,
            };
            let message = self.encode(step, values);
            let runs = std::iter::once(self.values.as_slice());
            self.channel
                .send_values(&message, head.encoding, &[], runs)?;
            self.spare.push(found);
            return Ok(());
        }
        let ticket = self.reply_rows(head.encoding, step, pull, &piece, &mut found)?;
        self.pulled.insert(pull.table.0, (ticket, found));
        Ok(())
    }

    /// Sends the rows of a pull, or copies them to the row buffer, with a ticket for the push that follows.
    fn reply_rows(
        &mut self,
        encoding: Encoding,
        step: Step,
        pull: &RowPull,
        piece: &SparsePiece,
        found: &mut FoundRows,
    ) -> Result<Ticket, Stop> {
        let table = &self.run.tables[pull.table.index()];
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let tray = self.tray(pull.table, pull.rows);
        let tray = tray.filter(|_| encoding == Encoding::F32).cloned();
        let values = Reply::Values {
            table: pull.table,
            ticket: Some(ticket),
            carrier: match tray {
                Some(_) => Carrier::Memory,
                None => Carrier::Payload,
            },
        };
        let message = self.encode(step, values);
        if let Some(tray) = tray {
            let mut at = 0;
            let lay = |numbers: &[f32]| {
                tray.write(at, numbers);
                at += numbers.len();
                Ok(())
            };
            let Ok(()) = piece.pull::<Infallible>(table, found, &mut self.values, LAID, lay);
            self.channel.send_bytes(&message, &[])?;
            return Ok(ticket);
        }
        let count = found.len() * table.cols();
        self.channel.begin_values(&message, encoding, &[], count)?;
        let channel = &mut *self.channel;
        let send = |numbers: &[f32]| channel.more(encoding, numbers);
        piece.pull(table, found, &mut self.values, SENT, send)?;
        Ok(ticket)
    }
}
