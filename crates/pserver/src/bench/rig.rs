//! Servers and sessions for a measurement.

use super::keys::BenchKeys;
use crate::snapshot::Flush;
use crate::{Server, ServerConfig, ServerError};
use optim::{Initial, Rule};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use wire::{
    Encoding, Error, JobSpec, Mode, ResumePoint, ServerAddress, Session, SessionConfig,
    SessionTiming, ShardMap, TableSpec, Token, TrainerId,
};

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A server did not start.
    #[error("start a server")]
    Server(#[source] ServerError),
    /// A trainer failed.
    #[error("train")]
    Session(#[source] Error),
    /// A plain socket failed.
    #[error("stream")]
    Stream(#[source] std::io::Error),
    /// BenchKeys for TLS could not be made.
    #[error("make keys")]
    BenchKeys(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The process may not have as many files open.
    #[error(
        "this many trainers and servers in one process need {needed} open files, {allowed} are allowed; raise `ulimit -n` or take fewer"
    )]
    Descriptors {
        /// How many are needed.
        needed: u64,
        /// How many the system allows.
        allowed: u64,
    },
    /// The result is mathematically wrong.
    #[error("wrong result: {0}")]
    Wrong(String),
}

/// What the connections use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Loopback TCP.
    Tcp,
    /// TLS over loopback TCP, with certificates on both sides, as on a cluster.
    Tls,
    /// Unix sockets, as between processes of one host.
    Unix,
}

impl Transport {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Unix => "unix",
        }
    }
}

/// Servers of a job, and what their trainers need.
pub(super) struct Rig {
    pub(crate) servers: Vec<Server>,
    bases: Vec<u16>,
    trainers: u32,
    transport: Transport,
    encoding: Encoding,
    spec: JobSpec,
    token: Token,
    keys: Option<BenchKeys>,
}

impl Rig {
    pub(crate) fn start(
        servers: u32,
        trainers: u32,
        how: (Transport, Encoding),
        tables: Vec<TableSpec>,
    ) -> Result<Self, BenchError> {
        Self::start_with(servers, trainers, how, tables, None)
    }

    /// With snapshots in a directory, one every so many steps.
    pub(crate) fn start_with(
        servers: u32,
        trainers: u32,
        (transport, encoding): (Transport, Encoding),
        tables: Vec<TableSpec>,
        snapshots: Option<(PathBuf, u64)>,
    ) -> Result<Self, BenchError> {
        let token =
            Token::new(Token::random_text().as_bytes()).expect("64 characters are long enough");
        let keys = match transport {
            Transport::Tls => Some(BenchKeys::new()?),
            Transport::Tcp | Transport::Unix => None,
        };
        let mut started = Vec::new();
        let mut bases = Vec::new();
        for _ in 0..servers {
            let (server, base) = start_server(
                trainers,
                (transport, keys.as_ref()),
                &token,
                snapshots.as_ref().map(|(path, _)| path),
            )?;
            started.push(server);
            bases.push(base);
        }
        let spec = JobSpec {
            job: "bench".to_owned(),
            mode: Mode::Sync,
            snapshot_every: snapshots.as_ref().map_or(0, |(_, every)| *every),
            first_pass: 0,
            origin: None,
            tables,
        };
        Ok(Self {
            servers: started,
            bases,
            trainers,
            transport,
            encoding,
            spec,
            token,
            keys,
        })
    }

    /// Servers that hold part of a table.
    pub(crate) fn holders(&self) -> u32 {
        let topology = self.config(0).topology();
        ShardMap::new(&self.spec.tables, &topology, self.trainers).holders()
    }

    /// Runs `work` in one thread per trainer.
    pub(crate) fn train<T: Send>(
        &self,
        work: impl Fn(u32, &mut Session) -> Result<T, Error> + Sync,
    ) -> Result<Vec<T>, BenchError> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.trainers)
                .map(|trainer| {
                    let work = &work;
                    scope.spawn(move || {
                        let (mut session, _) = self.join(trainer)?;
                        let result = work(trainer, &mut session)?;
                        session.close()?;
                        Ok(result)
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("a bench trainer does not panic"))
                .collect::<Result<Vec<T>, Error>>()
        })
        .map_err(BenchError::Session)
    }

    /// A trainer's session, once all trainers have joined.
    fn join(&self, trainer: u32) -> Result<(Session, ResumePoint), Error> {
        Session::connect(self.config(trainer), self.spec.clone())
    }

    fn config(&self, trainer: u32) -> SessionConfig {
        let address = |port: &u16| ServerAddress {
            host: LOCALHOST.to_string(),
            port: *port,
        };
        SessionConfig {
            servers: self.bases.iter().map(address).collect(),
            ports: 1,
            sparse_ports: 0,
            trainer: TrainerId(trainer),
            trainers: self.trainers,
            token: self.token.clone(),
            tls: self.keys.as_ref().map(|keys| keys.client.clone()),
            encoding: self.encoding,
            local_sockets: self.transport == Transport::Unix,
            timing: SessionTiming::default(),
            addresses: None,
            saves: None,
            watch: wire::Watch::default(),
            fresh: false,
        }
    }
}

fn start_server(
    trainers: u32,
    (transport, keys): (Transport, Option<&BenchKeys>),
    token: &Token,
    snapshots: Option<&PathBuf>,
) -> Result<(Server, u16), BenchError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let free = TcpListener::bind((LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let port = free.map_err(BenchError::Stream)?.port();
        let config = ServerConfig {
            addresses: vec![LOCALHOST],
            port,
            ports: 1,
            sparse_ports: 0,
            trainers,
            token: token.clone(),
            tls: keys.map(|keys| keys.server.clone()),
            snapshots: snapshots.cloned(),
            flush: Flush::default(),
            silence: Duration::from_secs(30),
            stall: Duration::from_secs(600),
            log_period: 0,
            local_sockets: transport == Transport::Unix,
        };
        match Server::start(config, Arc::new(|_, _| {})) {
            Ok(server) => return Ok((server, port)),
            // Another process may have taken the port in between.
            Err(ServerError::Listen { .. }) if attempts < 20 => {}
            Err(error) => return Err(BenchError::Server(error)),
        }
    }
}

/// A table whose values start at a constant.
pub(crate) fn table(name: &str, rows: u64, cols: u32, sparse: bool, rule: &Rule) -> TableSpec {
    let initial = Initial {
        distribution: optim::Distribution::Constant(0.0),
        seed: 1,
    };
    TableSpec {
        name: name.to_owned(),
        rows,
        cols,
        sparse,
        rule: serde_json::to_string(rule).expect("a rule serialises"),
        initial: serde_json::to_string(&initial).expect("initial values serialise"),
        values: None,
    }
}
