//! `canoe config`: evaluate a configuration file and look at what it describes.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use config::{EvaluateOptions, TrainerConfig};

use crate::exit::Exit;

/// Arguments of `canoe config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Evaluate a file and say what is wrong with it.
    Check(File),
    /// Print the network as v1's text protobuf.
    Dump {
        #[command(flatten)]
        file: File,
        /// Print the whole configuration, not only the network.
        #[arg(long)]
        whole: bool,
        /// How to print.
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
}

#[derive(Debug, Args)]
struct File {
    /// The configuration file.
    file: PathBuf,
    /// key=value,… for get_config_arg.
    #[arg(long, visible_alias = "config_args", default_value = "")]
    config_args: String,
    /// Python interpreter.
    #[arg(long, visible_alias = "python_bin")]
    python: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Output {
    Text,
    Json,
}

/// Runs the command.
pub fn run(args: ConfigArgs) -> anyhow::Result<Exit> {
    match args.command {
        ConfigCommand::Check(file) => check(&file),
        ConfigCommand::Dump {
            file,
            whole,
            output,
        } => dump(&file, whole, output),
    }
}

fn evaluate(file: &File) -> anyhow::Result<TrainerConfig> {
    Ok(config::evaluate(&EvaluateOptions {
        args: file.config_args.clone(),
        python: file.python.clone(),
        ..EvaluateOptions::new(&file.file)
    })?)
}

fn check(file: &File) -> anyhow::Result<Exit> {
    let evaluated = evaluate(file)?;
    let model = evaluated.model_config.unwrap_or_default();
    nn::Network::new(&model)?;
    let values: u64 = model.parameters.iter().map(|p| p.size).sum();
    println!(
        "{}: {} layers, {} parameters with {values} values, batch size {}, method {}",
        file.file.display(),
        model.layers.len(),
        model.parameters.len(),
        evaluated.opt_config.batch_size,
        evaluated.opt_config.learning_method(),
    );
    Ok(Exit::Success)
}

fn dump(file: &File, whole: bool, output: Output) -> anyhow::Result<Exit> {
    let evaluated = evaluate(file)?;
    let model = evaluated.model_config.clone().unwrap_or_default();
    match (output, whole) {
        (Output::Text, true) => print!("{}", evaluated.to_text()),
        (Output::Text, false) => print!("{}", model.to_text()),
        (Output::Json, true) => println!("{}", serde_json::to_string_pretty(&evaluated)?),
        (Output::Json, false) => println!("{}", serde_json::to_string_pretty(&model)?),
    }
    Ok(Exit::Success)
}
