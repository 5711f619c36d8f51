//! What a training run is asked to do, in plain values; the command line fills it from v1's flags.

use std::ffi::OsString;
use std::path::PathBuf;

/// Settings of one trainer.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Decides initial values, data order and dropout.
    pub seed: u64,
    /// Compute threads.
    pub threads: usize,
    /// Which trainer of the job this is, from 0.
    pub trainer: u32,
    /// Version text for the file `done`.
    pub version: String,
    /// The configuration file; copied into pass directories.
    pub config_file: PathBuf,
    /// Passes, saving and loading.
    pub passes: Passes,
    /// Progress lines and statistics.
    pub reporting: Reporting,
    /// How data providers run.
    pub data: DataSettings,
    /// The parameter servers, unless training is local.
    pub remote: Option<Remote>,
}

/// Training with parameter servers.
#[derive(Debug, Clone)]
pub struct Remote {
    /// Where the servers are and how to talk to them.
    pub session: wire::Config,
    /// Name of this run of the job: snapshots of another run are not restored.
    pub job: String,
    /// Asynchronous training: how many batches a trainer may be ahead of the slowest.
    pub staleness: u32,
    /// Batches between recovery snapshots; 0 for none.
    pub snapshot_every: u64,
    /// Tables that are updated by row are drawn, loaded and saved by the servers; no trainer ever holds one whole.
    pub rows_stay: bool,
}

/// Passes, saving and loading.
#[derive(Debug, Clone)]
pub struct Passes {
    /// How many passes to run.
    pub count: u32,
    /// Passes that are done already: parameters and optimizer state come from `pass-(start - 1)`.
    pub start: u32,
    /// Directory to load parameters from instead.
    pub init_model_path: Option<PathBuf>,
    /// What to do about a parameter that has no file there.
    pub missing: Missing,
    /// Where pass directories go, if the command line says so; else the configuration does.
    pub save_dir: Option<PathBuf>,
    /// Save when the pass number is a multiple of this.
    pub saving_period: u32,
    /// Also save inside a pass, every so many batches; 0 for never.
    pub saving_period_by_batches: u64,
    /// Delete the pass directory before the newest.
    pub save_only_one: bool,
    /// Test every so many batches; 0 for at pass end only.
    pub test_period: u64,
    /// Test averaged parameters every so many batches; 0 for never.
    pub average_test_period: u64,
    /// `--job=test`: the first pass to test.
    pub test_pass: Option<u32>,
    /// `--job=test`: wait for passes that are not there yet.
    pub test_wait: bool,
    /// `--job=test`: a file that lists model directories, one a line.
    pub model_list: Option<PathBuf>,
    /// `--job=test`: write the outputs of every sample here instead of measuring them.
    pub predict_output_dir: Option<PathBuf>,
    /// Write what evaluators of ranks (areas under the curve, orders of pairs) saw of the last test here.
    pub predict_file: Option<PathBuf>,
    /// `--job=test`: add up what the evaluators of all trainers saw, through the servers.
    pub distribute_test: bool,
    /// `--job=time`: take a new batch every round.
    pub feed_data: bool,
}

/// What to do about a parameter without a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Refuse to start.
    Fail,
    /// Draw initial values.
    Random,
    /// Start from zero.
    Zero,
}

/// Progress lines and statistics; 0 turns a period off.
#[derive(Debug, Clone, Copy)]
pub struct Reporting {
    /// A progress line every so many batches.
    pub log_period: u64,
    /// A dot every so many batches.
    pub dot_period: u64,
    /// Parameter statistics every so many batches.
    pub parameter_period: u64,
    /// Statistics of every layer's output, every batch.
    pub layer_statistics: bool,
    /// Tell which parameters' gradients are clipped.
    pub clipping: bool,
    /// Tell which layers' gradients are clipped.
    pub error_clipping: bool,
}

/// How data providers run.
#[derive(Debug, Clone)]
pub struct DataSettings {
    /// What relative paths of the configuration start from: the working directory, as in v1; one for each trainer
    /// that this process plays.
    pub directories: Vec<PathBuf>,
    /// Python interpreter.
    pub python: PathBuf,
    /// The directory that holds our `paddle` Python package.
    pub package: PathBuf,
    /// The `PYTHONPATH` of providers; by default that of this process.
    pub python_path: Option<OsString>,
    /// Provider processes; without it as many as there are cores.
    pub workers: Option<usize>,
}
