//! The live side: submit, look at, read and delete a job on a cluster, through `kubectl`.
//!
//! Whoever has a cluster has kubectl, and it knows every way to log in to one (exec plugins, client
//! certificates, proxies). Only this folder runs it; what goes in and what comes out are the plain
//! values of [`objects`](super::objects) and [`explain`](super::explain), so that another client could
//! take its place.

pub mod arguments;
pub mod difference;
pub mod kubectl;
pub mod submit;

pub use arguments::Target;
pub use kubectl::{ClusterError, Kubectl};
pub use submit::{Again, Submitted, submit};
