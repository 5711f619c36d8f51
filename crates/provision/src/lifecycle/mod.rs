//! Decisions about a cluster that exists, is being made or is going away. All pure.
//!
//! What AWS shows goes in, what to do next comes out. No clock, no network: every state that a lost
//! connection, a Ctrl-C or a failed resource can leave behind is a value that a test can write down.

pub mod demand;
pub(crate) mod events;
pub mod leftovers;
pub(crate) mod next;
pub mod passes;
pub mod status;
pub mod teardown;
pub mod upgrade;

pub use next::{StackState, UpStep};
