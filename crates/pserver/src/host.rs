//! What all connections of a server share: members, the present run, snapshots, metrics, the log.

use crate::line_pool::LinePool;
use crate::members::{Effect, Members, Millis};
use crate::metrics::{Gauges, Heat, ServerMetrics, TableMetrics};
use crate::pulses::PulseQueue;
use crate::run::GenerationRun;
use crate::server::{Level, ServerConfig, ServerLog};
use crate::service::{Listener, TablePiece};
use crate::snapshot::plan::{RowScope, due, overdue};
use crate::snapshot::writer::{OwnSnapshots, SnapshotOutcome, Snapshotter, Tell};
use crate::snapshot::{SnapshotOwner, SnapshotStore};
use optim::ParameterProgress;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::lines::Traffic;
use wire::message::{Code, Hello, Refusal};
use wire::recovery::{Boundary, Disk, ServerReport};
use wire::stream::{ByteMeter, Stopper};
use wire::{Generation, PeerStatus, Step, TrainerId};
use words::causes::chain;
use words::lock::{Condvar, Mutex, MutexGuard};
use words::status::{Phase, Task};

/// The shared state of a server.
pub(crate) struct Host {
    pub(crate) config: ServerConfig,
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) log: ServerLog,
    started: Instant,
    members: Mutex<Members>,
    changed: Condvar,
    pub(crate) fewer: Condvar,
    pub(crate) run: Mutex<Option<Arc<GenerationRun>>>,
    connections: Mutex<HashMap<u64, Connection>>,
    next_connection: AtomicU64,
    pub(crate) stopping: AtomicBool,
    pub(crate) snapshots: Option<Snapshotter>,
    listed: Mutex<Option<SnapshotOwner>>,
    disk: Mutex<Disk>,
    /// The step at or after which this server wants a snapshot on all servers; 0: it wants none.
    wanted_step: AtomicU64,
    /// The warning that the disk is too slow has been logged.
    told_slow: AtomicBool,
    /// The connections of heartbeats.
    pub(crate) pulses: PulseQueue,
    /// The data connections.
    pub(crate) lines: LinePool,
    /// When the thread that accepts connections last completed a round, in milliseconds of the server's clock.
    pub(crate) gate: AtomicU64,
    /// When a step was last applied or a generation began, in milliseconds of the server's clock.
    stepped: AtomicU64,
}

/// If the gate has completed no round for this long, its thread has ended or hangs.
const GATE_SILENCE: Duration = Duration::from_secs(5);

/// A generation without a step for this long needs a person: even a long test at the end of a pass is shorter.
const NO_STEP: Duration = Duration::from_secs(1800);

/// A wait for the disk that is worth a log line.
const SLOW: Duration = Duration::from_secs(1);

/// A connection, as other threads see it.
pub(crate) struct Connection {
    pub(crate) stopper: Stopper,
    /// `None` for pulse and command connections.
    pub(crate) line: Option<DataConnection>,
}

/// The trainer and the port of a data connection, and the bytes that have passed over it.
pub(crate) struct DataConnection {
    pub(crate) trainer: TrainerId,
    pub(crate) port: usize,
    pub(crate) meter: Arc<ByteMeter>,
}

impl Connection {
    pub(crate) fn new(stopper: Stopper) -> Self {
        Self {
            stopper,
            line: None,
        }
    }

    pub(crate) fn is_data(&self) -> bool {
        self.line.is_some()
    }
}

impl Host {
    pub(crate) fn new(config: ServerConfig, log: ServerLog) -> std::io::Result<Arc<Self>> {
        let metrics = Arc::new(ServerMetrics::default());
        let started = Instant::now();
        let snapshots = config.snapshots.clone().map(|directory| {
            let tell = teller(metrics.clone(), log.clone(), started);
            Snapshotter::start(SnapshotStore::on(directory, config.flush.clone()), tell)
        });
        let snapshots = snapshots.transpose()?;
        let silence = config.silence.as_millis() as Millis;
        Ok(Arc::new(Self {
            members: Mutex::new(Members::new(config.trainers, silence)),
            config,
            metrics,
            log,
            started,
            changed: Condvar::default(),
            fewer: Condvar::default(),
            run: Mutex::new(None),
            connections: Mutex::default(),
            next_connection: AtomicU64::new(1),
            stopping: AtomicBool::new(false),
            snapshots,
            listed: Mutex::new(None),
            disk: Mutex::default(),
            wanted_step: AtomicU64::new(0),
            told_slow: AtomicBool::new(false),
            pulses: PulseQueue::new()?,
            lines: LinePool::new()?,
            gate: AtomicU64::new(0),
            stepped: AtomicU64::new(0),
        }))
    }

    pub(crate) fn now(&self) -> Millis {
        self.started.elapsed().as_millis() as Millis
    }

    pub(crate) fn say(&self, level: Level, text: &str) {
        (self.log)(level, text);
    }

    pub(crate) fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock()
    }

    pub(crate) fn run(&self) -> Option<Arc<GenerationRun>> {
        self.run.lock().clone()
    }

    pub(crate) fn connections(&self) -> MutexGuard<'_, HashMap<u64, Connection>> {
        self.connections.lock()
    }

    pub(crate) fn connection_number(&self) -> u64 {
        self.next_connection.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn register(&self, number: u64, connection: Connection) {
        self.connections().insert(number, connection);
    }

    /// What has passed over the data connections of a trainer, by port; empty unless it has one to every port.
    pub(crate) fn lines(&self, trainer: TrainerId) -> Vec<Traffic> {
        let connections = self.connections();
        let own = connections.values().filter_map(|c| c.line.as_ref());
        let own: Vec<&DataConnection> = own.filter(|line| line.trainer == trainer).collect();
        let ports = (self.config.ports + self.config.sparse_ports) as usize;
        let of_port = |port| {
            let line = own.iter().find(|line| line.port == port)?;
            Some(line.meter.traffic())
        };
        // More connections than ports: those of an earlier generation are about to end.
        if own.len() != ports {
            return Vec::new();
        }
        (0..ports)
            .map(of_port)
            .collect::<Option<_>>()
            .unwrap_or_default()
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

    /// Call it with the effect of every change of the members: if that ended the generation, all requests that wait in it
    /// get an error and its connections are closed.
    pub(crate) fn after(&self, effect: Effect) {
        if effect == Effect::None {
            return;
        }
        let (epoch, reason) = {
            let members = self.members();
            (members.epoch(), members.reason().to_owned())
        };
        self.metrics.losses.add(1);
        self.say(
            Level::Warning,
            &format!("generation {epoch} is over: {reason}"),
        );
        if let Some(run) = self.run() {
            run.end(&reason);
        }
        let connections = self.connections();
        connections
            .values()
            .filter(|c| c.is_data())
            .for_each(|c| c.stopper.stop_reading());
        drop(connections);
        self.changed.notify_all();
    }

    /// Bytes that have passed over the data connections.
    pub(crate) fn moved(&self) -> u64 {
        let connections = self.connections();
        let lines = connections.values().filter_map(|c| c.line.as_ref());
        let traffic = lines.map(|line| line.meter.traffic());
        traffic.map(|t| t.sent.wrapping_add(t.received)).sum()
    }

    /// Detects silent trainers, requests that have waited for too long, and threads that are stuck.
    pub(crate) fn tick(self: &Arc<Self>) {
        let silent = self.members().tick(self.now());
        for number in silent.connections {
            if let Some(connection) = self.connections().get(&number) {
                connection.stopper.stop();
            }
        }
        self.after(silent.effect);
        self.lines.tick(self);
        if let Some(run) = self.run() {
            let limit = self.config.stall;
            run.services.iter().for_each(|s| s.wake_overdue(limit));
        }
        self.warn_of_age();
    }

    /// A step was applied, or a generation began.
    pub(crate) fn steps(&self) {
        self.stepped.store(self.now(), Ordering::Release);
    }

    /// What is wrong with this server, if anything is.
    pub(crate) fn health(&self) -> Result<(), String> {
        let quiet = |since: &AtomicU64| {
            let ago = self.now().saturating_sub(since.load(Ordering::Acquire));
            Duration::from_millis(ago)
        };
        let gate = quiet(&self.gate);
        if gate > GATE_SILENCE {
            let seconds = gate.as_secs();
            return Err(format!(
                "no connection was accepted or looked at for {seconds} s"
            ));
        }
        let still = quiet(&self.stepped);
        let members = self.members();
        match members.phase() {
            Phase::Failed => Err(format!("the job has failed: {}", members.reason())),
            Phase::Running if still > NO_STEP => {
                // A server that holds nothing takes no steps.
                let run = self.run().filter(|run| run.holds());
                run.map_or(Ok(()), |run| {
                    let waits = run.waits_for();
                    Err(format!("no step for {} s: {waits}", still.as_secs()))
                })
            }
            _ => Ok(()),
        }
    }

    /// This server's report to trainers.
    pub(crate) fn report(&self) -> ServerReport {
        let run = self.run();
        let members = self.members();
        let wanted = members.wanted();
        let snapshots = self.snapshot_list(wanted.as_ref());
        let mut disk = self.disk().clone();
        disk.confirmed = disk.confirmed.max(self.stable());
        let phase = members.phase();
        let first = run.as_ref().and_then(|run| run.services.first());
        let service = first.map(|service| service.status()).unwrap_or_default();
        let waits_for = match (phase, &run) {
            (Phase::Running, Some(run)) => self.slow_snapshot().unwrap_or_else(|| run.waits_for()),
            (Phase::Lobby, _) if !members.missing().is_empty() => {
                let list: Vec<String> = members.missing().iter().map(ToString::to_string).collect();
                format!("waits for trainer {} to connect", list.join(", "))
            }
            _ => String::new(),
        };
        ServerReport {
            epoch: members.epoch(),
            phase,
            reason: members.reason().to_owned(),
            waiting: members.waiting(),
            missing: members.missing(),
            boundary: run.and_then(|run| run.boundary()),
            snapshots: snapshots.complete,
            settled: snapshots.settled,
            disk,
            wanted: self.wanted_step(),
            lines: Vec::new(),
            status: PeerStatus {
                role: "pserver".to_owned(),
                id: wanted.map_or(0, |wanted| wanted.server),
                pass: service.pass,
                step: service.step,
                waits_for,
                ..PeerStatus::default()
            },
        }
    }

    /// The trainers that the present step, or the end of the job, waits for; none while trainer 0 works at the end of a
    /// pass.
    pub(crate) fn waits_on(&self) -> Vec<u32> {
        if self.members().phase() != Phase::Running || self.slow_snapshot().is_some() {
            return Vec::new();
        }
        let staying = self.members().staying();
        if !staying.is_empty() {
            return staying;
        }
        let run = self.run();
        let services = run.iter().flat_map(|run| &run.services);
        let waits = services.filter(|service| !service.is_over());
        let mut on: Vec<u32> = waits
            .flat_map(|s| s.status().waits_for)
            .map(|id| id.0)
            .collect();
        on.sort_unstable();
        on.dedup();
        on
    }

    /// Whether a service of the present run has work of its own in progress.
    pub(crate) fn is_busy(&self) -> bool {
        let run = self.run();
        run.is_some_and(|run| run.services.iter().any(|service| service.is_busy()))
    }

    /// The snapshot that training waits for, if any, and how much of it is written.
    pub(crate) fn slow_task(&self) -> Option<Task> {
        let snapshots = self.snapshots.as_ref()?;
        let step = snapshots.waited_for()?;
        Some(Task {
            name: format!("the snapshot of step {step}"),
            done: snapshots.written(),
        })
    }

    /// The snapshot that training waits for, if any, as a sentence.
    fn slow_snapshot(&self) -> Option<String> {
        let step = self.snapshots.as_ref()?.waited_for()?;
        Some(format!(
            "waits until the snapshot of step {step} is written"
        ))
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock()
    }

    /// Lists the snapshots on disk and logs those that cannot be used. False if the directory cannot be read now.
    pub(crate) fn look_for_snapshots(
        &self,
        snapshots: &Snapshotter,
        wanted: &SnapshotOwner,
    ) -> bool {
        let mut disk = self.disk();
        disk.folder = snapshots.store().folder().display().to_string();
        match snapshots.refresh(wanted) {
            Ok(listing) => {
                disk.confirmed = listing.confirmed;
                disk.unreadable = listing.damage().map(|error| chain(error));
                for unused in listing.unused() {
                    let level = match unused.is_fault {
                        true => Level::Error,
                        false => Level::Info,
                    };
                    self.say(level, &unused.text);
                }
            }
            Err(error) => {
                let text = chain(&error);
                // The next report tries again.
                if disk.unreadable.as_ref() != Some(&text) {
                    self.say(Level::Error, &text);
                }
                disk.unreadable = Some(text);
                return false;
            }
        }
        true
    }

    fn snapshot_list(&self, wanted: Option<&SnapshotOwner>) -> OwnSnapshots {
        let (Some(snapshots), Some(wanted)) = (&self.snapshots, wanted) else {
            return OwnSnapshots::default();
        };
        let mut listed = self.listed.lock();
        if listed.as_ref() != Some(wanted) && self.look_for_snapshots(snapshots, wanted) {
            *listed = Some(wanted.clone());
        }
        snapshots.have()
    }

    /// Trainer 0 has reported which snapshot all servers have and which will never be on all.
    pub(crate) fn confirm(&self, stable: Option<Step>, dead: &[Step]) {
        let wanted = self.members().wanted();
        let (Some(snapshots), Some(wanted)) = (&self.snapshots, wanted) else {
            return;
        };
        let before = snapshots.stable();
        snapshots.confirm(stable, dead, wanted);
        if snapshots.stable() != before {
            self.metrics.confirmed_at.set(self.now());
            self.metrics.overdue.set(0);
        }
    }

    /// Steps since the newest snapshot that all servers have, or since this generation began; `None` while nothing runs
    /// or no snapshots are taken.
    pub(crate) fn snapshot_age(&self) -> Option<u64> {
        let (snapshots, run) = (self.snapshots.as_ref()?, self.run()?);
        if run.spec.snapshot_every == 0 || self.members().phase() != Phase::Running {
            return None;
        }
        let since = snapshots.stable().unwrap_or(run.begun).max(run.begun);
        Some(self.metrics.step.get().saturating_sub(since.0))
    }

    /// Warns when the newest common snapshot is too old; once, until it is recent again.
    fn warn_of_age(&self) {
        let (Some(age), Some(run)) = (self.snapshot_age(), self.run()) else {
            return;
        };
        let every = run.spec.snapshot_every;
        let unconfirmed = self.now().saturating_sub(self.metrics.confirmed_at.get());
        if !overdue(age, every, unconfirmed) || self.metrics.overdue.get() > 0 {
            return;
        }
        self.metrics.overdue.set(1);
        let text = format!(
            "the newest snapshot that all servers have is {age} batches old, more than three periods of {every}: a loss \
             would cost that much work; look for servers whose snapshots fail or whose disk is slow"
        );
        self.say(Level::Error, &text);
    }

    /// Requests a snapshot of what is applied from now on.
    pub(crate) fn want_snapshot(&self) {
        let step = self
            .run()
            .map(|run| run.services.first().map(|s| s.status().step));
        let running = self.members().phase() == Phase::Running;
        if let (Some(Some(step)), true, Some(_)) = (step, running, &self.snapshots) {
            self.wanted_step.store(step + 1, Ordering::Release);
            self.say(
                Level::Info,
                "requesting a snapshot, because this server is about to end",
            );
        }
    }

    /// The step at or after which a snapshot is wanted, if one is.
    pub(crate) fn wanted_step(&self) -> Option<Step> {
        let step = self.wanted_step.load(Ordering::Acquire);
        (step > 0).then_some(Step(step))
    }

    /// Ends the request when its generation ends: the steps that it should have kept are then lost or saved.
    pub(crate) fn forget_wanted_step(&self) {
        self.wanted_step.store(0, Ordering::Release);
    }

    /// The newest snapshot that all servers have, as trainer 0 reported it.
    pub(crate) fn stable(&self) -> Option<Step> {
        self.snapshots.as_ref().and_then(Snapshotter::stable)
    }

    /// Admits a data connection to the present generation.
    pub(crate) fn attach(
        &self,
        hello: &Hello,
        number: u64,
        connection: Connection,
    ) -> Result<Arc<GenerationRun>, Refusal> {
        // Under the members' lock, so that a generation that ends now also ends this connection.
        let mut members = self.members();
        members.attach(hello)?;
        let run = self.run().filter(|run| run.epoch == hello.epoch);
        let run = run.ok_or_else(|| Refusal {
            code: Code::Interrupted,
            text: "the generation has ended".to_owned(),
        })?;
        self.register(number, connection);
        Ok(run)
    }

    /// A trainer leaves: waits until all have.
    pub(crate) fn leave(&self, trainer: TrainerId, epoch: Generation) -> Result<(), Refusal> {
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
                .wait_timeout(members, Duration::from_millis(20));
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
            common_snapshot: self.stable().map(|step| step.0),
            common_age: self.snapshot_age(),
            ..Gauges::default()
        };
        let Some(run) = self.run() else {
            return gauges;
        };
        for (at, table) in run.tables.iter().enumerate() {
            let mut heat = Vec::new();
            let mut size = TableMetrics {
                name: table.spec.name.clone(),
                rows: 0,
                bytes: 0,
                sparse: table.spec.sparse,
            };
            for service in &run.services {
                match &service.pieces()[at] {
                    TablePiece::Dense(piece) => {
                        size.rows += piece.len() as u64;
                        size.bytes += (piece.len() * (1 + table.slots) * 4) as u64;
                    }
                    TablePiece::Sparse(piece) => {
                        let stored = piece.size();
                        size.rows += stored.rows;
                        size.bytes += stored.bytes;
                        heat.extend(piece.heat());
                    }
                    TablePiece::Absent => {}
                }
            }
            gauges.heat.extend(Heat::of(&size.name, heat));
            gauges.tables.push(size);
        }
        gauges
    }

    /// Waits for a change of any shared state, at most this long.
    pub(crate) fn wait_change(&self, limit: Duration) {
        let members = self.members();
        let _unused = self.changed.wait_timeout(members, limit);
    }

    pub(crate) fn stop_snapshots(&self) {
        if let Some(snapshots) = &self.snapshots {
            snapshots.stop();
        }
    }
}

/// Receives the steps and passes of the services of one run.
pub(crate) struct RunListener<'a> {
    pub(crate) host: &'a Host,
    pub(crate) run: &'a Arc<GenerationRun>,
}

impl RunListener<'_> {
    /// The snapshots, if one of this step is due.
    fn due(&self, step: u64, ordered: bool) -> Option<&Snapshotter> {
        let every = self.run.spec.snapshot_every;
        let snapshots = self.host.snapshots.as_ref();
        snapshots.filter(|_| due(Step(step), every, ordered))
    }
}

impl Listener for RunListener<'_> {
    fn step(&self, port: usize, step: u64, ordered: bool) -> Option<RowScope> {
        if port == 0 {
            self.host.metrics.step.set(step);
            self.host.steps();
            if self.host.config.log_period > 0 && step.is_multiple_of(self.host.config.log_period) {
                self.host
                    .say(Level::Info, &format!("======== Batch={step}======="));
            }
        }
        self.due(step, ordered)
            .and_then(|snapshots| snapshots.take(Step(step), self.run.services.len()))
    }

    fn must_wait(&self, step: u64, ordered: bool) -> bool {
        self.due(step, ordered)
            .is_some_and(|snapshots| snapshots.must_wait(Step(step)))
    }

    fn waited(&self, step: u64, time: Duration) {
        self.host.metrics.snapshot_wait.add_time(time);
        if time > SLOW && !self.host.told_slow.swap(true, Ordering::AcqRel) {
            let text = format!(
                "batch {step} waited {:.1} s until the snapshot before was written: the disk is too slow for \
                 --snapshot_period={}; a larger period costs less time, and more work after a loss",
                time.as_secs_f64(),
                self.run.spec.snapshot_every
            );
            self.host.say(Level::Warning, &text);
        }
    }

    fn captured(&self, port: usize, boundary: Boundary, progress: Vec<Option<ParameterProgress>>) {
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

fn teller(metrics: Arc<ServerMetrics>, log: ServerLog, started: Instant) -> Tell {
    Box::new(move |outcome| match outcome {
        SnapshotOutcome::Written(step) => {
            metrics.snapshots.add(1);
            metrics.snapshot_step.set(step.0);
            metrics
                .snapshot_at
                .set(started.elapsed().as_millis() as u64);
        }
        SnapshotOutcome::Failed(step, error) => {
            metrics.snapshot_failures.add(1);
            log(
                Level::Error,
                &format!(
                    "snapshot of step {step} could not be written; the job continues: {}",
                    chain(&error)
                ),
            );
        }
    })
}
