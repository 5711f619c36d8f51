//! `canoe merge_model`: a pass directory as one file, with v1's flags and in v1's format.

use std::path::{Path, PathBuf};

use anyhow::Context;
use trainer::merged;

use crate::commands::train;
use crate::exit::Exit;
use crate::flags::FlagKind::{Bool, Text};
use crate::flags::{FlagTable, Flags, flag};
use crate::gflags::GFLAGS;
use crate::v1;
use crate::v1_flags::COMMON;
use crate::wherever;

/// Flags that only `merge_model` has, and those of the configuration.
const MERGE_MODEL: FlagTable = &[
    flag("model_dir", Text, "", "pass directory with the parameters"),
    flag("model_file", Text, "", "file to write"),
    flag(
        "config",
        Text,
        "",
        "configuration file (default: the one in the pass directory)",
    ),
    flag("config_args", Text, "", "key=value,… for get_config_arg"),
    flag("local", Bool, "true", "passed to the configuration"),
    flag("with_cost", Bool, "true", "passed to the configuration"),
    flag(
        "python_bin",
        Text,
        "python3",
        "Python interpreter for the configuration",
    ),
    flag(
        "python_path",
        Text,
        "",
        "additional directories for Python modules",
    ),
];

/// Merges a model with the arguments after `canoe merge_model`.
pub(crate) fn run(args: &[String]) -> anyhow::Result<Exit> {
    let flags = match Flags::parse(&[MERGE_MODEL, COMMON, GFLAGS], args) {
        Ok(flags) => flags,
        Err(error) => {
            eprintln!("{}: {error}", v1::typed("merge_model"));
            return Ok(Exit::Usage);
        }
    };
    if flags.bool("help") {
        println!(
            "canoe merge_model: write a pass directory as one file, in v1's format. Flags, with their defaults:\n\n{}",
            flags.help(crate::display::help_width())
        );
        return Ok(Exit::Success);
    }
    for name in ["model_dir", "model_file"] {
        if flags.text(name).is_empty() {
            eprintln!("{}: --{name} is missing", v1::typed("merge_model"));
            return Ok(Exit::Usage);
        }
    }
    let directory = Path::new(flags.text("model_dir"));
    let evaluated = wherever::evaluate(&config::EvaluateOptions {
        args: train::config_args(&flags),
        python: Some(PathBuf::from(flags.text("python_bin"))),
        python_path: train::python_path(&flags),
        ..config::EvaluateOptions::new(configuration(&flags, directory)?)
    });
    let evaluated = match evaluated {
        Ok(evaluated) => evaluated.done.config,
        Err(error) => {
            eprintln!("canoe: {:#}", anyhow::Error::from(error));
            return Ok(Exit::Configuration);
        }
    };
    let file = Path::new(flags.text("model_file"));
    let count = merged::write(file, &evaluated, directory)?;
    eprintln!(
        "{}: {count} parameters and their configuration",
        file.display()
    );
    Ok(Exit::Success)
}

/// The configuration: the flag, or the copy in the pass directory.
fn configuration(flags: &Flags, directory: &Path) -> anyhow::Result<PathBuf> {
    let given = flags.text("config");
    if !given.is_empty() {
        return Ok(PathBuf::from(given));
    }
    let name = directory.join("path.txt");
    let base = std::fs::read_to_string(&name)
        .with_context(|| format!("read {} (or give --config)", name.display()))?;
    Ok(directory.join(base.trim()))
}
