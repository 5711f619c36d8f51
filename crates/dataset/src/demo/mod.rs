//! The demo jobs: our own configurations in v1's API, with data that are generated or prepared from real data sets.
//!
//! - [`quick_start`]: review classification, seven networks.
//! - [`reviews`]: its data.
//! - [`recommendation`]: stars for movies.
//! - [`movies`]: its data.
//! - [`job`]: publishes a finished job directory.

mod error;
pub mod job;
pub mod movies;
pub mod quick_start;
pub mod recommendation;
pub(crate) mod reviews;

pub use error::DemoError;
