//! The Kubernetes side: renders a job file and a folder as objects, and explains the state of objects in sentences.
//!
//! # Map, in reading order
//!
//! - [`job`], [`check`]: the job file and what is wrong with it.
//! - [`folder`], [`credentials`], [`program`]: the configuration folder, the secrets and the binary of a job.
//! - [`objects`]: every object of a job, as plain values; pure and deterministic.
//! - [`tutorial`]: the same job in the layout of v1's tutorial.
//! - [`verify`]: checks that objects agree with each other, which no API server does.
//! - [`render`]: renders a job folder as checked objects.
//! - [`fit`]: checks whether the cluster has room for all nodes at once.
//! - [`cluster`]: requests to the API server.
//! - [`explain`]: finds the reason why a job stands still, and says it with the remedy.

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
