//! Snapshots: writes tables to disk while training continues, and restores them.
//!
//! - [`mod@format`]: the bytes of a file.
//! - [`mod@file`]: one file, written and read. [`manifest`]: which files are a snapshot.
//! - [`store`]: the directories of a server.
//! - [`plan`]: which snapshots are taken and which are deleted. Pure.
//! - [`verify`]: checks a directory and lists its faults.
//! - [`writer`]: the thread that writes while requests continue.

pub(crate) mod file;
pub mod format;
pub mod manifest;
pub mod plan;
pub(crate) mod store;
pub mod verify;
pub(crate) mod writer;

pub use file::{Flush, StoreError};
pub use store::{SnapshotOwner, SnapshotStore};
