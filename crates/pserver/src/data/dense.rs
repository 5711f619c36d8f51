//! Pushes and pulls of dense tables: through the connection, or in memory that a trainer on this host shares.

use super::rows::RowsOfPush;
use super::{Line, Stop};
use crate::barrier::Apply;
use crate::dense::DensePiece;
use crate::gradient::{Held, LookupGradient, OutboxGradient, PackedGradient};
use crate::host::RunListener;
use crate::service::{Last, Push, ServiceContext, Staged, TablePiece, invalid};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use wire::channel::GATHERED;
use wire::data::{Carrier, Reply, Ticket};
use wire::frame::Head;
use wire::shared::{RegionLayout, SharedRegion, layout};
use wire::{Encoding, Mode, Step, TableId, View, gaps, runs};

/// Shared memory to which a trainer on this host writes its gradients.
pub(super) struct Outbox {
    memory: Arc<SharedRegion>,
    /// Offset of each table.
    starts: Vec<usize>,
}

/// Rows of a dense table that a trainer named, for the push that follows.
pub(super) struct DenseRows {
    ticket: Ticket,
    rows: u32,
    /// Where what the service holds of them lies among its values.
    runs: Vec<Range<usize>>,
}

/// Which values of a piece a push has.
struct PushCoverage {
    /// Of each block, the parts that are there; `None` without gaps.
    masks: Option<Vec<u64>>,
    /// How many values there are.
    values: usize,
}

impl Line {
    /// Gives a trainer on this host the memory of the values and an outbox of its own.
    pub(super) fn share(&mut self) -> Result<(), Stop> {
        let pieces = self.service.pieces().iter();
        let lens = pieces.map(|piece| match piece {
            TablePiece::Dense(piece) => piece.len(),
            TablePiece::Sparse(_) | TablePiece::Absent => 0,
        });
        let RegionLayout { starts, len } = layout(lens);
        let service = self.service.clone();
        let values = service.values();
        let values = values.filter(|_| self.channel.stream().is_local());
        let both = values.and_then(|values| Some((values, SharedRegion::create(len).ok()?)));
        let Some((values, memory)) = both else {
            return self.hand_over(&[]);
        };
        self.hand_over(&[values.as_fd(), memory.descriptor()])?;
        let memory = Arc::new(memory);
        self.outbox = Some(Outbox { memory, starts });
        Ok(())
    }

    fn dense_piece(&self, table: TableId) -> Result<Arc<DensePiece>, Stop> {
        match self.piece(table)? {
            TablePiece::Dense(piece) => Ok(piece.clone()),
            _ => Err(invalid(format!("table {table} is not dense on this port")).into()),
        }
    }

    /// A gradient in the outbox.
    pub(super) fn push_placed(
        &mut self,
        head: &Head,
        push: &Push,
        blocks: u32,
    ) -> Result<(), Stop> {
        let piece = self.dense_piece(push.table)?;
        let coverage = self.coverage(head, push.table, blocks, &piece, 0)?;
        let Some(outbox) = &self.outbox else {
            return Err(invalid("this connection shares no memory".to_owned()).into());
        };
        let placed = OutboxGradient {
            outbox: outbox.memory.clone(),
            at: outbox.starts[push.table.index()],
            masks: coverage.masks,
        };
        self.host.metrics.bytes_in.add(4 * coverage.values as u64);
        let apply = self.begin_push(push)?;
        self.hold(push, apply, Held::Placed(placed))
    }

    /// A gradient that arrives through the connection.
    pub(super) fn push_dense(&mut self, head: &Head, push: &Push, blocks: u32) -> Result<(), Stop> {
        let piece = self.dense_piece(push.table)?;
        let bytes = head.encoding.bytes();
        let coverage = self.coverage(head, push.table, blocks, &piece, bytes)?;
        match coverage.masks {
            Some(masks) => self.push_with_gaps(head.encoding, push, masks, coverage.values),
            None => self.push_whole(head.encoding, push, &piece),
        }
    }

    /// A gradient of rows that arrives through the connection.
    pub(super) fn push_dense_rows(
        &mut self,
        head: &Head,
        push: &Push,
        rows: &RowsOfPush,
    ) -> Result<(), Stop> {
        let piece = self.dense_piece(push.table)?;
        let looked_up = match rows.ticket {
            None => self.read_dense_rows(head, push.table, rows.rows, &piece)?,
            Some(ticket) => match self.looked_up.remove(&push.table.0) {
                Some(known) if (known.ticket, known.rows) == (ticket, rows.rows) => known,
                _ => {
                    let text = format!("ticket {} of table {} is not known", ticket.0, push.table);
                    return Err(invalid(text).into());
                }
            },
        };
        let count = runs::count(&looked_up.runs);
        let ids = if rows.ticket.is_none() {
            4 * u64::from(rows.rows)
        } else {
            0
        };
        if head.payload != ids + (count * head.encoding.bytes()) as u64 {
            let text = format!(
                "{} bytes are not {} rows of table {}",
                head.payload, rows.rows, push.table
            );
            return Err(invalid(text).into());
        }
        let apply = self.begin_push(push)?;
        // The buffer of the trainer's last push of the table is filled again.
        let mut values = match self.service.take_staged(self.trainer, push.table.index()) {
            Staged::Dense(Held::Rows(old)) => old.values,
            _ => Vec::new(),
        };
        values.resize(count, 0.0);
        self.channel.read_values(head.encoding, &mut values)?;
        let runs = looked_up.runs;
        self.hold(push, apply, Held::Rows(LookupGradient { runs, values }))
    }

    /// Receives a gradient with gaps, which is small, before it is summed or waits for others.
    fn push_with_gaps(
        &mut self,
        encoding: Encoding,
        push: &Push,
        masks: Vec<u64>,
        count: usize,
    ) -> Result<(), Stop> {
        let apply = self.begin_push(push)?;
        let mut values = match self.service.take_staged(self.trainer, push.table.index()) {
            Staged::Dense(Held::Packed(old)) => old.values,
            _ => Vec::new(),
        };
        values.resize(count, 0.0);
        self.channel.read_values(encoding, &mut values)?;
        let held = Held::Packed(PackedGradient { masks, values });
        self.hold(push, apply, held)
    }

    /// Applies the table if this push is the last one that it waits for; otherwise the push waits for the others.
    fn hold(&mut self, push: &Push, apply: Option<Apply>, held: Held) -> Result<(), Stop> {
        let Some(apply) = apply else {
            self.end_push(push.table, Staged::Dense(held));
            return Ok(());
        };
        let listener = self.listener();
        let context = self.context(&listener);
        let last = Last::<Stop>::Held(held);
        self.service
            .apply_last(&context, self.trainer, &apply, last)
    }

    /// Receives a gradient without gaps. If it is the last one that the table waits for, it is summed and applied as it
    /// arrives.
    fn push_whole(
        &mut self,
        encoding: Encoding,
        push: &Push,
        piece: &DensePiece,
    ) -> Result<(), Stop> {
        if let Some(apply) = self.begin_push(push)? {
            // Not through `self`, whose channel is borrowed by `receive`.
            let listener = RunListener {
                host: &self.host,
                run: &self.run,
            };
            let context = ServiceContext {
                tables: &self.run.tables,
                limit: self.host.config.stall,
                metrics: &self.host.metrics,
                listener: &listener,
            };
            let channel = &mut *self.channel;
            let receive = |block: &mut [f32]| channel.read_values(encoding, block);
            let last = Last::Arriving(Box::new(receive));
            return Ok(self
                .service
                .apply_last(&context, self.trainer, &apply, last)?);
        }
        let mut gradient = match self.service.take_staged(self.trainer, push.table.index()) {
            Staged::Dense(Held::Whole(buffer)) => buffer,
            _ => Vec::new(),
        };
        gradient.resize(piece.len(), 0.0);
        self.channel.read_values(encoding, &mut gradient)?;
        self.end_push(push.table, Staged::Dense(Held::Whole(gradient)));
        Ok(())
    }

    /// Reads which values a push has. Checks that the payload, with this many bytes per value, has the right length.
    fn coverage(
        &mut self,
        head: &Head,
        table: TableId,
        announced: u32,
        piece: &DensePiece,
        bytes: usize,
    ) -> Result<PushCoverage, Stop> {
        let unfit = |count: usize| {
            let text = format!(
                "gradient of table {table} has {} bytes, {count} values belong here",
                head.payload
            );
            Stop::from(invalid(text))
        };
        if announced == 0 {
            let whole = head.payload == (piece.len() * bytes) as u64;
            return if whole {
                Ok(PushCoverage {
                    masks: None,
                    values: piece.len(),
                })
            } else {
                Err(unfit(piece.len()))
            };
        }
        let blocks = piece.blocks();
        if announced as usize != blocks.len() || head.payload < 8 * u64::from(announced) {
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
        Ok(PushCoverage {
            masks: Some(masks),
            values: count,
        })
    }

    /// The tables that a pull leaves out.
    fn exceptions(&mut self, head: &Head, count: u32) -> Result<Vec<u32>, Stop> {
        let fits = count as usize <= self.run.tables.len();
        if !fits || head.payload != u64::from(count) * 4 {
            let text = format!("{} bytes are not {count} tables", head.payload);
            return Err(invalid(text).into());
        }
        let mut tables = vec![0_u32; count as usize];
        self.channel
            .read_bytes(bytemuck::cast_slice_mut(&mut tables))?;
        Ok(tables)
    }

    pub(super) fn pull_dense(
        &mut self,
        head: &Head,
        step: Step,
        view: View,
        except: u32,
    ) -> Result<(), Stop> {
        let except = self.exceptions(head, except)?;
        self.host.metrics.pulls.add(1);
        let (run, service) = (self.run.clone(), self.service.clone());
        let wanted: Vec<(TableId, &DensePiece)> = (0..)
            .map(TableId)
            .zip(service.pieces())
            .filter_map(|(id, piece)| match piece {
                TablePiece::Dense(piece) if !piece.is_empty() && !except.contains(&id.0) => {
                    Some((id, &**piece))
                }
                _ => None,
            })
            .collect();
        let bytes: usize = wanted.iter().map(|(_, piece)| 4 * piece.len()).sum();
        if bytes <= GATHERED {
            // They are sent together, so there is nothing to gain from one that is ready before the others.
            let tables: Vec<TableId> = wanted.iter().map(|(id, _)| *id).collect();
            self.wait_readable(&tables, step)?;
        }
        for (id, piece) in wanted {
            let table = &run.tables[id.index()];
            self.wait_readable(&[id], step)?;
            // No process changes values before this trainer has them: the step after needs its gradient.
            let steady = self.run.spec.mode == Mode::Sync && view != View::Averaged;
            let carrier = match self.outbox {
                Some(_) if steady => Carrier::Memory,
                _ => Carrier::Payload,
            };
            let values = Reply::Values {
                table: id,
                ticket: None,
                carrier,
            };
            let message = self.encode(step, values);
            let encoding = match table.rule.stays_without_push() {
                true => Encoding::F32,
                false => head.encoding,
            };
            let data = piece.read();
            let bytes = data.values.len() * encoding.bytes();
            self.host.metrics.bytes_out.add(bytes as u64);
            if carrier == Carrier::Memory {
                self.channel.send_bytes(&message, &[])?;
                continue;
            }
            if steady {
                let runs = std::iter::once(&*data.values);
                self.channel.send_values(&message, encoding, &[], runs)?;
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
            self.channel.send_values(&message, encoding, &[], runs)?;
        }
        Ok(())
    }

    /// Reads and checks the ids of rows of a dense table, and finds what the service holds of them.
    fn read_dense_rows(
        &mut self,
        head: &Head,
        table: TableId,
        rows: u32,
        piece: &DensePiece,
    ) -> Result<DenseRows, Stop> {
        let spec = &self.run.tables[table.index()].spec;
        let (all, cols) = (spec.rows, spec.cols as usize);
        if u64::from(rows) > all || head.payload < u64::from(rows) * 4 {
            let text = format!(
                "{} bytes are not {rows} row ids of table {table}",
                head.payload
            );
            return Err(invalid(text).into());
        }
        let mut ids = vec![0_u32; rows as usize];
        self.channel
            .read_bytes(bytemuck::cast_slice_mut(&mut ids))?;
        let ascending = ids.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || ids.last().is_some_and(|last| u64::from(*last) >= all) {
            let text = format!("row ids of table {table} do not ascend or are outside of it");
            return Err(invalid(text).into());
        }
        self.tickets += 1;
        Ok(DenseRows {
            ticket: Ticket(self.tickets),
            rows,
            runs: piece.runs(&ids, cols),
        })
    }

    /// The values of these rows that are in the service's blocks.
    pub(super) fn pull_dense_rows(
        &mut self,
        head: &Head,
        step: Step,
        table: TableId,
        rows: u32,
    ) -> Result<(), Stop> {
        let piece = self.dense_piece(table)?;
        if self.run.spec.mode != Mode::Sync {
            let text = "rows of dense tables are for synchronous training".to_owned();
            return Err(invalid(text).into());
        }
        if head.payload != u64::from(rows) * 4 {
            let text = format!(
                "{} bytes are not {rows} row ids of table {table}",
                head.payload
            );
            return Err(invalid(text).into());
        }
        let looked_up = self.read_dense_rows(head, table, rows, &piece)?;
        self.host.metrics.pulls.add(1);
        self.wait_readable(&[table], step)?;
        let values = Reply::Values {
            table,
            ticket: Some(looked_up.ticket),
            carrier: Carrier::Payload,
        };
        let message = self.encode(step, values);
        // No process changes values before this trainer has them: the step after needs its gradient.
        runs::pack(&piece.read().values, &looked_up.runs, &mut self.values);
        self.looked_up.insert(table.0, looked_up);
        let bytes = self.values.len() * head.encoding.bytes();
        self.host.metrics.bytes_out.add(bytes as u64);
        let runs = std::iter::once(self.values.as_slice());
        Ok(self
            .channel
            .send_values(&message, head.encoding, &[], runs)?)
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
