//! Settings of a session, its errors, and the position it returns.

use super::pulse::Watch;
use crate::auth::Token;
use crate::encoding::Encoding;
use crate::ids::{Generation, Step, TrainerId};
use crate::message::Code;
use crate::shard::Topology;
use crate::tls::ClientTls;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use words::lock::Mutex;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    /// Host name or address.
    pub host: String,
    /// Its first port.
    pub port: u16,
}

impl ServerAddress {
    /// The address as text.
    pub fn text(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// Settings of a session.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// All servers, in the same order in every trainer.
    pub servers: Vec<ServerAddress>,
    /// Dense ports of each server.
    pub ports: u32,
    /// Sparse ports of each server, after the dense ones.
    pub sparse_ports: u32,
    /// This process.
    pub trainer: TrainerId,
    /// How many trainers the job has.
    pub trainers: u32,
    /// The job's secret.
    pub token: Token,
    /// Certificates, when the job encrypts.
    pub tls: Option<ClientTls>,
    /// How values are encoded on the wire; all encodings but `F32` round.
    pub encoding: Encoding,
    /// Use unix sockets to servers on the same host.
    pub local_sockets: bool,
    /// Time limits and intervals.
    pub timing: SessionTiming,
    /// Finds the newest addresses of servers; `None`: only their names do.
    pub addresses: Option<AddressBook>,
    /// Finds what was saved with a pass of this run; `None` if nothing is.
    pub saves: Option<Saves>,
    /// Observes the session, from before it has joined.
    pub watch: Watch,
    /// A job that had snapshots and lost them begins again instead of ending with a failure that says so. What is there
    /// is kept under another name.
    pub fresh: bool,
}

/// What was saved with a pass of this run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedPass {
    /// Steps applied.
    pub step: Step,
    /// The pass that comes next.
    pub pass: u64,
    /// The directory with the servers' state, as servers see it.
    pub directory: String,
}

/// What this run has saved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SavedPasses {
    /// Passes that were saved, whether or not they are still there.
    pub count: u64,
    /// The newest whose directory has a state of the servers that may be used.
    pub newest: Option<SavedPass>,
}

/// Looks for [`SavedPasses`], and remembers which of them servers could not restore.
#[derive(Clone)]
pub struct Saves {
    look: Arc<SavesLook>,
    refused: Arc<Mutex<Vec<RefusedSave>>>,
    continued: Arc<Mutex<Option<SavedPass>>>,
}

/// Looks at the disk, with a function that says whether the state in a directory may be used.
type SavesLook = dyn Fn(&dyn Fn(&str) -> bool) -> SavedPasses + Send + Sync;

/// A saved state that a server could not restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RefusedSave {
    pub(super) directory: String,
    /// The server's own words.
    pub(super) reason: String,
}

impl Saves {
    /// From a function that looks, and that leaves out the directories of which its argument says so.
    pub fn new(
        look: impl Fn(&dyn Fn(&str) -> bool) -> SavedPasses + Send + Sync + 'static,
    ) -> Self {
        Self {
            look: Arc::new(look),
            refused: Arc::default(),
            continued: Arc::default(),
        }
    }

    /// What is there, without what a server has refused.
    pub(super) fn usable(&self) -> SavedPasses {
        let refused = self.refused();
        (self.look)(&|directory| !refused.iter().any(|save| save.directory == directory))
    }

    /// A server could not restore a state: it is not tried again.
    pub(super) fn refuse(&self, save: RefusedSave) {
        let mut refused = self.refused.lock();
        refused.push(save);
    }

    /// Why servers could not restore states so far, in their own words.
    pub fn refusals(&self) -> Vec<String> {
        self.refused().into_iter().map(|save| save.reason).collect()
    }

    /// The saved pass that the present generation began with; `None` if it began with something else.
    pub fn continued(&self) -> Option<SavedPass> {
        self.continued.lock().clone()
    }

    /// A generation has begun.
    pub(super) fn begun(&self, with: Option<SavedPass>) {
        *self.continued.lock() = with;
    }

    /// What servers could not restore so far.
    pub(super) fn refused(&self) -> Vec<RefusedSave> {
        let refused = self.refused.lock();
        refused.clone()
    }
}

impl std::fmt::Debug for Saves {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Saves")
    }
}

/// Looks where a server is, by its host name. The address may be old, but not as old as what DNS servers cache.
#[derive(Clone)]
pub struct AddressBook(Arc<AddressLook>);

type AddressLook = dyn Fn(&str) -> Option<IpAddr> + Send + Sync;

impl AddressBook {
    /// From a function that looks.
    pub fn new(look: impl Fn(&str) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }

    pub(super) fn find(&self, host: &str) -> Option<IpAddr> {
        (self.0)(host)
    }
}

impl std::fmt::Debug for AddressBook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AddressBook")
    }
}

/// Time limits and intervals of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionTiming {
    /// Between two heartbeats.
    pub heartbeat: Duration,
    /// A server that has not replied for so long counts as lost.
    pub silence: Duration,
    /// For one attempt to connect.
    pub dial: Duration,
    /// Until all servers and trainers are connected, at the start and after a loss.
    pub join: Duration,
    /// For any reply of a server while all are alive, for example while others compute a long batch.
    pub stall: Duration,
}

impl Default for SessionTiming {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(500),
            silence: Duration::from_secs(10),
            dial: Duration::from_secs(5),
            join: Duration::from_secs(600),
            stall: Duration::from_secs(3600),
        }
    }
}

/// Where a trainer continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumePoint {
    /// The generation of the job.
    pub epoch: Generation,
    /// Steps applied.
    pub step: Step,
    /// The pass, from 0.
    pub pass: u64,
    /// Batches of this pass that this trainer has finished: it continues with the batch of this number.
    pub batch: u64,
    /// What was due after that batch is done; see [`crate::owed::passed`].
    pub passed: bool,
}

/// Why a call of a session did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A process was lost; the session has joined again. Pull the values, set the data to `position`, continue.
    #[error("rolled back to pass {}, batch {}: {reason}", position.pass, position.batch)]
    RolledBack {
        /// Where to continue.
        position: ResumePoint,
        /// Which process or connection was lost.
        reason: String,
    },
    /// The job cannot continue; another process reported the cause.
    #[error("the job has failed: {0}")]
    JobFailed(String),
    /// All passes are done and all trainers have left: nothing is left to do.
    #[error("the job has already finished")]
    Finished,
    /// A server refuses this trainer or its request.
    #[error("server {server} refuses: {text}")]
    Refused {
        /// The server's address.
        server: String,
        /// [`Code::Invalid`], or [`Code::Unable`]: a later attempt may succeed.
        code: Code,
        /// The server's sentence.
        text: String,
    },
    /// A server refuses this trainer for a reason that no further attempt can change: another token, certificate,
    /// version, model, or number of processes. A restart does not help.
    #[error("server {server} refuses this trainer: {text}")]
    Rejected {
        /// The server's address.
        server: String,
        /// What is wrong, and what to do.
        text: String,
    },
    /// A server or trainer did not connect or reply in time.
    #[error("gave up after {seconds} s: {waits_for}")]
    TimedOut {
        /// The time limit that expired.
        seconds: u64,
        /// The processes that were waited for.
        waits_for: String,
    },
    /// A mistake of the caller.
    #[error("{0}")]
    Usage(String),
}

impl SessionConfig {
    /// How many servers and ports there are.
    pub fn topology(&self) -> Topology {
        Topology {
            servers: self.servers.len() as u32,
            ports: self.ports,
            sparse_ports: self.sparse_ports,
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let usage = |text: String| Err(Error::Usage(text));
        if self.servers.is_empty() {
            return usage("no parameter server is given; use --pservers=HOST,...".to_owned());
        }
        if self.ports == 0 {
            return usage("--ports_num must be at least 1".to_owned());
        }
        if self.trainer.0 >= self.trainers {
            let (id, count) = (self.trainer, self.trainers);
            return usage(format!(
                "--trainer_id={id} is out of range: there are {count} trainers (0 to {})",
                count.saturating_sub(1)
            ));
        }
        for (at, server) in self.servers.iter().enumerate() {
            if u32::from(server.port) + self.ports + self.sparse_ports > 65_536 {
                return usage(format!("ports of server {} run past 65535", server.text()));
            }
            if self.servers[..at].contains(server) {
                return usage(format!("server {} is listed twice", server.text()));
            }
        }
        Ok(())
    }
}
