//! The server: a runtime for connections, threads that compute, one that looks for newer passes.

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use predict::{Model, PredictError};
use tokio::sync::Semaphore;

use crate::access::ClientAccess;
use crate::compute;
use crate::current::{Current, FolderChange};
use crate::figures::RequestFigures;
use crate::http::{self, Shared};
use crate::queue::RequestQueue;
use crate::tls::TlsListener;

/// Memory for the bodies of requests that are being read, in bytes.
const BODIES: usize = 256 << 20;

/// How a server runs.
#[derive(Debug)]
pub struct ServeSettings {
    /// Who may ask.
    pub access: ClientAccess,
    /// Number of threads that compute.
    pub threads: usize,
    /// Samples that may wait.
    pub queue: usize,
    /// The largest body, in bytes.
    pub largest_body: usize,
    /// Certificate and key, to serve HTTPS.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Time between two looks for a newer pass.
    pub look: Duration,
    /// Version of the program.
    pub version: String,
}

/// Why a server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The runtime or a thread cannot be started, or the listener fails.
    #[error("serve at {address}")]
    Io {
        /// Address of the listener.
        address: String,
        /// The error that the operating system returned.
        #[source]
        source: std::io::Error,
    },
    /// The model cannot be used.
    #[error(transparent)]
    Model(#[from] PredictError),
}

/// A server that is ready to run.
pub struct HttpServer {
    shared: Arc<Shared>,
    threads: usize,
    tls: Option<Arc<rustls::ServerConfig>>,
    look: Duration,
}

impl HttpServer {
    /// A server of a model; `path` is what the user named, in which newer passes appear.
    pub fn new(path: &Path, model: Model, settings: ServeSettings) -> Self {
        let largest = settings.largest_body.max(1);
        Self {
            threads: settings.threads.max(1),
            tls: settings.tls,
            look: settings.look,
            shared: Arc::new(Shared {
                current: Current::new(path, model),
                queue: RequestQueue::new(settings.queue.max(1)),
                figures: RequestFigures::default(),
                access: settings.access,
                largest_body: largest,
                bodies: Semaphore::new((BODIES / largest).clamp(16, 4096)),
                version: settings.version,
            }),
        }
    }

    /// Serves until `end` is ready; requests that were accepted get their replies. `tell` is called with what happens
    /// to the model.
    pub fn run(
        self,
        listener: TcpListener,
        end: impl Future<Output = ()> + Send + 'static,
        tell: impl Fn(String) + Send + 'static,
    ) -> Result<(), ServeError> {
        let address = listener
            .local_addr()
            .map_or_else(|_| String::new(), |a: SocketAddr| a.to_string());
        let failed = |source| ServeError::Io {
            address: address.clone(),
            source,
        };
        // Fails here, not in a thread, if the network cannot be built.
        self.shared.current.model().runner()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.threads.clamp(1, 4))
            .enable_all()
            .build()
            .map_err(failed)?;
        let ended = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for number in 0..self.threads {
            let shared = self.shared.clone();
            let spawned = std::thread::Builder::new()
                .name(format!("compute-{number}"))
                .spawn(move || computing(&shared));
            threads.push(spawned.map_err(failed)?);
        }
        let watcher = {
            let (shared, ended, period) = (self.shared.clone(), ended.clone(), self.look);
            let thread = std::thread::Builder::new().name("passes".to_owned());
            thread
                .spawn(move || watching(&shared, &ended, period, &tell))
                .map_err(failed)?
        };
        listener.set_nonblocking(true).map_err(failed)?;
        let (router, tls) = (http::router(self.shared.clone()), self.tls);
        let served = runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            match tls {
                None => {
                    axum::serve(listener, router)
                        .with_graceful_shutdown(end)
                        .await
                }
                Some(tls) => {
                    axum::serve(TlsListener::new(listener, tls)?, router)
                        .with_graceful_shutdown(end)
                        .await
                }
            }
        });
        ended.store(true, Ordering::Release);
        self.shared.queue.close();
        for thread in threads.into_iter().chain([watcher]) {
            // A thread that panicked has been reported by the panic itself.
            let _ = thread.join();
        }
        served.map_err(failed)
    }
}

/// One thread that computes, without threads inside operations.
fn computing(shared: &Shared) {
    let run = || {
        // The model was built before; see `HttpServer::run`.
        let _ = compute::run(&shared.current, &shared.queue, &shared.figures);
    };
    match rayon::ThreadPoolBuilder::new().num_threads(1).build() {
        Ok(pool) => pool.install(run),
        Err(_) => run(),
    }
}

/// Looks for a newer or better pass until the server ends.
fn watching(shared: &Shared, ended: &AtomicBool, period: Duration, tell: &dyn Fn(String)) {
    let mut last = String::new();
    let mut since = Duration::ZERO;
    let step = Duration::from_millis(50).min(period);
    while !ended.load(Ordering::Acquire) {
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
            Ok(FolderChange::OtherConfiguration(directory)) => format!(
                "{} has another configuration; it is not served until the server is started again",
                directory.display()
            ),
            Err(error) => {
                shared.figures.replaced(false);
                format!("keep the model: {error}")
            }
        };
        if text != last {
            tell(text.clone());
            last = text;
        }
    }
}
