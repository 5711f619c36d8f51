//! The commands: flags and printing; the work is done elsewhere.

pub mod data;
pub mod demo;
mod progress;
