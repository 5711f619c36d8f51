//! The user's request to end, as a counter: once means in order, twice means immediately.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

/// A handle that can be passed to other threads; all clones share one counter.
#[derive(Debug, Clone, Default)]
pub struct Shutdown(Arc<AtomicU32>);

impl Shutdown {
    /// No request yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a request.
    pub fn request(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests the end without delay: processes are killed.
    pub fn request_now(&self) {
        self.0.fetch_add(2, Ordering::Relaxed);
    }

    /// Number of requests so far.
    pub fn requests(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// From now on SIGINT, SIGTERM and SIGHUP count as requests instead of ending this process.
    pub fn on_signals(&self) -> io::Result<()> {
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ];
        for kind in kinds {
            let shutdown = self.clone();
            on(kind, move || shutdown.request())?;
        }
        Ok(())
    }
}

/// From now on SIGUSR1 calls `heard` instead of ending this process. A node uses it to announce its end to its server.
pub fn on_announcement(heard: impl Fn() + Send + 'static) -> io::Result<()> {
    on(SignalKind::user_defined1(), heard)
}

fn on(kind: SignalKind, heard: impl Fn() + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let mut signals = {
        let _context = runtime.enter();
        signal(kind)?
    };
    let wait = move || {
        runtime.block_on(async {
            while signals.recv().await.is_some() {
                heard();
            }
        });
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)?;
    Ok(())
}
