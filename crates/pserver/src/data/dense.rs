//! Pushes and pulls of dense tables: through the connection, or in memory that a trainer on this host shares.

use super::{Line, Stop};
use crate::dense::DensePiece;
use crate::gradient::{Held, Placed};
use crate::host::RunListener;
use crate::service::{Last, Listener, Piece, Staged, invalid};
use std::os::fd::AsFd;
use std::sync::Arc;
use wire::channel::ChannelError;
use wire::frame::{Head, Kind};
use wire::message::Hot;
use wire::shared::{Region, layout};
use wire::{Mode, TableId, View, gaps};

/// Where a trainer on this host lays its gradients down.
pub(super) struct Outbox {
    memory: Arc<Region>,
    /// Where each table begins.
    starts: Vec<usize>,
}

impl Line<'_> {
    /// Gives a trainer on this host the memory of the values and an outbox of its own.
    pub(super) fn share(&mut self, hot: &Hot) -> Result<(), Stop> {
        let pieces = self.service.pieces().iter();
        let lens = pieces.map(|piece| match piece {
            Piece::Dense(piece) => piece.len(),
            Piece::Sparse(_) | Piece::Absent => 0,
        });
        let (starts, len) = layout(lens);
        let values = self.service.values();
        let values = values.filter(|_| self.channel.stream().is_local());
        let both = values.and_then(|values| Some((values, Region::create(len).ok()?)));
        let Some((values, memory)) = both else {
            return self.hand_over(hot, &[]);
        };
        self.hand_over(hot, &[values.as_fd(), memory.descriptor()])?;
        let memory = Arc::new(memory);
        self.outbox = Some(Outbox { memory, starts });
        Ok(())
    }

    fn dense_piece(&self, table: TableId) -> Result<Arc<DensePiece>, Stop> {
        match self.piece(table)? {
            Piece::Dense(piece) => Ok(piece.clone()),
            _ => Err(invalid(format!("table {table} is not dense on this port")).into()),
        }
    }

    /// A gradient that lies in the outbox.
    pub(super) fn push_placed(&mut self, head: &Head, hot: &Hot) -> Result<(), Stop> {
        let piece = self.dense_piece(hot.table)?;
        let (masks, count) = self.masks(head, hot, &piece, 0)?;
        let Some(outbox) = &self.outbox else {
            return Err(invalid("this connection shares no memory".to_owned()).into());
        };
        let placed = Placed {
            outbox: outbox.memory.clone(),
            at: outbox.starts[hot.table.index()],
            masks,
        };
        self.host.metrics.bytes_in.add(4 * count as u64);
        match self.begin_push(hot)? {
            Some(apply) => {
                let listener = RunListener {
                    host: self.host,
                    run: self.run,
                };
                let report: (_, &dyn Listener) = (&*self.host.metrics, &listener);
                let last = Last::<Stop>::Held(Held::Placed(placed));
                let what = (self.trainer, &apply);
                self.service
                    .apply_last(&self.run.tables, what, report, last)
            }
            None => {
                self.end_push(hot.table, Staged::Dense(Held::Placed(placed)));
                Ok(())
            }
        }
    }

    /// A gradient that comes through the connection.
    pub(super) fn push_dense(&mut self, head: &Head, hot: &Hot) -> Result<(), Stop> {
        let piece = self.dense_piece(hot.table)?;
        let (masks, _) = self.masks(head, hot, &piece, head.encoding.bytes())?;
        let apply = self.begin_push(hot)?;
        let mut packed = std::mem::take(&mut self.values);
        let mut masks_left = masks.as_deref();
        let channel = &mut *self.channel;
        let mut receive = |block: &mut [f32]| -> Result<(), ChannelError> {
            let Some((mask, rest)) = masks_left.and_then(<[u64]>::split_first) else {
                return channel.read_values(head.encoding, block);
            };
            masks_left = Some(rest);
            let count = gaps::count(*mask, block.len()).unwrap_or(0);
            packed.resize(count, 0.0);
            channel.read_values(head.encoding, &mut packed)?;
            gaps::unpack(&packed, *mask, block);
            Ok(())
        };
        if let Some(apply) = apply {
            let listener = RunListener {
                host: self.host,
                run: self.run,
            };
            let report: (_, &dyn Listener) = (&*self.host.metrics, &listener);
            let (what, last) = (
                (self.trainer, &apply),
                Last::Arriving(Box::new(&mut receive)),
            );
            self.service
                .apply_last(&self.run.tables, what, report, last)?;
            self.values = packed;
            return Ok(());
        }
        let mut gradient = match self.service.take_staged(self.trainer, hot.table.index()) {
            Staged::Dense(Held::Whole(buffer)) => buffer,
            _ => Vec::new(),
        };
        gradient.resize(piece.len(), 0.0);
        if masks.is_some() {
            let mut rest = gradient.as_mut_slice();
            for block in piece.blocks() {
                let (own, later) = rest.split_at_mut(block.len);
                receive(own)?;
                rest = later;
            }
        } else {
            receive(&mut gradient)?;
        }
        self.values = packed;
        self.end_push(hot.table, Staged::Dense(Held::Whole(gradient)));
        Ok(())
    }

    /// The masks of a push with gaps, and how many values it has. Checks that the payload, with so many bytes for each
    /// value, is as long as it should.
    fn masks(
        &mut self,
        head: &Head,
        hot: &Hot,
        piece: &DensePiece,
        bytes: usize,
    ) -> Result<(Option<Vec<u64>>, usize), Stop> {
        let unfit = |count: usize| {
            let text = format!(
                "gradient of table {} has {} bytes, {count} values belong here",
                hot.table, head.payload
            );
            Stop::from(invalid(text))
        };
        if hot.count == 0 {
            let whole = head.payload == (piece.len() * bytes) as u64;
            return if whole {
                Ok((None, piece.len()))
            } else {
                Err(unfit(piece.len()))
            };
        }
        let blocks = piece.blocks();
        if hot.count as usize != blocks.len() || head.payload < 8 * u64::from(hot.count) {
            return Err(unfit(piece.len()));
        }
        let mut masks = vec![0_u64; blocks.len()];
        self.channel
            .read_bytes(bytemuck::cast_slice_mut(&mut masks))?;
        let counts = masks.iter().zip(blocks);
        let counts = counts.map(|(mask, block)| gaps::count(*mask, block.len));
        let count: usize = counts.sum::<Option<usize>>().ok_or_else(|| unfit(0))?;
        if head.payload != (8 * masks.len() + count * bytes) as u64 {
            return Err(unfit(count));
        }
        Ok((Some(masks), count))
    }

    pub(super) fn pull_dense(&mut self, head: &Head, hot: &Hot) -> Result<(), Stop> {
        let view = Self::view(hot)?;
        self.host.metrics.pulls.add(1);
        for (at, table) in self.run.tables.iter().enumerate() {
            let Piece::Dense(piece) = &self.service.pieces()[at] else {
                continue;
            };
            if piece.is_empty() {
                continue;
            }
            self.wait_readable(at, hot)?;
            let answer = Hot {
                table: TableId(at as u32),
                ..*hot
            };
            let data = piece.read();
            let bytes = data.values.len() * head.encoding.bytes();
            self.host.metrics.bytes_out.add(bytes as u64);
            if self.run.spec.mode == Mode::Sync && view != View::Averaged {
                // Nobody changes values before this trainer has them: the step after needs its gradient.
                if self.outbox.is_some() {
                    self.channel.send_bytes(Kind::ValuesPlaced, &answer, &[])?;
                    continue;
                }
                let runs = std::iter::once(&*data.values);
                self.channel
                    .send_values(Kind::Values, head.encoding, &answer, &[], runs)?;
                continue;
            }
            self.values.resize(data.values.len(), 0.0);
            if view == View::Averaged {
                average(piece.blocks(), table, &data, &mut self.values);
            } else {
                self.values.copy_from_slice(&data.values);
            }
            drop(data);
            let runs = std::iter::once(self.values.as_slice());
            self.channel
                .send_values(Kind::Values, head.encoding, &answer, &[], runs)?;
        }
        Ok(())
    }
}

fn average(
    blocks: &[wire::shard::Block],
    table: &crate::table::Table,
    data: &crate::dense::DenseData,
    out: &mut [f32],
) {
    let mut at = 0;
    for block in blocks {
        let end = at + block.len;
        let state = &data.state[at * table.slots..end * table.slots];
        table.rule.averaged(
            &data.progress,
            &data.values[at..end],
            state,
            &mut out[at..end],
        );
        at = end;
    }
}
