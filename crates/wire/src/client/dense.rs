//! Pushes and pulls of dense tables. A table's blocks for one service are sent in one frame, in block order.

use super::config::Error;
use super::dense_rows::RowShare;
use super::{Fault, Session};
use crate::channel::GATHERED;
use crate::data::{Carrier, Reply, Request, View};
use crate::encoding::Encoding;
use crate::gaps;
use crate::ids::TableId;
use crate::shard::{Block, Topology, block_len};
use crate::shard_map::ShardMap;
use crate::spec::{JobSpec, TableSpec};
use std::ops::Range;

/// Tables with fewer values are sent whole, without a search for gaps.
const WORTH_A_LOOK: u64 = 1 << 16;
/// Tables with fewer values are sent whole over a connection even if the rows of the gradient are known. In shared memory a
/// copy costs less than the search for so few parts.
const WORTH_MASKS: u64 = 1 << 13;
/// After a push of a table that had no gaps, the number of pushes before it is searched for gaps again.
const PATIENCE: u32 = 15;

/// Which service holds which blocks of which dense table.
#[derive(Debug)]
pub(super) struct DenseMap {
    /// Those of the servers that hold something.
    pub(super) services: u32,
    /// For each table, the number of further pushes that are not searched for gaps.
    patience: Vec<u32>,
    /// `blocks[table][service]`; empty for sparse tables.
    blocks: Vec<Vec<Vec<Block>>>,
    /// `homes[table][block]`.
    homes: Vec<Vec<BlockHome>>,
}

/// Where a block, or a value in it, is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BlockHome {
    pub(super) service: u32,
    /// Its offset among the values of that service.
    pub(super) start: usize,
}

/// Where the blocks of a table are.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockHomes<'a> {
    homes: &'a [BlockHome],
    /// The number of a value's block is the value's number, shifted right by this.
    shift: u32,
}

impl<'a> BlockHomes<'a> {
    /// Cuts values of the table where blocks begin, and says where each piece is.
    pub(super) fn runs(
        self,
        values: Range<usize>,
    ) -> impl Iterator<Item = (Range<usize>, BlockHome)> + 'a {
        let mut at = values.start;
        std::iter::from_fn(move || {
            let start = at;
            let block = start >> self.shift;
            at = values.end.min((block + 1) << self.shift);
            let BlockHome { service, start: of } = *self.homes.get(block)?;
            let start_there = of + (start - (block << self.shift));
            let home = BlockHome {
                service,
                start: start_there,
            };
            (start < at).then_some((start..at, home))
        })
    }
}

impl DenseMap {
    pub(super) fn new(spec: &JobSpec, topology: &Topology, map: &ShardMap) -> Self {
        let services = map.holders() * topology.ports;
        let blocks = spec.tables.iter().enumerate().map(|(at, table)| {
            let count = if table.sparse { 0 } else { services };
            let of = |k| map.blocks(at, table, k).collect();
            (0..count).map(of).collect::<Vec<Vec<Block>>>()
        });
        let blocks: Vec<_> = blocks.collect();
        Self {
            services,
            patience: vec![0; spec.tables.len()],
            homes: blocks.iter().map(|of| homes(of)).collect(),
            blocks,
        }
    }

    /// Whether to search this push for gaps.
    fn look(&mut self, table: TableId) -> bool {
        let patience = &mut self.patience[table.index()];
        let tired = *patience == 0;
        *patience = patience.saturating_sub(1);
        tired
    }

    /// For each service, the masks of its blocks of a gradient that has only these rows.
    fn masks(&self, table: TableId, spec: &TableSpec, rows: &[u32]) -> Vec<Vec<u64>> {
        let services = &self.blocks[table.index()];
        let mut masks: Vec<Vec<u64>> = services.iter().map(|of| vec![0; of.len()]).collect();
        let (block, cols) = (block_len(spec.len()), spec.cols as usize);
        let shift = block.trailing_zeros();
        for row in rows {
            let (mut at, end) = (*row as usize * cols, (*row as usize + 1) * cols);
            while at < end {
                let BlockHome { service, start } = self.homes[table.index()][at >> shift];
                let number = start >> shift;
                let whole = &services[service as usize][number];
                let to = end.min(whole.start + whole.len);
                masks[service as usize][number] |=
                    gaps::parts(at - whole.start, to - whole.start, whole.len);
                at = to;
            }
        }
        masks
    }

    /// Where the blocks of a table of `len` values are.
    pub(super) fn homes(&self, table: TableId, len: u64) -> BlockHomes<'_> {
        let block = block_len(len);
        debug_assert!(block.is_power_of_two());
        BlockHomes {
            homes: &self.homes[table.index()],
            shift: block.trailing_zeros(),
        }
    }

    pub(super) fn blocks(&self, table: TableId, service: u32) -> &[Block] {
        self.blocks[table.index()]
            .get(service as usize)
            .map_or(&[], Vec::as_slice)
    }
}

/// Where each block of a table is, by the block's index.
fn homes(services: &[Vec<Block>]) -> Vec<BlockHome> {
    let mut homes = vec![BlockHome::default(); services.iter().map(Vec::len).sum()];
    for (service, blocks) in services.iter().enumerate() {
        let mut start = 0;
        for block in blocks {
            let service = service as u32;
            homes[block.index as usize] = BlockHome { service, start };
            start += block.len;
        }
    }
    homes
}

/// What is known about a gradient before it is sent.
enum Gaps {
    /// It is sent whole.
    None,
    /// It is to be searched for gaps.
    Unknown,
    /// Only these parts of its blocks may differ from zero, for each service.
    Known(Vec<Vec<u64>>),
    /// Only these rows may. Services whose memory is shared need masks.
    Rows {
        shares: Vec<RowShare>,
        masks: Vec<Vec<u64>>,
    },
}

/// Removes the gaps from the blocks of a gradient; false if there are too few to be worth it.
fn pack<'a>(
    blocks: impl Iterator<Item = &'a [f32]> + Clone,
    masks: &mut Vec<u64>,
    packed: &mut Vec<f32>,
) -> bool {
    masks.clear();
    packed.clear();
    // Frequent words may come first, so the beginning is not representative.
    let half = blocks.clone().map(<[f32]>::len).sum::<usize>() / 2;
    for block in blocks {
        let mask = gaps::mask(block);
        masks.push(mask);
        gaps::pack(block, mask, packed);
        if packed.len() > half {
            return false;
        }
    }
    true
}

impl Session {
    /// Pushes the gradient of a dense table for the current batch. It is sent at once, or, if it is small, together with
    /// others of the batch. `rows`, if they are known, are those that may differ from zero.
    pub fn push_dense(
        &mut self,
        table: TableId,
        gradient: &[f32],
        rows: Option<&[u32]>,
    ) -> Result<(), Error> {
        let done = self.try_push_dense(table, gradient, rows);
        self.settle(done)
    }

    /// Pushes values that replace those of a dense table, whose rule takes them over: whole, and exact whatever the
    /// encoding of gradients. One trainer does.
    pub fn push_values(&mut self, table: TableId, values: &[f32]) -> Result<(), Error> {
        let done = self.try_push_values(table, values);
        self.settle(done)
    }

    fn try_push_values(&mut self, table: TableId, values: &[f32]) -> Result<(), Fault> {
        self.check_push(table, values)?;
        for service in 0..self.dense.services {
            if !self.dense.blocks(table, service).is_empty() {
                self.push_part(table, service, values, (&mut Gaps::None, Encoding::F32))?;
            }
        }
        Ok(())
    }

    fn check_push(&self, table: TableId, gradient: &[f32]) -> Result<(), Fault> {
        let spec = self.table(table, false)?;
        if gradient.len() as u64 != spec.len() {
            let text = format!(
                "gradient of {} has {} values, the table {}",
                spec.name,
                gradient.len(),
                spec.len()
            );
            return Err(Fault::Final(Error::Usage(text)));
        }
        Ok(())
    }

    fn try_push_dense(
        &mut self,
        table: TableId,
        gradient: &[f32],
        rows: Option<&[u32]>,
    ) -> Result<(), Fault> {
        self.check_push(table, gradient)?;
        let encoding = self.dialer.config.encoding;
        let mut gaps = self.gaps(table, rows);
        let looked = matches!(gaps, Gaps::Unknown);
        let first = self.dialer.config.trainer.0 * self.topology.ports;
        for turn in 0..self.dense.services {
            if turn == 1 || self.dense.services == 1 {
                words::failpoint::reach("pushing");
            }
            // Trainers begin at different servers, so that not all load the same one first.
            let service = (first + turn) % self.dense.services;
            if self.dense.blocks(table, service).is_empty() {
                continue;
            }
            let has_memory = self.places[self.dense_line(service)].is_some();
            match &gaps {
                Gaps::Rows { shares, .. } if !has_memory => {
                    let share = &shares[service as usize];
                    self.push_share(table, service, gradient, (share, encoding))?;
                }
                _ => self.push_part(table, service, gradient, (&mut gaps, encoding))?,
            }
        }
        if looked && matches!(gaps, Gaps::None) {
            self.dense.patience[table.index()] = PATIENCE;
        }
        Ok(())
    }

    /// What is known about the gaps of a gradient.
    fn gaps(&mut self, table: TableId, rows: Option<&[u32]>) -> Gaps {
        let spec = &self.spec.tables[table.index()];
        let (len, cols) = (spec.len(), spec.cols as usize);
        let Some(rows) = rows else {
            return match len >= WORTH_A_LOOK && self.dense.look(table) {
                true => Gaps::Unknown,
                false => Gaps::None,
            };
        };
        let shares_memory = self.shares_memory();
        let least = match shares_memory {
            true => WORTH_A_LOOK,
            false => WORTH_MASKS,
        };
        if len < least {
            return Gaps::None;
        }
        let impossible = rows.iter().any(|row| u64::from(*row) >= spec.rows);
        if impossible || (rows.len() * cols) as u64 > len / 2 {
            return Gaps::None;
        }
        // Rows that begin and end where parts do leave nothing to save.
        if !shares_memory && !cols.is_multiple_of(gaps::part(block_len(len))) {
            let masks = match self.places.iter().any(Option::is_some) {
                true => self.dense.masks(table, spec, rows),
                false => Vec::new(),
            };
            let shares = self.row_shares(table, rows);
            return Gaps::Rows { shares, masks };
        }
        Gaps::Known(self.dense.masks(table, spec, rows))
    }

    /// Pushes the part of a gradient that one service holds.
    fn push_part(
        &mut self,
        table: TableId,
        service: u32,
        gradient: &[f32],
        (gaps, encoding): (&mut Gaps, Encoding),
    ) -> Result<(), Fault> {
        let line = self.dense_line(service);
        let blocks = self.dense.blocks(table, service);
        let runs = blocks
            .iter()
            .map(|block| &gradient[block.start..block.start + block.len]);
        let mut masks = Vec::new();
        let packed = match gaps {
            Gaps::None => false,
            Gaps::Unknown => pack(runs.clone(), &mut masks, &mut self.scratch),
            Gaps::Known(known) | Gaps::Rows { masks: known, .. } => {
                masks = std::mem::take(&mut known[service as usize]);
                self.scratch.clear();
                for (run, mask) in runs.clone().zip(&masks) {
                    gaps::pack(run, *mask, &mut self.scratch);
                }
                true
            }
        };
        if !packed && matches!(gaps, Gaps::Unknown) {
            *gaps = Gaps::None;
        }
        // The outbox is free again once the values that follow from the last batch have arrived.
        let places = self.places[line].as_ref().filter(|_| !self.values_due);
        let message = self.encode(Request::PushDense {
            table,
            samples: self.samples,
            blocks: if packed { blocks.len() as u32 } else { 0 },
            carrier: match places {
                Some(_) => Carrier::Memory,
                None => Carrier::Payload,
            },
        });
        let line = &mut self.lines[line];
        let (before, values): (&[u8], Vec<&[f32]>) = match packed {
            true => (bytemuck::cast_slice(&masks), vec![&self.scratch]),
            false => (&[], runs.collect()),
        };
        let Some(places) = places else {
            return Ok(line.send_values(&message, encoding, before, values.into_iter())?);
        };
        let bytes: usize = values.iter().map(|run| size_of_val(*run)).sum();
        places.lay(table, values.into_iter());
        line.send_bytes(&message, &[before])?;
        if bytes >= GATHERED {
            // The service can begin while this trainer computes.
            line.flush()?;
        }
        Ok(())
    }

    /// Receives the values that follow from the batch just finished: all dense tables, ascending, but those that are
    /// [kept](Session::keep_in) for trainers. Waits for the other trainers. Of tables [by row](Session::fetch_by_row), only rows that were
    /// [announced](Session::announce_rows) are received; the others keep the values that they had.
    pub fn wait_values(&mut self, into: &mut [(TableId, &mut [f32])]) -> Result<(), Error> {
        let done = self.try_wait_values(into);
        self.settle(done)
    }

    fn try_wait_values(&mut self, into: &mut [(TableId, &mut [f32])]) -> Result<(), Fault> {
        if !self.values_due {
            return Err(Fault::Final(Error::Usage(
                "no batch has been finished".to_owned(),
            )));
        }
        self.check_targets(into)?;
        let mut places: Vec<(TableId, &mut [f32])> = into
            .iter_mut()
            .map(|(table, values)| (*table, &mut **values))
            .collect();
        // In shared memory the reply says that the push has been read from the outbox.
        places.extend(self.own_kept().map(|own| (own, Default::default())));
        places.sort_by_key(|(table, _)| table.0);
        self.receive_dense(&mut places, |session, table| session.leaves_out(table))?;
        self.receive_next_rows(into)?;
        self.values_due = false;
        self.trays_full = false;
        Ok(())
    }

    /// Fetches all dense tables, ascending, but those that are [kept](Session::keep_in) for trainers: after joining,
    /// after a pass, or for a test or save.
    pub fn pull_dense(
        &mut self,
        into: &mut [(TableId, &mut [f32])],
        view: View,
    ) -> Result<(), Error> {
        let done = self.try_pull_dense(into, view);
        self.settle(done)
    }

    fn try_pull_dense(
        &mut self,
        into: &mut [(TableId, &mut [f32])],
        view: View,
    ) -> Result<(), Fault> {
        self.check_targets(into)?;
        let kept: Vec<u32> = self.kept.iter().map(|table| table.0).collect();
        self.ask_dense(view, &kept)?;
        self.receive_dense(into, |_, _| false)
    }

    /// Fetches the table that is [kept](Session::keep_in) for this trainer: after joining.
    pub fn pull_kept(&mut self, values: &mut [f32]) -> Result<(), Error> {
        let done = self.try_pull_kept(values);
        self.settle(done)
    }

    fn try_pull_kept(&mut self, values: &mut [f32]) -> Result<(), Fault> {
        let own = self.own_kept();
        let own = own.ok_or_else(|| Fault::Final(Error::Usage("no table is kept".to_owned())))?;
        self.check_push(own, values)?;
        let tables = 0..self.spec.tables.len() as u32;
        let others: Vec<u32> = tables.filter(|table| *table != own.0).collect();
        self.ask_dense(View::Training, &others)?;
        self.receive_dense(&mut [(own, values)], |_, _| false)
    }

    /// Requests all dense tables but these.
    fn ask_dense(&mut self, view: View, except: &[u32]) -> Result<(), Fault> {
        let message = self.encode(Request::PullDense {
            view,
            except: except.len() as u32,
        });
        let encoding = self.dialer.config.encoding;
        for service in 0..self.dense.services {
            let line = self.dense_line(service);
            self.lines[line].ask(&message, encoding, bytemuck::cast_slice(except))?;
        }
        self.flush()
    }

    /// Receives all dense tables but those that the request left out.
    fn receive_dense(
        &mut self,
        into: &mut [(TableId, &mut [f32])],
        leaves_out: impl Fn(&Session, TableId) -> bool,
    ) -> Result<(), Fault> {
        words::failpoint::reach("pulling");
        let first = self.dialer.config.trainer.0 * self.topology.ports;
        for turn in 0..self.dense.services {
            let service = (first + turn) % self.dense.services;
            let at = self.dense_line(service);
            for (table, values) in into.iter_mut() {
                let blocks = self.dense.blocks(*table, service);
                let left_out = leaves_out(self, *table);
                if blocks.is_empty() || (left_out && self.places[at].is_none()) {
                    continue;
                }
                let line = &mut self.lines[at];
                let (head, reply) = line.expect_reply()?;
                let peer = line.peer();
                let unfit = || Fault::Lost(format!("{peer} sent values of another table"));
                let carrier = match reply.message {
                    Reply::Values {
                        table: got,
                        carrier,
                        ..
                    } if got == *table => carrier,
                    Reply::Values { .. } => return Err(unfit()),
                    _ => return Err(line.unexpected(&head, "values").into()),
                };
                if carrier == Carrier::Memory {
                    let places = self.places[at].as_ref();
                    let places = places.filter(|_| head.payload == 0);
                    let places = places.ok_or_else(unfit)?;
                    if !left_out {
                        places.fetch(*table, blocks, values);
                    }
                    continue;
                }
                let count: usize = blocks.iter().map(|block| block.len).sum();
                if head.payload != (count * head.encoding.bytes()) as u64 {
                    return Err(unfit());
                }
                line.read_blocks(head.encoding, values, blocks)?;
            }
        }
        Ok(())
    }

    fn check_targets(&self, into: &[(TableId, &mut [f32])]) -> Result<(), Fault> {
        let dense = self
            .spec
            .tables
            .iter()
            .enumerate()
            .filter(|(at, spec)| !spec.sparse && !self.is_kept(TableId(*at as u32)));
        let wanted = dense.map(|(at, spec)| (TableId(at as u32), spec.len()));
        let fits = |(given, (table, len)): (&(TableId, &mut [f32]), (TableId, u64))| {
            given.0 == table && given.1.len() as u64 == len
        };
        if wanted.clone().count() == into.len() && into.iter().zip(wanted).all(fits) {
            return Ok(());
        }
        let text = "the places for values must be those of all dense tables, in order".to_owned();
        Err(Fault::Final(Error::Usage(text)))
    }
}
