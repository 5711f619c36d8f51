//! The record of a job: what its processes write while they run, and the pages and reports made from it.
//!
//! Every process appends what happens to a file of its own and replaces a small file with its present state once a
//! second. All viewers read these files, so the pages of a running and of a finished job are the same.
//! Watching costs a job only the writing of these files, and needs no service.
//!
//! ```text
//! output/events.jsonl                       the runner: processes started, crashed, restarted; how the job ended
//! output/node_<id>/train.events.jsonl       a trainer: costs, tests, passes, statistics of parameters
//! output/node_<id>/server.events.jsonl      a server: snapshots, recoveries, sizes of tables
//! output/node_<id>/node.events.jsonl        a node of a cluster, where no runner sees all nodes
//! output/node_<id>/{train,server}.beat.json the current status of a process
//! output/tensorboard/{train,test}/          event files for TensorBoard
//! ```
//!
//! # Map, in reading order
//!
//! - [`recorder`]: appends events ([`words::event`]) to a file; [`state_file`]: the current state.
//! - [`files`]: paths of the files of a process.
//! - [`follow`]: reads files that grow.
//! - [`series`]: a curve and its
//!   thinning.
//! - [`mark`], [`place`], [`history`], `totals`: turn records into what a page shows; pure.
//! - [`job`]: follows the folder of a job; [`nodes`]: which node waits for which; [`picture`]: the data that are sent to
//!   a page, incrementally.
//! - [`logs`]: a few lines of any log, with search.
//! - [`tensorboard`]: event files.
//! - [`page`]: the page itself.
//! - [`report`], [`chart`]: a job as one file.
//!
//! # Invariants
//!
//! 1. Nothing that is read from a file is trusted: lines that are torn, too long or of another version are skipped.
//! 2. Memory is bounded by what is shown, not by the size of the files.

pub mod chart;
pub mod files;
pub mod follow;
pub mod history;
pub mod job;
pub mod logs;
mod mark;
pub mod nodes;
mod number_text;
pub mod page;
pub mod picture;
mod place;
pub mod recorder;
pub mod report;
pub mod series;
pub mod state_file;
pub mod tensorboard;
mod totals;
