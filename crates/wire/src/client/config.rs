//! Settings of a session, its errors, and the position it gives.

use crate::auth::Token;
use crate::encoding::Encoding;
use crate::ids::{Epoch, Step, TrainerId};
use crate::shard::Topology;
use crate::tls::ClientTls;
use std::time::Duration;

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
pub struct Config {
    /// All servers, in the same order in every trainer.
    pub servers: Vec<ServerAddress>,
    /// Dense ports of each server.
    pub ports: u32,
    /// Sparse ports of each server, after the dense ones.
    pub sparse_ports: u32,
    /// Who this is.
    pub trainer: TrainerId,
    /// How many trainers the job has.
    pub trainers: u32,
    /// The job's secret.
    pub token: Token,
    /// Keys, when the job encrypts.
    pub tls: Option<ClientTls>,
    /// How numbers travel; all but `F32` round.
    pub encoding: Encoding,
    /// Use unix sockets to servers on the same host.
    pub local_sockets: bool,
    /// How long things may take.
    pub timing: Timing,
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Between two heartbeats.
    pub heartbeat: Duration,
    /// A server that has not answered for so long is taken for dead.
    pub silence: Duration,
    /// For one attempt to connect.
    pub dial: Duration,
    /// Until all servers and trainers are there, at the start and after a loss.
    pub join: Duration,
    /// For any answer of a server while all are alive, for example while others compute a long batch.
    pub stall: Duration,
}

impl Default for Timing {
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

/// Where a trainer goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The life of the job.
    pub epoch: Epoch,
    /// Steps applied.
    pub step: Step,
    /// The pass, from 0.
    pub pass: u64,
    /// Batches of this pass that this trainer has finished: it goes on with the batch of this number.
    pub batch: u64,
}

/// Why a session's call did not do what it says.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A process was lost; the session has joined again. Pull the values, put the data at `position`, go on.
    #[error("rolled back to pass {}, batch {}: {reason}", position.pass, position.batch)]
    RolledBack {
        /// Where to go on.
        position: Position,
        /// What was lost.
        reason: String,
    },
    /// The job cannot go on; another process said why.
    #[error("the job has failed: {0}")]
    JobFailed(String),
    /// All passes are done and all trainers have left: there is nothing to do any more.
    #[error("the job has finished already")]
    Finished,
    /// A server refuses this trainer or its request.
    #[error("server {server} refuses: {text}")]
    Refused {
        /// The server.
        server: String,
        /// Its words.
        text: String,
    },
    /// Somebody did not come in time.
    #[error("gave up after {seconds} s: {waits_for}")]
    TimedOut {
        /// How long it was waited.
        seconds: u64,
        /// For whom.
        waits_for: String,
    },
    /// The caller's mistake.
    #[error("{0}")]
    Usage(String),
}

impl Config {
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
            return usage("no parameter server is named; give --pservers=HOST,...".to_owned());
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
                return usage(format!("server {} is named twice", server.text()));
            }
        }
        Ok(())
    }
}
