//! Rows of dense tables: of a large table that a batch only looks rows up in, just these rows are fetched.
//!
//! A row may lie in two blocks, on two services. Each service returns, for the ids that it is asked for, the values
//! of those rows that are in its blocks, in ascending order; both sides know the blocks.

use super::config::Error;
use super::{Fault, Session};
use crate::data::{Carrier, Encoded, Reply, Request, Ticket, View};
use crate::encoding::Encoding;
use crate::ids::TableId;
use crate::runs;
use crate::spec::Mode;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

/// What one service holds of the rows of a request.
#[derive(Debug, Default, Clone)]
pub(super) struct RowShare {
    /// The rows that have values on the service.
    ids: Vec<u32>,
    /// Where their values are in the table.
    runs: Vec<Range<usize>>,
    /// Names the rows, if they are those that the service sent last.
    ticket: Option<Ticket>,
}

/// The rows of a table that the next batch reads.
#[derive(Debug)]
pub(super) struct NextRows {
    table: TableId,
    /// Ascending.
    ids: Vec<u32>,
    /// So many that the whole table is fetched.
    whole: bool,
    /// What was requested from each service.
    shares: Vec<RowShare>,
}

/// If a batch reads more than a table's rows divided by this, the whole table takes less time than its rows.
const MANY: u64 = 4;

impl Session {
    /// Only rows of these dense tables are fetched while training: those that were [announced](Session::announce_rows), and
    /// others with [`Session::read_rows`]; whole ones only by [`Session::pull_dense`]. Has no effect in asynchronous
    /// training, where values change at any time.
    pub fn fetch_by_row(&mut self, tables: Vec<TableId>) {
        if self.spec.mode == Mode::Sync {
            self.by_row = tables;
        }
    }

    /// Whether a dense table is fetched by row.
    pub fn is_by_row(&self, table: TableId) -> bool {
        self.by_row.contains(&table)
    }

    /// Rows of tables by row that the next batch reads, if they are known before this batch is
    /// [finished](Session::finish_batch): they are requested together with its values, and arrive with them in
    /// [`Session::wait_values`].
    pub fn announce_rows(&mut self, rows: &[(TableId, &[u32])]) {
        self.next = rows
            .iter()
            .filter(|(table, _)| self.is_by_row(*table))
            .map(|(table, ids)| NextRows {
                table: *table,
                ids: ascending(ids).into_owned(),
                whole: ids.len() as u64 * MANY > self.spec.tables[table.index()].rows,
                shares: Vec::new(),
            })
            .collect();
    }

    /// Whether the values that are due leave out a table, but for rows that were requested by themselves.
    pub(super) fn leaves_out(&self, table: TableId) -> bool {
        let whole = |next: &NextRows| next.whole && next.table == table;
        self.is_kept(table) || (self.is_by_row(table) && !self.next.iter().any(whole))
    }

    /// Requests the rows that were announced.
    pub(super) fn ask_next_rows(&mut self) -> Result<(), Fault> {
        let mut next = std::mem::take(&mut self.next);
        for rows in next.iter_mut().filter(|rows| !rows.whole) {
            rows.shares = self.shares(rows.table, &rows.ids, None);
            for (service, share) in (0..).zip(&rows.shares) {
                self.ask_dense_rows(rows.table, service, share)?;
            }
        }
        self.next = next;
        Ok(())
    }

    /// Receives the rows that were announced, behind the other values.
    pub(super) fn receive_next_rows(
        &mut self,
        into: &mut [(TableId, &mut [f32])],
    ) -> Result<(), Fault> {
        let mut next = std::mem::take(&mut self.next);
        for rows in next.iter_mut().filter(|rows| !rows.whole) {
            let (_, values) = into
                .iter_mut()
                .find(|(table, _)| *table == rows.table)
                .expect("the places are those of all dense tables");
            if self.places.iter().any(Option::is_some) {
                self.shares(rows.table, &rows.ids, Some(values));
            }
            for (service, share) in (0..).zip(&mut rows.shares) {
                share.ticket = self.receive_dense_rows(rows.table, service, share, values)?;
            }
        }
        self.next = next;
        Ok(())
    }

    /// What each service holds of the rows of a gradient. They are usually those that arrived for the batch.
    pub(super) fn row_shares(&mut self, table: TableId, rows: &[u32]) -> Vec<RowShare> {
        let rows = ascending(rows);
        let arrived = |next: &&mut NextRows| {
            next.table == table && next.ids.as_slice() == &*rows && !next.shares.is_empty()
        };
        match self.next.iter_mut().find(arrived) {
            Some(next) => std::mem::take(&mut next.shares),
            None => self.shares(table, &rows, None),
        }
    }

    /// Pushes what one service holds of a gradient that has only these rows.
    pub(super) fn push_share(
        &mut self,
        table: TableId,
        service: u32,
        gradient: &[f32],
        (share, encoding): (&RowShare, Encoding),
    ) -> Result<(), Fault> {
        runs::pack(gradient, &share.runs, &mut self.scratch);
        let message = self.encode(Request::PushDenseRows {
            table,
            rows: share.ids.len() as u32,
            samples: self.samples,
            ticket: share.ticket,
        });
        let ids: &[u8] = match share.ticket {
            Some(_) => &[],
            None => bytemuck::cast_slice(&share.ids),
        };
        let line = self.dense_line(service);
        let values = std::iter::once(self.scratch.as_slice());
        Ok(self.lines[line].send_values(&message, encoding, ids, values)?)
    }

    /// Copies rows of dense tables to their positions in `values`, each of which is the whole table. Call it
    /// after [`Session::wait_values`] and before the next push. What was announced is there already.
    pub fn read_rows(&mut self, wanted: &mut [(TableId, &[u32], &mut [f32])]) -> Result<(), Error> {
        let done = self.try_read_rows(wanted);
        self.settle(done)
    }

    fn try_read_rows(&mut self, wanted: &mut [(TableId, &[u32], &mut [f32])]) -> Result<(), Fault> {
        for (table, ids, values) in wanted {
            let ids = ascending(ids);
            let arrived = |next: &NextRows| {
                next.table == *table && (next.whole || next.ids.as_slice() == &*ids)
            };
            if self.next.iter().any(arrived) {
                continue;
            }
            let shares = self.shares(*table, &ids, Some(values));
            for (service, share) in (0..).zip(&shares) {
                self.ask_dense_rows(*table, service, share)?;
            }
            self.flush()?;
            for (service, share) in (0..).zip(&shares) {
                self.receive_dense_rows(*table, service, share, values)?;
            }
            // Tickets of earlier rows are no longer good.
            self.next.retain(|next| next.table != *table);
        }
        Ok(())
    }

    /// What has to be requested, for each service. What is in shared memory is not; it is copied to `values`, if there are
    /// any.
    fn shares(&self, table: TableId, ids: &[u32], mut values: Option<&mut [f32]>) -> Vec<RowShare> {
        let spec = &self.spec.tables[table.index()];
        let cols = spec.cols as usize;
        let homes = self.dense.homes(table, spec.len());
        let services = self.topology.dense_services() as usize;
        // A little more than a service has if all have as much.
        let most = ids.len() / services * 9 / 8 + 16;
        let share = || RowShare {
            ids: Vec::with_capacity(most),
            runs: Vec::with_capacity(most),
            ticket: None,
        };
        let mut shares: Vec<RowShare> = (0..services).map(|_| share()).collect();
        let places = |service| self.places[self.dense_line(service)].as_ref();
        let memory: Vec<_> = (0..self.dense.services).map(places).collect();
        // The layer that looks up a row that the table does not have reports it.
        for id in ids.iter().filter(|id| u64::from(**id) < spec.rows) {
            for (run, home) in homes.runs(*id as usize * cols..(*id as usize + 1) * cols) {
                if let Some(places) = memory[home.service as usize] {
                    if let Some(values) = &mut values {
                        places.copy(table, home.start, &mut values[run]);
                    }
                    continue;
                }
                let share = &mut shares[home.service as usize];
                if share.ids.last() != Some(id) {
                    share.ids.push(*id);
                }
                runs::push(&mut share.runs, run);
            }
        }
        shares
    }

    fn ask_dense_rows(
        &mut self,
        table: TableId,
        service: u32,
        share: &RowShare,
    ) -> Result<(), Fault> {
        if share.ids.is_empty() {
            return Ok(());
        }
        let request = self.encode(Request::PullDenseRows {
            table,
            rows: share.ids.len() as u32,
        });
        let encoding = self.dialer.config.encoding;
        let line = self.dense_line(service);
        let ids = bytemuck::cast_slice(&share.ids);
        Ok(self.lines[line].ask(&request, encoding, ids)?)
    }

    fn receive_dense_rows(
        &mut self,
        table: TableId,
        service: u32,
        share: &RowShare,
        values: &mut [f32],
    ) -> Result<Option<Ticket>, Fault> {
        if share.ids.is_empty() {
            return Ok(None);
        }
        let line = self.dense_line(service);
        let line = &mut self.lines[line];
        let (head, reply) = line.expect_reply()?;
        let count = runs::count(&share.runs);
        let ticket = match reply.message {
            Reply::Values {
                table: got,
                ticket: ticket @ Some(_),
                carrier: Carrier::Payload,
            } if got == table => ticket,
            _ => None,
        };
        if ticket.is_none() || head.payload != (count * head.encoding.bytes()) as u64 {
            let peer = line.peer();
            return Err(Fault::Lost(format!("{peer} sent values of other rows")));
        }
        self.scratch.resize(count, 0.0);
        line.read_values(head.encoding, &mut self.scratch)?;
        runs::unpack(&self.scratch, &share.runs, 0, values);
        Ok(ticket)
    }

    /// The request for dense values that ends a batch, and the tables that it leaves out. In shared memory those are only
    /// the tables of other trainers: the reply says that a table's values may be read, and its outbox be written.
    pub(super) fn dense_pull(&self, line: usize) -> (Encoded, Vec<u32>) {
        let own = self.own_kept();
        let except: Vec<u32> = match self.places[line] {
            Some(_) => {
                let others = self.kept.iter().filter(|kept| Some(**kept) != own);
                others.map(|table| table.0).collect()
            }
            None => {
                let left_out = self.by_row.iter().filter(|table| self.leaves_out(**table));
                left_out.chain(&self.kept).map(|table| table.0).collect()
            }
        };
        let pull = self.encode(Request::PullDense {
            view: View::Training,
            except: except.len() as u32,
        });
        (pull, except)
    }
}

/// Row ids, ascending and each once.
fn ascending(ids: &[u32]) -> Cow<'_, [u32]> {
    if ids.is_sorted_by(|a, b| a < b) {
        return Cow::Borrowed(ids);
    }
    let set: BTreeSet<u32> = ids.iter().copied().collect();
    Cow::Owned(set.into_iter().collect())
}
