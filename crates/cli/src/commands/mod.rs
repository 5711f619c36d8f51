//! One file per command: its arguments and what it does.

pub mod bench;
pub mod cluster;
pub mod config;
pub mod dashboard;
pub mod data;
pub mod demo;
pub mod doctor;
pub mod follow;
pub mod image;
pub mod job;
pub mod merge_model;
pub mod model;
pub mod new;
pub mod node;
mod opening;
pub mod paddle;
pub mod predict;
mod progress;
pub mod pserver;
pub mod python;
pub mod python_worker;
pub mod report;
pub mod run;
pub mod serve;
pub mod shell;
pub mod snapshot;
pub mod train;
