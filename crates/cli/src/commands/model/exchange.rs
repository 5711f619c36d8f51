//! `canoe model export` and `canoe model import`: parameters for other programs, and back.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use predict::export::{self, import};
use predict::{Model, OpenOptions};
use trainer::pass_directory::{Extras, Writer};

use crate::commands::opening::OpenArgs;
use crate::exit::Exit;
use crate::wherever;

/// Arguments of `canoe model export`.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    open: OpenArgs,
    /// The file to write; its ending says the format: .safetensors and .npz for the parameters, .onnx for the network
    /// with them, cut to what the outputs need.
    file: PathBuf,
}

/// Arguments of `canoe model import`.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// A .safetensors or .npz file, with readable names or v1's.
    file: PathBuf,
    /// The pass directory to write, such as output/pass-00000; start from it with --init_model_path.
    directory: PathBuf,
    /// The configuration that the model is for.
    #[arg(long)]
    config: PathBuf,
    /// Values for get_config_arg: name=value,name=value.
    #[arg(long, default_value = "")]
    config_args: String,
}

/// The model with its whole network.
pub(super) fn open_whole(open: &OpenArgs) -> anyhow::Result<Model> {
    let options = OpenOptions {
        whole: true,
        ..open.options()?
    };
    open.open_with(&options)
}

/// The ending of a file, in small letters.
fn ending(file: &Path) -> Option<String> {
    Some(file.extension()?.to_string_lossy().to_lowercase())
}

/// Runs `canoe model export`.
pub(super) fn export(args: &ExportArgs) -> anyhow::Result<Exit> {
    if ending(&args.file).as_deref() == Some("onnx") {
        return export_onnx(args);
    }
    let ending = ending(&args.file);
    let write = match ending.as_deref() {
        Some("safetensors") => export::safetensors::write,
        Some("npz") => export::npz::write,
        _ => anyhow::bail!(
            "{}: the ending must be .safetensors, .npz or .onnx",
            args.file.display()
        ),
    };
    let model = open_whole(&args.open)?;
    let listed = export::list(&model);
    write(&model, &listed, &args.file)?;
    for each in &listed {
        let shape: Vec<String> = each.shape.iter().map(ToString::to_string).collect();
        let words = if each.rows.is_some() {
            ", rows have words"
        } else {
            ""
        };
        eprintln!(
            "{} ({}): {}{words}",
            each.readable,
            each.name,
            shape.join(" x ")
        );
    }
    eprintln!(
        "{}: {} parameters of {}",
        args.file.display(),
        listed.len(),
        model.located.directory.display()
    );
    Ok(Exit::Success)
}

fn export_onnx(args: &ExportArgs) -> anyhow::Result<Exit> {
    let model = args.open.open()?;
    predict::onnx::write(&model, &args.file, env!("CARGO_PKG_VERSION"))?;
    let names = |names: Vec<&str>| names.join(", ");
    eprintln!(
        "{}: ONNX with operators of version {}; inputs {}; outputs {}",
        args.file.display(),
        predict::onnx::OPSET,
        names(model.inputs.iter().map(|input| &*input.slot.name).collect()),
        names(model.outputs.iter().map(|output| &*output.name).collect()),
    );
    Ok(Exit::Success)
}

/// Runs `canoe model import`.
pub(super) fn import(args: &ImportArgs) -> anyhow::Result<Exit> {
    if args.directory.exists() {
        anyhow::bail!("{} exists; name a new directory", args.directory.display());
    }
    let evaluated = wherever::evaluate(&config::EvaluateOptions {
        args: args.config_args.clone(),
        ..config::EvaluateOptions::new(&args.config)
    })?;
    let model = evaluated
        .done
        .config
        .model_config
        .context("the configuration describes no network")?;
    let wanted: Vec<import::WantedParameter> = model
        .parameters
        .iter()
        .map(|parameter| import::WantedParameter {
            name: parameter.name.clone(),
            shape: export::shape(&model, &parameter.name),
        })
        .collect();
    let import::Matched { found, unused } =
        import::matched(&args.file, import::read(&args.file)?, &wanted)?;
    let path = std::path::absolute(&args.directory)?;
    let parent = path.parent().unwrap_or(Path::new("."));
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let writer = Writer::create(parent, &name)?;
    for (name, values) in &found {
        writer.parameter(name, values)?;
    }
    writer.commit(&Extras {
        version: crate::VERSION.to_owned(),
        config: Some(args.config.clone()),
        config_args: args.config_args.clone(),
        config_files: Vec::new(),
    })?;
    if !unused.is_empty() {
        eprintln!(
            "not parameters of this configuration: {}",
            unused.join(", ")
        );
    }
    eprintln!("{}: {} parameters", args.directory.display(), found.len());
    Ok(Exit::Success)
}
