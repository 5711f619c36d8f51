//! Row buffers: memory that a service on the same host shares with this trainer, one per table. The server announces
//! pulled rows in it, this trainer announces gradients; they take turns.

use super::places::{ask, lost};
use super::{Fault, Session};
use crate::channel::Channel;
use crate::data::Request;
use crate::ids::TableId;
use crate::shared::{RegionAccess, SharedRegion};

/// The row buffers of one line, by table.
#[derive(Debug)]
pub(super) struct RowBuffers(Vec<Option<SharedRegion>>);

impl RowBuffers {
    /// The row buffer of a table, if it has room for so many values.
    pub(super) fn holding(&self, table: usize, numbers: usize) -> Option<&SharedRegion> {
        self.0[table].as_ref().filter(|tray| tray.len() >= numbers)
    }
}

impl Session {
    /// Row buffers for a new line, none of them allocated yet; `None` if there can be none.
    pub(super) fn trays(&self, channel: &Channel) -> Option<RowBuffers> {
        let possible = self.may_share(channel);
        possible.then(|| RowBuffers(self.spec.tables.iter().map(|_| None).collect()))
    }

    /// Makes sure that every service has a row buffer for the rows that are grouped for a table. No other reply may be
    /// outstanding on the lines meanwhile.
    pub(super) fn provide_trays(&mut self, table: usize) -> Result<(), Fault> {
        for service in 0..self.topology.sparse_services() {
            let bounds = &self.groups[table].bounds;
            let rows = bounds[service as usize + 1] - bounds[service as usize];
            let line = self.sparse_line(service);
            self.provide_tray(line, table, rows)?;
        }
        Ok(())
    }

    fn provide_tray(&mut self, line: usize, table: usize, rows: usize) -> Result<(), Fault> {
        let spec = &self.spec.tables[table];
        let cols = spec.cols as usize;
        let Some(trays) = &self.trays[line] else {
            return Ok(());
        };
        if rows == 0 || trays.holding(table, rows * cols).is_some() {
            return Ok(());
        }
        // Batches differ a little in size.
        let wanted = (rows as u64 + rows as u64 / 4).min(spec.rows) as u32;
        let message = self.encode(Request::ShareRows {
            table: TableId(table as u32),
            rows: wanted,
        });
        let Some([tray]) = ask(&mut self.lines[line], &message)? else {
            self.trays[line] = None;
            return Ok(());
        };
        let tray =
            SharedRegion::open(tray, wanted as usize * cols, RegionAccess::Write).map_err(lost)?;
        if let Some(trays) = &mut self.trays[line] {
            trays.0[table] = Some(tray);
        }
        Ok(())
    }
}
