//! A way to ask a reading thread to stop while it waits for another thread or process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by the owner of a thread, polled by the thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks the thread to stop.
    pub(crate) fn ask(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the thread was asked to stop.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
