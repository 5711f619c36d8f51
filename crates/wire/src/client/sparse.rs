//! Pulls and pushes of rows of sparse tables.

use super::config::Error;
use super::{Fault, Session};
use crate::channel::{Channel, GATHERED};
use crate::data::{Carrier, Reply, Request, Ticket, View};
use crate::ids::TableId;
use crate::prefetch;
use crate::shared::SharedRegion;

/// Rows per request of [`Session::download`].
const DOWNLOADED: u64 = 65_536;

/// Values that are moved in one go between a row list and a socket, so that they stay in the cache.
const PIECE: usize = 49_152;

/// A request for rows of one table.
#[derive(Debug)]
pub struct RowRequest<'a> {
    /// A sparse table.
    pub table: TableId,
    /// Strictly ascending row ids.
    pub ids: &'a [u32],
    /// Receives `ids.len() * cols` values, in the order of the ids.
    pub values: &'a mut Vec<f32>,
}

impl Session {
    /// Fetches the rows of the next batch, for all its sparse tables together. Rows that were never used get
    /// their initial values. Call it after [`Session::wait_values`].
    pub fn pull_rows(&mut self, wanted: &mut [RowRequest<'_>]) -> Result<(), Error> {
        let done = self.try_pull_rows(wanted, View::Training);
        self.settle(done)
    }

    fn try_pull_rows(&mut self, wanted: &mut [RowRequest<'_>], view: View) -> Result<(), Fault> {
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
        self.flush()?;
        for rows in wanted.iter_mut() {
            self.receive_rows(rows)?;
        }
        Ok(())
    }

    fn ask_rows(&mut self, rows: &RowRequest<'_>, view: View) -> Result<(), Fault> {
        let encoding = self.dialer.config.encoding;
        for service in 0..self.topology.sparse_services() {
            let group = &self.groups[rows.table.index()];
            let part = group.bounds[service as usize]..group.bounds[service as usize + 1];
            if part.is_empty() {
                continue;
            }
            let line = self.sparse_line(service);
            let ids = &self.groups[rows.table.index()].ids[part];
            let message = self.encode(Request::PullRows {
                table: rows.table,
                rows: ids.len() as u32,
                view,
            });
            self.lines[line].ask(&message, encoding, bytemuck::cast_slice(ids))?;
        }
        Ok(())
    }

    fn receive_rows(&mut self, rows: &mut RowRequest<'_>) -> Result<(), Fault> {
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
        for service in 0..self.topology.sparse_services() {
            let line = self.sparse_line(service);
            let group = &self.groups[table.index()];
            let part = group.bounds[service as usize]..group.bounds[service as usize + 1];
            if part.is_empty() {
                continue;
            }
            let ticket = group.tickets[service as usize];
            let ids = &group.ids[part.clone()];
            let before: &[u8] = match ticket {
                None => bytemuck::cast_slice(ids),
                Some(_) => &[],
            };
            // The reply to the pull that returned the ticket means that the row buffer's last gradients have been
            // applied.
            let trays = self.trays[line].as_ref().filter(|_| ticket.is_some());
            let tray = trays.and_then(|trays| trays.holding(table.index(), ids.len() * cols));
            let message = self.encode(Request::PushRows {
                table,
                rows: ids.len() as u32,
                samples: self.samples,
                ticket,
                carrier: match tray {
                    Some(_) => Carrier::Memory,
                    None => Carrier::Payload,
                },
            });
            let line = &mut self.lines[line];
            if let Some(tray) = tray {
                lay(gradients, &group.places[part], cols, tray);
                self.trays_full = true;
                line.send_bytes(&message, &[])?;
                if size_of_val(ids) * cols >= GATHERED {
                    line.flush()?;
                }
                continue;
            }
            line.begin_values(&message, encoding, before, ids.len() * cols)?;
            for places in group.places[part].chunks((PIECE / cols).max(1)) {
                gather(gradients, places, cols, &mut self.scratch);
                line.more(encoding, &self.scratch)?;
            }
        }
        // A ticket is valid for one push.
        self.groups[table.index()].forget();
        Ok(())
    }

    /// Fetches a whole sparse table, piece by piece: `each(first row, values)`. Creates no rows on the servers.
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
            let mut wanted = [RowRequest {
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
    tray: Option<&SharedRegion>,
    scratch: &mut Vec<f32>,
) -> Result<Option<Ticket>, Fault> {
    let cols = target.cols;
    let (head, reply) = line.expect_reply()?;
    let Reply::Values {
        table: got,
        ticket,
        carrier,
    } = reply.message
    else {
        return Err(line.unexpected(&head, "values").into());
    };
    let tray = tray.filter(|_| carrier == Carrier::Memory);
    let wanted = if tray.is_some() {
        0
    } else {
        target.places.len() * cols * head.encoding.bytes()
    };
    if got != table || head.payload != wanted as u64 {
        return Err(Fault::Lost(format!(
            "{} sent values of other rows",
            line.peer()
        )));
    }
    if let Some(tray) = tray {
        pick_up(tray, target.places, cols, target.values);
        return Ok(ticket);
    }
    for places in target.places.chunks((PIECE / cols).max(1)) {
        scratch.resize(places.len() * cols, 0.0);
        line.read_values(head.encoding, scratch)?;
        scatter(scratch, places, cols, target.values);
    }
    Ok(ticket)
}

/// Rows that are prefetched ahead: they are scattered over more memory than a cache holds.
const AHEAD: usize = 12;

/// Prefetches the row [`AHEAD`] positions after the first of `places`.
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

/// Copies rows out of a row buffer to their positions.
fn pick_up(tray: &SharedRegion, places: &[u32], cols: usize, to: &mut [f32]) {
    for (i, place) in places.iter().enumerate() {
        ask_ahead(to, &places[i..], cols);
        let at = *place as usize * cols;
        tray.read(i * cols, &mut to[at..at + cols]);
    }
}

/// Copies rows from their positions into a row buffer.
fn lay(from: &[f32], places: &[u32], cols: usize, tray: &SharedRegion) {
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
