//! Entering an epoch. All trainers connect to all servers and wait; when every server sees every trainer,
//! trainer 0 decides where the job goes on and opens the next epoch on every server; then all enter.

use super::config::{Error, Position};
use super::link::Dialer;
use super::pulse::Pulses;
use super::{Fault, Session};
use crate::channel::Channel;
use crate::frame::Kind;
use crate::ids::{Epoch, TableId};
use crate::message::{Command, Hot, Role, Start};
use crate::recovery::{Boundary, Phase, Report, decide};
use std::time::{Duration, Instant};

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// What the reports of all servers mean for a trainer that waits to be let in.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// All servers run this epoch: go in.
    Enter(Epoch, Boundary),
    /// Everybody is there; trainer 0 may open this epoch.
    Open(Epoch, Start),
    /// Not yet, for this reason.
    Wait(String),
}

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
        let status = self.pulses.status();
        self.pulses.stop();
        self.pulses = Pulses::none(&self.dialer);
        self.pulses.set_status(status.clone());
        self.pulses.set_waits_for(last.clone());
        let mut channels = Vec::new();
        for server in 0..self.topology.servers {
            channels.push(self.dialer.connect(server, 0, Role::Pulse, Epoch(0))?);
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
        let given = |spec: &crate::spec::TableSpec| spec.values.is_some() && !spec.sparse;
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
        let values = self.spec.tables[table.index()].values.as_ref();
        let values = values.expect("only tables with values are announced");
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

    /// Makes the data connections of an epoch.
    fn enter(&mut self, epoch: Epoch) -> Result<(), Fault> {
        let mut stoppers = Vec::new();
        for server in 0..self.topology.servers {
            for port in 0..self.topology.ports_of_server() {
                let (channel, _) = self.dialer.connect(server, port, Role::Data, epoch)?;
                let stall = Some(self.dialer.config.timing.stall);
                let stopper = channel
                    .stream()
                    .set_read_timeout(stall)
                    .and_then(|()| channel.stream().stopper());
                stoppers.push(stopper.map_err(|cause| Fault::Lost(cause.to_string()))?);
                self.lines.push(channel);
            }
        }
        self.pulses.enter(epoch, stoppers);
        Ok(())
    }
}

/// What the reports mean. `seen` is the last epoch this trainer was in.
fn judge(
    reports: &[Report],
    seen: Epoch,
    trainers: u32,
    name: impl Fn(usize) -> String,
) -> Verdict {
    let newest = reports.iter().map(|r| r.epoch).max().unwrap_or_default();
    let all_run = reports
        .iter()
        .all(|r| r.phase == Phase::Running && r.epoch == newest);
    if all_run
        && newest > seen
        && let Some(boundary) = reports.first().and_then(|r| r.boundary.clone())
    {
        return Verdict::Enter(newest, boundary);
    }
    for (server, report) in reports.iter().enumerate() {
        if report.waiting.len() == trainers as usize {
            continue;
        }
        let list = |ids: &[crate::TrainerId]| {
            ids.iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        };
        return Verdict::Wait(if report.missing.is_empty() {
            format!(
                "server {} waits for trainers to leave the old epoch",
                name(server)
            )
        } else {
            format!(
                "server {} waits for trainers {} to connect",
                name(server),
                list(&report.missing)
            )
        });
    }
    Verdict::Open(Epoch(newest.max(seen).0 + 1), decide(reports))
}

/// A pause of half to all of `pause`, so that many trainers do not knock at the same moment.
fn jittered(pause: Duration) -> Duration {
    let share = (crate::auth::instance() % 1024) as u32;
    pause / 2 + pause / 2048 * share
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Step, TrainerId};
    use crate::status::Status;

    fn report(phase: Phase, epoch: u64, waiting: u32) -> Report {
        Report {
            epoch: Epoch(epoch),
            phase,
            reason: String::new(),
            waiting: (0..waiting).map(TrainerId).collect(),
            missing: (waiting..2).map(TrainerId).collect(),
            boundary: Some(Boundary {
                step: Step(4),
                pass: 0,
                batches: vec![4, 4],
            }),
            snapshots: vec![],
            status: Status::default(),
        }
    }

    fn verdict(reports: &[Report], seen: u64) -> Verdict {
        judge(reports, Epoch(seen), 2, |server| format!("s{server}"))
    }

    #[test]
    fn a_trainer_enters_only_what_all_servers_run_and_it_has_not_left() {
        let run = report(Phase::Running, 5, 2);
        let lobby = report(Phase::Lobby, 4, 2);
        assert!(matches!(
            verdict(&[run.clone(), run.clone()], 4),
            Verdict::Enter(Epoch(5), _)
        ));
        assert!(matches!(
            verdict(&[run.clone(), lobby.clone()], 4),
            Verdict::Open(Epoch(6), Start::Continue { .. })
        ));
        assert!(matches!(
            verdict(&[run.clone(), run], 5),
            Verdict::Open(Epoch(6), _)
        ));
    }

    #[test]
    fn the_missing_are_named() {
        let wait = verdict(&[report(Phase::Lobby, 4, 2), report(Phase::Lobby, 4, 1)], 4);
        assert_eq!(
            wait,
            Verdict::Wait("server s1 waits for trainers 1 to connect".to_owned())
        );
    }
}
