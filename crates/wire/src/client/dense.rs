//! Pushes and pulls of dense tables. A table's blocks for one service travel in one frame, in block order.

use super::config::Error;
use super::{Fault, Session};
use crate::frame::Kind;
use crate::gaps;
use crate::ids::TableId;
use crate::message::{Hot, View};
use crate::shard::{Block, Topology, blocks_of};
use crate::spec::JobSpec;

/// Tables with fewer values are sent whole.
const WORTH_A_LOOK: u64 = 1 << 16;
/// How many pushes of a table that had no gaps go out before it is looked at again.
const PATIENCE: u32 = 15;

/// Which blocks of which dense table lie on which service.
#[derive(Debug)]
pub(super) struct DenseMap {
    services: u32,
    /// Pushes of each table that are not looked at for gaps.
    patience: Vec<u32>,
    /// `blocks[table][service]`; empty for sparse tables.
    blocks: Vec<Vec<Vec<Block>>>,
}

impl DenseMap {
    pub(super) fn new(spec: &JobSpec, topology: &Topology) -> Self {
        let services = topology.dense_services();
        let blocks = spec.tables.iter().map(|table| {
            let count = if table.sparse { 0 } else { services };
            let of = |k| blocks_of(table.hash(), table.len(), k, services).collect();
            (0..count).map(of).collect()
        });
        Self {
            services,
            patience: vec![0; spec.tables.len()],
            blocks: blocks.collect(),
        }
    }

    /// Whether to look for gaps in this push.
    fn look(&mut self, table: TableId, len: u64) -> bool {
        let patience = &mut self.patience[table.index()];
        let tired = *patience == 0;
        *patience = patience.saturating_sub(1);
        tired && len >= WORTH_A_LOOK
    }

    pub(super) fn blocks(&self, table: TableId, service: u32) -> &[Block] {
        self.blocks[table.index()]
            .get(service as usize)
            .map_or(&[], Vec::as_slice)
    }
}

/// Takes the gaps out of the blocks of a gradient; false if there are too few to be worth it.
fn pack<'a>(
    blocks: impl Iterator<Item = &'a [f32]>,
    masks: &mut Vec<u64>,
    packed: &mut Vec<f32>,
) -> bool {
    masks.clear();
    packed.clear();
    let mut seen = 0;
    for block in blocks {
        let mask = gaps::mask(block);
        masks.push(mask);
        gaps::pack(block, mask, packed);
        seen += block.len();
        if seen >= WORTH_A_LOOK as usize && packed.len() * 2 > seen {
            return false;
        }
    }
    packed.len() * 2 <= seen
}

impl Session {
    /// Pushes the gradient of a dense table for the current batch; it is on its way when this returns.
    pub fn push_dense(&mut self, table: TableId, gradient: &[f32]) -> Result<(), Error> {
        let done = self.try_push_dense(table, gradient);
        self.settle(done)
    }

    fn try_push_dense(&mut self, table: TableId, gradient: &[f32]) -> Result<(), Fault> {
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
        let hot = Hot {
            table,
            samples: self.samples,
            ..self.hot()
        };
        let mut look = self.dense.look(table, gradient.len() as u64);
        let encoding = self.dialer.config.encoding;
        let first = self.dialer.config.trainer.0 * self.topology.ports;
        let mut masks = Vec::new();
        for turn in 0..self.dense.services {
            // Trainers begin at different servers, so that not all knock at the same one.
            let service = (first + turn) % self.dense.services;
            let line = self.dense_line(service);
            let blocks = self.dense.blocks(table, service);
            if blocks.is_empty() {
                continue;
            }
            let runs = blocks
                .iter()
                .map(|block| &gradient[block.start..block.start + block.len]);
            if look && pack(runs.clone(), &mut masks, &mut self.scratch) {
                let hot = Hot {
                    count: blocks.len() as u32,
                    ..hot
                };
                let packed = std::iter::once(self.scratch.as_slice());
                let masks = bytemuck::cast_slice(&masks);
                self.lines[line].send_values(Kind::PushDense, encoding, &hot, masks, packed)?;
                continue;
            }
            self.lines[line].send_values(Kind::PushDense, encoding, &hot, &[], runs)?;
            if look {
                self.dense.patience[table.index()] = PATIENCE;
                look = false;
            }
        }
        Ok(())
    }

    /// Receives the values that follow from the batch just finished: all dense tables, ascending. Waits for the
    /// other trainers.
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
        self.receive_dense(into)?;
        self.values_due = false;
        Ok(())
    }

    /// Fetches all dense tables, ascending: after joining, after a pass, or for a test or save.
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
        let hot = Hot {
            value: view.number(),
            ..self.hot()
        };
        let encoding = self.dialer.config.encoding;
        for service in 0..self.dense.services {
            let line = self.dense_line(service);
            self.lines[line].ask(Kind::PullDense, encoding, &hot, &[])?;
        }
        self.receive_dense(into)
    }

    fn receive_dense(&mut self, into: &mut [(TableId, &mut [f32])]) -> Result<(), Fault> {
        let first = self.dialer.config.trainer.0 * self.topology.ports;
        for turn in 0..self.dense.services {
            let service = (first + turn) % self.dense.services;
            let line = self.dense_line(service);
            for (table, values) in into.iter_mut() {
                let blocks = self.dense.blocks(*table, service);
                if blocks.is_empty() {
                    continue;
                }
                let line = &mut self.lines[line];
                let (head, hot) = line.expect_hot(Kind::Values)?;
                let count: usize = blocks.iter().map(|block| block.len).sum();
                if hot.table != *table || head.payload != (count * head.encoding.bytes()) as u64 {
                    return Err(Fault::Lost(format!(
                        "{} sent values of another table",
                        line.peer()
                    )));
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
            .filter(|(_, spec)| !spec.sparse);
        let wanted = dense.map(|(at, spec)| (TableId(at as u32), spec.len()));
        let given = into
            .iter()
            .map(|(table, values)| (*table, values.len() as u64));
        if wanted.eq(given) {
            return Ok(());
        }
        let text = "the places for values must be those of all dense tables, in order".to_owned();
        Err(Fault::Final(Error::Usage(text)))
    }
}
