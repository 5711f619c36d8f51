//! Entering an epoch. All trainers connect to all servers and wait; when every server sees every trainer,
//! trainer 0 decides where the job goes on and opens the next epoch on every server; then all enter.

use super::config::{Error, Position};
use super::group::Group;
use super::link::Dialer;
use super::pulse::Pulses;
use super::{Fault, Session};
use crate::channel::Channel;
use crate::frame::Kind;
use crate::ids::{Epoch, TableId};
use crate::message::{Command, Hot, Role, Start};
use crate::recovery::{Boundary, Report, Verdict, judge};
use crate::spec::TableSpec;
use std::time::{Duration, Instant};

/// Rows that are sent at once when trainer 0 brings the values of a sparse table.
const INITIAL_ROWS: u64 = 65_536;

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

impl Session {
    /// Joins the next epoch, however often it takes until the time for joining is over.
    pub(super) fn join(&mut self, reason: &str) -> Result<Position, Error> {
        let begun = Instant::now();
        let limit = self.dialer.config.timing.join;
        let mut pause = Duration::from_millis(10);
        let mut last = reason.to_owned();
        self.values_due = false;
        loop {
            if let Some(reason) = self.pulses.failed() {
                return Err(Error::JobFailed(reason));
            }
            match self.try_join(begun + limit, &mut last) {
                Ok(position) => return Ok(position),
                Err(Fault::Final(error)) => return Err(error),
                Err(fault) => last = Dialer::story(&fault),
            }
            if begun.elapsed() >= limit {
                let error = self.dialer.timed_out(last, limit.as_secs());
                self.fail(&error.to_string());
                return Err(error);
            }
            self.pulses.set_waits_for(last.clone());
            std::thread::sleep(jittered(pause));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn try_join(&mut self, deadline: Instant, last: &mut String) -> Result<Position, Fault> {
        self.lines.clear();
        self.places.clear();
        self.trays.clear();
        self.trays_full = false;
        let status = self.pulses.status();
        self.pulses.stop();
        self.pulses = Pulses::none(&self.dialer);
        self.pulses.set_status(status.clone());
        self.pulses.set_waits_for(last.clone());
        let mut channels = Vec::new();
        for server in 0..self.topology.servers {
            channels.push(self.dialer.connect(server, 0, Role::Pulse, self.epoch)?);
        }
        self.pulses = Pulses::start(&self.dialer, channels, status);
        let (epoch, boundary) = self.wait_for_epoch(deadline, last)?;
        self.enter(epoch)?;
        self.epoch = epoch;
        self.step = boundary.step;
        self.pass = boundary.pass;
        self.reductions = 0;
        self.groups.iter_mut().for_each(|group| group.forget());
        self.pulses.set_waits_for(String::new());
        let me = self.dialer.config.trainer.index();
        let batch = boundary.batches.get(me).copied().unwrap_or(0);
        Ok(Position {
            epoch,
            step: boundary.step,
            pass: boundary.pass,
            batch,
        })
    }

    fn wait_for_epoch(
        &mut self,
        deadline: Instant,
        last: &mut String,
    ) -> Result<(Epoch, Boundary), Fault> {
        let coordinator = self.dialer.config.trainer.0 == 0;
        let mut seen = 0;
        let mut opened = Epoch(0);
        loop {
            if let Some(reason) = self.pulses.failed() {
                return Err(Fault::Final(Error::JobFailed(reason)));
            }
            if let Some(reason) = self.pulses.reason() {
                return Err(Fault::Lost(reason));
            }
            let reports = self.pulses.reports();
            let names = |server: usize| self.dialer.server_name(server as u32);
            match judge(&reports, self.epoch, self.dialer.config.trainers, names) {
                Verdict::Enter(epoch, boundary) => return Ok((epoch, boundary)),
                // Reports from before the opening are no reason to open again.
                Verdict::Open(..) if reports.iter().any(|report| report.epoch < opened) => {}
                Verdict::Open(epoch, start) if coordinator => {
                    self.open(epoch, start)?;
                    opened = epoch;
                }
                Verdict::Open(..) => *last = "waiting for trainer 0 to open the job".to_owned(),
                Verdict::Wait(text) => *last = text,
                Verdict::Over => return Err(Fault::Final(Error::Finished)),
            }
            if Instant::now() >= deadline {
                return Err(Fault::Lost(last.clone()));
            }
            self.pulses.set_waits_for(last.clone());
            self.pulses.wait_news(&mut seen, Duration::from_millis(200));
        }
    }

    /// Trainer 0 opens an epoch on all servers at once.
    fn open(&self, epoch: Epoch, start: Start) -> Result<(), Fault> {
        std::thread::scope(|scope| {
            let servers: Vec<_> = (0..self.topology.servers)
                .map(|server| scope.spawn(move || self.open_one(server, epoch, start)))
                .collect();
            servers
                .into_iter()
                .try_for_each(|thread| thread.join().expect("opening does not panic"))
        })
    }

    fn open_one(&self, server: u32, epoch: Epoch, start: Start) -> Result<(), Fault> {
        let given = |spec: &TableSpec| spec.values.is_some();
        let initial: Vec<TableId> = if start == Start::Fresh {
            let tables = self.spec.tables.iter().enumerate();
            tables
                .filter(|(_, spec)| given(spec))
                .map(|(at, _)| TableId(at as u32))
                .collect()
        } else {
            Vec::new()
        };
        let (mut channel, _) = self.dialer.connect(server, 0, Role::Command, Epoch(0))?;
        let timeout = Some(self.dialer.config.timing.stall);
        channel
            .stream()
            .set_read_timeout(timeout)
            .map_err(|cause| Fault::Lost(cause.to_string()))?;
        let spec = Box::new(self.spec.clone());
        channel.send(
            Kind::Command,
            &Command::Open {
                epoch,
                spec,
                start,
                initial: initial.clone(),
            },
        )?;
        for table in initial {
            self.send_initial(&mut channel, server, table)?;
        }
        let _: Report = channel.expect(Kind::Report)?;
        Ok(())
    }

    fn send_initial(
        &self,
        channel: &mut Channel,
        server: u32,
        table: TableId,
    ) -> Result<(), Fault> {
        let spec = &self.spec.tables[table.index()];
        let values = spec.values.as_ref();
        let values = values.expect("only tables with values are announced");
        if spec.sparse {
            return self.send_initial_rows(channel, server, table, values);
        }
        for port in 0..self.topology.ports {
            let service = server * self.topology.ports + port;
            let blocks = self.dense.blocks(table, service);
            let runs = blocks
                .iter()
                .map(|block| &values[block.start..block.start + block.len]);
            let hot = Hot {
                table,
                count: port,
                ..Hot::default()
            };
            channel.send_values(Kind::Initial, crate::Encoding::F32, &hot, &[], runs)?;
        }
        Ok(())
    }

    /// Sends a server its rows of a sparse table, for each port in frames of some rows; a frame without rows ends it.
    fn send_initial_rows(
        &self,
        channel: &mut Channel,
        server: u32,
        table: TableId,
        values: &[f32],
    ) -> Result<(), Fault> {
        let spec = &self.spec.tables[table.index()];
        let services = self.topology.sparse_services();
        let cols = spec.cols as usize;
        let mut group = Group::default();
        let mut rows = Vec::new();
        let hot = Hot {
            table,
            ..Hot::default()
        };
        for first in (0..spec.rows).step_by(INITIAL_ROWS as usize) {
            let ids: Vec<u32> = (first..spec.rows.min(first + INITIAL_ROWS))
                .map(|id| id as u32)
                .collect();
            group
                .set(spec.hash(), &ids, spec.rows, services)
                .map_err(|text| Fault::Final(Error::Usage(text)))?;
            for port in 0..self.topology.ports_of_server() {
                let Some(service) = self.topology.sparse_service_at(server, port) else {
                    continue;
                };
                let part = group.bounds[service as usize]..group.bounds[service as usize + 1];
                let ids = &group.ids[part];
                if ids.is_empty() {
                    continue;
                }
                rows.clear();
                for id in ids {
                    let at = *id as usize * cols;
                    rows.extend_from_slice(&values[at..at + cols]);
                }
                let hot = Hot {
                    count: ids.len() as u32,
                    value: u64::from(port),
                    ..hot
                };
                let before = bytemuck::cast_slice(ids);
                let runs = std::iter::once(rows.as_slice());
                channel.send_values(Kind::Initial, crate::Encoding::F32, &hot, before, runs)?;
            }
        }
        Ok(channel.send_bytes(Kind::Initial, &hot, &[])?)
    }

    /// Makes the data connections of an epoch.
    fn enter(&mut self, epoch: Epoch) -> Result<(), Fault> {
        let mut stoppers = Vec::new();
        for server in 0..self.topology.servers {
            for port in 0..self.topology.ports_of_server() {
                let (mut channel, _) = self.dialer.connect(server, port, Role::Data, epoch)?;
                let stall = Some(self.dialer.config.timing.stall);
                let stopper = channel
                    .stream()
                    .set_read_timeout(stall)
                    .and_then(|()| channel.stream().stopper());
                stoppers.push(stopper.map_err(|cause| Fault::Lost(cause.to_string()))?);
                let places = self.places(&mut channel, self.lines.len(), epoch)?;
                self.places.push(places);
                self.trays.push(self.trays(&channel));
                self.lines.push(channel);
            }
        }
        self.pulses.enter(epoch, stoppers);
        Ok(())
    }
}

/// A pause of half to all of `pause`, so that many trainers do not knock at the same moment.
fn jittered(pause: Duration) -> Duration {
    let share = (crate::auth::instance() % 1024) as u32;
    pause / 2 + pause / 2048 * share
}
