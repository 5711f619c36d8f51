//! What the processes of a job say to each other, and leave on disk for each other: ids, shard map, frames,
//! messages, files of tables, and the trainer's client.
//!
//! Nothing here knows a layer, an optimizer or a table's memory. Update rules travel as opaque JSON.
//! `docs/protocol.md` specifies the bytes for other languages.
//!
//! # Map, in reading order
//!
//! - [`ids`], [`shard`]: names of things, and where each row and block lives. Pure.
//! - [`spec`], [`status`]: what a job consists of; what a process tells about itself.
//! - [`frame`], [`encoding`], [`message`]: the bytes.
//! - [`auth`], [`tls`]: the job token, and encryption.
//! - [`stream`], [`channel`], [`handshake`]: TCP, unix and TLS streams that carry frames.
//! - [`shared`]: memory in place of payloads between processes of one host.
//! - [`part`]: tables of servers on disk.
//! - [`recovery`]: where a job goes on after a loss. Pure. [`order`]: who orders a snapshot for a server that ends.
//! - [`client`]: [`Session`], what a trainer calls. [`prefetch`]: hides the latency of memory from it.
//!
//! # Invariants
//!
//! 1. Nothing is allocated on the word of a peer before it is checked against a limit.
//! 2. Every wait has an end, and a sentence that says for whom.
//! 3. Where a row or block lives depends on the table's name, the row and the number of services alone.

pub mod auth;
pub mod channel;
pub mod client;
pub mod encoding;
pub mod frame;
pub mod gaps;
pub mod handshake;
pub mod ids;
pub mod message;
pub mod order;
pub mod part;
pub mod prefetch;
pub mod recovery;
pub mod shard;
pub mod shared;
pub mod spec;
pub mod status;
pub mod stream;
pub mod tls;

pub use auth::Token;
pub use client::{Config, Error, Position, Rows, ServerAddress, Session, Timing, Watch};
pub use encoding::Encoding;
pub use ids::{Epoch, Step, TableId, TrainerId};
pub use message::View;
pub use shard::Topology;
pub use spec::{JobSpec, Mode, TableSpec};
pub use status::Status;

#[cfg(target_endian = "big")]
compile_error!("payloads are copied as they lie in memory, which must be little-endian");
