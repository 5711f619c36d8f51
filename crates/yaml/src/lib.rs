//! The one way in which YAML is read and written: `job.yaml`, `cluster.yaml`, kubeconfigs, manifests.
//!
//! - [`parse`]: text to values, with the line of each.
//! - [`Document::typed`]: those values as a structure; what does not fit is named with its line and a guess.
//! - [`document`], [`documents`]: values to text that every parser reads alike.

mod read;
mod typed;
mod write;

pub use read::{Document, YamlError, parse};
pub use write::{document, documents};
