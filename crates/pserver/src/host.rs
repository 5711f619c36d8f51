//! What all connections of a server share: members, the present run, snapshots, metrics, the log.

use crate::members::{Effect, Members, Millis};
use crate::metrics::{Gauges, Heat, Metrics, TableSize};
use crate::run::Run;
use crate::server::{Config, Level, Log};
use crate::service::{Listener, Piece};
use crate::snapshot::writer::{Outcome, Snapshotter, Tell};
use crate::snapshot::{Store, Wanted};
use optim::Progress;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wire::message::{Code, Hello, Refusal};
use wire::recovery::{Boundary, Phase, Report};
use wire::stream::Stopper;
use wire::{Epoch, Status, Step, TrainerId};

/// The shared state of a server.
pub(crate) struct Host {
    pub(crate) config: Config,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) log: Log,
    started: Instant,
    members: Mutex<Members>,
    changed: Condvar,
    pub(crate) fewer: Condvar,
    pub(crate) run: Mutex<Option<Arc<Run>>>,
    connections: Mutex<HashMap<u64, Connection>>,
    next_connection: AtomicU64,
    pub(crate) stopping: AtomicBool,
    pub(crate) snapshots: Option<Snapshotter>,
    listed: Mutex<Option<Wanted>>,
    statuses: Mutex<Vec<Status>>,
    /// The step at or after which this server wants a snapshot on all servers; 0: it wants none.
    wish: AtomicU64,
}

/// A connection, seen from outside of its thread.
pub(crate) struct Connection {
    pub(crate) stopper: Stopper,
    pub(crate) data: bool,
}

impl Host {
    pub(crate) fn new(config: Config, log: Log) -> Arc<Self> {
        let metrics = Arc::new(Metrics::default());
        let started = Instant::now();
        let snapshots = config.snapshots.clone().map(|directory| {
            let tell = teller(metrics.clone(), log.clone(), started);
            Snapshotter::start(Store::new(directory), tell)
        });
        let silence = config.silence.as_millis() as Millis;
        Arc::new(Self {
            members: Mutex::new(Members::new(config.trainers, silence)),
            statuses: Mutex::new(vec![Status::default(); config.trainers as usize]),
            config,
            metrics,
            log,
            started,
            changed: Condvar::new(),
            fewer: Condvar::new(),
            run: Mutex::new(None),
            connections: Mutex::default(),
            next_connection: AtomicU64::new(1),
            stopping: AtomicBool::new(false),
            snapshots,
            listed: Mutex::new(None),
            wish: AtomicU64::new(0),
        })
    }

    pub(crate) fn now(&self) -> Millis {
        self.started.elapsed().as_millis() as Millis
    }

    pub(crate) fn say(&self, level: Level, text: &str) {
        (self.log)(level, text);
    }

    pub(crate) fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn run(&self) -> Option<Arc<Run>> {
        self.run
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn connections(&self) -> MutexGuard<'_, HashMap<u64, Connection>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn connection_number(&self) -> u64 {
        self.next_connection.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn register(&self, number: u64, stopper: Stopper, data: bool) {
        self.connections()
            .insert(number, Connection { stopper, data });
    }

    pub(crate) fn unregister(&self, number: u64) {
        self.connections().remove(&number);
        self.fewer.notify_all();
    }

    pub(crate) fn has_connections(&self) -> bool {
        !self.connections().is_empty()
    }

    /// Ends every connection; for shutdown.
    pub(crate) fn cut_all(&self) {
        self.connections()
            .values()
            .for_each(|connection| connection.stopper.stop());
        self.changed.notify_all();
    }

    /// Tells everybody in the epoch that it is over.
    pub(crate) fn after(&self, effect: Effect) {
        if effect == Effect::None {
            return;
        }
        let (epoch, reason) = {
            let members = self.members();
            (members.epoch(), members.reason().to_owned())
        };
        self.metrics.losses.add(1);
        self.say(Level::Warning, &format!("epoch {epoch} is over: {reason}"));
        if let Some(run) = self.run() {
            run.end(&reason);
        }
        let connections = self.connections();
        connections
            .values()
            .filter(|c| c.data)
            .for_each(|c| c.stopper.stop_reading());
        drop(connections);
        self.changed.notify_all();
    }

    /// Notices silent trainers.
    pub(crate) fn tick(&self) {
        let (effect, cut) = self.members().tick(self.now());
        for number in cut {
            if let Some(connection) = self.connections().get(&number) {
                connection.stopper.stop();
            }
        }
        self.after(effect);
    }

    /// What this server tells about itself.
    pub(crate) fn report(&self) -> Report {
        let run = self.run();
        let members = self.members();
        let wanted = members.wanted();
        let snapshots = self.snapshot_list(wanted.as_ref());
        let phase = members.phase();
        let (step, pass, _) = run
            .as_ref()
            .and_then(|run| run.services.first())
            .map_or((0, 0, vec![]), |s| s.look());
        let waits_for = match (phase, &run) {
            (Phase::Running, Some(run)) => run.waits_for(),
            (Phase::Lobby, _) if !members.missing().is_empty() => {
                let list: Vec<String> = members.missing().iter().map(ToString::to_string).collect();
                format!("waits for trainer {} to connect", list.join(", "))
            }
            _ => String::new(),
        };
        Report {
            epoch: members.epoch(),
            phase,
            reason: members.reason().to_owned(),
            waiting: members.waiting(),
            missing: members.missing(),
            boundary: run.and_then(|run| run.boundary()),
            snapshots,
            wanted: self.wish(),
            status: Status {
                role: "pserver".to_owned(),
                id: wanted.map_or(0, |wanted| wanted.server),
                pass,
                step,
                waits_for,
                ..Status::default()
            },
        }
    }

    fn snapshot_list(&self, wanted: Option<&Wanted>) -> Vec<Step> {
        let (Some(snapshots), Some(wanted)) = (&self.snapshots, wanted) else {
            return Vec::new();
        };
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if listed.as_ref() != Some(wanted) {
            snapshots.refresh(wanted);
            for step in snapshots.store().unusable(wanted) {
                let text = format!(
                    "snapshot of step {step} is damaged or of another job or model; it is not used"
                );
                self.say(Level::Warning, &text);
            }
            *listed = Some(wanted.clone());
        }
        snapshots.have()
    }

    pub(crate) fn set_status(&self, trainer: TrainerId, status: Status) {
        if let Some(place) = self
            .statuses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_mut(trainer.index())
        {
            *place = status;
        }
    }

    pub(crate) fn statuses(&self) -> Vec<Status> {
        self.statuses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn set_stable(&self, stable: Option<Step>) {
        if let Some(snapshots) = &self.snapshots {
            snapshots.set_stable(stable);
        }
    }

    /// Wants a snapshot of what is applied from now on.
    pub(crate) fn want_snapshot(&self) {
        let step = self
            .run()
            .map(|run| run.services.first().map(|s| s.look().0));
        let running = self.members().phase() == Phase::Running;
        if let (Some(Some(step)), true, Some(_)) = (step, running, &self.snapshots) {
            self.wish.store(step + 1, Ordering::Release);
            self.say(Level::Info, "a snapshot is wanted: this server is to end");
        }
    }

    /// Which snapshot is wanted.
    pub(crate) fn wish(&self) -> Option<Step> {
        let step = self.wish.load(Ordering::Acquire);
        (step > 0).then_some(Step(step))
    }

    /// A wish ends with its epoch: what it wanted to keep is lost or saved.
    pub(crate) fn forget_wish(&self) {
        self.wish.store(0, Ordering::Release);
    }

    /// The newest snapshot that all servers have, as trainer 0 told.
    pub(crate) fn stable(&self) -> Option<Step> {
        self.snapshots.as_ref().and_then(Snapshotter::stable)
    }

    /// Lets a data connection into the present epoch.
    pub(crate) fn attach(
        &self,
        hello: &Hello,
        number: u64,
        stopper: Stopper,
    ) -> Result<Arc<Run>, Refusal> {
        // Under the members' lock, so that an epoch that ends now also ends this connection.
        let mut members = self.members();
        members.attach(hello)?;
        let run = self.run().filter(|run| run.epoch == hello.epoch);
        let run = run.ok_or_else(|| Refusal {
            code: Code::Interrupted,
            text: "the epoch has ended".to_owned(),
        })?;
        self.register(number, stopper, true);
        Ok(run)
    }

    /// Waits until the job is over for this trainer's departure.
    pub(crate) fn leave(&self, trainer: TrainerId, epoch: Epoch) -> Result<(), Refusal> {
        let mut members = self.members();
        if members.epoch() == epoch {
            members.leave(trainer);
        }
        loop {
            let gone = members.phase() != Phase::Running || members.epoch() != epoch;
            match members.phase() {
                Phase::Finished => break,
                Phase::Failed => {
                    return Err(Refusal {
                        code: Code::Failed,
                        text: members.reason().to_owned(),
                    });
                }
                _ if gone || self.stopping.load(Ordering::Acquire) => {
                    return Err(Refusal {
                        code: Code::Interrupted,
                        text: members.reason().to_owned(),
                    });
                }
                _ => {}
            }
            (members, _) = self
                .changed
                .wait_timeout(members, Duration::from_millis(20))
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(members);
        self.changed.notify_all();
        Ok(())
    }

    pub(crate) fn gauges(&self) -> Gauges {
        let members = self.config.trainers as usize - self.members().missing().len();
        let mut gauges = Gauges {
            now: self.now(),
            members: members as u64,
            ..Gauges::default()
        };
        let Some(run) = self.run() else {
            return gauges;
        };
        for (at, table) in run.tables.iter().enumerate() {
            let mut heat = Vec::new();
            let mut size = TableSize {
                name: table.spec.name.clone(),
                rows: 0,
                bytes: 0,
                sparse: table.spec.sparse,
            };
            for service in &run.services {
                match &service.pieces()[at] {
                    Piece::Dense(piece) => {
                        size.rows += piece.len() as u64;
                        size.bytes += (piece.len() * (1 + table.slots) * 4) as u64;
                    }
                    Piece::Sparse(piece) => {
                        let (rows, bytes) = piece.size();
                        size.rows += rows;
                        size.bytes += bytes;
                        heat.extend(piece.heat());
                    }
                    Piece::Absent => {}
                }
            }
            gauges.heat.extend(Heat::of(&size.name, heat));
            gauges.tables.push(size);
        }
        gauges
    }

    /// Waits for a change of anything, at most this long.
    pub(crate) fn wait_change(&self, limit: Duration) {
        let members = self.members();
        let _unused = self
            .changed
            .wait_timeout(members, limit)
            .unwrap_or_else(PoisonError::into_inner);
    }

    pub(crate) fn stop_snapshots(&self) {
        if let Some(snapshots) = &self.snapshots {
            snapshots.stop();
        }
    }
}

/// Hears of steps and passes on behalf of one run.
pub(crate) struct RunListener<'a> {
    pub(crate) host: &'a Host,
    pub(crate) run: &'a Arc<Run>,
}

impl Listener for RunListener<'_> {
    fn step(&self, port: usize, step: u64, ordered: bool) -> bool {
        if port == 0 {
            self.host.metrics.step.set(step);
            if self.host.config.log_period > 0 && step.is_multiple_of(self.host.config.log_period) {
                self.host
                    .say(Level::Info, &format!("======== Batch={step}======="));
            }
        }
        let every = self.run.spec.snapshot_every;
        match &self.host.snapshots {
            Some(snapshots) if ordered || (every > 0 && step.is_multiple_of(every)) => {
                snapshots.decide(Step(step), self.run.services.len())
            }
            _ => false,
        }
    }

    fn captured(&self, port: usize, boundary: Boundary, progress: Vec<Option<Progress>>) {
        if let Some(snapshots) = &self.host.snapshots {
            snapshots.submit(self.run.clone(), port, boundary, progress);
        }
    }

    fn pass(&self, port: usize, step: u64, pass: u64) {
        if port == 0 {
            self.host.metrics.pass.set(pass);
            self.host.say(
                Level::Info,
                &format!("======== Batch={step} pass END======="),
            );
        }
    }
}

fn teller(metrics: Arc<Metrics>, log: Log, started: Instant) -> Tell {
    Box::new(move |outcome| match outcome {
        Outcome::Written(step) => {
            metrics.snapshots.add(1);
            metrics.snapshot_step.set(step.0);
            metrics
                .snapshot_at
                .set(started.elapsed().as_millis() as u64);
        }
        Outcome::Failed(step, error) => {
            metrics.snapshot_failures.add(1);
            log(
                Level::Error,
                &format!(
                    "snapshot of step {step} is not written, the job goes on: {}",
                    chain(&error)
                ),
            );
        }
    })
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
