//! The Kubernetes side: a job file and a folder become objects, and the state of objects becomes words.
//!
//! # Map, in reading order
//!
//! - [`job`], [`check`]: the job file and what is wrong with it.
//! - [`folder`], [`credentials`], [`program`]: the configuration folder, the secrets and the binary that go along.
//! - [`objects`]: every object of a job, as plain values; pure and deterministic.
//! - [`tutorial`]: the same job in the layout of v1's tutorial.
//! - [`verify`]: what must agree between objects and no validator checks.
//! - [`render`]: a job folder to checked objects.
//! - [`fit`]: whether all nodes of a job find room at once.
//! - [`cluster`]: the live side, through the API server.
//! - [`explain`]: pods, events and the job's state to a reason, and a sentence with the way out.

pub mod check;
pub mod cluster;
pub mod credentials;
pub mod explain;
pub mod fit;
pub mod folder;
pub mod job;
pub mod objects;
pub mod program;
pub mod render;
pub mod tutorial;
pub mod verify;
