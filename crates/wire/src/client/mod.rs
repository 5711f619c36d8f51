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
//!         announce_rows(ids)                    // of tables by row, if the next batch is known
//!         finish_batch(cost)
//!         wait_values(values)                   // the next batch's values
//!     finish_pass(); pull_dense(values)
//!     trainer 0: test, save
//!     end_pass()
//! }
//! close()
//! ```
//!
//! Every call may return [`Error::RolledBack`]: a process was lost, the session has already joined the new
//! generation, and the trainer starts again at `'again` with the position in the error. All other errors are final.
//!
//! - `config`: settings, errors, position.
//! - `link`: one connection: dial, handshake, retry.
//! - `pulse`: heartbeats, one thread for all servers; it detects losses.
//! - `join`: joining a generation; trainer 0 opens it.
//! - `dense`, `dense_rows`, `sparse`, `group`: pushes and pulls. `places`, `row_buffers`: memory shared with servers on the same host.

mod config;
mod dense;
mod dense_rows;
mod group;
mod join;
mod link;
mod places;
mod pulse;
mod row_buffers;
mod sparse;

pub use config::{
    AddressBook, Error, ResumePoint, SavedPass, SavedPasses, Saves, ServerAddress, SessionConfig,
    SessionTiming,
};

use crate::channel::{Channel, ChannelError};
use crate::data::{Encoded, Reply, Request, Stamped};
use crate::frame::FrameError;
use crate::ids::{Generation, Step, TableId};
use crate::message::{Code, Command, Saved};
use crate::recovery::ServerReport;
use crate::shard::Topology;
use crate::spec::{JobSpec, Mode};
use crate::tls;
use dense::DenseMap;
use dense_rows::NextRows;
use group::OrderedIds;
use link::{Dialer, ask};
use places::ServiceMemory;
use pulse::Pulses;
pub use pulse::Watch;
use row_buffers::RowBuffers;
pub use sparse::RowRequest;
use std::sync::Arc;
use words::causes::chain;
use words::status::Phase;

/// A trainer's connection to all servers of its job.
#[derive(Debug)]
pub struct Session {
    dialer: Arc<Dialer>,
    spec: JobSpec,
    topology: Topology,
    pulses: Pulses,
    /// One per port of each server that holds something: `lines[server * ports_of_server + port]`.
    lines: Vec<Channel>,
    /// Of trainer 0: a connection for commands to each server that holds something. It is opened before the generation
    /// runs, because a server lets nobody in quickly while all trainers are there and strangers crowd in front of it.
    /// `None`: it has ended with a refusal.
    commands: Vec<Option<Channel>>,
    /// Shared memory for each line, where there is any.
    places: Vec<Option<ServiceMemory>>,
    /// The row buffers of each line, where there are any.
    trays: Vec<Option<RowBuffers>>,
    /// Gradients of the current batch are in row buffers.
    trays_full: bool,
    /// Dense tables of which only rows are fetched while training.
    by_row: Vec<TableId>,
    /// The dense tables in which each trainer keeps what only it reads, in order of trainers.
    kept: Vec<TableId>,
    /// Rows of them that the next batch reads.
    next: Vec<NextRows>,
    dense: DenseMap,
    groups: Vec<OrderedIds>,
    epoch: Generation,
    step: Step,
    pass: u64,
    reductions: u64,
    samples: u64,
    values_due: bool,
    scratch: Vec<f32>,
}

/// What went wrong inside a call, before it is decided whether the job can continue.
#[derive(Debug)]
enum Fault {
    /// The connection or the generation has ended: join again.
    Lost(String),
    /// Retrying does not help.
    Final(Error),
}

impl From<ChannelError> for Fault {
    fn from(cause: ChannelError) -> Self {
        match cause {
            ChannelError::Refused { peer, refusal } => match refusal.code {
                Code::InUse | Code::Interrupted => Self::Lost(refusal.text),
                Code::Failed => Self::Final(Error::JobFailed(refusal.text)),
                Code::Denied | Code::Mismatch => Self::Final(Error::Rejected {
                    server: peer,
                    text: refusal.text,
                }),
                code @ (Code::Invalid | Code::Unable) => Self::Final(Error::Refused {
                    server: peer,
                    code,
                    text: refusal.text,
                }),
            },
            ChannelError::Frame {
                peer,
                source: source @ FrameError::Version { .. },
            } => Self::Final(Error::Rejected {
                server: peer,
                text: source.to_string(),
            }),
            ChannelError::Io { peer, source } => match tls::hopeless(&source) {
                Some(text) => Self::Final(Error::Rejected { server: peer, text }),
                None => Self::Lost(chain(&ChannelError::Io { peer, source })),
            },
            ChannelError::Frame { .. } | ChannelError::Closed { .. } => Self::Lost(chain(&cause)),
        }
    }
}

impl Session {
    /// Joins the job: waits until all servers and trainers are connected and the tables exist. Trainer 0 opens the
    /// job. The position says where this trainer's data begin (not at 0 after a restart).
    pub fn connect(config: SessionConfig, spec: JobSpec) -> Result<(Self, ResumePoint), Error> {
        config.check()?;
        spec.check().map_err(Error::Usage)?;
        let topology = config.topology();
        let groups = spec.tables.iter().map(|_| OrderedIds::default()).collect();
        let dialer = Arc::new(Dialer::new(config, &spec));
        let dense = DenseMap::new(&spec, &topology, &dialer.map);
        let mut session = Self {
            pulses: Pulses::none(&dialer),
            dialer,
            spec,
            topology,
            lines: Vec::new(),
            commands: Vec::new(),
            places: Vec::new(),
            trays: Vec::new(),
            trays_full: false,
            by_row: Vec::new(),
            kept: Vec::new(),
            next: Vec::new(),
            dense,
            groups,
            epoch: Generation(0),
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

    /// The job's tables and settings, as passed to [`Session::connect`].
    pub fn spec(&self) -> &JobSpec {
        &self.spec
    }

    /// Names one dense table for each trainer, in order of trainers, in which it keeps what it alone needs to continue
    /// from a boundary. Its rule takes over what is pushed ([`Session::push_values`]). Pulls leave these tables out;
    /// [`Session::pull_kept`] fetches the own one.
    pub fn keep_in(&mut self, tables: Vec<TableId>) {
        self.kept = tables;
    }

    fn is_kept(&self, table: TableId) -> bool {
        self.kept.contains(&table)
    }

    /// The table that is kept for this trainer.
    fn own_kept(&self) -> Option<TableId> {
        let trainer = self.dialer.config.trainer.0;
        self.kept.get(trainer as usize).copied()
    }

    /// Steps applied so far, as far as this trainer knows.
    pub fn step(&self) -> Step {
        self.step
    }

    /// Begins a batch of this many samples. Every push until [`Session::finish_batch`] belongs to it.
    pub fn start_batch(&mut self, samples: u64) {
        self.samples = samples;
    }

    /// Ends the batch: all its gradients have been pushed. `cost` is the sum over its samples. The values that
    /// follow from it are requested immediately and arrive with [`Session::wait_values`], which must be called next.
    pub fn finish_batch(&mut self, cost: f64) -> Result<(), Error> {
        let done = self.try_finish_batch(cost);
        self.settle(done)
    }

    fn try_finish_batch(&mut self, cost: f64) -> Result<(), Fault> {
        let finish = self.encode(Request::FinishBatch {
            samples: self.samples,
            cost,
            order: self.order(),
        });
        self.step.0 += 1;
        let encoding = self.dialer.config.encoding;
        for at in 0..self.lines.len() {
            self.lines[at].send_bytes(&finish, &[])?;
            if self.has_dense(at) {
                let (pull, except) = self.dense_pull(at);
                self.lines[at].ask(&pull, encoding, bytemuck::cast_slice(&except))?;
            }
        }
        self.ask_next_rows()?;
        self.flush()?;
        self.values_due = true;
        Ok(())
    }

    /// The step of a snapshot that the end of this batch orders.
    fn order(&self) -> Option<Step> {
        let newest = self.pulses.order()?;
        Some(Step(match self.spec.mode {
            // No service can be ahead of this batch, because all wait for it.
            Mode::Sync => self.step.0 + 1,
            // As far ahead as the fastest trainer may be.
            Mode::Async { staleness } => self.step.max(newest).0 + 1 + u64::from(staleness),
        }))
    }

    /// This trainer has no more data in this pass. Returns when no trainer has; the others' batches continue without
    /// it. The pass has not ended yet: after a loss from here on, all trainers return to this point, without data.
    pub fn finish_pass(&mut self) -> Result<(), Error> {
        let done = self.turn_pass(Request::FinishPass { pass: self.pass });
        self.settle(done).map(|_| ())
    }

    /// This trainer has finished its work at the end of the pass: for trainer 0, the model is durable. Returns the
    /// number of the next pass, when trainer 0 has called it.
    pub fn end_pass(&mut self) -> Result<u64, Error> {
        let done = self.turn_pass(Request::EndPass { pass: self.pass });
        self.pass = self.settle(done)?;
        Ok(self.pass)
    }

    /// Sends a request to all services, then waits for all replies, which have their step and a pass.
    fn turn_pass(&mut self, request: Request) -> Result<u64, Fault> {
        // The servers may change values between passes.
        self.next.clear();
        let message = self.encode(request);
        for line in &mut self.lines {
            line.send_bytes(&message, &[])?;
            line.flush()?;
        }
        let mut next = self.pass;
        for line in &mut self.lines {
            let (head, reply) = line.expect_reply()?;
            next = match (request, reply.message) {
                (Request::FinishPass { .. }, Reply::PassOver { pass })
                | (Request::EndPass { .. }, Reply::PassEnded { pass }) => pass,
                _ => return Err(line.unexpected(&head, "the end of a pass").into()),
            };
            self.step = reply.step;
        }
        Ok(next)
    }

    /// Sums `numbers` over all trainers, in the order of their ids; all trainers must call it at the same point with
    /// the same length. For evaluators of a distributed test.
    pub fn reduce(&mut self, numbers: &mut [f64]) -> Result<(), Error> {
        let done = self.try_reduce(numbers);
        self.settle(done)
    }

    /// Returns what trainer 0 says here; all trainers must call it at the same point.
    pub fn agree(&mut self, said: bool) -> Result<bool, Error> {
        let says = said && self.dialer.config.trainer.0 == 0;
        let mut sum = [f64::from(u8::from(says))];
        self.reduce(&mut sum)?;
        Ok(sum[0] > 0.0)
    }

    fn try_reduce(&mut self, numbers: &mut [f64]) -> Result<(), Fault> {
        self.reductions += 1;
        let message = self.encode(Request::Reduce {
            round: self.reductions,
            count: numbers.len() as u32,
        });
        let line = &mut self.lines[0];
        line.send_bytes(&message, &[bytemuck::cast_slice(numbers)])?;
        let (head, reply) = line.expect_reply()?;
        if !matches!(reply.message, Reply::Reduced { .. }) {
            return Err(line.unexpected(&head, "a sum").into());
        }
        if head.payload != size_of_val(numbers) as u64 {
            return Err(Fault::Lost("a sum of another length came back".to_owned()));
        }
        line.read_bytes(bytemuck::cast_slice_mut(numbers))?;
        Ok(())
    }

    /// Has every server write its part of the sparse tables into `directory` (`pserver.0000`, …). The directory
    /// must exist where the servers run. Trainer 0 calls it while no trainer pushes.
    pub fn save_on_servers(&mut self, directory: &str) -> Result<(), Error> {
        let command = Command::Save {
            directory: directory.to_owned(),
            what: Saved::Rows,
        };
        let done = self.command_all(&command);
        self.settle(done)
    }

    /// Has every server write everything that is needed to continue from here into `directory`, for
    /// [`crate::spec::Origin::State`]. The directory must exist where the servers run. Trainer 0 calls it while no
    /// trainer pushes.
    pub fn save_state_on_servers(&mut self, directory: &str) -> Result<(), Error> {
        let command = Command::Save {
            directory: directory.to_owned(),
            what: Saved::State,
        };
        let done = self.command_all(&command);
        self.settle(done)
    }

    /// Sends a command to every server that holds something.
    fn command_all(&mut self, command: &Command) -> Result<(), Fault> {
        for server in 0..self.dialer.map.holders() {
            self.command(server, command)?;
        }
        Ok(())
    }

    /// Sends a command to a server and waits for the reply.
    fn command(&mut self, server: u32, command: &Command) -> Result<ServerReport, Fault> {
        let kept = self.commands.get_mut(server as usize);
        let mut line = match kept.and_then(Option::take) {
            Some(line) => line,
            None => self.dialer.command_line(server, self.epoch)?,
        };
        let report = ask(&mut line, command)?;
        if let Some(kept) = self.commands.get_mut(server as usize) {
            *kept = Some(line);
        }
        Ok(report)
    }

    /// Leaves the job: waits until all trainers are done, then the servers end. Until then a loss can still roll
    /// this trainer back.
    pub fn close(&mut self) -> Result<(), Error> {
        let done = self.try_close();
        if done.is_ok() {
            self.pulses.stop();
            self.lines.clear();
            self.commands.clear();
        }
        self.settle(done)
    }

    fn try_close(&mut self) -> Result<(), Fault> {
        words::failpoint::reach("finishing");
        for server in 0..self.topology.servers {
            match self.command(server, &Command::Leave) {
                Ok(report) if report.phase == Phase::Finished => {}
                // Once the first server has replied to all trainers, the job has ended; the others may be gone.
                Ok(_) | Err(Fault::Lost(_)) if server > 0 => {}
                Ok(report) => return Err(Fault::Lost(report.reason)),
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// Ends the whole job with a failure that every process reports.
    pub fn fail(&mut self, reason: &str) {
        let command = Command::Fail {
            reason: reason.to_owned(),
        };
        for server in 0..self.topology.servers {
            // The job ends anyway; a server that cannot be reached notices the missing heartbeats.
            let _ = self.dialer.command(server, self.epoch, &command);
        }
        self.pulses.stop();
        self.lines.clear();
        self.commands.clear();
    }

    /// A request of this generation and step, as it is sent.
    fn encode(&self, message: Request) -> Encoded {
        let request = Stamped {
            generation: self.epoch,
            step: self.step,
            message,
        };
        request.encode()
    }

    /// Sends what waits on all lines, before this trainer waits for a reply on one of them.
    fn flush(&mut self) -> Result<(), Fault> {
        self.lines.iter_mut().try_for_each(|line| Ok(line.flush()?))
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

    /// Turns a loss into a roll-back: joins again and returns where to continue.
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
