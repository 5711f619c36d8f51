//! The server: threads that serve and compute, one that looks for newer passes, one that watches the time.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use predict::{Model, PredictError};

use crate::access::ClientAccess;
use crate::compute::ModelRunner;
use crate::connections::{Connections, MOST_CONNECTIONS};
use crate::current::{Current, FolderChange, ModelOrigin};
use crate::events::{Events, LISTENER};
use crate::figures::RequestFigures;
use crate::queue::RequestQueue;
use crate::worker::{BODIES, ServeWorker, Shared};

/// Interval between two checks of the clock and of deadlines.
const TICK: Duration = Duration::from_millis(200);
/// The same while the server ends.
const LAST_TICKS: Duration = Duration::from_millis(20);
/// Time for requests that are still arriving when the server ends.
const GRACE: Duration = Duration::from_secs(10);
/// Open files that are not connections.
const OTHER_FILES: u64 = 64;

/// How a server runs.
#[derive(Debug)]
pub struct ServeSettings {
    /// Which requests are allowed.
    pub access: ClientAccess,
    /// Number of threads that compute.
    pub threads: usize,
    /// Samples that may wait.
    pub queue: usize,
    /// The largest body, in bytes.
    pub largest_body: usize,
    /// Certificate and key, to serve HTTPS.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Interval between two checks for a newer pass.
    pub look: Duration,
    /// Version of the program.
    pub version: String,
}

/// Why a server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A thread cannot be started, or the listener fails.
    #[error("serve at {address}")]
    Io {
        /// Address of the listener.
        address: String,
        /// The error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// The model cannot be used.
    #[error(transparent)]
    Model(#[from] PredictError),
}

/// A server that is ready to run.
pub struct HttpServer {
    origin: ModelOrigin,
    model: Model,
    settings: ServeSettings,
}

impl HttpServer {
    /// A server of a model that was opened from `origin`.
    pub fn new(origin: ModelOrigin, model: Model, settings: ServeSettings) -> Self {
        Self {
            origin,
            model,
            settings,
        }
    }

    /// Serves until `end` returns, which is called on a thread of its own; requests that were accepted get their replies.
    /// `tell` is called with what happens to the model.
    pub fn run(
        self,
        listener: TcpListener,
        end: impl FnOnce() + Send + 'static,
        tell: impl Fn(String) + Send + 'static,
    ) -> Result<(), ServeError> {
        let address = listener
            .local_addr()
            .map_or_else(|_| String::new(), |a: SocketAddr| a.to_string());
        let failed = |source| ServeError::Io {
            address: address.clone(),
            source,
        };
        let (threads, look) = (self.settings.threads.max(1), self.settings.look);
        let shared = Arc::new(self.shared(listener, threads)?.map_err(failed)?);
        spawn("end", {
            let shared = shared.clone();
            move || {
                end();
                shared.ending.store(true, Ordering::Release);
            }
        })
        .map_err(failed)?;
        // One more than the number of runners: it reads, refuses and replies to probes while all others compute.
        let mut running = Vec::new();
        for number in 0..=threads {
            let shared = shared.clone();
            let name = format!("serve-{number}");
            running.push(spawn(&name, move || serving(shared)).map_err(failed)?);
        }
        let watcher = {
            let shared = shared.clone();
            spawn("passes", move || watching(&shared, look, &tell)).map_err(failed)?
        };
        keep_time(&shared);
        for thread in running.into_iter().chain([watcher]) {
            // A thread that panicked has been reported by the panic itself.
            let _ = thread.join();
        }
        Ok(())
    }

    fn shared(
        self,
        listener: TcpListener,
        threads: usize,
    ) -> Result<io::Result<Shared>, PredictError> {
        let settings = self.settings;
        let current = Current::new(self.origin, self.model);
        let runners = (0..threads).map(|_| ModelRunner::new(current.model()).map(Box::new));
        let runners = runners.collect::<Result<Vec<_>, _>>()?;
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let most = files.map_or(MOST_CONNECTIONS, |files| {
            usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX)
        });
        let events = listener.set_nonblocking(true).and_then(|()| {
            let events = Events::new()?;
            events.add(&listener, LISTENER)?;
            Ok(events)
        });
        Ok(events.map(|events| Shared {
            current,
            queue: RequestQueue::new(settings.queue.max(1), runners),
            figures: RequestFigures::default(),
            access: settings.access,
            largest_body: settings.largest_body.max(1),
            memory: AtomicUsize::new(BODIES.max(settings.largest_body)),
            version: settings.version,
            events,
            connections: Connections::new(listener, settings.tls, most),
            now: AtomicU64::new(0),
            ending: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        }))
    }
}

fn spawn(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

/// One thread that serves, without threads inside operations.
fn serving(shared: Arc<Shared>) {
    let run = || {
        if let Err(error) = ServeWorker::new(shared).run() {
            // Waiting for events fails only if the server itself is wrong.
            panic!("wait for events: {error}");
        }
    };
    match rayon::ThreadPoolBuilder::new().num_threads(1).build() {
        Ok(pool) => pool.install(run),
        Err(_) => run(),
    }
}

/// Keeps the time until the server is asked to end, and then until it has ended.
fn keep_time(shared: &Shared) {
    let begun = Instant::now();
    let now = || begun.elapsed().as_millis() as u64;
    while !shared.ending.load(Ordering::Acquire) {
        std::thread::sleep(TICK);
        shared.now.store(now(), Ordering::Relaxed);
        shared.connections.sweep(&shared.events, now());
    }
    // No client is accepted any more. A failure here does no harm, because the process ends.
    let _ = shared.events.remove(shared.connections.listener());
    let _ = rustix::net::shutdown(shared.connections.listener(), rustix::net::Shutdown::Both);
    let last = Instant::now();
    while !shared.connections.is_empty() {
        let over = last.elapsed();
        shared.connections.wind_up(over > GRACE);
        std::thread::sleep(LAST_TICKS);
        shared.now.store(now(), Ordering::Relaxed);
        shared.connections.sweep(&shared.events, now());
    }
    shared.ended.store(true, Ordering::Release);
    shared.events.ring();
}

/// Looks for a newer or better pass until the server ends.
fn watching(shared: &Shared, period: Duration, tell: &dyn Fn(String)) {
    let mut last = String::new();
    let mut since = Duration::ZERO;
    let step = Duration::from_millis(50).min(period);
    while !shared.ending.load(Ordering::Acquire) {
        std::thread::sleep(step);
        since += step;
        if since < period {
            continue;
        }
        since = Duration::ZERO;
        let text = match shared.current.look() {
            Ok(FolderChange::Same) => continue,
            Ok(FolderChange::Replaced(directory)) => {
                shared.figures.replaced(true);
                format!("now serving {}", directory.display())
            }
            Ok(FolderChange::OtherInterface(directory)) => format!(
                "{} has other inputs or outputs; it is not served until the server is started again",
                directory.display()
            ),
            Err(error) => {
                shared.figures.replaced(false);
                format!("the model is kept, because a newer one cannot be opened: {error}")
            }
        };
        if text != last {
            tell(text.clone());
            last = text;
        }
    }
}
