//! Pulls and pushes of rows: through the connection, or in a tray, memory that a trainer on this host shares.

use super::{Line, Stop};
use crate::service::{Piece, Staged, invalid};
use crate::sparse::{Found, RowGradients, RowPush, SparsePiece};
use std::convert::Infallible;
use std::sync::Arc;
use wire::frame::{Head, Kind};
use wire::message::Hot;
use wire::shared::Region;
use wire::{Encoding, Mode, TableId, View};

/// Numbers that are gathered before they are sent, so that they stay in the second cache and calls are few.
const SENT: usize = 49_152;
/// Numbers that are gathered before they are copied to a tray, so that they stay in the first cache.
const LAID: usize = 4_096;

impl Line<'_> {
    fn sparse_piece(&self, table: TableId) -> Result<Arc<SparsePiece>, Stop> {
        match self.piece(table)? {
            Piece::Sparse(piece) => Ok(piece.clone()),
            _ => Err(invalid(format!("table {table} is not sparse on this port")).into()),
        }
    }

    /// Gives a trainer on this host memory for `count` rows of a table, in place of what it had.
    pub(super) fn share_rows(&mut self, hot: &Hot) -> Result<(), Stop> {
        self.sparse_piece(hot.table)?;
        let table = &self.run.tables[hot.table.index()];
        if u64::from(hot.count) > table.spec.rows {
            let text = format!("table {} has no {} rows", hot.table, hot.count);
            return Err(invalid(text).into());
        }
        let possible = self.channel.stream().is_local() && self.run.spec.mode == Mode::Sync;
        let tray = possible.then(|| Region::create(hot.count as usize * table.cols()));
        let Some(Ok(tray)) = tray else {
            return self.hand_over(hot, &[]);
        };
        self.hand_over(hot, &[tray.descriptor()])?;
        self.trays.insert(hot.table.0, Arc::new(tray));
        Ok(())
    }

    /// The tray of a table, if it has room for the rows of a request.
    fn tray(&self, hot: &Hot) -> Option<&Arc<Region>> {
        let cols = self.run.tables[hot.table.index()].cols();
        let tray = self.trays.get(&hot.table.0);
        tray.filter(|tray| tray.len() >= hot.count as usize * cols)
    }

    /// Gradients that come through the connection.
    pub(super) fn push_rows(&mut self, head: &Head, hot: &Hot) -> Result<(), Stop> {
        let piece = self.sparse_piece(hot.table)?;
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
        let mut found = if hot.ticket == 0 {
            self.spare.pop().unwrap_or_default()
        } else {
            self.pulled_rows(hot)?
        };
        if hot.ticket == 0 {
            found.ids_mut().resize(count, 0);
            self.channel
                .read_bytes(bytemuck::cast_slice_mut(found.ids_mut()))?;
            piece.group(&mut found).map_err(invalid)?;
        }
        self.begin_push(hot)?;
        let mut gradients = match self.take_old(hot.table) {
            Some(RowGradients::Received(buffer)) => buffer,
            _ => Vec::new(),
        };
        gradients.resize(count * cols, 0.0);
        self.channel.read_values(head.encoding, &mut gradients)?;
        self.end_row_push(&piece, hot, found, RowGradients::Received(gradients));
        Ok(())
    }

    /// Gradients that lie in the tray.
    pub(super) fn push_rows_placed(&mut self, head: &Head, hot: &Hot) -> Result<(), Stop> {
        let piece = self.sparse_piece(hot.table)?;
        let Some(tray) = self.tray(hot).filter(|_| head.payload == 0).cloned() else {
            let text = format!("{} rows of table {} lie in no tray", hot.count, hot.table);
            return Err(invalid(text).into());
        };
        let found = self.pulled_rows(hot)?;
        self.begin_push(hot)?;
        self.take_old(hot.table);
        let bytes = 4 * hot.count as usize * self.run.tables[hot.table.index()].cols();
        self.host.metrics.bytes_in.add(bytes as u64);
        self.end_row_push(&piece, hot, found, RowGradients::Tray(tray));
        Ok(())
    }

    /// What is left of this trainer's push before; its row list will be used again.
    fn take_old(&mut self, table: TableId) -> Option<RowGradients> {
        let Staged::Rows(old) = self.service.take_staged(self.trainer, table.index()) else {
            return None;
        };
        self.spare.push(old.found);
        Some(old.gradients)
    }

    fn end_row_push(
        &self,
        piece: &SparsePiece,
        hot: &Hot,
        mut found: Found,
        gradients: RowGradients,
    ) {
        piece.find(&self.run.tables[hot.table.index()], &mut found);
        self.host.metrics.rows_pushed.add(u64::from(hot.count));
        self.end_push(hot.table, Staged::Rows(RowPush { found, gradients }));
    }

    /// The rows that a push's ticket names.
    fn pulled_rows(&mut self, hot: &Hot) -> Result<Found, Stop> {
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

    pub(super) fn pull_rows(&mut self, head: &Head, hot: &Hot) -> Result<(), Stop> {
        let view = Self::view(hot)?;
        let piece = self.sparse_piece(hot.table)?;
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
        self.answer(head.encoding, hot, &piece, &mut found)?;
        self.pulled.insert(hot.table.0, (self.tickets, found));
        Ok(())
    }

    /// Sends the rows of a pull, or lays them into the tray, with a ticket for the push that follows.
    fn answer(
        &mut self,
        encoding: Encoding,
        hot: &Hot,
        piece: &SparsePiece,
        found: &mut Found,
    ) -> Result<(), Stop> {
        let table = &self.run.tables[hot.table.index()];
        self.tickets += 1;
        let answer = Hot {
            ticket: self.tickets,
            ..*hot
        };
        let tray = self.tray(hot).filter(|_| encoding == Encoding::F32);
        if let Some(tray) = tray.cloned() {
            let mut at = 0;
            let lay = |numbers: &[f32]| {
                tray.write(at, numbers);
                at += numbers.len();
                Ok(())
            };
            let Ok(()) = piece.pull::<Infallible>(table, found, (&mut self.values, LAID), lay);
            return Ok(self.channel.send_bytes(Kind::ValuesPlaced, &answer, &[])?);
        }
        let count = found.len() * table.cols();
        self.channel
            .begin_values(Kind::Values, encoding, &answer, &[], count)?;
        let channel = &mut *self.channel;
        let send = |numbers: &[f32]| channel.more(encoding, numbers);
        Ok(piece.pull(table, found, (&mut self.values, SENT), send)?)
    }
}
