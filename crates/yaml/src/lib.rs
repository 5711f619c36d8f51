//! Reads and writes all YAML of Canoe: `job.yaml`, `cluster.yaml`, kubeconfigs, manifests.
//!
//! - [`parse`]: text to values, with the line of each.
//! - [`Document::typed`]: those values as a structure; errors have the line and suggest a key.
//! - [`document`], [`documents`]: values to text that parsers of YAML 1.1 and 1.2 read in the same way.

mod read;
mod typed;
mod write;

pub use read::{Document, YamlError, parse};
pub use write::{document, documents};
