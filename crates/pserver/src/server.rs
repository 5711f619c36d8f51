//! Sockets and threads of a server: one thread that accepts connections ([`crate::gate`]), one per connection while it is
//! admitted and for its commands ([`crate::connection`]), one for heartbeats ([`crate::pulses`]), those that serve data
//! ([`crate::line_pool`]), and one that finds silent trainers.

use crate::gate::{self, Door, Listener};
use crate::host::Host;
use crate::metrics::{Heat, ServerCounts};
use crate::pulses;
use crate::snapshot::Flush;
use crate::table::StoredSize;
use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::recovery::ServerReport;
use wire::stream::{listen_tcp, listen_unix};
use wire::tls::ServerTls;
use wire::{Step, Token};
use words::lock::{Mutex, MutexGuard};
pub use words::log::Level;
use words::status::{Phase, Task};

/// How long to wait for a port that is in use.
const PORT_WAIT: Duration = Duration::from_secs(1);

/// Interval of the search for silent trainers.
const TICK: Duration = Duration::from_millis(50);

/// Receives log lines: v1's texts, without time and source location.
pub type ServerLog = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Addresses to listen on; see [`crate::nics::addresses`].
    pub addresses: Vec<IpAddr>,
    /// First port.
    pub port: u16,
    /// Ports for dense tables.
    pub ports: u32,
    /// Ports for sparse tables, after the dense ones; 0: they share the dense ports.
    pub sparse_ports: u32,
    /// Trainers of the job (`--num_gradient_servers`).
    pub trainers: u32,
    /// The job's shared secret.
    pub token: Token,
    /// The server's certificate and key; `None`: connections are not encrypted.
    pub tls: Option<ServerTls>,
    /// Directory of the snapshots; `None`: none are taken.
    pub snapshots: Option<PathBuf>,
    /// Makes the files of snapshots durable; tests put a slow or failing disk in its place.
    pub flush: Flush,
    /// A trainer that has sent nothing for so long counts as lost.
    pub silence: Duration,
    /// The longest time that a request waits for other trainers.
    pub stall: Duration,
    /// Steps between two log lines; 0: none.
    pub log_period: u64,
    /// Also listen on unix sockets, for trainers on the same host.
    pub local_sockets: bool,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum ServerError {
    /// A number of ports or trainers that cannot work, or ports beyond 65535; the text names the flag.
    #[error("{0}")]
    Setting(String),
    /// The system has no room for a thread.
    #[error("start a thread (is a limit of processes reached?)")]
    Thread(#[source] std::io::Error),
    /// A port is in use or its use is not allowed.
    #[error("listen on {address}:{port} (is another server running there? choose another --port)")]
    Listen {
        address: IpAddr,
        port: u16,
        #[source]
        source: std::io::Error,
    },
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerOutcome {
    /// All trainers have left.
    Finished,
    /// The job failed, for this reason.
    Failed(String),
    /// [`Server::shutdown`] was called.
    Stopped,
}

/// A running server.
pub struct Server {
    host: Arc<Host>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Server {
    /// Listens on all ports and serves until [`Server::shutdown`].
    pub fn start(config: ServerConfig, log: ServerLog) -> Result<Self, ServerError> {
        check(&config)?;
        let count = config.ports + config.sparse_ports;
        let mut sockets = Vec::new();
        for address in &config.addresses {
            for number in 0..count {
                let port = config.port + number as u16;
                let tcp = listen(*address, port)?;
                // Where such sockets do not exist, or the name is in use, local trainers use TCP too.
                let unix = config
                    .local_sockets
                    .then(|| listen_unix(*address, port).ok())
                    .flatten();
                sockets.push((number as usize, tcp, unix));
            }
        }
        let host = Host::new(config, log).map_err(ServerError::Thread)?;
        host.say(
            Level::Info,
            &format!("number of parameterServer instances: {}", sockets.len()),
        );
        let mut doors = Vec::new();
        for (at, (port, tcp, unix)) in sockets.into_iter().enumerate() {
            host.say(Level::Info, &format!("Starting parameterServer[{at}]"));
            let unix = unix.map(Listener::Unix);
            let listeners = std::iter::once(Listener::Tcp(tcp)).chain(unix);
            doors.extend(listeners.map(|listener| Door { port, listener }));
            host.say(Level::Info, "tcp server start ");
        }
        for at in 0..count as usize * host.config.addresses.len() {
            host.say(Level::Info, &format!("Waiting parameterServer[{at}]"));
        }
        let (at_gate, watching) = (host.clone(), host.clone());
        let gate = std::thread::Builder::new()
            .name("gate".to_owned())
            .spawn(move || gate::serve(&at_gate, &doors))
            .map_err(ServerError::Thread)?;
        let server = Self {
            host,
            threads: Mutex::new(vec![gate]),
        };
        let hearing = server.host.clone();
        let pulses = std::thread::Builder::new()
            .name("pulses".to_owned())
            .spawn(move || pulses::serve(&hearing))
            .map_err(ServerError::Thread)?;
        server.threads().push(pulses);
        let watch = std::thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || watch(&watching))
            .map_err(ServerError::Thread)?;
        server.threads().push(watch);
        Ok(server)
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock()
    }

    /// What is wrong with this server, if anything is: a dead listener, or no step for too long.
    pub fn health(&self) -> Result<(), String> {
        self.host.health()
    }

    /// Waits until the job has ended or [`Server::shutdown`] was called.
    pub fn wait(&self) -> ServerOutcome {
        loop {
            if self.host.stopping.load(Ordering::Acquire) {
                return ServerOutcome::Stopped;
            }
            let ended = {
                let members = self.host.members();
                match members.phase() {
                    Phase::Finished => Some(ServerOutcome::Finished),
                    Phase::Failed => Some(ServerOutcome::Failed(members.reason().to_owned())),
                    Phase::Lobby | Phase::Running => None,
                }
            };
            if let Some(outcome) = ended {
                return outcome;
            }
            if self.threads().iter().any(JoinHandle::is_finished)
                && !self.host.stopping.load(Ordering::Acquire)
            {
                let text = "a thread of this server has ended: it can no longer be reached";
                return ServerOutcome::Failed(text.to_owned());
            }
            self.host.wait_change(Duration::from_millis(200));
        }
    }

    /// For a server that was restarted after its job had finished: for as long as `limit`, it reports the end to trainers
    /// that did not receive it from its predecessor.
    pub fn announce_end(&self, limit: Duration) {
        self.host.members().finish();
        std::thread::sleep(limit);
    }

    /// After the job has ended: waits for at most `limit` until every trainer has been notified and has disconnected.
    pub fn linger(&self, limit: Duration) {
        let begun = Instant::now();
        while self.host.has_connections() && begun.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The metrics in Prometheus' text form.
    pub fn metrics(&self) -> String {
        self.host.metrics.encode(&self.host.gauges())
    }

    /// What the server has done so far.
    pub fn counts(&self) -> ServerCounts {
        self.host.metrics.counts(self.host.gauges().tables)
    }

    /// How evenly the shards of its sparse tables are used.
    pub fn heat(&self) -> Vec<Heat> {
        self.host.gauges().heat
    }

    /// What all its tables occupy.
    pub fn size(&self) -> StoredSize {
        let tables = self.host.gauges().tables.into_iter();
        tables
            .map(|table| StoredSize {
                rows: table.rows,
                bytes: table.bytes,
            })
            .sum()
    }

    /// What the server is doing and whom it waits for.
    pub fn report(&self) -> ServerReport {
        self.host.report()
    }

    /// Whether this server holds part of a table, as far as it knows, and so takes part in steps.
    pub fn takes_steps(&self) -> bool {
        self.host.run().is_none_or(|run| run.holds())
    }

    /// The trainers that the present step waits for; none while trainer 0 tests and saves at the end of a pass.
    pub fn waits_on(&self) -> Vec<u32> {
        self.host.waits_on()
    }

    /// Whether the server has received all that the present step needs. If this lasts, the server hangs.
    pub fn is_busy(&self) -> bool {
        self.host.is_busy()
    }

    /// The snapshot that training waits for, and how much of it is written.
    pub fn task(&self) -> Option<Task> {
        self.host.slow_task()
    }

    /// Requests a snapshot on all servers soon, because this process is about to end. Does nothing while no generation
    /// runs, or without a directory for snapshots.
    pub fn want_snapshot(&self) {
        self.host.want_snapshot();
    }

    /// The newest snapshot that all servers have, according to trainer 0.
    pub fn stable(&self) -> Option<Step> {
        self.host.stable()
    }

    /// Steps since the newest snapshot that all servers have; `None` while nothing runs or no snapshots are taken.
    pub fn snapshot_age(&self) -> Option<u64> {
        self.host.snapshot_age()
    }

    /// Ends the whole job, with a reason that all trainers show.
    pub fn fail(&self, reason: &str) {
        let effect = self.host.members().fail(reason);
        self.host.after(effect);
    }

    /// Ends all connections and threads; snapshots in progress are finished first.
    pub fn shutdown(&self) {
        self.host.stopping.store(true, Ordering::Release);
        self.host.stop_snapshots();
        self.host.cut_all();
        if let Some(run) = self.host.run() {
            // A request that waits for other trainers would not notice the shutdown.
            run.end("the server ends");
        }
        let threads = std::mem::take(&mut *self.threads());
        for thread in threads {
            // These threads have no result to lose, and check `stopping` several times per second.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// Listens on a port, and retries for [`PORT_WAIT`]: a port that an outgoing connection happens to use is soon free
/// again.
fn listen(address: IpAddr, port: u16) -> Result<TcpListener, ServerError> {
    let begun = Instant::now();
    loop {
        match listen_tcp(address, port) {
            Err(source)
                if source.kind() != std::io::ErrorKind::AddrInUse
                    || begun.elapsed() > PORT_WAIT =>
            {
                return Err(ServerError::Listen {
                    address,
                    port,
                    source,
                });
            }
            Err(_) => std::thread::sleep(TICK),
            Ok(listener) => return Ok(listener),
        }
    }
}

/// Rejects settings that cannot work; see [`ServerError::Setting`].
fn check(config: &ServerConfig) -> Result<(), ServerError> {
    let refuse = |text: &str| Err(ServerError::Setting(text.to_owned()));
    if config.ports == 0 {
        return refuse("--ports_num must be at least 1");
    }
    if config.trainers == 0 {
        return refuse("--num_gradient_servers must be at least 1");
    }
    if config.addresses.is_empty() {
        return refuse("no address to listen on");
    }
    if u32::from(config.port) + config.ports + config.sparse_ports > 65_536 {
        return refuse(
            "the ports run past 65535; lower --port, --ports_num or --ports_num_for_sparse",
        );
    }
    Ok(())
}

fn watch(host: &Arc<Host>) {
    while !host.stopping.load(Ordering::Acquire) {
        host.tick();
        std::thread::sleep(TICK);
    }
}
