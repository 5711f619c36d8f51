//! Training data as files: fetch it, unpack it, split it into shards, look at it.
//!
//! Nothing here prints or knows flags; progress is reported to a callback.
//!
//! - [`fetch`]: a file from a URL or a path, resumed and checked.
//! - [`checksum`]: SHA-256 of files.
//! - [`archive`]: unpacks what was fetched, safely.
//! - [`carry`]: copies a folder over a pipe, to a pod.
//! - [`pick`]: which files of an output folder are meant.
//! - [`bucket`]: folders from and to object stores (`s3://`).
//! - [`split`]: shards for the trainers; no line is lost or duplicated.
//! - [`show`]: lists files and shards.
//! - [`random`]: the seeded random numbers for shuffles and generated data.
//! - [`demo`]: ready job folders with generated data.
//! - `parallel`: numbered jobs on a few threads.

pub mod archive;
pub mod bucket;
pub mod carry;
pub mod checksum;
pub mod demo;
pub mod fetch;
mod kind;
mod parallel;
pub mod pick;
mod random;
pub mod show;
pub mod split;
