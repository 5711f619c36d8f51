//! Turns events into text. Everything here is pure: it returns strings, and the caller prints them.
//!
//! - [`summary`]: the totals of the events, and the table at the end of a run.
//! - [`view`]: the live picture for a terminal, fitted to its size.
//! - [`screen`]: redraws that picture in place.
//! - [`plain`]: one line per event for pipes and files, in v1's words where v1 had some.
//! - [`text`]: numbers, bars and spark lines.

pub mod plain;
pub mod screen;
pub mod summary;
pub mod text;
pub mod view;
