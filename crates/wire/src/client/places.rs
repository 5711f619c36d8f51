//! Shared memory with a server on the same host: where this trainer finds values and lays gradients down.

use super::dense::DenseMap;
use super::{Fault, Session};
use crate::channel::Channel;
use crate::encoding::Encoding;
use crate::frame::Kind;
use crate::ids::{Epoch, TableId};
use crate::message::Hot;
use crate::shared::{Access, Region, layout};
use crate::spec::Mode;
use std::os::fd::OwnedFd;

/// The shared memory of one service.
#[derive(Debug)]
pub(super) struct Places {
    values: Region,
    outbox: Region,
    /// Where each table begins, in both.
    starts: Vec<usize>,
}

impl Places {
    /// Asks a service for shared memory. `None` if it has none to give.
    pub(super) fn ask(
        channel: &mut Channel,
        epoch: Epoch,
        lens: impl Iterator<Item = usize>,
    ) -> Result<Option<Self>, Fault> {
        let hot = Hot {
            epoch,
            ..Hot::default()
        };
        let Some([values, outbox]) = ask(channel, Kind::Share, &hot)? else {
            return Ok(None);
        };
        let (starts, len) = layout(lens);
        Ok(Some(Self {
            values: Region::open(values, len, Access::Read).map_err(lost)?,
            outbox: Region::open(outbox, len, Access::Write).map_err(lost)?,
            starts,
        }))
    }

    /// Lays numbers of a table down, one run after another.
    pub(super) fn lay<'a>(&self, table: TableId, runs: impl Iterator<Item = &'a [f32]>) {
        let mut at = self.starts[table.index()];
        for run in runs {
            self.outbox.write(at, run);
            at += run.len();
        }
    }

    /// Copies values of a table from place `start` among its blocks.
    fn copy(&self, table: TableId, start: usize, out: &mut [f32]) {
        self.values.read(self.starts[table.index()] + start, out);
    }

    /// Copies the values of a table's blocks to where they belong.
    pub(super) fn fetch(&self, table: TableId, blocks: &[crate::shard::Block], values: &mut [f32]) {
        let mut at = self.starts[table.index()];
        for block in blocks {
            let run = &mut values[block.start..block.start + block.len];
            self.values.read(at, run);
            at += block.len;
        }
    }
}

/// Asks a service for shared memory, which comes as so many descriptors. `None` if it has none to give.
pub(super) fn ask<const COUNT: usize>(
    channel: &mut Channel,
    kind: Kind,
    hot: &Hot,
) -> Result<Option<[OwnedFd; COUNT]>, Fault> {
    channel.send_bytes(kind, hot, &[])?;
    let (_, answer) = channel.expect_hot(Kind::Shared)?;
    if answer.count == 0 {
        return Ok(None);
    }
    let descriptors = channel.stream().receive_descriptors().map_err(lost)?;
    let memory = <[_; COUNT]>::try_from(descriptors);
    memory
        .map(Some)
        .map_err(|_| Fault::Lost("a server sent no shared memory".to_owned()))
}

pub(super) fn lost(cause: std::io::Error) -> Fault {
    Fault::Lost(format!("shared memory: {cause}"))
}

impl Session {
    /// Whether the values of all dense tables lie in memory that this process can read.
    pub fn shares_memory(&self) -> bool {
        let mut lines = self.places.iter().enumerate();
        lines.all(|(line, places)| places.is_some() || !self.has_dense(line))
    }

    /// Copies rows of a dense table from shared memory to their places in `values`, which is the whole table. Comes after
    /// [`Session::wait_values`] and before the first push that follows; does nothing without shared memory.
    pub fn read_rows(&self, table: TableId, ids: &[u32], values: &mut [f32]) {
        let spec = &self.spec.tables[table.index()];
        let cols = spec.cols as usize;
        // A row that the table does not have is told by the layer that looks it up.
        for id in ids.iter().filter(|id| u64::from(**id) < spec.rows) {
            let (mut at, end) = (*id as usize * cols, (*id as usize + 1) * cols);
            while at < end {
                let (service, start, left) = self.dense.home(table, spec.len(), at);
                let run = &mut values[at..end.min(at + left)];
                if let Some(places) = &self.places[self.dense_line(service)] {
                    places.copy(table, start, run);
                }
                at += run.len();
            }
        }
    }

    /// Whether memory can take the place of payloads: both ends are on one host, and the job's rules allow it. In
    /// synchronous training nobody changes values while another reads them, and a pull is answered when the push before
    /// it has been applied.
    pub(super) fn may_share(&self, channel: &Channel) -> bool {
        channel.stream().is_local()
            && self.spec.mode == Mode::Sync
            && self.dialer.config.encoding == Encoding::F32
    }

    /// Shared memory with the server of a new line.
    pub(super) fn places(
        &self,
        channel: &mut Channel,
        line: usize,
        epoch: Epoch,
    ) -> Result<Option<Places>, Fault> {
        if !self.has_dense(line) || !self.may_share(channel) {
            return Ok(None);
        }
        let service = self.dense_service(line);
        Places::ask(channel, epoch, lens(&self.dense, &self.spec, service))
    }
}

fn lens<'a>(
    map: &'a DenseMap,
    spec: &'a crate::spec::JobSpec,
    service: u32,
) -> impl Iterator<Item = usize> + 'a {
    (0..spec.tables.len()).map(move |at| {
        let blocks = map.blocks(TableId(at as u32), service);
        blocks.iter().map(|block| block.len).sum()
    })
}
