//! Matrices, layers, the graph and metrics; here only what a data source needs to know of it.

pub mod batch;

pub use batch::{Batch, Slot, SlotData};
