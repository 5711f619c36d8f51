//! Training data as files: fetches, unpacks, splits and shows them.
//!
//! Nothing here prints or knows flags; progress is reported to a callback.
//!
//! - [`fetch`]: downloads or copies a file, resumed and checked.
//! - [`checksum`]: SHA-256 of files.
//! - [`archive`]: unpacks archives from untrusted sources.
//! - [`carry`]: copies a folder over a pipe, to or from a pod.
//! - [`pick`]: selects files of an output folder.
//! - [`bucket`]: copies folders from and to object stores (`s3://`).
//! - [`split`]: splits data into shards for the trainers; no line is lost or duplicated.
//! - [`show`]: lists files and shards.
//! - [`random`]: the seeded random numbers for shuffles and generated data.
//! - [`demo`]: ready job folders with generated data.
//! - `parallel`: runs numbered tasks on a few threads.

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
