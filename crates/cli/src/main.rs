//! The `canoe` binary: distributed training with parameter servers, on a laptop and on a cluster.
//!
//! `main` reads the command line, calls one command, prints its error with all causes, and ends with its exit code.
//! Under the name `paddle`, and after `canoe paddle`, it understands v1's sub-commands.

#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "this is the crate that talks to people"
)]

mod caches;
mod command_output;
mod commands;
mod console;
mod display;
mod exit;
mod fail_points;
mod flags;
mod form;
mod gflags;
mod memory;
mod observer;
mod pipe;
mod record;
mod run_checks;
mod security;
mod simulation;
mod status_page;
mod table;
mod v1;
mod v1_flags;
mod web;
mod wherever;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

use exit::Exit;

#[global_allocator]
static MEMORY: memory::LargePages = memory::LargePages;

/// What `--version` prints and pass directories record.
const VERSION: &str = concat!("canoe version: ", env!("CARGO_PKG_VERSION"));

/// What a newcomer may try first.
const BEGIN: &str = "\
To begin:
  canoe demo quick_start demo                      a job folder with generated data
  canoe run demo --config trainer_config.lr.py     train it, and watch it on a page
  canoe new mine                                   a small job of your own
  canoe doctor                                     what works on this machine";

/// Distributed training with parameter servers, on a laptop and on Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "canoe", version, max_term_width = 100, after_help = BEGIN)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a job folder on this machine, as N nodes.
    Run(commands::run::RunArgs),
    /// Write a small job folder of your own: configuration, data provider, data and a test.
    New(commands::new::NewArgs),
    /// Write a ready job folder, with data.
    Demo(commands::demo::DemoArgs),
    /// Split, fetch and look at data.
    Data(commands::data::DataArgs),
    /// Evaluate a configuration file and look at what it describes.
    Config(commands::config::ConfigArgs),
    /// Run one trainer, with v1's flags (`canoe train --help` lists them).
    #[command(disable_help_flag = true)]
    Train(V1Arguments),
    /// Run one parameter server, with v1's flags (`canoe pserver --help` lists them).
    #[command(disable_help_flag = true)]
    Pserver(V1Arguments),
    /// Write a pass directory as one file in v1's format, with v1's flags (`--model_dir`, `--model_file`).
    #[command(name = "merge_model", disable_help_flag = true)]
    MergeModel(V1Arguments),
    /// Accepted from v1's scripts, does nothing: v1 reported runs to its makers, Canoe reports nothing to anybody.
    #[command(hide = true, disable_help_flag = true)]
    Usage(V1Arguments),
    /// Run a command of v1 (`canoe paddle train …`, dump_config, make_diagram, …), or make `paddle` callable.
    Paddle(commands::paddle::PaddleArgs),
    /// Use the Python packages `paddle` and `py_paddle` in scripts.
    Python(commands::python::PythonArgs),
    /// Run a node of a cluster job: the entry point of a pod.
    #[command(disable_help_flag = true)]
    Node(V1Arguments),
    /// Run a job folder on Kubernetes.
    Job(commands::job::JobArgs),
    /// Make an image with canoe in it and push it, without Docker.
    Image(commands::image::ImageArgs),
    /// Make, watch and remove a cluster on AWS.
    Cluster(commands::cluster::ClusterArgs),
    /// Look at jobs in a browser: running ones, finished ones, several at once.
    Dashboard(commands::dashboard::DashboardArgs),
    /// Write what a job did into one HTML file, to keep or to send.
    Report(commands::report::ReportArgs),
    /// Apply a trained model to samples: text, CSV, JSON lines, or what the data provider reads.
    Predict(commands::predict::PredictArgs),
    /// Serve a trained model over HTTP: JSON in, JSON out.
    Serve(commands::serve::ServeArgs),
    /// Look into a pass directory, check it, export it, compare two.
    Model(commands::model::ModelArgs),
    /// Compute for py_paddle, over standard input and output: v1's predict scripts start it themselves.
    #[command(hide = true)]
    PythonWorker,
    /// Check the recovery snapshots of parameter servers.
    Snapshot(commands::snapshot::SnapshotArgs),
    /// Check this machine: what works, what does not, and what to do about it.
    Doctor(commands::doctor::DoctorArgs),
    /// Reproducible measurements.
    Bench(commands::bench::BenchArgs),
    /// Print the completions of a shell, to be loaded by it.
    Completions(commands::shell::CompletionsArgs),
    /// Write manual pages, one per command.
    Man(commands::shell::ManArgs),
}

/// Arguments in the form of v1, which `flags` reads.
#[derive(Debug, clap::Args)]
struct V1Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

impl V1Arguments {
    /// v1's parser knows no short flags.
    fn with_long_help(mut self) -> Vec<String> {
        for arg in &mut self.args {
            if arg == "-h" {
                "--help".clone_into(arg);
            }
        }
        self.args
    }
}

/// Adds a suggestion for a misspelt command where clap finds none: clap compares common letters, and so does not suggest
/// `run` for `rnu`.
fn guessed(mut error: clap::Error) -> clap::Error {
    let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(typed))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    else {
        return error;
    };
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return error;
    }
    let program = Cli::command();
    // The known commands are those of the level at which the word was typed; clap's usage line has the path to that
    // level.
    let mut level = &program;
    for argument in std::env::args().skip(1).take_while(|word| word != typed) {
        level = level.find_subcommand(&argument).unwrap_or(level);
    }
    let names = level.get_subcommands().map(clap::Command::get_name);
    if let Some(meant) = words::guess::nearest(typed, names) {
        let meant = ContextValue::Strings(vec![meant.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, meant);
    }
    error
}

/// Prints help, the version, or what is wrong with the command line, and ends the program.
fn refused(error: &clap::Error) -> ! {
    if let Err(failed) = pipe::quietly(error.print()) {
        pipe::not_written(&failed.to_string());
    }
    #[expect(
        clippy::exit,
        reason = "as clap's own `exit`, which hides that printing failed"
    )]
    std::process::exit(error.exit_code());
}

fn main() -> ExitCode {
    pipe::end_quietly_when_nobody_reads();
    fail_points::install();
    if let Some(caches) = caches::folder() {
        config::python::keep_package_below(caches);
    }
    let arguments = match v1::translate(std::env::args().collect()) {
        Ok(arguments) => arguments,
        Err(misused) => {
            eprintln!("{misused}");
            return Exit::Usage.into();
        }
    };
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => refused(&guessed(error)),
    };
    let result = match cli.command {
        Command::Run(args) => commands::run::run(args),
        Command::New(args) => commands::new::run(&args),
        Command::Demo(args) => commands::demo::run(args).map(|()| Exit::Success),
        Command::Data(args) => commands::data::run(args).map(|()| Exit::Success),
        Command::Config(args) => commands::config::run(args),
        Command::Train(v1) => commands::train::run(&v1.with_long_help()),
        Command::Pserver(v1) => commands::pserver::run(&v1.with_long_help()),
        Command::MergeModel(v1) => commands::merge_model::run(&v1.with_long_help()),
        Command::Usage(_) => Ok(Exit::Success),
        Command::Paddle(args) => commands::paddle::run(&args),
        Command::Python(args) => commands::python::run(args),
        Command::Node(v1) => commands::node::run(&v1.with_long_help()),
        Command::Job(args) => commands::job::run(args),
        Command::Image(args) => commands::image::run(args),
        Command::Cluster(args) => commands::cluster::run(args),
        Command::Dashboard(args) => commands::dashboard::run(args),
        Command::Report(args) => commands::report::run(args),
        Command::Predict(args) => commands::predict::run(args),
        Command::Serve(args) => commands::serve::run(args),
        Command::Model(args) => commands::model::run(args),
        Command::PythonWorker => commands::python_worker::run(),
        Command::Snapshot(args) => commands::snapshot::run(args),
        Command::Bench(args) => commands::bench::run(args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Completions(args) => commands::shell::completions(&args, Cli::command()),
        Command::Man(args) => commands::shell::man(&args, Cli::command()),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("canoe: {error:#}");
            Exit::Failure.into()
        }
    }
}
