//! `canoe config`: evaluate a configuration file and look at what it describes.

mod check;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use config::EvaluateOptions;
use config::command::{self, DumpFormat, DumpPart};
use config::diagram::DiagramFormat;
use run::local::layout;

use crate::command_output;
use crate::exit::Exit;
use crate::form::Form;
use crate::{pipe, wherever};

/// Arguments of `canoe config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Evaluate a file and check that it can be trained: the network, the data providers, the first samples.
    Check {
        #[command(flatten)]
        file: File,
        /// Only evaluate the file and build the network; read no data.
        #[arg(long)]
        fast: bool,
        #[command(flatten)]
        form: Form,
    },
    /// Print the network as v1's text protobuf.
    Dump {
        #[command(flatten)]
        file: File,
        /// Print the whole configuration, not only the network.
        #[arg(long)]
        whole: bool,
        #[command(flatten)]
        form: Form,
        /// Write the whole configuration as v1's binary protobuf.
        #[arg(long)]
        binary: bool,
    },
    /// Draw the network.
    Diagram {
        #[command(flatten)]
        file: File,
        /// SVG, or DOT for Graphviz.
        #[arg(long, value_enum, default_value = "svg", alias = "output")]
        format: Drawing,
        /// Write the drawing to this file instead of printing it.
        #[arg(long, short = 'o', value_name = "FILE")]
        to: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct File {
    /// The configuration file, or a job folder that has one.
    file: PathBuf,
    /// key=value,… for get_config_arg.
    #[arg(long, visible_alias = "config_args", default_value = "")]
    config_args: String,
    /// Python interpreter.
    #[arg(long, visible_alias = "python_bin")]
    python: Option<PathBuf>,
}

impl File {
    /// Finds the only configuration of a folder.
    fn find(&mut self) -> anyhow::Result<()> {
        let folder = &self.file;
        if !folder.is_dir() {
            return Ok(());
        }
        let found = layout::configurations(folder)?;
        let named: Vec<_> = found.iter().map(|path| folder.join(path)).collect();
        self.file = match named.as_slice() {
            [only] => only.clone(),
            [] => anyhow::bail!(
                "{} is a folder without a trainer_config*.py; name a configuration file",
                folder.display()
            ),
            several => anyhow::bail!(
                "{} is a folder with {} configurations; name one of them:\n{}",
                folder.display(),
                several.len(),
                several
                    .iter()
                    .map(|path| format!("  {}", words::shell::word(path)))
                    .collect::<Vec<_>>()
                    .join("\n")
            ),
        };
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Drawing {
    Svg,
    Dot,
}

pub(crate) fn run(mut args: ConfigArgs) -> anyhow::Result<Exit> {
    let (ConfigCommand::Check { file, .. }
    | ConfigCommand::Dump { file, .. }
    | ConfigCommand::Diagram { file, .. }) = &mut args.command;
    file.find()?;
    let text = match args.command {
        ConfigCommand::Check { file, fast, form } => return check::run(&file, fast, form),
        ConfigCommand::Dump {
            file, binary: true, ..
        } => {
            let evaluated = wherever::evaluate(&options(&file))?.done;
            pipe::print(&config::binary::encode(&evaluated.config)?)?;
            return Ok(Exit::Success);
        }
        ConfigCommand::Dump {
            file, whole, form, ..
        } => {
            let dump = |options: &_| command::dump(options, part(whole), format(form));
            wherever::first(&options(&file), dump)?.done
        }
        ConfigCommand::Diagram { file, format, to } => {
            let format = match format {
                Drawing::Svg => DiagramFormat::Svg,
                Drawing::Dot => DiagramFormat::Dot,
            };
            let draw = |options: &_| command::draw(options, format);
            let drawing = wherever::first(&options(&file), draw)?.done;
            command_output::write(to.as_deref(), &drawing)?;
            return Ok(Exit::Success);
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

fn part(whole: bool) -> DumpPart {
    if whole {
        DumpPart::Whole
    } else {
        DumpPart::Model
    }
}

fn format(form: Form) -> DumpFormat {
    if form.json() {
        DumpFormat::Json
    } else {
        DumpFormat::Text
    }
}
