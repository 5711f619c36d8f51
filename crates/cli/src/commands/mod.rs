//! One file per command: its arguments and what it does.

pub(crate) mod bench;
pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod dashboard;
pub(crate) mod data;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod follow;
pub(crate) mod image;
pub(crate) mod job;
pub(crate) mod merge_model;
pub(crate) mod model;
pub(crate) mod new;
pub(crate) mod node;
mod opening;
pub(crate) mod paddle;
pub(crate) mod predict;
mod progress;
pub(crate) mod pserver;
pub(crate) mod python;
pub(crate) mod python_worker;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod snapshot;
pub(crate) mod train;
