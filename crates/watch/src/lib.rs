//! The record of a job: what its processes write while they run, and what pages and reports make of it.
//!
//! Every process appends what happens to a file of its own and replaces a small file with its present state once a
//! second. Whoever wants to look reads these files: a page of a running job and one of a finished job differ in nothing.
//! So watching costs a job nothing but the writing, and a job needs no service to be watched.
//!
//! ```text
//! output/events.jsonl                       the runner: processes started, died, restarted; how the job ended
//! output/node_<id>/train.events.jsonl       a trainer: costs, tests, passes, statistics of parameters
//! output/node_<id>/server.events.jsonl      a server: snapshots, recoveries, sizes of tables
//! output/node_<id>/node.events.jsonl        a node of a cluster, where no runner sees all
//! output/node_<id>/{train,server}.beat.json the present state of a process
//! output/tensorboard/{train,test}/          event files for TensorBoard
//! ```
//!
//! # Map, in reading order
//!
//! - [`record`]: one thing that happened, as a line of JSON; [`recorder`] writes lines, [`beat`] the present state.
//! - [`follow`]: reads files that grow. - [`series`]: a curve and its thinning. - [`mark`], [`place`], [`history`]: records to what a page shows; pure.
//! - [`job`]: the folder of a job, read again and again; [`nodes`]: who waits for whom; [`picture`]: what a page is sent, with increments.
//! - [`logs`]: a few lines out of any log, with search.
//! - [`tensorboard`]: event files. - [`page`]: the page itself. - [`report`], [`chart`], [`raster`]: a finished job on paper.
//! - [`metrics`]: the names and texts of all metrics.
//!
//! # Invariants
//!
//! 1. Nothing that is read from a file is believed: lines that are torn, too long or of another version are left out.
//! 2. Memory is bounded by what is shown, not by what was written.

pub mod beat;
pub mod chart;
pub mod follow;
pub mod history;
pub mod job;
pub mod logs;
pub mod mark;
pub mod metrics;
pub mod nodes;
pub mod page;
pub mod picture;
mod place;
pub mod raster;
pub mod record;
pub mod recorder;
pub mod report;
pub mod series;
pub mod tensorboard;
mod words;
