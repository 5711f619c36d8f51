//! `canoe config`: evaluate a configuration file and look at what it describes.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use config::EvaluateOptions;
use config::command::{self, DumpFormat, Part};
use config::diagram::DiagramFormat;

use crate::exit::Exit;

/// Arguments of `canoe config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Evaluate a file, check that it can be trained, and say what it describes.
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
    /// Draw the network.
    Diagram {
        #[command(flatten)]
        file: File,
        /// As a picture, or as text for Graphviz.
        #[arg(long, value_enum, default_value = "svg")]
        output: Drawing,
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

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    Text,
    Json,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Drawing {
    Svg,
    Dot,
}

/// Runs the command.
pub fn run(args: ConfigArgs) -> anyhow::Result<Exit> {
    let text = match args.command {
        ConfigCommand::Check(file) => check(&file)?,
        ConfigCommand::Dump {
            file,
            whole,
            output,
        } => command::dump(&options(&file), part(whole), format(output))?,
        ConfigCommand::Diagram { file, output } => {
            let format = match output {
                Drawing::Svg => DiagramFormat::Svg,
                Drawing::Dot => DiagramFormat::Dot,
            };
            command::draw(&options(&file), format)?
        }
    };
    print!("{text}");
    Ok(Exit::Success)
}

fn options(file: &File) -> EvaluateOptions {
    EvaluateOptions {
        args: file.config_args.clone(),
        python: file.python.clone(),
        ..EvaluateOptions::new(&file.file)
    }
}

/// What the configuration describes, and whether every layer of it can be executed.
fn check(file: &File) -> anyhow::Result<String> {
    let text = command::check(&options(file))?;
    let evaluated = config::evaluate(&options(file))?;
    nn::Network::new(&evaluated.model_config.unwrap_or_default())?;
    Ok(text)
}

fn part(whole: bool) -> Part {
    if whole { Part::Whole } else { Part::Model }
}

fn format(output: Output) -> DumpFormat {
    match output {
        Output::Text => DumpFormat::Text,
        Output::Json => DumpFormat::Json,
    }
}
