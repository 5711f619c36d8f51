//! Tables to disk and back.
//!
//! - [`mod@format`]: the bytes of a file.
//! - [`store`]: files, manifests, directories.
//! - [`writer`]: the thread that writes while requests go on.

pub mod format;
pub mod store;
pub mod writer;

pub use store::{Store, StoreError, Wanted};
