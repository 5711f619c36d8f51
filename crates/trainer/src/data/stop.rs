//! A way to ask a reading thread to stop while it waits for somebody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Asked by the owner of a thread, looked at by the thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks for the end.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the end was asked for.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
