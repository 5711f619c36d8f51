//! Options of a training run as plain values; the command line fills them from v1's flags.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use wire::owed::Periods;

use crate::best::Keep;

/// Settings of one trainer.
#[derive(Debug, Clone)]
pub struct TrainerSettings {
    /// Decides initial values, data order and dropout.
    pub seed: u64,
    /// Number of compute threads.
    pub threads: usize,
    /// Which trainer of the job this is, from 0.
    pub trainer: u32,
    /// Version text for the file `done`.
    pub version: String,
    /// The configuration file; copied into pass directories.
    pub config_file: PathBuf,
    /// The user's arguments of the configuration (`--config_args`), kept with every model.
    pub config_args: String,
    /// Passes, saving and loading.
    pub passes: Passes,
    /// Progress lines and statistics.
    pub reporting: Reporting,
    /// How data providers run.
    pub data: DataSettings,
    /// The parameter servers, unless training is local.
    pub remote: Option<RemoteSettings>,
    /// What must stay as it was when the run began; `None` for a trainer that no runner has started.
    pub checks: Option<Arc<dyn RunChecks>>,
}

/// What must stay as it was when the run began, or the trainer ends. The errors are sentences for people.
pub trait RunChecks: fmt::Debug + Send + Sync {
    /// Fails if the output folder belongs to another run. Called right before results are written there.
    fn folder(&self) -> Result<(), String>;

    /// Fails if a training file has been replaced. Called before and after each pass.
    fn data(&self) -> Result<(), String>;

    /// The same for every batch, as cheap as that needs: it may miss a change that [`RunChecks::data`] finds.
    fn data_quickly(&self) -> Result<(), String>;
}

/// Training with parameter servers.
#[derive(Debug, Clone)]
pub struct RemoteSettings {
    /// Addresses of the servers, and options of the connection.
    pub session: wire::SessionConfig,
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
    /// Directory to load parameters from, instead of a pass of this run.
    pub init_model_path: Option<PathBuf>,
    /// What to do if a parameter has no file in the directory that is loaded.
    pub missing: Missing,
    /// Directory for pass directories from the command line; by default that of the configuration.
    pub save_dir: Option<PathBuf>,
    /// Save when the pass number is a multiple of this.
    pub saving_period: u32,
    /// Also save inside a pass, every this many batches; 0 for never.
    pub saving_period_by_batches: u64,
    /// Which pass directories are kept.
    pub keep: Keep,
    /// When training ends before its last pass.
    pub patience: Patience,
    /// What passes are compared by, if the user named it.
    pub best_by: Option<String>,
    /// Test every this many batches; 0 for the end of a pass only.
    pub test_period: u64,
    /// Test averaged parameters every this many batches; 0 for never.
    pub average_test_period: u64,
    /// `--job=test`: the first pass to test.
    pub test_pass: Option<u32>,
    /// `--job=test`: wait for passes that do not exist yet.
    pub test_wait: bool,
    /// `--job=test`: a file that lists model directories, one per line.
    pub model_list: Option<PathBuf>,
    /// `--job=test`: write the outputs of every sample to this directory instead of measuring them.
    pub predict_output_dir: Option<PathBuf>,
    /// File for the predictions that ranking evaluators (area under the curve, order of pairs) saw in the last test.
    pub predict_file: Option<PathBuf>,
    /// `--job=test`: sum the evaluators of all trainers, through the servers.
    pub distribute_test: bool,
    /// `--job=time`: take a new batch every round.
    pub feed_data: bool,
}

impl Passes {
    /// Settings for `count` passes from the first one, without tests and without saved models.
    pub fn unsaved(count: u32) -> Self {
        Self {
            count,
            start: 0,
            init_model_path: None,
            missing: Missing::Fail,
            save_dir: None,
            saving_period: u32::MAX,
            saving_period_by_batches: 0,
            keep: Keep::ALL,
            patience: Patience::Unlimited,
            best_by: None,
            test_period: 0,
            average_test_period: 0,
            test_pass: None,
            test_wait: false,
            model_list: None,
            predict_output_dir: None,
            predict_file: None,
            distribute_test: false,
            feed_data: false,
        }
    }

    /// When tests and saves are due.
    pub fn periods(&self) -> Periods {
        Periods {
            saving: u64::from(self.saving_period),
            saving_by_batches: self.saving_period_by_batches,
            test: self.test_period,
            average_test: self.average_test_period,
        }
    }
}

/// How long training continues without improvement of its test results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Until its last pass.
    Unlimited,
    /// [`crate::best::PATIENCE`] passes, if the configuration tests at the end of passes.
    Usual,
    /// This many passes. Without test data the job is refused.
    Passes(u32),
}

/// What to do if a parameter has no file.
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
    /// A progress line every this many batches.
    pub log_period: u64,
    /// A dot every this many batches.
    pub dot_period: u64,
    /// Parameter statistics every this many batches.
    pub parameter_period: u64,
    /// Statistics of every layer's output, every batch.
    pub layer_statistics: bool,
    /// Log the parameters whose gradients are clipped.
    pub clipping: bool,
    /// Log the layers whose gradients are clipped.
    pub error_clipping: bool,
}

/// How data providers run.
#[derive(Debug, Clone)]
pub struct DataSettings {
    /// Base of the configuration's relative paths: the working directory, as in v1; one per trainer that this process
    /// plays.
    pub directories: Vec<PathBuf>,
    /// Path or name of the Python interpreter.
    pub python: PathBuf,
    /// The directory that holds our `paddle` Python package.
    pub package: PathBuf,
    /// The `PYTHONPATH` of providers; by default that of this process.
    pub python_path: Option<OsString>,
    /// Number of provider processes; by default one per core.
    pub workers: Option<usize>,
}
