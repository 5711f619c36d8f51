//! Training data as files: fetch it, unpack it, split it into shards, look at it.
//!
//! Nothing here prints or knows flags; progress goes to a function that is given.
//!
//! - [`fetch`]: a file from a URL or a path, resumed and checked.
//! - [`checksum`]: SHA-256 of files.
//! - [`archive`]: unpacks what was fetched, safely.
//! - [`carry`]: a folder over a pipe, to a pod.
//! - [`split`]: shards for the trainers, nothing lost or doubled.
//! - [`show`]: what is there.
//! - [`random`]: the seeded random numbers behind shuffles and generated data.
//! - `parallel`: a few threads for a few files.

pub mod archive;
pub mod carry;
pub mod checksum;
pub mod fetch;
mod parallel;
pub mod random;
pub mod show;
pub mod split;
