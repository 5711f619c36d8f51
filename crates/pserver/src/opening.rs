//! Opening an epoch on a server: the old one's threads end, tables come from nowhere, memory or a snapshot.

use crate::host::{Host, chain};
use crate::run::{OpenError, Place, Run};
use crate::saving;
use crate::server::Level;
use crate::service::Piece;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use wire::message::{Code, Refusal, Start};
use wire::{Epoch, JobSpec, TrainerId};

/// How long data connections may take to end by themselves before they are cut.
const POLITE: Duration = Duration::from_secs(1);
impl Host {
    /// Opens an epoch. `fill` receives what trainer 0 sends for a fresh start.
    pub(crate) fn open(
        &self,
        trainer: TrainerId,
        (epoch, start): (Epoch, Start),
        spec: JobSpec,
        fill: impl FnOnce(&Run) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        self.members().may_open(trainer, epoch)?;
        self.await_data_connections()?;
        let run = self.make_run(epoch, start, spec)?;
        fill(&run)?;
        if let (Some(snapshots), Some(server)) = (&self.snapshots, Some(run.place.server)) {
            match start {
                Start::Fresh => snapshots.rewind(None, server),
                Start::Restore(step) => snapshots.rewind(Some(step), server),
                Start::Continue { .. } => {}
            }
        }
        self.forget_wish();
        let mut members = self.members();
        members.may_open(trainer, epoch)?;
        self.log_tables(&run);
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(run));
        members.opened(epoch);
        self.metrics.epoch.set(epoch.0);
        drop(members);
        self.say(
            Level::Info,
            &format!("epoch {epoch} begins: {}", describe(start)),
        );
        Ok(())
    }

    fn make_run(&self, epoch: Epoch, start: Start, spec: JobSpec) -> Result<Run, Refusal> {
        let unable = |text: String| Refusal {
            code: Code::Interrupted,
            text,
        };
        let wanted = self
            .members()
            .wanted()
            .ok_or_else(|| unable("nobody has said hello".to_owned()))?;
        let place = Place {
            server: wanted.server,
            topology: wanted.topology,
            trainers: self.config.trainers,
        };
        if let (Start::Fresh, Some(origin)) = (start, spec.origin.clone()) {
            return saving::open(epoch, spec, place, &origin);
        }
        let made = match start {
            Start::Fresh => Run::fresh(epoch, spec, place),
            Start::Continue { step, pass } => {
                let old = self
                    .run()
                    .ok_or_else(|| unable("there is nothing to continue".to_owned()))?;
                let boundary = old
                    .boundary()
                    .filter(|boundary| boundary.step == step && boundary.pass == pass)
                    .ok_or_else(|| unable(format!("not at the end of step {step}")))?;
                Run::resumed(epoch, &old, spec, &boundary)
            }
            Start::Restore(step) => {
                let snapshots = self
                    .snapshots
                    .as_ref()
                    .ok_or_else(|| unable("no snapshot directory".to_owned()))?;
                let made = Run::restored(epoch, spec, place, snapshots.store(), step);
                if let Err(error @ OpenError::Restore { .. }) = &made {
                    self.say(Level::Error, &chain(error));
                    snapshots.store().condemn(step, wanted.server);
                    snapshots.refresh(&wanted);
                }
                made
            }
        };
        made.map_err(|error| match error {
            OpenError::Restore { .. } => unable(chain(&error)),
            OpenError::Table(_) | OpenError::Spec(_) => Refusal {
                code: Code::Invalid,
                text: chain(&error),
            },
        })
    }

    /// Waits until the threads of the old epoch are gone.
    fn await_data_connections(&self) -> Result<(), Refusal> {
        let begun = Instant::now();
        let limit = POLITE + self.config.silence;
        let mut connections = self.connections();
        while connections.values().any(|connection| connection.data) {
            if begun.elapsed() > POLITE {
                connections
                    .values()
                    .filter(|c| c.data)
                    .for_each(|c| c.stopper.stop());
            }
            if begun.elapsed() > limit {
                let text = "connections of the old epoch do not end".to_owned();
                return Err(Refusal {
                    code: Code::Interrupted,
                    text,
                });
            }
            (connections, _) = self
                .fewer
                .wait_timeout(connections, Duration::from_millis(20))
                .unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    fn log_tables(&self, run: &Run) {
        for service in &run.services {
            let mut size = 0;
            for piece in service.pieces() {
                size += match piece {
                    Piece::Dense(piece) => piece.len(),
                    Piece::Sparse(_) => 1,
                    Piece::Absent => 0,
                };
            }
            if size == 0 {
                self.say(Level::Warning, " --ports_num or --ports_num_for_sparse might be too large, or total dense parameter size or sparse parameters size might be too small, this psever doesn't store any parameter.");
            }
            self.say(Level::Info, "pserver: setParameter");
            self.say(Level::Info, &format!("pserver: new cpuvector: size={size}"));
        }
    }
}

fn describe(start: Start) -> String {
    match start {
        Start::Fresh => "from the start".to_owned(),
        Start::Continue { .. } => "from where it stood".to_owned(),
        Start::Restore(step) => format!("from the snapshot of step {step}"),
    }
}
