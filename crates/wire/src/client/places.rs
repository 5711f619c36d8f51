//! Shared memory with a server on the same host: from it this trainer reads values, and to it it writes gradients.

use super::dense::DenseMap;
use super::{Fault, Session};
use crate::channel::Channel;
use crate::data::{Encoded, Reply, Request, Stamped};
use crate::encoding::Encoding;
use crate::ids::{Generation, Step, TableId};
use crate::shared::{RegionAccess, RegionLayout, SharedRegion, layout};
use crate::spec::Mode;
use std::os::fd::OwnedFd;

/// The shared memory of one service.
#[derive(Debug)]
pub(super) struct ServiceMemory {
    values: SharedRegion,
    outbox: SharedRegion,
    /// Offset of each table, the same in both.
    starts: Vec<usize>,
}

impl ServiceMemory {
    /// Requests shared memory from a service. `None` if it offers none.
    pub(super) fn ask(
        channel: &mut Channel,
        epoch: Generation,
        lens: impl Iterator<Item = usize>,
    ) -> Result<Option<Self>, Fault> {
        let request = Stamped {
            generation: epoch,
            step: Step(0),
            message: Request::Share,
        };
        let Some([values, outbox]) = ask(channel, &request.encode())? else {
            return Ok(None);
        };
        let RegionLayout { starts, len } = layout(lens);
        Ok(Some(Self {
            values: SharedRegion::open(values, len, RegionAccess::Read).map_err(lost)?,
            outbox: SharedRegion::open(outbox, len, RegionAccess::Write).map_err(lost)?,
            starts,
        }))
    }

    /// Writes values of a table to the outbox, one run after another.
    pub(super) fn lay<'a>(&self, table: TableId, runs: impl Iterator<Item = &'a [f32]>) {
        let mut at = self.starts[table.index()];
        for run in runs {
            self.outbox.write(at, run);
            at += run.len();
        }
    }

    /// Copies values of a table, from offset `start` among its blocks.
    pub(super) fn copy(&self, table: TableId, start: usize, out: &mut [f32]) {
        self.values.read(self.starts[table.index()] + start, out);
    }

    /// Copies the values of a table's blocks to their positions in the table.
    pub(super) fn fetch(&self, table: TableId, blocks: &[crate::shard::Block], values: &mut [f32]) {
        let mut at = self.starts[table.index()];
        for block in blocks {
            let run = &mut values[block.start..block.start + block.len];
            self.values.read(at, run);
            at += block.len;
        }
    }
}

/// Requests shared memory from a service, which is received as `COUNT` descriptors. `None` if it offers none.
pub(super) fn ask<const COUNT: usize>(
    channel: &mut Channel,
    request: &Encoded,
) -> Result<Option<[OwnedFd; COUNT]>, Fault> {
    channel.send_bytes(request, &[])?;
    let (head, reply, memory) = channel.expect_descriptors()?;
    let Reply::Shared { descriptors } = reply.message else {
        return Err(channel.unexpected(&head, "shared memory").into());
    };
    if descriptors == 0 {
        return Ok(None);
    }
    let memory = <[_; COUNT]>::try_from(memory);
    memory
        .map(Some)
        .map_err(|_| Fault::Lost("a server sent no shared memory".to_owned()))
}

pub(super) fn lost(cause: std::io::Error) -> Fault {
    Fault::Lost(format!("shared memory: {cause}"))
}

impl Session {
    /// Whether the values of all dense tables are in memory that this process can read.
    pub fn shares_memory(&self) -> bool {
        let mut lines = self.places.iter().enumerate();
        lines.all(|(line, places)| places.is_some() || !self.has_dense(line))
    }

    /// Whether memory can replace payloads: both ends are on one host, and the job's rules allow it. In
    /// synchronous training no process changes values while another reads them, and the reply to a pull is sent after
    /// the push before it has been applied.
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
        epoch: Generation,
    ) -> Result<Option<ServiceMemory>, Fault> {
        if !self.has_dense(line) || !self.may_share(channel) {
            return Ok(None);
        }
        let service = self.dense_service(line);
        ServiceMemory::ask(channel, epoch, lens(&self.dense, &self.spec, service))
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
