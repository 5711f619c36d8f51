//! Writes snapshots on a thread of its own: requests never wait for a disk.
//!
//! At a boundary the services ask their pieces to keep what they hold (see [`crate::dense`] and
//! [`crate::sparse::shard`]) and hand over; this thread copies and writes. While it still writes, the next snapshot
//! is left out. A failure (a full disk) is reported and counted, and the job goes on with the snapshots it has.

use super::format::Section;
use super::store::{Manifest, PartFile, Store, StoreError};
use crate::run::Run;
use crate::service::Piece;
use optim::Progress;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use wire::Step;
use wire::recovery::{Boundary, expendable};

/// Snapshots that may wait for being confirmed by all servers before no more are taken.
const UNCONFIRMED: usize = 6;

/// A service's part of a snapshot, to be written.
#[derive(Debug)]
struct Job {
    run: Arc<Run>,
    port: usize,
    boundary: Boundary,
    progress: Vec<Option<Progress>>,
}

#[derive(Debug, Default)]
struct Plan {
    /// The newest boundary that was decided on.
    decided: Option<Step>,
    /// The newest boundary whose snapshot is taken. Services may ask for it when others are further.
    taken: Option<Step>,
    /// Parts that no service has handed over yet.
    awaited: usize,
    /// Parts that were handed over and are not written yet.
    queued: usize,
    files: Vec<PartFile>,
    failed: bool,
    have: Vec<Step>,
    stable: Option<Step>,
}

impl Plan {
    /// True while a snapshot is being taken or written.
    fn busy(&self) -> bool {
        self.awaited + self.queued > 0
    }
}

/// What happened to a snapshot.
#[derive(Debug)]
pub enum Outcome {
    /// It is complete on this server.
    Written(Step),
    /// It could not be written.
    Failed(Step, StoreError),
}

/// Tells what happened; called on the writer's thread.
pub type Tell = Box<dyn Fn(Outcome) + Send>;

/// The snapshot thread of a server.
#[derive(Debug)]
pub struct Snapshotter {
    store: Store,
    plan: Arc<Mutex<Plan>>,
    queue: Mutex<Option<Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Snapshotter {
    /// Starts the thread.
    pub fn start(store: Store, tell: Tell) -> Self {
        let plan = Arc::new(Mutex::new(Plan::default()));
        let (queue, jobs) = channel();
        let thread = {
            let (store, plan) = (store.clone(), plan.clone());
            std::thread::spawn(move || work(&store, &plan, &jobs, &tell))
        };
        Self {
            store,
            plan,
            queue: Mutex::new(Some(queue)),
            thread: Mutex::new(Some(thread)),
        }
    }

    /// Where snapshots lie.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Decides whether the snapshot of this step is taken; the same for all services of the server.
    pub fn decide(&self, step: Step, services: usize) -> bool {
        let mut plan = lock(&self.plan);
        if plan.decided >= Some(step) {
            return plan.taken == Some(step);
        }
        plan.decided = Some(step);
        let answer = !plan.busy() && plan.have.len() < UNCONFIRMED;
        if answer {
            plan.taken = Some(step);
            plan.awaited = services;
            plan.files.clear();
            plan.failed = false;
        }
        answer
    }

    /// Hands a service's part over.
    pub fn submit(
        &self,
        run: Arc<Run>,
        port: usize,
        boundary: Boundary,
        progress: Vec<Option<Progress>>,
    ) {
        let job = Job {
            run,
            port,
            boundary,
            progress,
        };
        {
            let mut plan = lock(&self.plan);
            plan.awaited = plan.awaited.saturating_sub(1);
            plan.queued += 1;
        }
        if let Some(queue) = &*self.queue.lock().unwrap_or_else(PoisonError::into_inner) {
            // The thread takes jobs until the queue is dropped.
            let _ = queue.send(job);
        }
    }

    /// Snapshots that are complete on this server, ascending.
    pub fn have(&self) -> Vec<Step> {
        lock(&self.plan).have.clone()
    }

    /// Looks at the disk again: the job or the place of this server has become known.
    pub fn refresh(&self, wanted: &super::Wanted) {
        let list = self.store.list(wanted);
        lock(&self.plan).have = list;
    }

    /// A snapshot that all servers have.
    pub fn set_stable(&self, stable: Option<Step>) {
        let mut plan = lock(&self.plan);
        plan.stable = stable.max(plan.stable);
    }

    /// A new epoch begins at `step`: later snapshots belong to a past that will not be.
    pub fn rewind(&self, step: Option<Step>, server: u32) {
        let mut plan = lock(&self.plan);
        let later: Vec<Step> = plan
            .have
            .iter()
            .copied()
            .filter(|have| step.is_none_or(|step| *have > step))
            .collect();
        for step in &later {
            self.store.remove(*step, server);
        }
        plan.have.retain(|have| !later.contains(have));
        (plan.decided, plan.taken) = (None, None);
        // Services of the past hand nothing over any more.
        plan.failed |= plan.awaited > 0;
        plan.awaited = 0;
        plan.stable = plan.stable.min(step);
    }

    /// The newest snapshot that all servers have, as far as is known.
    pub fn stable(&self) -> Option<Step> {
        lock(&self.plan).stable
    }

    /// Writes what has been handed over and ends the thread.
    pub fn stop(&self) {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            // The thread has no result to lose.
            let _ = thread.join();
        }
    }
}

fn work(store: &Store, plan: &Mutex<Plan>, jobs: &Receiver<Job>, tell: &Tell) {
    while let Ok(job) = jobs.recv() {
        let step = job.boundary.step;
        let written = write_part(store, &job);
        let last = note(plan, written.as_ref().ok());
        if let Err(error) = written {
            store.remove(step, job.run.place.server);
            tell(Outcome::Failed(step, error));
        }
        let Some(files) = last else { continue };
        match seal(store, plan, &job, files) {
            Ok(()) => tell(Outcome::Written(step)),
            Err(error) => tell(Outcome::Failed(step, error)),
        }
    }
}

/// Counts a part; answers the files when it was the last one and all are good.
fn note(plan: &Mutex<Plan>, file: Option<&PartFile>) -> Option<Vec<PartFile>> {
    let mut plan = lock(plan);
    match file {
        Some(file) => plan.files.push(file.clone()),
        None => plan.failed = true,
    }
    plan.queued = plan.queued.saturating_sub(1);
    (!plan.busy() && !plan.failed).then(|| std::mem::take(&mut plan.files))
}

fn write_part(store: &Store, job: &Job) -> Result<PartFile, StoreError> {
    let run = &job.run;
    let header = run.header(job.boundary.clone(), job.progress.clone());
    let name = (run.place.server, job.port);
    store.write_part(job.boundary.step, name, &header, |writer| {
        let mut outcome = Ok(());
        for (at, piece) in run.services[job.port].pieces().iter().enumerate() {
            // Every piece is released, even after an error: it must not keep copies for ever.
            let done = match piece {
                Piece::Absent => Ok(()),
                Piece::Sparse(piece) => piece.capture(|shard, ids, rows| {
                    writer.section(&Section::Rows {
                        table: at,
                        shard,
                        ids,
                        rows,
                    })
                }),
                Piece::Dense(piece) => match piece.capture() {
                    None => Ok(()),
                    Some(data) => write_blocks(writer, at, piece.blocks(), &data),
                },
            };
            outcome = outcome.and(done);
        }
        outcome
    })
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
    store: &Store,
    plan: &Mutex<Plan>,
    job: &Job,
    files: Vec<PartFile>,
) -> Result<(), StoreError> {
    let run = &job.run;
    let wanted = run.wanted();
    let server = wanted.server;
    store.write_manifest(&Manifest {
        job: wanted.job.clone(),
        shapes: wanted.shapes,
        boundary: job.boundary.clone(),
        topology: wanted.topology,
        server,
        files,
    })?;
    let mut plan = lock(plan);
    plan.have.push(job.boundary.step);
    plan.have.sort_unstable();
    plan.have.dedup();
    for step in expendable(&plan.have, plan.stable) {
        store.remove(step, server);
        plan.have.retain(|have| *have != step);
    }
    if let Some(stable) = plan.stable {
        store.sweep(&wanted, &plan.have, stable);
    }
    Ok(())
}

fn lock(plan: &Mutex<Plan>) -> MutexGuard<'_, Plan> {
    plan.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshotter() -> (tempfile::TempDir, Snapshotter) {
        let root = tempfile::tempdir().unwrap();
        let store = Store::new(root.path().to_owned());
        (root, Snapshotter::start(store, Box::new(|_| {})))
    }

    #[test]
    fn a_service_that_lags_behind_still_gets_its_answer() {
        let (_root, snapshots) = snapshotter();
        assert!(snapshots.decide(Step(5), 2));
        assert!(!snapshots.decide(Step(6), 2), "the last one is not written");
        assert!(snapshots.decide(Step(5), 2), "the second service");
        assert!(!snapshots.decide(Step(6), 2));
    }

    #[test]
    fn an_epoch_that_ends_in_the_middle_of_one_does_not_end_snapshots() {
        let (_root, snapshots) = snapshotter();
        assert!(snapshots.decide(Step(5), 2), "nobody hands anything over");
        snapshots.rewind(None, 0);
        assert!(snapshots.decide(Step(5), 2));
    }
}
