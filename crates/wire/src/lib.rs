//! What the processes of a job send to each other and leave on disk for each other: ids, shard map, frames,
//! messages, files of tables, and the trainer's client.
//!
//! Nothing here knows a layer, an optimizer or a table's memory. Update rules travel as opaque JSON.
//! `docs/protocol.md` specifies the bytes for other languages.
//!
//! # Map, in reading order
//!
//! - [`ids`], [`shard`], [`shard_map`]: names of things, and which service holds each row and block. Pure.
//! - [`spec`], [`status`]: what a job consists of; what a process reports about itself.
//! - [`frame`], [`encoding`], [`message`]: the bytes.
//! - [`auth`], [`tls`]: the job token, and encryption.
//! - [`stream`], [`channel`], [`handshake`]: TCP, unix and TLS streams that carry frames.
//! - [`stranger`]: a connection before its hello. [`lines`]: whether bytes sent over a connection arrive. Pure.
//! - [`shared`]: shared memory instead of payloads between processes of one host.
//! - [`part`]: the servers' tables on disk. [`binding`]: which save a part belongs to, and which service wrote it.
//! - [`recovery`]: where a job continues after a loss. Pure. [`order`]: which trainer orders a snapshot for a server
//!   that is about to end. [`owed`]: what trainer 0 tests and saves at which point.
//! - [`gaps`], [`runs`]: gradients and rows without values that are zero or not requested.
//! - [`client`]: [`Session`], what a trainer calls. [`prefetch`]: hides memory latency from it.
//!
//! # Invariants
//!
//! 1. A length that a peer sends is checked against a limit before anything is allocated.
//! 2. Every wait has a time limit, and a sentence that names the processes that it waits for.
//! 3. Which service holds a row depends only on the table's name, the row and the number of services; which holds a block
//!    only on the tables' shapes and the numbers of servers, ports and trainers.

mod ahead;
pub mod auth;
pub mod bell;
pub mod binding;
pub mod channel;
pub mod client;
pub mod data;
pub mod encoding;
pub mod frame;
pub mod gaps;
pub mod handshake;
mod ids;
pub mod lines;
pub mod message;
pub mod order;
pub mod owed;
pub mod part;
pub mod prefetch;
pub mod recovery;
pub mod runs;
pub mod shard;
pub mod shard_map;
pub mod shared;
pub mod spec;
pub mod status;
pub mod stranger;
pub mod stream;
pub mod tls;

pub use auth::Token;
pub use client::{
    AddressBook, Error, ResumePoint, RowRequest, ServerAddress, Session, SessionConfig,
    SessionTiming, Watch,
};
pub use data::View;
pub use encoding::Encoding;
pub use ids::{Generation, Step, TableId, TrainerId};
pub use shard::Topology;
pub use shard_map::ShardMap;
pub use spec::{JobSpec, Mode, TableSpec};
pub use status::PeerStatus;

#[cfg(target_endian = "big")]
compile_error!("payloads are copied as they lie in memory, which must be little-endian");
