//! Opens a generation on a server: ends the requests of the old one, and creates, keeps or restores the tables.

use crate::host::Host;
use crate::run::{GenerationRun, OpenError, ServerIndex};
use crate::saving;
use crate::server::Level;
use crate::service::{TablePiece, invalid};
use crate::snapshot::StoreError;
use crate::snapshot::plan::{SnapshotFate, fate};
use crate::snapshot::writer::Snapshotter;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::message::{Code, GenerationStart, Refusal};
use wire::spec::Origin;
use wire::{Generation, JobSpec, ShardMap, TrainerId};
use words::causes::chain;

/// How long data connections may take to end by themselves before they are cut.
const POLITE: Duration = Duration::from_secs(1);
impl Host {
    /// Opens a generation. `fill` receives what trainer 0 sends for a fresh start.
    pub(crate) fn open(
        &self,
        trainer: TrainerId,
        epoch: Generation,
        start: GenerationStart,
        saved: Option<String>,
        spec: JobSpec,
        fill: impl FnOnce(&GenerationRun) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        self.members().may_open(trainer, epoch)?;
        self.await_data_connections()?;
        let run = self.make_run(epoch, start, saved, spec)?;
        fill(&run)?;
        if let Some(snapshots) = &self.snapshots {
            match fate(start, snapshots.have().complete.last().copied()) {
                SnapshotFate::Keep => {}
                SnapshotFate::Rewind(step) => snapshots.rewind(step, run.place.server),
                SnapshotFate::PutAside => self.put_aside(snapshots, &run)?,
            }
        }
        self.forget_wanted_step();
        let mut members = self.members();
        members.may_open(trainer, epoch)?;
        self.log_tables(&run);
        let run = Arc::new(run);
        if let Some(snapshots) = &self.snapshots {
            snapshots.attend(&run);
        }
        self.metrics.step.set(run.begun.0);
        self.metrics.begun.set(run.begun.0);
        self.metrics.confirmed_at.set(self.now());
        self.metrics.overdue.set(0);
        *self.run.lock() = Some(run);
        members.opened(epoch);
        self.steps();
        let restored = matches!(
            start,
            GenerationStart::Restore(_) | GenerationStart::Saved { .. }
        );
        self.metrics.restored.set(u64::from(restored));
        self.metrics.epoch.set(epoch.0);
        drop(members);
        self.say(
            Level::Info,
            &format!("generation {epoch} starts: {}", describe(start)),
        );
        Ok(())
    }

    /// Renames the snapshots of a job that begins again, so that they are kept but not used.
    fn put_aside(&self, snapshots: &Snapshotter, run: &GenerationRun) -> Result<(), Refusal> {
        let done = snapshots.begin(&run.wanted());
        self.look_for_snapshots(snapshots, &run.wanted());
        match done {
            // As everywhere, a job whose snapshots cannot be written continues without them.
            Err(error @ StoreError::Disk { action: "list", .. }) => {
                self.say(Level::Error, &chain(&error));
                Ok(())
            }
            done => done.map_err(|error| Refusal {
                code: Code::Unable,
                text: chain(&error),
            }),
        }
    }

    fn make_run(
        &self,
        epoch: Generation,
        start: GenerationStart,
        saved: Option<String>,
        spec: JobSpec,
    ) -> Result<GenerationRun, Refusal> {
        let unable = |text: String| Refusal {
            code: Code::Interrupted,
            text,
        };
        let wanted = self
            .members()
            .wanted()
            .ok_or_else(|| unable("no trainer has connected".to_owned()))?;
        let place = ServerIndex {
            server: wanted.server,
            topology: wanted.topology,
            trainers: self.config.trainers,
        };
        spec.check().map_err(invalid)?;
        let map = ShardMap::new(&spec.tables, &place.topology, place.trainers);
        let failed = |error: OpenError| match error {
            OpenError::Restore { .. } => unable(chain(&error)),
            OpenError::Table(_) | OpenError::Spec(_) => Refusal {
                code: Code::Invalid,
                text: chain(&error),
            },
        };
        if !map.holds(place.server) {
            // This server holds no tables, so it fits wherever the others continue.
            let run = GenerationRun::without_tables(epoch, spec, place, start.step());
            return run.map_err(failed);
        }
        if let (GenerationStart::Fresh, Some(origin)) = (start, spec.origin.clone()) {
            return saving::open(epoch, spec, place, &origin);
        }
        let saved_at = |step, pass| {
            let directory = saved.ok_or_else(|| invalid("no directory is named".to_owned()))?;
            let run = saving::open(
                epoch,
                spec.clone(),
                place,
                &Origin::State(directory.clone()),
            )
            // Trainer 0 then tries an older one.
            .map_err(|refusal| Refusal {
                code: Code::Unable,
                ..refusal
            })?;
            let is = run
                .boundary()
                .map(|boundary| (boundary.step, boundary.pass));
            if is != Some((step, pass)) {
                let text = format!("{directory} does not hold step {step} of pass {pass}");
                return Err(invalid(text));
            }
            Ok(run)
        };
        let made = match start {
            GenerationStart::Saved { step, pass } => return saved_at(step, pass),
            GenerationStart::Fresh => GenerationRun::fresh(epoch, spec, place),
            GenerationStart::Continue { step, pass } => {
                let old = self
                    .run()
                    .ok_or_else(|| unable("this server has no tables yet".to_owned()))?;
                let boundary = old
                    .boundary()
                    .filter(|boundary| boundary.step == step && boundary.pass == pass)
                    .ok_or_else(|| unable(format!("this server is not at step {step}")))?;
                GenerationRun::resumed(epoch, &old, spec, &boundary)
            }
            GenerationStart::Restore(step) => {
                let snapshots = self
                    .snapshots
                    .as_ref()
                    .ok_or_else(|| unable("this server keeps no snapshots".to_owned()))?;
                let made = GenerationRun::restored(epoch, spec, place, snapshots.store(), step);
                if let Err(error @ OpenError::Restore { .. }) = &made {
                    self.say(Level::Error, &chain(error));
                    snapshots.store().condemn(step, wanted.server);
                    self.look_for_snapshots(snapshots, &wanted);
                }
                made
            }
        };
        made.map_err(failed)
    }

    /// Waits until the threads of the old generation are gone.
    fn await_data_connections(&self) -> Result<(), Refusal> {
        let begun = Instant::now();
        let limit = POLITE + self.config.silence;
        let mut connections = self.connections();
        while connections.values().any(|connection| connection.is_data()) {
            if begun.elapsed() > POLITE {
                connections
                    .values()
                    .filter(|c| c.is_data())
                    .for_each(|c| c.stopper.stop());
            }
            if begun.elapsed() > limit {
                let text = "data connections of the previous generation do not close".to_owned();
                return Err(Refusal {
                    code: Code::Interrupted,
                    text,
                });
            }
            (connections, _) = self
                .fewer
                .wait_timeout(connections, Duration::from_millis(20));
        }
        Ok(())
    }

    fn log_tables(&self, run: &GenerationRun) {
        for service in &run.services {
            let mut size = 0;
            for piece in service.pieces() {
                size += match piece {
                    TablePiece::Dense(piece) => piece.len(),
                    TablePiece::Sparse(_) => 1,
                    TablePiece::Absent => 0,
                };
            }
            if !run.holds() {
                let (holders, servers) = (run.map.holders(), run.place.topology.servers);
                let text = format!(
                    "this server holds no table: the model is small, and {holders} of {servers} servers hold it"
                );
                self.say(Level::Info, &text);
            } else if size == 0 {
                self.say(Level::Warning, " --ports_num or --ports_num_for_sparse might be too large, or total dense parameter size or sparse parameters size might be too small, this psever doesn't store any parameter.");
            }
            self.say(Level::Info, "pserver: setParameter");
            self.say(Level::Info, &format!("pserver: new cpuvector: size={size}"));
        }
    }
}

fn describe(start: GenerationStart) -> String {
    match start {
        GenerationStart::Fresh => "from the start".to_owned(),
        GenerationStart::Continue { .. } => "from the current values".to_owned(),
        GenerationStart::Restore(step) => format!("from the snapshot of step {step}"),
        GenerationStart::Saved { step, pass } => {
            format!(
                "from what was saved at the end of pass {}, step {step}",
                pass.saturating_sub(1)
            )
        }
    }
}
