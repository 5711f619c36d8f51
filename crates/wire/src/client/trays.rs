//! Rows between processes of one host: a tray is memory that a service shares with this trainer, for one table. Pulled
//! rows lie in it when the server says so, and gradients when this trainer does; they take turns.

use super::places::{ask, lost};
use super::{Fault, Session};
use crate::channel::Channel;
use crate::frame::Kind;
use crate::ids::TableId;
use crate::message::Hot;
use crate::shared::{Access, Region};

/// The trays of one line, by table.
#[derive(Debug)]
pub(super) struct Trays(Vec<Option<Region>>);

impl Trays {
    /// The tray of a table, if it has room for so many numbers.
    pub(super) fn holding(&self, table: usize, numbers: usize) -> Option<&Region> {
        self.0[table].as_ref().filter(|tray| tray.len() >= numbers)
    }
}

impl Session {
    /// Trays for a new line, none of them there yet; `None` if there can be none.
    pub(super) fn trays(&self, channel: &Channel) -> Option<Trays> {
        let possible = self.may_share(channel);
        possible.then(|| Trays(self.spec.tables.iter().map(|_| None).collect()))
    }

    /// Makes sure that every service has a tray for what is grouped for a table. Nothing else may be awaited of the
    /// lines meanwhile.
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
        let hot = Hot {
            table: TableId(table as u32),
            count: wanted,
            ..self.hot()
        };
        let Some([tray]) = ask(&mut self.lines[line], Kind::ShareRows, &hot)? else {
            self.trays[line] = None;
            return Ok(());
        };
        let tray = Region::open(tray, wanted as usize * cols, Access::Write).map_err(lost)?;
        if let Some(trays) = &mut self.trays[line] {
            trays.0[table] = Some(tray);
        }
        Ok(())
    }
}
