//! The `canoe` binary: distributed training with parameter servers, on a laptop and on a cluster.
//!
//! `main` reads the command line, calls one command, prints its error with all causes, and ends with its exit code.
//! Started under the name `paddle` it understands v1's sub-commands.

#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "this is the crate that talks to people"
)]

mod causes;
mod commands;
mod console;
mod data;
mod demo;
mod display;
mod exit;
mod flags;
mod memory;
mod observer;
mod record;
mod security;
mod simulation;
mod status_page;
mod table;
mod v1;
mod v1_flags;
mod web;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use exit::Exit;

#[global_allocator]
static MEMORY: memory::LargePages = memory::LargePages;

/// What `--version` prints and pass directories record.
const VERSION: &str = concat!("canoe version: ", env!("CARGO_PKG_VERSION"));

/// Distributed training with parameter servers, on a laptop and on Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "canoe", version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a job folder on this machine, as N nodes.
    Run(commands::run::RunArgs),
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
    /// Run a node of a cluster job: the entry point of a pod.
    #[command(disable_help_flag = true)]
    Node(V1Arguments),
    /// Run a job folder on Kubernetes.
    Job(commands::job::JobArgs),
    /// Make, watch and remove a cluster on AWS.
    Cluster(commands::cluster::ClusterArgs),
    /// Look at jobs in a browser: running ones, finished ones, several at once.
    Dashboard(commands::dashboard::DashboardArgs),
    /// Write what a job did into one HTML file, to keep or to send.
    Report(commands::report::ReportArgs),
    /// Look into a pass directory, export it, compare two.
    Model(commands::model::ModelArgs),
    /// Reproducible measurements.
    Bench(commands::bench::BenchArgs),
}

/// Arguments in the form of v1, which `flags` reads.
#[derive(Debug, clap::Args)]
struct V1Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

fn main() -> ExitCode {
    let cli = Cli::parse_from(v1::translate(std::env::args().collect()));
    let result = match cli.command {
        Command::Run(args) => commands::run::run(args),
        Command::Demo(args) => commands::demo::run(args).map(|()| Exit::Success),
        Command::Data(args) => commands::data::run(args).map(|()| Exit::Success),
        Command::Config(args) => commands::config::run(args),
        Command::Train(v1) => commands::train::run(&v1.args),
        Command::Pserver(v1) => commands::pserver::run(&v1.args),
        Command::Node(v1) => commands::node::run(&v1.args),
        Command::Job(args) => commands::job::run(args),
        Command::Cluster(args) => commands::cluster::run(args),
        Command::Dashboard(args) => commands::dashboard::run(args),
        Command::Report(args) => commands::report::run(args),
        Command::Model(args) => commands::model::run(args),
        Command::Bench(args) => commands::bench::run(args),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("canoe: {error:#}");
            Exit::Failure.into()
        }
    }
}
