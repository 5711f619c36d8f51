//! One file a command: its arguments and what it does.

pub mod bench;
pub mod cluster;
pub mod config;
pub mod dashboard;
pub mod data;
pub mod demo;
pub mod job;
pub mod model;
pub mod node;
mod progress;
pub mod pserver;
pub mod report;
pub mod run;
pub mod train;
