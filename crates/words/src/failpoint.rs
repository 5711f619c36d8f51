//! Named points at which a test can hold a process: a testing device that is always compiled in and does nothing
//! unless a program installs a hook.
//!
//! A test that must kill a process "while it saves" cannot hit that moment by waiting. So the code names the moment,
//! and the program that links it decides what a point does (`canoe` with `CANOE_FAIL_POINTS`; see docs/reliability.md).

use std::sync::OnceLock;

/// Called with the name of a point that is reached; may block.
pub(crate) type Hook = Box<dyn Fn(&'static str) + Send + Sync>;

static HOOK: OnceLock<Hook> = OnceLock::new();

/// Has all points call `hook`. Only the first call of a process counts.
pub fn install(hook: Hook) {
    // A second call would be a mistake in a test; it has no effect.
    let _ = HOOK.set(hook);
}

/// The process is at this point.
pub fn reach(point: &'static str) {
    if let Some(hook) = HOOK.get() {
        hook(point);
    }
}
