//! Sockets and threads of a server: one thread a listening port, one a connection, one that watches for silence.

use crate::connection;
use crate::host::Host;
use crate::metrics::Counts;
use std::net::{IpAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::recovery::{Phase, Report};
use wire::stream::{Stream, listen_tcp, listen_unix};
use wire::tls::ServerTls;
use wire::{Status, Step, Token};

/// How long a port that is in use is waited for.
const PORT_WAIT: Duration = Duration::from_secs(1);

/// Between two looks for silent trainers.
const TICK: Duration = Duration::from_millis(50);

/// How important a log line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// A change of state.
    Info,
    /// Unexpected, but the server goes on.
    Warning,
    /// Somebody must act.
    Error,
}

/// Where log lines go; v1's texts, without time and place.
pub type Log = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct Config {
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
    /// The job's secret.
    pub token: Token,
    /// Keys, when the job encrypts.
    pub tls: Option<ServerTls>,
    /// Where snapshots lie; none: none are taken.
    pub snapshots: Option<PathBuf>,
    /// A trainer that has not been heard for so long is taken for dead.
    pub silence: Duration,
    /// The longest that a request waits for other trainers.
    pub stall: Duration,
    /// Steps between two log lines; 0: none.
    pub log_period: u64,
    /// Also listen on unix sockets, for trainers on the same host.
    pub local_sockets: bool,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A setting that cannot be.
    #[error("{0}")]
    Setting(String),
    /// A port cannot be had.
    #[error("listen on {address}:{port} (is another server running there? choose another --port)")]
    Listen {
        /// The address.
        address: IpAddr,
        /// The port.
        port: u16,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
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
    listeners: Vec<(IpAddr, u16)>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Server {
    /// Listens on all ports and serves until [`Server::shutdown`].
    pub fn start(config: Config, log: Log) -> Result<Self, ServeError> {
        check(&config)?;
        let count = config.ports + config.sparse_ports;
        let mut sockets = Vec::new();
        for address in &config.addresses {
            for number in 0..count {
                let port = config.port + number as u16;
                let tcp = listen(*address, port)?;
                // Where there are no such sockets, or the name is taken, TCP serves local trainers too.
                let unix = config
                    .local_sockets
                    .then(|| listen_unix(*address, port).ok())
                    .flatten();
                sockets.push((number as usize, tcp, unix));
            }
        }
        let host = Host::new(config, log);
        host.say(
            Level::Info,
            &format!("number of parameterServer instances: {}", sockets.len()),
        );
        let mut listeners = Vec::new();
        let mut threads = Vec::new();
        for (at, (number, tcp, unix)) in sockets.into_iter().enumerate() {
            host.say(Level::Info, &format!("Starting parameterServer[{at}]"));
            if let Ok(address) = tcp.local_addr() {
                listeners.push((address.ip(), address.port()));
            }
            let shared = host.clone();
            threads.push(std::thread::spawn(move || {
                accept_tcp(&shared, number, &tcp)
            }));
            if let Some(unix) = unix {
                let shared = host.clone();
                threads.push(std::thread::spawn(move || {
                    accept_unix(&shared, number, &unix)
                }));
            }
            host.say(Level::Info, "tcp server start ");
        }
        for at in 0..listeners.len() {
            host.say(Level::Info, &format!("Waiting parameterServer[{at}]"));
        }
        let shared = host.clone();
        threads.push(std::thread::spawn(move || watch(&shared)));
        Ok(Self {
            host,
            listeners,
            threads: Mutex::new(threads),
        })
    }

    /// Waits until the job has ended or [`Server::shutdown`] was called.
    pub fn wait(&self) -> Outcome {
        loop {
            if self.host.stopping.load(Ordering::Acquire) {
                return Outcome::Stopped;
            }
            let ended = {
                let members = self.host.members();
                match members.phase() {
                    Phase::Finished => Some(Outcome::Finished),
                    Phase::Failed => Some(Outcome::Failed(members.reason().to_owned())),
                    Phase::Lobby | Phase::Running => None,
                }
            };
            if let Some(outcome) = ended {
                return outcome;
            }
            self.host.wait_change(Duration::from_millis(200));
        }
    }

    /// After the job has ended: stays for at most `limit` until every trainer has heard so and hung up.
    pub fn linger(&self, limit: Duration) {
        let begun = Instant::now();
        while self.host.has_connections() && begun.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The metrics as Prometheus reads them.
    pub fn metrics(&self) -> String {
        self.host.metrics.encode(&self.host.gauges())
    }

    /// What it has done so far, as numbers.
    pub fn counts(&self) -> Counts {
        self.host.metrics.counts(self.host.gauges().tables)
    }

    /// Rows and bytes of all its tables.
    pub fn size(&self) -> (u64, u64) {
        let tables = self.host.gauges().tables;
        tables.iter().fold((0, 0), |sum, table| {
            (sum.0 + table.rows, sum.1 + table.bytes)
        })
    }

    /// What the server does and whom it waits for.
    pub fn report(&self) -> Report {
        self.host.report()
    }

    /// The newest status of each trainer, as its heartbeats told.
    pub fn trainers(&self) -> Vec<Status> {
        self.host.statuses()
    }

    /// Wants a snapshot on all servers soon, because this process is to end. Without an epoch that runs, or without a
    /// place for snapshots, it does nothing.
    pub fn want_snapshot(&self) {
        self.host.want_snapshot();
    }

    /// The newest snapshot that all servers have, as far as trainer 0 has told.
    pub fn stable(&self) -> Option<Step> {
        self.host.stable()
    }

    /// Ends the job everywhere, with a reason that all trainers show.
    pub fn fail(&self, reason: &str) {
        let effect = self.host.members().fail(reason);
        self.host.after(effect);
    }

    /// Ends all connections and threads; snapshots that are under way are finished first.
    pub fn shutdown(&self) {
        self.host.stopping.store(true, Ordering::Release);
        self.host.stop_snapshots();
        self.host.cut_all();
        let threads: Vec<_> = self
            .threads
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
            .collect();
        // A knock may get lost on a busy machine: knock until all have heard.
        while threads.iter().any(|thread| !thread.is_finished()) {
            for (address, port) in &self.listeners {
                wake(*address, *port, self.host.config.local_sockets);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        for thread in threads {
            // A listener thread has no result to lose.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// Listens on a port. One that an outgoing connection of somebody happens to use is free again in a moment.
fn listen(address: IpAddr, port: u16) -> Result<TcpListener, ServeError> {
    let begun = Instant::now();
    loop {
        match listen_tcp(address, port) {
            Err(source)
                if source.kind() != std::io::ErrorKind::AddrInUse
                    || begun.elapsed() > PORT_WAIT =>
            {
                return Err(ServeError::Listen {
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

/// Settings that cannot work.
fn check(config: &Config) -> Result<(), ServeError> {
    let refuse = |text: &str| Err(ServeError::Setting(text.to_owned()));
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

fn accept_tcp(host: &Arc<Host>, number: usize, listener: &TcpListener) {
    loop {
        let accepted = listener.accept();
        if host.stopping.load(Ordering::Acquire) {
            return;
        }
        let Ok((tcp, _)) = accepted else {
            // Out of file descriptors, for instance: others may close some.
            std::thread::sleep(TICK);
            continue;
        };
        let shared = host.clone();
        std::thread::spawn(move || {
            let timeout = shared.config.silence;
            match Stream::accept(tcp, shared.config.tls.as_ref(), timeout) {
                Ok(stream) => connection::serve(&shared, number, stream),
                Err(cause) => {
                    shared.metrics.refused.add(1);
                    shared.say(Level::Warning, &format!("TLS handshake failed: {cause}"));
                }
            }
        });
    }
}

fn accept_unix(host: &Arc<Host>, number: usize, listener: &UnixListener) {
    loop {
        let accepted = listener.accept();
        if host.stopping.load(Ordering::Acquire) {
            return;
        }
        let Ok((unix, _)) = accepted else {
            std::thread::sleep(TICK);
            continue;
        };
        let shared = host.clone();
        std::thread::spawn(move || connection::serve(&shared, number, Stream::unix(unix)));
    }
}

fn watch(host: &Host) {
    while !host.stopping.load(Ordering::Acquire) {
        host.tick();
        std::thread::sleep(TICK);
    }
}

/// Connects to a listener so that its thread looks up.
fn wake(address: IpAddr, port: u16, local: bool) {
    let address = if address.is_unspecified() {
        IpAddr::from([127, 0, 0, 1])
    } else {
        address
    };
    let _ = std::net::TcpStream::connect_timeout(&(address, port).into(), TICK);
    if local {
        wire::stream::knock(address, port);
    }
}
