//! Writes snapshots on a thread of its own: requests wait for a disk only when it cannot keep up with the period.
//!
//! At a boundary the services ask their pieces to keep their present values (see [`crate::dense`] and
//! [`crate::sparse::shard`]) and hand them over; this thread copies and writes them. [`super::plan`] decides which
//! snapshots are taken and deleted. A failure (a full disk) is reported and counted, and the job continues with the
//! snapshots it has.
//!
//! After a snapshot of all rows, the next ones hold the rows that changed since, and its parts as their base, as long as
//! that is worth it ([`super::plan::worth_a_base`]) and the disk can give a file a second name.

use super::file::StoreError;
use super::format::Section;
use super::manifest::{BaseFile, FORMAT, PartFile, SnapshotManifest, base_name};
use super::plan::{PartResult, RowScope, SnapshotPlan, worth_a_base};
use super::store::{BaseInode, Listing, SnapshotStore};
use crate::run::GenerationRun;
use crate::service::TablePiece;
use optim::ParameterProgress;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use wire::Step;
use wire::recovery::Boundary;
use words::lock::{Mutex, MutexGuard};

/// A service's part of a snapshot, to be written.
#[derive(Debug)]
struct Job {
    run: Arc<GenerationRun>,
    port: usize,
    boundary: Boundary,
    progress: Vec<Option<ParameterProgress>>,
    life: u64,
    scope: RowScope,
}

/// A task of the thread; tasks are done in the order in which they were sent.
#[derive(Debug)]
enum Work {
    Write(Job),
    /// Delete the files of these steps, and files that earlier generations left ([`SnapshotStore::sweep`]).
    Delete(Vec<Step>, Box<super::SnapshotOwner>),
}

/// What happened to a snapshot.
#[derive(Debug)]
pub(crate) enum SnapshotOutcome {
    /// It is complete on this server.
    Written(Step),
    /// It could not be written.
    Failed(Step, StoreError),
}

/// Receives the outcome of each snapshot, on the writer's thread.
pub(crate) type Tell = Box<dyn Fn(SnapshotOutcome) + Send>;

/// What the thread and the server share.
#[derive(Debug, Default)]
struct Shared {
    plan: Mutex<SnapshotPlan>,
    /// The present run, whose steps may wait for a snapshot.
    run: Mutex<Weak<GenerationRun>>,
    /// Sections written so far, of all snapshots.
    written: AtomicU64,
}

impl Shared {
    fn plan(&self) -> MutexGuard<'_, SnapshotPlan> {
        self.plan.lock()
    }

    /// Wakes the steps that wait for a snapshot, so that they check again.
    fn wake(&self) {
        let run = self.run.lock();
        if let Some(run) = run.upgrade() {
            run.services.iter().for_each(|service| service.wake());
        }
    }
}

/// The snapshots that a server has.
#[derive(Default)]
pub(crate) struct OwnSnapshots {
    /// Those that are complete on this server, ascending.
    pub(crate) complete: Vec<Step>,
    /// The newest one whose writing has ended.
    pub(crate) settled: Option<Step>,
}

/// The snapshot thread of a server.
#[derive(Debug)]
pub(crate) struct Snapshotter {
    store: SnapshotStore,
    shared: Arc<Shared>,
    queue: Mutex<Option<Sender<Work>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Snapshotter {
    /// Starts the thread.
    pub(crate) fn start(store: SnapshotStore, tell: Tell) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (queue, work) = channel();
        let thread = {
            let (store, shared) = (store.clone(), shared.clone());
            std::thread::Builder::new()
                .name("snapshots".to_owned())
                .spawn(move || serve(&store, &shared, &work, &tell))?
        };
        Ok(Self {
            store,
            shared,
            queue: Mutex::new(Some(queue)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Where snapshots lie.
    pub(crate) fn store(&self) -> &SnapshotStore {
        &self.store
    }

    /// Sets the run whose steps may wait for a snapshot.
    pub(crate) fn attend(&self, run: &Arc<GenerationRun>) {
        let mut place = self.shared.run.lock();
        *place = Arc::downgrade(run);
    }

    /// Whether a step must wait because the snapshot before its own is not written yet.
    pub(crate) fn must_wait(&self, step: Step) -> bool {
        self.shared.plan().must_wait(step)
    }

    /// Number of sections written so far; it grows while a snapshot is written.
    pub(crate) fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }

    /// The snapshot that training waits for.
    pub(crate) fn waited_for(&self) -> Option<Step> {
        self.shared.plan().waited_for()
    }

    /// A service has reached a step whose snapshot is due; returns which rows its part holds.
    pub(crate) fn take(&self, step: Step, services: usize) -> Option<RowScope> {
        self.shared.plan().take(step, services)
    }

    /// Hands a service's part over.
    pub(crate) fn submit(
        &self,
        run: Arc<GenerationRun>,
        port: usize,
        boundary: Boundary,
        progress: Vec<Option<ParameterProgress>>,
    ) {
        let (life, scope) = {
            let mut plan = self.shared.plan();
            plan.handed_over();
            (plan.life(), plan.scope())
        };
        self.ask(Work::Write(Job {
            run,
            port,
            boundary,
            progress,
            life,
            scope,
        }));
    }

    fn ask(&self, work: Work) {
        if let Some(queue) = &*self.queue.lock() {
            // The thread takes work until the queue is dropped.
            let _ = queue.send(work);
        }
    }

    /// The snapshots on the disk of this server.
    pub(crate) fn have(&self) -> OwnSnapshots {
        let plan = self.shared.plan();
        OwnSnapshots {
            complete: plan.have().to_vec(),
            settled: plan.settled(),
        }
    }

    /// Lists the directory again, because the job or this server's index has become known.
    pub(crate) fn refresh(&self, wanted: &super::SnapshotOwner) -> Result<Listing, StoreError> {
        let listing = self.store.list(wanted)?;
        self.shared.plan().found(listing.usable.clone());
        Ok(listing)
    }

    /// Trainer 0 has reported which snapshot all servers have and which will never be on all.
    pub(crate) fn confirm(
        &self,
        stable: Option<Step>,
        dead: &[Step],
        wanted: super::SnapshotOwner,
    ) {
        let mut plan = self.shared.plan();
        let newer = stable > plan.stable();
        let gone = plan.confirm(stable, dead);
        drop(plan);
        if newer || !gone.is_empty() {
            self.ask(Work::Delete(gone, Box::new(wanted)));
        }
    }

    /// The job rolls back to `step`: later snapshots are deleted, because their steps are repeated.
    pub(crate) fn rewind(&self, step: Step, server: u32) {
        for step in self.shared.plan().rewind(Some(step)) {
            self.store.remove(step, server);
        }
    }

    /// The job begins again: existing snapshots are renamed, so that they are kept but not used.
    pub(crate) fn begin(&self, wanted: &super::SnapshotOwner) -> Result<(), StoreError> {
        self.shared.plan().rewind(None);
        self.store.put_aside(wanted)
    }

    /// The newest snapshot that all servers have, as far as is known.
    pub(crate) fn stable(&self) -> Option<Step> {
        self.shared.plan().stable()
    }

    /// Writes what has been handed over and ends the thread.
    pub(crate) fn stop(&self) {
        self.queue.lock().take();
        if let Some(thread) = self.thread.lock().take() {
            // The thread has no result to lose.
            let _ = thread.join();
        }
    }
}

/// The parts of the snapshot that is being written, as they are in the manifest, and those of the last one of all rows.
#[derive(Debug, Default)]
struct Collected {
    life: u64,
    files: Vec<PartFile>,
    /// By port.
    base: Vec<(BaseFile, BaseInode)>,
}

impl Collected {
    /// Adds a part. Parts from before a roll-back are dropped, because their snapshot is never completed.
    fn push(&mut self, life: u64, file: PartFile) {
        if life != self.life {
            self.files.clear();
            self.life = life;
        }
        self.files.push(file);
    }

    /// All parts, in the order of their names: services come in any order.
    fn take(&mut self) -> Vec<PartFile> {
        self.files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        std::mem::take(&mut self.files)
    }
}

fn serve(store: &SnapshotStore, shared: &Shared, work: &Receiver<Work>, tell: &Tell) {
    let mut files = Collected::default();
    while let Ok(work) = work.recv() {
        match work {
            Work::Write(job) => write(store, shared, &job, &mut files, tell),
            Work::Delete(steps, wanted) => {
                for step in steps {
                    store.remove(step, wanted.server);
                }
                let (have, stable) = {
                    let plan = shared.plan();
                    (plan.have().to_vec(), plan.stable())
                };
                if let Some(stable) = stable {
                    if wanted.holds() {
                        store.confirm(stable, wanted.server);
                    }
                    store.sweep(&wanted, &have, stable);
                }
            }
        }
    }
}

/// Writes a part, and the manifest when it was the last one. `files`: what the snapshot has so far.
fn write(store: &SnapshotStore, shared: &Shared, job: &Job, files: &mut Collected, tell: &Tell) {
    let (step, server) = (job.boundary.step, job.run.place.server);
    let written = write_part(store, job, &shared.written).and_then(|file| match job.scope {
        RowScope::All => Ok(file),
        RowScope::Changed => add_base(store, shared, job, file, &files.base),
    });
    let (good, failure) = match written {
        Ok(file) => {
            files.push(job.life, file);
            (true, None)
        }
        Err(error) => (false, Some(error)),
    };
    let part = shared.plan().written(job.life, good);
    let outcome = match part {
        PartResult::More => failure.map(|error| SnapshotOutcome::Failed(step, error)),
        PartResult::Last => {
            words::failpoint::reach("snapshot");
            let parts = files.take();
            Some(seal(store, shared, job, parts, &mut files.base))
        }
        PartResult::Incomplete | PartResult::Stale => {
            store.remove(step, server);
            failure.map(|error| SnapshotOutcome::Failed(step, error))
        }
    };
    if part != PartResult::More {
        files.files.clear();
    }
    shared.wake();
    if let Some(outcome) = outcome {
        tell(outcome);
    }
}

fn write_part(
    store: &SnapshotStore,
    job: &Job,
    written: &AtomicU64,
) -> Result<PartFile, StoreError> {
    let run = &job.run;
    let header = run.header(job.boundary.clone(), job.port, job.progress.clone());
    let server = run.place.server;
    store.write_part(job.boundary.step, server, job.port, &header, |writer| {
        let mut outcome = Ok(());
        for (at, piece) in run.services[job.port].pieces().iter().enumerate() {
            written.fetch_add(1, Ordering::Relaxed);
            // Every piece is released, even after an error: it would keep copies for ever.
            let done = match piece {
                TablePiece::Absent => Ok(()),
                TablePiece::Sparse(piece) => piece.capture(|shard, ids, rows| {
                    written.fetch_add(1, Ordering::Relaxed);
                    writer.section(&Section::Rows {
                        table: at,
                        shard,
                        ids,
                        rows,
                    })
                }),
                TablePiece::Dense(piece) => match piece.capture() {
                    None => Ok(()),
                    Some(data) => write_blocks(writer, at, piece.blocks(), &data),
                },
            };
            outcome = outcome.and(done);
        }
        outcome
    })
}

/// Adds the base to a part that has changed rows only.
fn add_base(
    store: &SnapshotStore,
    shared: &Shared,
    job: &Job,
    file: PartFile,
    bases: &[(BaseFile, BaseInode)],
) -> Result<PartFile, StoreError> {
    let (step, server) = (job.boundary.step, job.run.place.server);
    let have = shared.plan().have().to_vec();
    let base = bases.get(job.port);
    let inode = base.map(|(_, inode)| inode);
    // Without its base, the next snapshot holds all rows.
    store
        .link_base(step, &have, server, job.port, inode)
        .inspect_err(|_| shared.plan().use_base(job.life, false))?;
    Ok(PartFile {
        base: base.map(|(base, _)| Box::new(base.clone())),
        ..file
    })
}

/// After a snapshot was written: whether the next one may hold changed rows only.
fn judge_base(
    store: &SnapshotStore,
    job: &Job,
    parts: &[PartFile],
    base: &mut Vec<(BaseFile, BaseInode)>,
) -> bool {
    let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
    if job.scope == RowScope::Changed {
        return worth_a_base(bytes, base.iter().map(|(base, _)| base.bytes).sum());
    }
    base.clear();
    if job.run.spec.tables.iter().all(|table| !table.sparse) {
        return false;
    }
    for (port, part) in parts.iter().enumerate() {
        let Some(inode) = store.linkable(job.boundary.step, part) else {
            return false;
        };
        let file = BaseFile {
            name: base_name(job.run.place.server, port),
            bytes: part.bytes,
            fingerprint: part.fingerprint,
            epoch: job.run.epoch,
            boundary: job.boundary.clone(),
        };
        base.push((file, inode));
    }
    true
}

/// Writes the blocks of a dense piece.
pub(crate) fn write_blocks<W: std::io::Write>(
    writer: &mut super::format::PartWriter<W>,
    table: usize,
    blocks: &[wire::shard::Block],
    data: &crate::dense::DenseData,
) -> std::io::Result<()> {
    let slots = data.state.len().checked_div(data.values.len()).unwrap_or(0);
    let mut at = 0;
    for block in blocks {
        let end = at + block.len;
        let (values, state) = (&data.values[at..end], &data.state[at * slots..end * slots]);
        writer.section(&Section::Block {
            table,
            index: block.index,
            values,
            state,
        })?;
        at = end;
    }
    Ok(())
}

fn seal(
    store: &SnapshotStore,
    shared: &Shared,
    job: &Job,
    files: Vec<PartFile>,
    base: &mut Vec<(BaseFile, BaseInode)>,
) -> SnapshotOutcome {
    let step = job.boundary.step;
    let wanted = job.run.wanted();
    let server = wanted.server;
    let manifest = SnapshotManifest {
        format: FORMAT,
        job: wanted.job,
        shapes: wanted.shapes,
        epoch: job.run.epoch,
        boundary: job.boundary.clone(),
        topology: wanted.topology,
        server,
        holders: wanted.holders,
        map: wanted.map,
        files,
    };
    let written = store.write_manifest(&manifest);
    let next = written
        .is_ok()
        .then(|| judge_base(store, job, &manifest.files, base));
    let counts = {
        let mut plan = shared.plan();
        if let Some(next) = next {
            plan.use_base(job.life, next);
        }
        plan.sealed(job.life, step, written.is_ok())
    };
    if !counts || written.is_err() {
        store.remove(step, server);
    }
    match written {
        Ok(()) => SnapshotOutcome::Written(step),
        Err(error) => SnapshotOutcome::Failed(step, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str) -> PartFile {
        PartFile {
            name: name.to_owned(),
            bytes: 1,
            fingerprint: 2,
            base: None,
        }
    }

    /// A loss between two services' parts left one behind, and the next manifest named it too: a snapshot that no
    /// restart could use.
    #[test]
    fn parts_of_a_snapshot_that_a_loss_interrupted_are_not_in_the_next_manifest() {
        let mut files = Collected::default();
        files.push(3, part("server-0000.port-01.part"));
        files.push(4, part("server-0000.port-01.part"));
        files.push(4, part("server-0000.port-00.part"));
        let names: Vec<String> = files.take().into_iter().map(|part| part.name).collect();
        assert_eq!(
            names,
            ["server-0000.port-00.part", "server-0000.port-01.part"]
        );
    }
}
