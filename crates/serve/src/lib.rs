//! A trained model over HTTP: JSON in, JSON out.
//!
//! Connections are served by an async runtime, which parses samples and checks every field of them; the network runs on
//! plain threads, each with its own buffers. Between them is a bounded queue: what waits in it is computed together, so
//! batches grow with the load and a lonely request waits for nobody. A full queue is an immediate 503.
//!
//! # Map, in reading order
//!
//! - [`queue`]: the bounded queue of samples. [`merge`]: several requests as one batch.
//! - [`compute`]: the threads that empty it. [`current`]: the model that is served, and its replacement by a newer pass.
//! - [`http`]: routes and replies. [`access`]: who may ask. [`openapi`]: the description of the interface.
//! - [`figures`]: what it counts. [`tls`]: HTTPS. [`server`]: all of it together.

pub mod access;
pub mod compute;
pub mod current;
pub mod figures;
pub mod http;
pub mod merge;
pub mod openapi;
pub mod queue;
pub mod server;
pub mod tls;

pub use server::{HttpServer, ServeError, ServeSettings};
