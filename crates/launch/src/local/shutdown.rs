//! The user's wish to end, as a counter: once means orderly, twice means at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

/// A handle that can be given to other threads; all clones count together.
#[derive(Debug, Clone, Default)]
pub struct Shutdown(Arc<AtomicU32>);

impl Shutdown {
    /// Nobody has asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks once more.
    pub fn request(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How often it was asked.
    pub fn requests(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// From now on SIGINT, SIGTERM and SIGHUP ask instead of ending this process.
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

/// From now on SIGUSR1 calls `heard` instead of ending this process. A node tells its server so that it will end soon.
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
