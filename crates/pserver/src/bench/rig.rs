//! Servers and sessions for a measurement.

use crate::{Config as ServerConfig, ServeError, Server};
use optim::{Initial, Rule};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use wire::{
    Config, Encoding, Error, JobSpec, Mode, ServerAddress, Session, TableSpec, Timing, Token,
    TrainerId,
};

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A server did not start.
    #[error("start a server")]
    Server(#[source] ServeError),
    /// A trainer failed.
    #[error("train")]
    Session(#[source] Error),
    /// A plain socket failed.
    #[error("stream")]
    Stream(#[source] std::io::Error),
    /// The result is not what the mathematics says.
    #[error("wrong result: {0}")]
    Wrong(String),
}

/// How bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Loopback TCP.
    Tcp,
    /// Unix sockets, as between processes of one host.
    Unix,
}

/// Servers of a job, and what their trainers need.
pub struct Rig {
    pub(crate) servers: Vec<Server>,
    bases: Vec<u16>,
    trainers: u32,
    transport: Transport,
    encoding: Encoding,
    spec: JobSpec,
    token: Token,
}

impl Rig {
    pub(crate) fn start(
        servers: u32,
        trainers: u32,
        (transport, encoding): (Transport, Encoding),
        tables: Vec<TableSpec>,
    ) -> Result<Self, BenchError> {
        let token =
            Token::new(Token::random_text().as_bytes()).expect("64 characters are long enough");
        let mut started = Vec::new();
        let mut bases = Vec::new();
        for _ in 0..servers {
            let (server, base) = start_server(trainers, transport, &token)?;
            started.push(server);
            bases.push(base);
        }
        let spec = JobSpec {
            job: "bench".to_owned(),
            mode: Mode::Sync,
            snapshot_every: 0,
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
        })
    }

    /// Runs `work` in one thread a trainer.
    pub(crate) fn train<T: Send>(
        &self,
        work: impl Fn(u32, &mut Session) -> Result<T, Error> + Sync,
    ) -> Result<Vec<T>, BenchError> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.trainers)
                .map(|trainer| {
                    let work = &work;
                    scope.spawn(move || {
                        let (mut session, _) =
                            Session::connect(self.config(trainer), self.spec.clone())?;
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

    fn config(&self, trainer: u32) -> Config {
        let address = |port: &u16| ServerAddress {
            host: LOCALHOST.to_string(),
            port: *port,
        };
        Config {
            servers: self.bases.iter().map(address).collect(),
            ports: 1,
            sparse_ports: 0,
            trainer: TrainerId(trainer),
            trainers: self.trainers,
            token: self.token.clone(),
            tls: None,
            encoding: self.encoding,
            local_sockets: self.transport == Transport::Unix,
            timing: Timing::default(),
        }
    }
}

fn start_server(
    trainers: u32,
    transport: Transport,
    token: &Token,
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
            tls: None,
            snapshots: None,
            silence: Duration::from_secs(30),
            stall: Duration::from_secs(600),
            log_period: 0,
            local_sockets: transport == Transport::Unix,
        };
        match Server::start(config, Arc::new(|_, _| {})) {
            Ok(server) => return Ok((server, port)),
            // Somebody else may have taken the port in between.
            Err(ServeError::Listen { .. }) if attempts < 20 => {}
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
