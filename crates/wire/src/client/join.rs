//! Joining a generation. All trainers connect to all servers and wait. When every server sees every trainer,
//! trainer 0 decides where the job continues and opens the next generation on every server; then all join it.

use super::config::{Error, RefusedSave, ResumePoint, Saves};
use super::group::OrderedIds;
use super::link::Dialer;
use super::pulse::{Pulses, WatchedConnection};
use super::{Fault, Session};
use crate::channel::Channel;
use crate::data::{Encoded, Request, Stamped};
use crate::frame::FrameKind;
use crate::ids::{Generation, Step, TableId};
use crate::lines::LineWatch;
use crate::message::{Command, ConnectionRole, GenerationStart};
use crate::owed::passed;
use crate::recovery::{AdmissionVerdict, Boundary, CoordinatorKnowledge, ServerReport, judge};
use crate::spec::TableSpec;
use std::time::{Duration, Instant};

/// Rows per frame when trainer 0 sends the values of a sparse table.
const INITIAL_ROWS: u64 = 65_536;

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

impl Session {
    /// Joins the next generation, with as many attempts as it takes until the time for joining is over.
    pub(super) fn join(&mut self, reason: &str) -> Result<ResumePoint, Error> {
        let begun = Instant::now();
        let limit = self.dialer.config.timing.join;
        let mut pause = Duration::from_millis(10);
        let mut last = reason.to_owned();
        self.values_due = false;
        self.next.clear();
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

    fn try_join(&mut self, deadline: Instant, last: &mut String) -> Result<ResumePoint, Fault> {
        self.lines.clear();
        self.commands.clear();
        self.places.clear();
        self.trays.clear();
        self.trays_full = false;
        let status = self.pulses.status();
        self.pulses.stop();
        self.pulses = Pulses::start(&self.dialer, Vec::new(), status.clone(), last);
        let mut channels = Vec::new();
        for server in 0..self.topology.servers {
            channels.push(
                self.dialer
                    .connect(server, 0, ConnectionRole::Pulse, self.epoch)?,
            );
        }
        self.pulses = Pulses::start(&self.dialer, channels, status, last);
        words::failpoint::reach("joining");
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
        Ok(ResumePoint {
            epoch,
            step: boundary.step,
            pass: boundary.pass,
            batch,
            passed: passed(self.spec.mode, &boundary.batches, me),
        })
    }

    fn wait_for_epoch(
        &mut self,
        deadline: Instant,
        last: &mut String,
    ) -> Result<(Generation, Boundary), Fault> {
        let coordinator = self.dialer.config.trainer.0 == 0;
        let mut seen = 0;
        let mut opened = Generation(0);
        loop {
            if let Some(reason) = self.pulses.failed() {
                return Err(Fault::Final(Error::JobFailed(reason)));
            }
            if let Some(reason) = self.pulses.reason() {
                return Err(Fault::Lost(reason));
            }
            let reports = self.pulses.reports();
            let names = |server: usize| self.dialer.server_name(server as u32);
            let config = &self.dialer.config;
            // Only the coordinator decides, and only when all are here.
            let saves = config.saves.as_ref().filter(|_| coordinator);
            let here = |report: &ServerReport| report.missing.is_empty();
            let saved = saves.filter(|_| reports.iter().all(here));
            let saved = saved.map(Saves::usable).unwrap_or_default();
            let newest = saved.newest.as_ref();
            let known = CoordinatorKnowledge {
                fresh: config.fresh,
                saved: newest.map(|saved| (saved.step, saved.pass)),
                passes_saved: saved.count,
            };
            let holders = self.dialer.map.holders();
            let verdict = judge(&reports, self.epoch, known, config.trainers, holders, names);
            match verdict.of_trainer(config.trainer, opened, &reports) {
                AdmissionVerdict::Enter(epoch, boundary) => return Ok((epoch, boundary)),
                AdmissionVerdict::Open(epoch, start) => {
                    let directory = newest.map(|saved| saved.directory.as_str());
                    self.open(epoch, start, directory)
                        .map_err(|fault| self.without_refused_save(fault, start, directory))?;
                    if let Some(saves) = saves {
                        let is_saved = matches!(start, GenerationStart::Saved { .. });
                        saves.begun(saved.newest.filter(|_| is_saved));
                    }
                    opened = epoch;
                }
                AdmissionVerdict::Lost(text) => {
                    let text = with_refused(text, saves);
                    self.fail(&text);
                    return Err(Fault::Final(Error::JobFailed(text)));
                }
                AdmissionVerdict::Wait(text) => *last = text,
                AdmissionVerdict::Over => return Err(Fault::Final(Error::Finished)),
            }
            if Instant::now() >= deadline {
                return Err(Fault::Lost(last.clone()));
            }
            self.pulses.set_waits_for(last.clone());
            self.pulses.wait_news(&mut seen, Duration::from_millis(200));
        }
    }

    /// A saved state that a server cannot restore is no reason to give up: the pass before it may be whole.
    fn without_refused_save(
        &self,
        fault: Fault,
        start: GenerationStart,
        directory: Option<&str>,
    ) -> Fault {
        let (Fault::Final(Error::Refused { text, .. }), GenerationStart::Saved { .. }) =
            (&fault, start)
        else {
            return fault;
        };
        let (Some(saves), Some(directory)) = (&self.dialer.config.saves, directory) else {
            return fault;
        };
        saves.refuse(RefusedSave {
            directory: directory.to_owned(),
            reason: text.clone(),
        });
        Fault::Lost(text.clone())
    }

    /// Trainer 0 opens a generation on all servers in parallel.
    fn open(
        &self,
        epoch: Generation,
        start: GenerationStart,
        saved: Option<&str>,
    ) -> Result<(), Fault> {
        std::thread::scope(|scope| {
            let mut servers = Vec::new();
            for server in 0..self.topology.servers {
                let thread = std::thread::Builder::new()
                    .name(format!("open {server}"))
                    .spawn_scoped(scope, move || self.open_one(server, epoch, start, saved));
                let failed = |cause| Fault::Lost(format!("no thread can be started: {cause}"));
                servers.push(thread.map_err(failed)?);
            }
            servers
                .into_iter()
                .try_for_each(|thread| thread.join().expect("opening does not panic"))
        })
    }

    fn open_one(
        &self,
        server: u32,
        epoch: Generation,
        start: GenerationStart,
        saved: Option<&str>,
    ) -> Result<(), Fault> {
        let given = |spec: &TableSpec| spec.values.is_some();
        let initial: Vec<TableId> = if start == GenerationStart::Fresh {
            let tables = self.spec.tables.iter().enumerate();
            tables
                .filter(|(_, spec)| given(spec))
                .map(|(at, _)| TableId(at as u32))
                .collect()
        } else {
            Vec::new()
        };
        let (mut channel, _) =
            self.dialer
                .connect(server, 0, ConnectionRole::Command, Generation(0))?;
        let timeout = Some(self.dialer.config.timing.stall);
        channel
            .stream()
            .set_read_timeout(timeout)
            .map_err(|cause| Fault::Lost(cause.to_string()))?;
        let spec = Box::new(self.spec.clone());
        channel.send(
            FrameKind::Command,
            &Command::Open {
                epoch,
                spec,
                start,
                initial: initial.clone(),
                saved: saved.map(str::to_owned),
            },
        )?;
        for table in initial {
            self.send_initial(&mut channel, server, table)?;
        }
        let _: ServerReport = channel.expect(FrameKind::Report)?;
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
            let message = initial(table, 0, port);
            channel.send_values(&message, crate::Encoding::F32, &[], runs)?;
        }
        Ok(())
    }

    /// Sends a server its rows of a sparse table, in several frames per port; a frame without rows is the last.
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
        let mut group = OrderedIds::default();
        let mut rows = Vec::new();
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
                let message = initial(table, ids.len() as u32, port);
                let before = bytemuck::cast_slice(ids);
                let runs = std::iter::once(rows.as_slice());
                channel.send_values(&message, crate::Encoding::F32, before, runs)?;
            }
        }
        Ok(channel.send_bytes(&initial(table, 0, 0), &[])?)
    }

    /// Opens the data connections of a generation.
    fn enter(&mut self, epoch: Generation) -> Result<(), Fault> {
        let mut lines = Vec::new();
        if self.dialer.config.trainer.0 == 0 {
            for server in 0..self.dialer.map.holders() {
                let line = self.dialer.command_line(server, epoch)?;
                self.commands.push(Some(line));
            }
        }
        // With the others there is nothing to exchange.
        for server in 0..self.dialer.map.holders() {
            for port in 0..self.topology.ports_of_server() {
                let (mut channel, _) =
                    self.dialer
                        .connect(server, port, ConnectionRole::Data, epoch)?;
                let stall = Some(self.dialer.config.timing.stall);
                let stopper = channel
                    .stream()
                    .set_read_timeout(stall)
                    .and_then(|()| channel.stream().stopper());
                lines.push(WatchedConnection {
                    stopper: stopper.map_err(|cause| Fault::Lost(cause.to_string()))?,
                    meter: channel.stream().meter().clone(),
                    watch: LineWatch::default(),
                });
                channel.gather();
                let places = self.places(&mut channel, self.lines.len(), epoch)?;
                self.places.push(places);
                self.trays.push(self.trays(&channel));
                self.lines.push(channel);
            }
        }
        self.pulses.enter(epoch, lines);
        Ok(())
    }
}

/// The head of initial values. They come before the generation's first step, on a connection of no generation.
fn initial(table: TableId, rows: u32, port: u32) -> Encoded {
    let request = Stamped {
        generation: Generation(0),
        step: Step(0),
        message: Request::Initial { table, rows, port },
    };
    request.encode()
}

/// What is lost, with the saved states that servers could not restore.
fn with_refused(text: String, saves: Option<&Saves>) -> String {
    let refused = saves.map(Saves::refused).unwrap_or_default();
    refused
        .iter()
        .fold(text, |text, save| format!("{text}; {}", save.reason))
}

/// A pause of half to all of `pause`, so that many trainers do not connect at the same moment.
fn jittered(pause: Duration) -> Duration {
    let share = (crate::auth::instance() % 1024) as u32;
    pause / 2 + pause / 2048 * share
}
