//! The trainer's side of the parameter servers: a plain blocking object, no runtime.
//!
//! # A trainer's loop
//!
//! ```text
//! let (mut session, mut position) = Session::connect(config, spec)?;
//! 'again: loop {
//!     pull_dense(values); put the data at (position.pass, position.batch)
//!     each pass: each batch:
//!         pull_rows(ids of the batch)           // sparse tables only
//!         start_batch(samples)
//!         push_dense / push_rows, as each gradient is ready
//!         finish_batch(cost)
//!         wait_values(values)                   // the next batch's values
//!     finish_pass(); pull_dense(values)
//! }
//! close()
//! ```
//!
//! Every call may return [`Error::RolledBack`]: a process was lost, the session has already joined the new
//! epoch, and the trainer starts again at `'again` with the position in the error. All other errors are final.
//!
//! - `config`: settings, errors, position.
//! - `link`: one connection: dial, greet, retry.
//! - `pulse`: heartbeat threads, one a server; they notice losses.
//! - `join`: entering an epoch; trainer 0 opens it.
//! - `dense`, `sparse`, `group`: pushes and pulls. `places`, `trays`: memory shared with servers on the same host.

mod config;
mod dense;
mod group;
mod join;
mod link;
mod places;
mod pulse;
mod sparse;
mod trays;

pub use config::{Config, Error, Position, ServerAddress, Timing};

use crate::channel::{Channel, ChannelError};
use crate::frame::Kind;
use crate::ids::{Epoch, Step, TableId};
use crate::message::{Code, Command, Hot, Saved};
use crate::recovery::Phase;
use crate::shard::Topology;
use crate::spec::{JobSpec, Mode};
use crate::status::Status;
use dense::DenseMap;
use group::Group;
use link::Dialer;
use places::Places;
use pulse::Pulses;
pub use pulse::Watch;
pub use sparse::Rows;
use std::sync::Arc;
use trays::Trays;

/// A trainer's connection to all servers of its job.
#[derive(Debug)]
pub struct Session {
    dialer: Arc<Dialer>,
    spec: JobSpec,
    topology: Topology,
    pulses: Pulses,
    /// One a port of a server: `lines[server * ports_of_server + port]`.
    lines: Vec<Channel>,
    /// Shared memory beside each line, where there is any.
    places: Vec<Option<Places>>,
    /// The same for rows.
    trays: Vec<Option<Trays>>,
    /// Gradients of the current batch lie in trays.
    trays_full: bool,
    dense: DenseMap,
    groups: Vec<Group>,
    epoch: Epoch,
    step: Step,
    pass: u64,
    reductions: u64,
    samples: u64,
    values_due: bool,
    scratch: Vec<f32>,
}

/// What went wrong inside a call, before it is decided whether the job can go on.
#[derive(Debug)]
enum Fault {
    /// The connection or the epoch is gone: join again.
    Lost(String),
    /// Nothing will help.
    Final(Error),
}

impl From<ChannelError> for Fault {
    fn from(cause: ChannelError) -> Self {
        match cause {
            ChannelError::Refused { peer, refusal } => match refusal.code {
                Code::InUse | Code::Interrupted => Self::Lost(refusal.text),
                Code::Failed => Self::Final(Error::JobFailed(refusal.text)),
                Code::Denied | Code::Mismatch | Code::Invalid | Code::Unable => {
                    Self::Final(Error::Refused {
                        server: peer,
                        text: refusal.text,
                    })
                }
            },
            ChannelError::Frame { .. } => Self::Lost(error_chain(&cause)),
            ChannelError::Io { .. } | ChannelError::Closed { .. } => {
                Self::Lost(error_chain(&cause))
            }
        }
    }
}

fn error_chain(cause: &dyn std::error::Error) -> String {
    let mut text = cause.to_string();
    let mut next = cause.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

impl Session {
    /// Joins the job: waits until all servers and trainers are there, and the tables exist. Trainer 0 opens the
    /// job; the position says where this trainer's data begin (not at 0 after a restart).
    pub fn connect(config: Config, spec: JobSpec) -> Result<(Self, Position), Error> {
        config.check()?;
        spec.check().map_err(Error::Usage)?;
        let topology = config.topology();
        let dense = DenseMap::new(&spec, &topology);
        let groups = spec.tables.iter().map(|_| Group::default()).collect();
        let dialer = Arc::new(Dialer::new(config, &spec));
        let mut session = Self {
            pulses: Pulses::none(&dialer),
            dialer,
            spec,
            topology,
            lines: Vec::new(),
            places: Vec::new(),
            trays: Vec::new(),
            trays_full: false,
            dense,
            groups,
            epoch: Epoch(0),
            step: Step(0),
            pass: 0,
            reductions: 0,
            samples: 0,
            values_due: false,
            scratch: Vec::new(),
        };
        let position = session.join("the job begins")?;
        Ok((session, position))
    }

    /// The job as it was given.
    pub fn spec(&self) -> &JobSpec {
        &self.spec
    }

    /// Steps applied so far, as this trainer knows.
    pub fn step(&self) -> Step {
        self.step
    }

    /// Begins a batch of that many samples. Every push until [`Session::finish_batch`] belongs to it.
    pub fn start_batch(&mut self, samples: u64) {
        self.samples = samples;
    }

    /// Ends the batch: all its gradients have been pushed. `cost` is the sum over its samples. The values that
    /// follow from it are asked for at once and arrive with [`Session::wait_values`], which must come next.
    pub fn finish_batch(&mut self, cost: f64) -> Result<(), Error> {
        let done = self.try_finish_batch(cost);
        self.settle(done)
    }

    fn try_finish_batch(&mut self, cost: f64) -> Result<(), Fault> {
        let finish = Hot {
            samples: self.samples,
            value: cost.to_bits(),
            ticket: self.order(),
            ..self.hot()
        };
        self.step.0 += 1;
        let pull = self.hot();
        let encoding = self.dialer.config.encoding;
        for at in 0..self.lines.len() {
            self.lines[at].send_bytes(Kind::FinishBatch, &finish, &[])?;
            if self.has_dense(at) {
                self.lines[at].ask(Kind::PullDense, encoding, &pull, &[])?;
            }
        }
        self.values_due = true;
        Ok(())
    }

    /// The step of a snapshot that the end of this batch orders; 0 for none.
    fn order(&self) -> u64 {
        let Some(newest) = self.pulses.order() else {
            return 0;
        };
        match self.spec.mode {
            // No service can be further than this batch, because it waits for it.
            Mode::Sync => self.step.0 + 1,
            // As far ahead as the fastest trainer may be.
            Mode::Async { staleness } => self.step.max(newest).0 + 1 + u64::from(staleness),
        }
    }

    /// This trainer has no more data in this pass. Returns when nobody has; the others' batches go on without it.
    /// Returns the number of the pass that begins.
    pub fn finish_pass(&mut self) -> Result<u64, Error> {
        let done = self.try_finish_pass();
        self.settle(done)
    }

    fn try_finish_pass(&mut self) -> Result<u64, Fault> {
        let hot = Hot {
            value: self.pass,
            ..self.hot()
        };
        for line in &mut self.lines {
            line.send_bytes(Kind::FinishPass, &hot, &[])?;
        }
        for line in &mut self.lines {
            let (_, answer) = line.expect_hot(Kind::PassEnded)?;
            self.pass = answer.value;
            self.step = answer.step;
        }
        Ok(self.pass)
    }

    /// Sums `numbers` over all trainers, in their order; all trainers must call it at the same point with the same
    /// length. For evaluators of a distributed test.
    pub fn reduce(&mut self, numbers: &mut [f64]) -> Result<(), Error> {
        let done = self.try_reduce(numbers);
        self.settle(done)
    }

    fn try_reduce(&mut self, numbers: &mut [f64]) -> Result<(), Fault> {
        self.reductions += 1;
        let hot = Hot {
            value: self.reductions,
            count: numbers.len() as u32,
            ..self.hot()
        };
        let line = &mut self.lines[0];
        line.send_bytes(Kind::Reduce, &hot, &[bytemuck::cast_slice(numbers)])?;
        let (head, _) = line.expect_hot(Kind::Reduced)?;
        if head.payload != size_of_val(numbers) as u64 {
            return Err(Fault::Lost("a sum of another length came back".to_owned()));
        }
        line.read_bytes(bytemuck::cast_slice_mut(numbers))?;
        Ok(())
    }

    /// Has every server write its part of the sparse tables into `directory` (`pserver.0000`, …). The directory
    /// must exist where the servers run. Trainer 0 calls it while nobody pushes.
    pub fn save_on_servers(&mut self, directory: &str) -> Result<(), Error> {
        let command = Command::Save {
            directory: directory.to_owned(),
            what: Saved::Rows,
        };
        let done = self.command_all(&command);
        self.settle(done)
    }

    /// Has every server write all that is needed to go on from here into `directory`, for
    /// [`crate::spec::Origin::State`]. The directory must exist where the servers run. Trainer 0 calls it while nobody
    /// pushes.
    pub fn save_state_on_servers(&mut self, directory: &str) -> Result<(), Error> {
        let command = Command::Save {
            directory: directory.to_owned(),
            what: Saved::State,
        };
        let done = self.command_all(&command);
        self.settle(done)
    }

    /// Has every server replace its sparse tables by what [`Session::save_on_servers`] wrote, on whatever number
    /// of servers.
    pub fn load_on_servers(&mut self, directory: &str) -> Result<(), Error> {
        let command = Command::Load {
            directory: directory.to_owned(),
        };
        let done = self.command_all(&command);
        self.settle(done)
    }

    fn command_all(&mut self, command: &Command) -> Result<(), Fault> {
        for server in 0..self.topology.servers {
            self.dialer.command(server, self.epoch, command)?;
        }
        Ok(())
    }

    /// What the heartbeats tell the servers about this trainer from now on.
    pub fn report(&self, status: Status) {
        self.pulses.set_status(status);
    }

    /// Whom the servers (or this trainer) wait for, as a sentence; empty while nothing waits. For displays; may be
    /// called from another thread through [`Session::watch`].
    pub fn waits_for(&self) -> String {
        self.pulses.watch().waits_for()
    }

    /// A handle that other threads can ask for [`Session::waits_for`] and the servers' status.
    pub fn watch(&self) -> Watch {
        self.pulses.watch()
    }

    /// The end: waits until all trainers are done, then lets the servers go. Until then a loss can still roll
    /// this trainer back.
    pub fn close(&mut self) -> Result<(), Error> {
        let done = self.try_close();
        if done.is_ok() {
            self.pulses.stop();
            self.lines.clear();
        }
        self.settle(done)
    }

    fn try_close(&mut self) -> Result<(), Fault> {
        for server in 0..self.topology.servers {
            match self.dialer.command(server, self.epoch, &Command::Leave) {
                Ok(report) if report.phase == Phase::Finished => {}
                // Once the first server has heard from all, the job has ended; the others may be gone.
                Ok(_) | Err(Fault::Lost(_)) if server > 0 => {}
                Ok(report) => return Err(Fault::Lost(report.reason)),
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// Ends the job everywhere with a failure that every process names.
    pub fn fail(&mut self, reason: &str) {
        let command = Command::Fail {
            reason: reason.to_owned(),
        };
        for server in 0..self.topology.servers {
            // The job ends anyway; a server that cannot be told notices the missing heartbeats.
            let _ = self.dialer.command(server, self.epoch, &command);
        }
        self.pulses.stop();
        self.lines.clear();
    }

    fn hot(&self) -> Hot {
        Hot {
            epoch: self.epoch,
            step: self.step,
            ..Hot::default()
        }
    }

    fn has_dense(&self, line: usize) -> bool {
        (line as u32 % self.topology.ports_of_server()) < self.topology.ports
    }

    fn dense_line(&self, service: u32) -> usize {
        let (server, port) = (service / self.topology.ports, service % self.topology.ports);
        (server * self.topology.ports_of_server() + port) as usize
    }

    fn dense_service(&self, line: usize) -> u32 {
        let ports = self.topology.ports_of_server();
        let (server, port) = (line as u32 / ports, line as u32 % ports);
        server * self.topology.ports + port
    }

    fn sparse_line(&self, service: u32) -> usize {
        if self.topology.sparse_ports == 0 {
            return self.dense_line(service);
        }
        let (server, port) = (
            service / self.topology.sparse_ports,
            service % self.topology.sparse_ports,
        );
        (server * self.topology.ports_of_server() + self.topology.ports + port) as usize
    }

    fn table(&self, table: TableId, sparse: bool) -> Result<&crate::spec::TableSpec, Fault> {
        let spec = self.spec.tables.get(table.index());
        spec.filter(|spec| spec.sparse == sparse).ok_or_else(|| {
            let kind = if sparse { "sparse" } else { "dense" };
            Fault::Final(Error::Usage(format!(
                "table {table} is not a {kind} table of this job"
            )))
        })
    }

    /// Turns a loss into a roll-back: joins again and says where to go on.
    fn settle<T>(&mut self, result: Result<T, Fault>) -> Result<T, Error> {
        match result {
            Ok(value) => Ok(value),
            Err(Fault::Final(error)) => Err(error),
            Err(Fault::Lost(reason)) => {
                let reason = self.pulses.reason().unwrap_or(reason);
                let position = self.join(&reason)?;
                Err(Error::RolledBack { position, reason })
            }
        }
    }
}
