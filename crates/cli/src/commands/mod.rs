//! One file a command: its arguments and what it does.

pub mod model;
pub mod train;
