//! Pulls and pushes of rows of sparse tables.

use super::config::Error;
use super::{Fault, Session};
use crate::channel::Channel;
use crate::frame::Kind;
use crate::ids::TableId;
use crate::message::{Hot, View};
use crate::prefetch;
use crate::shared::Region;

/// Rows that are fetched at once by [`Session::download`].
const DOWNLOADED: u64 = 65_536;

/// Numbers that are moved at once between a row list and a socket, so that they stay in the cache.
const PIECE: usize = 49_152;

/// A request for rows of one table.
#[derive(Debug)]
pub struct Rows<'a> {
    /// The table.
    pub table: TableId,
    /// Strictly ascending row ids.
    pub ids: &'a [u32],
    /// Receives `ids.len() * cols` values, in the order of the ids.
    pub values: &'a mut Vec<f32>,
}

impl Session {
    /// Fetches the rows of the next batch, for all its sparse tables at once. Rows that nobody has touched get
    /// their initial values. Comes after [`Session::wait_values`].
    pub fn pull_rows(&mut self, wanted: &mut [Rows<'_>]) -> Result<(), Error> {
        let done = self.try_pull_rows(wanted, View::Training);
        self.settle(done)
    }

    fn try_pull_rows(&mut self, wanted: &mut [Rows<'_>], view: View) -> Result<(), Fault> {
        if self.values_due {
            let text = "the values of the finished batch must be received before rows are pulled"
                .to_owned();
            return Err(Fault::Final(Error::Usage(text)));
        }
        if self.trays_full && view == View::Training {
            let text = "rows must be pulled before the first push of a batch".to_owned();
            return Err(Fault::Final(Error::Usage(text)));
        }
        for rows in wanted.iter() {
            self.group(rows.table, rows.ids)?;
            if view == View::Training {
                self.provide_trays(rows.table.index())?;
            }
        }
        for rows in wanted.iter() {
            self.ask_rows(rows, view)?;
        }
        for rows in wanted.iter_mut() {
            self.receive_rows(rows)?;
        }
        Ok(())
    }

    fn ask_rows(&mut self, rows: &Rows<'_>, view: View) -> Result<(), Fault> {
        let hot = Hot {
            table: rows.table,
            value: view.number(),
            ..self.hot()
        };
        let encoding = self.dialer.config.encoding;
        for service in 0..self.topology.sparse_services() {
            let group = &self.groups[rows.table.index()];
            let part = group.bounds[service as usize]..group.bounds[service as usize + 1];
            if part.is_empty() {
                continue;
            }
            let line = self.sparse_line(service);
            let ids = &self.groups[rows.table.index()].ids[part];
            let hot = Hot {
                count: ids.len() as u32,
                ..hot
            };
            self.lines[line].ask(Kind::PullRows, encoding, &hot, bytemuck::cast_slice(ids))?;
        }
        Ok(())
    }

    fn receive_rows(&mut self, rows: &mut Rows<'_>) -> Result<(), Fault> {
        let cols = self.spec.tables[rows.table.index()].cols as usize;
        rows.values.resize(rows.ids.len() * cols, 0.0);
        for service in 0..self.topology.sparse_services() {
            let line = self.sparse_line(service);
            let group = &mut self.groups[rows.table.index()];
            let part = group.bounds[service as usize]..group.bounds[service as usize + 1];
            if part.is_empty() {
                continue;
            }
            let places = &group.places[part];
            let target = Target {
                places,
                cols,
                values: rows.values,
            };
            let trays = self.trays[line].as_ref();
            let tray =
                trays.and_then(|trays| trays.holding(rows.table.index(), places.len() * cols));
            let line = &mut self.lines[line];
            group.tickets[service as usize] =
                receive_part(line, rows.table, target, tray, &mut self.scratch)?;
        }
        Ok(())
    }

    /// Pushes the gradients of rows for the current batch, `ids` and values as in [`Session::pull_rows`]. Cheapest
    /// with the same ids as the last pull of that table.
    pub fn push_rows(
        &mut self,
        table: TableId,
        ids: &[u32],
        gradients: &[f32],
    ) -> Result<(), Error> {
        let done = self.try_push_rows(table, ids, gradients);
        self.settle(done)
    }

    fn try_push_rows(
        &mut self,
        table: TableId,
        ids: &[u32],
        gradients: &[f32],
    ) -> Result<(), Fault> {
        let spec = self.table(table, true)?;
        let cols = spec.cols as usize;
        if gradients.len() != ids.len() * cols {
            let (name, got) = (&spec.name, gradients.len());
            let text = format!(
                "{got} gradient values of {name} for {} rows of {cols}",
                ids.len()
            );
            return Err(Fault::Final(Error::Usage(text)));
        }
        self.group(table, ids)?;
        let encoding = self.dialer.config.encoding;
        let hot = Hot {
            table,
            samples: self.samples,
            ..self.hot()
        };
        for service in 0..self.topology.sparse_services() {
            let line = self.sparse_line(service);
            let group = &self.groups[table.index()];
            let part = group.bounds[service as usize]..group.bounds[service as usize + 1];
            if part.is_empty() {
                continue;
            }
            let ticket = group.tickets[service as usize];
            let ids = &group.ids[part.clone()];
            let hot = Hot {
                count: ids.len() as u32,
                ticket,
                ..hot
            };
            let before: &[u8] = if ticket == 0 {
                bytemuck::cast_slice(ids)
            } else {
                &[]
            };
            // The answer to the pull that gave the ticket means that the tray's last gradients have been applied.
            let trays = self.trays[line].as_ref().filter(|_| ticket != 0);
            let tray = trays.and_then(|trays| trays.holding(table.index(), ids.len() * cols));
            let line = &mut self.lines[line];
            if let Some(tray) = tray {
                lay(gradients, &group.places[part], cols, tray);
                self.trays_full = true;
                line.send_bytes(Kind::PushRowsPlaced, &hot, &[])?;
                continue;
            }
            line.begin_values(Kind::PushRows, encoding, &hot, before, ids.len() * cols)?;
            for places in group.places[part].chunks((PIECE / cols).max(1)) {
                gather(gradients, places, cols, &mut self.scratch);
                line.more(encoding, &self.scratch)?;
            }
        }
        // A ticket is good for one push.
        self.groups[table.index()].forget();
        Ok(())
    }

    /// Fetches a whole sparse table, a piece at a time: `each(first row, values)`. Creates nothing on the servers.
    pub fn download(
        &mut self,
        table: TableId,
        view: View,
        each: &mut dyn FnMut(u64, &[f32]),
    ) -> Result<(), Error> {
        let view = if view == View::Training {
            View::Current
        } else {
            view
        };
        let mut values = Vec::new();
        let rows = self.table(table, true).map(|spec| spec.rows);
        let rows = self.settle(rows)?;
        for first in (0..rows).step_by(DOWNLOADED as usize) {
            let ids: Vec<u32> = (first..rows.min(first + DOWNLOADED))
                .map(|id| id as u32)
                .collect();
            let mut wanted = [Rows {
                table,
                ids: &ids,
                values: &mut values,
            }];
            let done = self.try_pull_rows(&mut wanted, view);
            self.settle(done)?;
            each(first, &values);
        }
        self.groups[table.index()].forget();
        Ok(())
    }

    fn group(&mut self, table: TableId, ids: &[u32]) -> Result<(), Fault> {
        let spec = self.table(table, true)?;
        let (hash, rows) = (spec.hash(), spec.rows);
        let services = self.topology.sparse_services();
        let group = &mut self.groups[table.index()];
        group
            .set(hash, ids, rows, services)
            .map(|_| ())
            .map_err(|text| Fault::Final(Error::Usage(text)))
    }
}

/// Where the rows of one service go.
struct Target<'a> {
    places: &'a [u32],
    cols: usize,
    values: &'a mut [f32],
}

fn receive_part(
    line: &mut Channel,
    table: TableId,
    target: Target<'_>,
    tray: Option<&Region>,
    scratch: &mut Vec<f32>,
) -> Result<u64, Fault> {
    let cols = target.cols;
    let (head, hot) = line.expect_values()?;
    let tray = tray.filter(|_| head.kind == Kind::ValuesPlaced);
    let wanted = if tray.is_some() {
        0
    } else {
        target.places.len() * cols * head.encoding.bytes()
    };
    if hot.table != table || head.payload != wanted as u64 {
        return Err(Fault::Lost(format!(
            "{} sent values of other rows",
            line.peer()
        )));
    }
    if let Some(tray) = tray {
        pick_up(tray, target.places, cols, target.values);
        return Ok(hot.ticket);
    }
    for places in target.places.chunks((PIECE / cols).max(1)) {
        scratch.resize(places.len() * cols, 0.0);
        line.read_values(head.encoding, scratch)?;
        scatter(scratch, places, cols, target.values);
    }
    Ok(hot.ticket)
}

/// Rows ahead that are asked of the memory: their places are scattered over more than a cache holds.
const AHEAD: usize = 12;

/// Asks for the row a little behind the first of `places`.
#[inline(always)]
fn ask_ahead(numbers: &[f32], places: &[u32], cols: usize) {
    if let Some(place) = places.get(AHEAD) {
        let at = *place as usize * cols;
        prefetch::slice(&numbers[at..at + cols]);
    }
}

fn scatter(from: &[f32], places: &[u32], cols: usize, to: &mut [f32]) {
    for (i, (row, place)) in from.chunks_exact(cols).zip(places).enumerate() {
        ask_ahead(to, &places[i..], cols);
        let at = *place as usize * cols;
        to[at..at + cols].copy_from_slice(row);
    }
}

/// Copies rows out of a tray to their places.
fn pick_up(tray: &Region, places: &[u32], cols: usize, to: &mut [f32]) {
    for (i, place) in places.iter().enumerate() {
        ask_ahead(to, &places[i..], cols);
        let at = *place as usize * cols;
        tray.read(i * cols, &mut to[at..at + cols]);
    }
}

/// Copies rows from their places into a tray.
fn lay(from: &[f32], places: &[u32], cols: usize, tray: &Region) {
    for (i, place) in places.iter().enumerate() {
        ask_ahead(from, &places[i..], cols);
        let at = *place as usize * cols;
        tray.write(i * cols, &from[at..at + cols]);
    }
}

fn gather(from: &[f32], places: &[u32], cols: usize, to: &mut Vec<f32>) {
    to.clear();
    to.reserve(places.len() * cols);
    for (i, place) in places.iter().enumerate() {
        ask_ahead(from, &places[i..], cols);
        let at = *place as usize * cols;
        to.extend_from_slice(&from[at..at + cols]);
    }
}
