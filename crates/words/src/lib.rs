//! The words that every part of Canoe shares: what a person calls a thing, as a type.
//!
//! This is the only crate that every other crate may use. It has no dependencies but serde, does no I/O and starts no
//! threads. GLOSSARY.md says what each word means.
//!
//! - [`budget`]: how much processor time a thread may use.
//! - [`causes`]: an error with all its causes, on one line.
//! - [`event`]: one thing that happened in a job, as a line of JSON.
//! - [`failpoint`]: moments at which a test can hold a process.
//! - [`guess`]: the known word that is closest to a misspelt one.
//! - [`last_words`]: which of the last lines of a process says what went wrong.
//! - [`lock`]: locks that a panic does not poison.
//! - [`log`]: levels and topics of log lines, and the file and line of v1's source that is printed before each.
//! - [`metrics`]: Prometheus' text form.
//! - [`process`]: roles and processes.
//! - [`random`]: the generator for everything that must be a function of a seed.
//! - [`result`]: the result of a training in words.
//! - [`shell`]: quotes words of commands that messages suggest.
//! - [`statistics`]: the distribution of a parameter's values.
//! - [`status`]: the state of a process at one moment.

pub mod budget;
pub mod causes;
pub mod event;
pub mod failpoint;
pub mod guess;
pub mod last_words;
pub mod lock;
pub mod log;
pub mod metrics;
pub mod process;
pub mod random;
pub mod result;
pub mod shell;
pub mod statistics;
pub mod status;
