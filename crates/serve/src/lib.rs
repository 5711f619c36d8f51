//! A trained model over HTTP: JSON in, JSON out.
//!
//! A few threads share all connections: each gets events of some sockets, reads the request, checks every field of its
//! samples, computes them if one of the runners is free, and sends the response. So without load a request stays on one
//! thread and does not wait. If all runners compute, requests go into a bounded queue, and a thread that finishes a batch
//! takes all waiting requests as the next one: batches grow with the load. If the queue is full, the reply is 503.
//!
//! # Map, in reading order
//!
//! - [`head`], [`chunks`]: requests as bytes. [`reply`]: responses as bytes. [`transport`]: plain or through TLS.
//! - [`connection`]: the state machine of a client. [`connections`]: all of them. [`events`]: what happens on sockets.
//! - [`routes`]: what a path means. [`access`]: which requests are allowed. [`openapi`]: the description of the
//!   interface.
//! - [`queue`]: the bounded queue of samples. [`merge`]: several requests as one batch. [`compute`]: from requests to
//!   responses. [`current`]: the model that is served, and its replacement by a newer pass.
//! - [`worker`]: a thread. [`figures`]: counters. [`server`]: starts the threads and keeps the time.

pub mod access;
mod chunks;
mod compute;
pub mod connection;
mod connections;
pub mod current;
mod events;
mod figures;
mod head;
mod merge;
mod openapi;
mod queue;
mod reply;
mod routes;
pub mod server;
mod transport;
mod worker;

pub use server::{HttpServer, ServeError, ServeSettings};
