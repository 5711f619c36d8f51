//! One file a command: its arguments and what it does.

pub mod bench;
pub mod config;
pub mod data;
pub mod demo;
pub mod model;
mod progress;
pub mod pserver;
pub mod run;
pub mod train;
